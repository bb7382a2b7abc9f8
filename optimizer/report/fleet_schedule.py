"""A fleet's nodes by the hour: a row for hours that follow each other with the same nodes, days that are alike once."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from optimizer.fleet.plan import FleetPlan
from optimizer.report.fleet_words import DAY, days_words, hours_words
from optimizer.report.text import count, dollars, heading, make_table

BAR_CELLS = 12


def print_schedule(out: Console, plan: FleetPlan) -> None:
    """Print what is paid for in which hour; nothing where that never changes."""
    by_hour = _nodes(plan)
    if len(set(by_hour)) <= 1:
        return
    heading(out, "By the hour")
    table = make_table(
        ("hours", "left"), ("requests/s", "right"), ("$/hour", "right"), ("", "left"), ("nodes of each site", "left")
    )
    most = max(_usd(plan, period) for period in range(len(by_hour)))
    for days in _alike_days(by_hour):
        if len(by_hour) > DAY:
            table.add_row(days_words(days), "", "", "", "")
        for first, last in _runs(by_hour[days[0] * DAY : (days[0] + 1) * DAY]):
            hours = [day * DAY + hour for day in days for hour in range(first, last + 1)]
            table.add_row(
                hours_words(first, last),
                _rates(plan, hours),
                dollars(_usd(plan, hours[0])),
                "#" * max(round(BAR_CELLS * _usd(plan, hours[0]) / most), 1) if most else "",
                _nodes_words(plan, hours[0]),
            )
    out.print(table)


def hour_rows(plan: FleetPlan) -> list[tuple[str, str, str, str]]:
    """Return hours, requests/s, dollars an hour and nodes of each stretch of the cycle; none where nothing changes."""
    by_hour = _nodes(plan)
    if len(set(by_hour)) <= 1:
        return []
    rows = []
    for days in _alike_days(by_hour):
        named = f"{days_words(days)}, " if len(by_hour) > DAY else ""
        for first, last in _runs(by_hour[days[0] * DAY : (days[0] + 1) * DAY]):
            hours = [day * DAY + hour for day in days for hour in range(first, last + 1)]
            said = _nodes_words(plan, hours[0])
            rows.append((named + hours_words(first, last), _rates(plan, hours), dollars(_usd(plan, hours[0])), said))
    return rows


def _nodes(plan: FleetPlan) -> list[tuple[int, ...]]:
    """Return the nodes of each purchase, hour by hour."""
    purchases = [one.nodes_by_period for site in plan.sites for one in site.purchases]
    return list(zip(*purchases, strict=True))


def _alike_days(by_hour: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return days with the same nodes in every hour, in the order of the first of each."""
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for day in range(max(len(by_hour) // DAY, 1)):
        groups.setdefault(tuple(by_hour[day * DAY : (day + 1) * DAY]), []).append(day)
    return list(groups.values())


def _runs(hours: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Return first and last of hours that follow each other and are the same."""
    runs: list[tuple[int, int]] = []
    for hour, nodes in enumerate(hours):
        if runs and hours[runs[-1][0]] == nodes:
            runs[-1] = (runs[-1][0], hour)
        else:
            runs.append((hour, hour))
    return runs


def _rates(plan: FleetPlan, periods: Sequence[int]) -> str:
    totals = [sum(one.requests_per_second_by_period[period] for one in plan.classes) for period in periods]
    low, high = count(min(totals)), count(max(totals))
    return low if low == high else f"{low}-{high}"


def _usd(plan: FleetPlan, period: int) -> float:
    return sum(
        one.nodes_by_period[period] * one.effective_usd_per_node_hour for site in plan.sites for one in site.purchases
    )


def _nodes_words(plan: FleetPlan, period: int) -> str:
    """Say the nodes of an hour: "site 1: 2 reserved-1y + 3 on-demand; site 2: 1 spot"."""
    said = []
    for site in plan.sites:
        parts = [(one.nodes_by_period[period], one.term) for one in site.purchases if one.nodes_by_period[period]]
        if parts:
            said.append(f"{site.id}: {' + '.join(f'{nodes} {term}' for nodes, term in parts)}")
    return "; ".join(said) or "none"
