"""How parts of a fleet are said in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.fleet.plan import FleetPlan, Purchase, Site
from optimizer.wording import place_words

DAY = 24
LEAST_SHARE = 0.0005  # of a class; a pool that serves less of it is not named for it


def range_words(values: Sequence[int]) -> str:
    """Say the least and the most of some numbers: "2-5", or "3" where they are the same."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def site_words(site: Site, one: Purchase) -> str:
    """Say a node and where it is: "8x H100-SXM-80GB, spheron us-east"; of one's own, "8x H100-SXM-80GB, your own"."""
    node = f"{site.gpus_per_node}x {site.gpu}"
    if site.provider_kind == "own":
        named = "" if one.instance_type.startswith(node) else f" ({one.instance_type})"
        return f"{node}, your own{named}{'' if site.region == 'global' else f', {site.region}'}"
    place = place_words(site.model_dump() | {"instance_type": one.instance_type, "term": ""}).removesuffix(", ")
    return f"{node}, {place}"


def holding_words(replicas: Mapping[str, int]) -> str:
    """Say replicas by pool: "2 of pool 1, 1 of pool 3"."""
    return ", ".join(f"{amount} of {pool}" for pool, amount in replicas.items()) or "nothing: paid for and idle"


def busiest_period(plan: FleetPlan) -> int:
    """Return the period in which the most requests arrive."""
    totals = [
        sum(one.requests_per_second_by_period[period] for one in plan.classes) for period in range(len(plan.hours))
    ]
    return totals.index(max(totals))


def period_words(plan: FleetPlan, period: int) -> str:
    """Say an hour of the cycle: "hour 14", or "day 2, hour 14"."""
    if len(plan.hours) <= DAY:
        return f"hour {period}"
    return f"day {period // DAY + 1}, hour {period % DAY}"


def hours_words(first: int, last: int) -> str:
    """Say hours that follow each other, from the beginning of the first to the end of the last: "8-18 h"."""
    return f"{first}-{last + 1} h"


def days_words(days: Sequence[int]) -> str:
    """Say days that are alike, counted from 1: "days 1-5", "days 1, 3"."""
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][1] == day - 1:
            runs[-1][1] = day
        else:
            runs.append([day, day])
    said = ", ".join(f"{low + 1}" if low == high else f"{low + 1}-{high + 1}" for low, high in runs)
    return f"day{'s' if len(days) > 1 else ''} {said}"
