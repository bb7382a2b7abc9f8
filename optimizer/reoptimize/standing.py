"""What a saved plan costs at the prices of the day, and which rules of its question it breaks then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import mul
from typing import Any

import numpy as np
import pandas as pd

from optimizer.check import Violation, check_layout
from optimizer.check.fleet import check_fleet
from optimizer.choices import MICRO
from optimizer.fleet.plan import FleetCost, FleetPlan, Purchase, Site
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.sites import HOURS_PER_YEAR, start_micro_usd
from optimizer.plan import HOURS_PER_MONTH, Layout, Plan
from optimizer.reoptimize.prices import Asked
from optimizer.scenario import Scenario
from optimizer.whatif.prices import same_offer
from optimizer.wording import place_words

OFFER = "offer"  # the rule that an offer has to be listed


@dataclass(frozen=True)
class Standing:
    """A saved plan at the prices of the day.

    Attributes:
        usd_per_hour: null where an offer of it is gone.
        committed_usd_per_hour: the part that is paid whatever runs.
        breaks: rule -> what is wrong.
    """

    usd_per_hour: float | None
    committed_usd_per_hour: float
    breaks: dict[str, str]


def own_offers(plan: Plan | FleetPlan) -> list[tuple[str, str, str, str]]:
    """Return provider, region, instance type and term of each offer that a plan rents."""
    if isinstance(plan, Plan):
        one = plan.layout
        return [] if one is None else [(one.provider, one.region, one.instance_type, one.term)]
    return [
        (site.provider, site.region, one.instance_type, _listed_term(one))
        for site in plan.sites
        for one in site.purchases
    ]


def standing(plan: Plan | FleetPlan, asked: Asked) -> Standing:
    """Return what a saved plan costs and breaks at the prices of the day; it has to have a layout."""
    if isinstance(plan, FleetPlan):
        return _fleet_standing(plan, asked)
    if plan.layout is None or not isinstance(asked.scenario, Scenario):
        raise ValueError("a plan without a layout stands nowhere")
    layout = at_prices(plan.layout, asked.own)
    if layout is None:
        return Standing(None, 0.0, {OFFER: _gone(plan.layout.model_dump())})
    model = asked.models[asked.scenario.model]
    found = check_layout(asked.scenario, model, layout, offers=asked.listed.frame, today=asked.today)
    hourly = round(layout.nodes * layout.price_usd_per_node_hour * MICRO) / MICRO
    committed = hourly if layout.term.startswith("reserved") or layout.term == "owned" else 0.0
    return Standing(hourly, committed, _by_rule(found))


def at_prices(layout: Layout, offers: pd.DataFrame) -> Layout | None:
    """Return a layout at the price, stock and date of its offer in a table; None where its offer is not listed."""
    rows = offers[same_offer(offers, layout)]
    if rows.empty:
        return None
    row = rows.iloc[0]
    return layout.model_copy(
        update={
            "price_usd_per_node_hour": round(float(row["price_usd_per_node_hour"]) * MICRO) / MICRO,
            "max_nodes": _stock(row),
            "price_seen_on": row["seen_on"].date(),
            "price_source": str(row["source"]),
        }
    )


def _stock(row: pd.Series) -> int | None:
    return None if pd.isna(row["max_nodes"]) else int(row["max_nodes"])


def _gone(offer: dict[str, Any]) -> str:
    return f"{offer['gpus_per_node']}x {offer['gpu']} ({place_words(offer)}) is no longer listed"


def _by_rule(found: Sequence[Violation]) -> dict[str, str]:
    said: dict[str, list[str]] = {}
    for one in found:
        said.setdefault(one.rule, []).append(one.message)
    return {rule: "; ".join(messages) for rule, messages in said.items()}


def _fleet_standing(plan: FleetPlan, asked: Asked) -> Standing:
    scenario = asked.scenario
    if not isinstance(scenario, FleetScenario):
        raise TypeError("a fleet's plan answers a fleet's question")
    now = fleet_at_prices(plan, scenario, asked.own)
    if isinstance(now, str):
        return Standing(None, 0.0, {OFFER: now})
    found = check_fleet(now, asked.models, asked.listed.frame, today=asked.today)
    cost = now.cost
    if cost is None:
        raise ValueError("a fleet without a cost stands nowhere")
    return Standing(round(cost.usd_per_hour * MICRO) / MICRO, cost.committed_usd_per_hour, _by_rule(found))


def fleet_at_prices(plan: FleetPlan, scenario: FleetScenario, offers: pd.DataFrame) -> FleetPlan | str:
    """Return a fleet at the prices of the day, with all money that follows; or what of it is no longer listed.

    Args:
        plan: the fleet.
        scenario: its question at the prices of the day.
        offers: at the user's own prices.
    """
    sites, gone = [], []
    for site in plan.sites:
        bought = []
        for one in site.purchases:
            row = _row_of(site, one, offers)
            if row is None:
                gone.append(_gone(site.model_dump() | {"instance_type": one.instance_type, "term": _listed_term(one)}))
            else:
                bought.append(_repriced(plan, scenario, one, row))
        sites.append(site.model_copy(update={"purchases": tuple(bought)}))
    if gone:
        return "; ".join(dict.fromkeys(gone))
    days = [one.price_seen_on for site in sites for one in site.purchases]
    return plan.model_copy(
        update={
            "scenario": scenario.model_dump(mode="json"),
            "status": "feasible",
            "sites": tuple(sites),
            "cost": _cost(plan, sites),
            "compared": (),
            "prices": plan.prices.model_copy(update={"seen_on": min(days, default=None)}),
        }
    )


def _listed_term(one: Purchase) -> str:
    """Return the term of the offer that a purchase rests on: a contract of the user's is on on-demand prices."""
    return one.term if one.contract is None else "on-demand"


def _row_of(site: Site, one: Purchase, offers: pd.DataFrame) -> pd.Series | None:
    wanted = {"provider": site.provider, "region": site.region, "gpu": site.gpu}
    wanted |= {"instance_type": one.instance_type, "term": _listed_term(one)}
    matches = np.ones(len(offers), dtype=bool)
    for column, value in wanted.items():
        matches &= (offers[column] == value).to_numpy()
    rows = offers[matches]
    return None if rows.empty else rows.iloc[0]


def _repriced(plan: FleetPlan, scenario: FleetScenario, one: Purchase, row: pd.Series) -> Purchase:
    price = float(row["price_usd_per_node_hour"])
    if one.contract is not None:
        off = Decimal(str(scenario.commitments[one.contract].percent_off)) / 100
        price = float(Decimal(str(price)) * (1 - off))
    # What an hour of use costs more than its price (spot interruptions, early payment) is a share of the price.
    effective_micro = round(price * one.effective_usd_per_node_hour / one.price_usd_per_node_hour * MICRO)
    start_usd = one.start_usd
    if start_usd > 0:
        start_usd = start_micro_usd(scenario.fleet, effective_micro, len(plan.hours)) / MICRO
    node_hours = sum(map(mul, one.nodes_by_period, plan.hours))
    committed = max(one.nodes_by_period) * price * one.committed_years * HOURS_PER_YEAR
    upfront = one.upfront_usd  # of hardware of one's own
    if one.contract is not None:
        upfront = committed * scenario.commitments[one.contract].upfront_share
    return one.model_copy(
        update={
            "price_usd_per_node_hour": price,
            "effective_usd_per_node_hour": effective_micro / MICRO,
            "start_usd": start_usd,
            "usd_per_hour": (node_hours * effective_micro / MICRO + one.starts * start_usd) / sum(plan.hours),
            "upfront_usd": upfront,
            "committed_usd": committed,
            "max_nodes": _stock(row),
            "price_seen_on": row["seen_on"].date(),
            "price_source": str(row["source"]),
        }
    )


def _cost(plan: FleetPlan, sites: Sequence[Site]) -> FleetCost:
    if plan.cost is None:
        raise ValueError("a fleet without a cost stands nowhere")
    bought = [one for site in sites for one in site.purchases]
    hourly = sum(one.usd_per_hour for one in bought)
    times = hourly / plan.cost.usd_per_hour if plan.cost.usd_per_hour else 0.0
    peak = max(
        sum(one.nodes_by_period[period] * one.effective_usd_per_node_hour for one in bought)
        for period in range(len(plan.hours))
    )
    return FleetCost(
        usd_per_hour=hourly,
        peak_usd_per_hour=peak,
        usd_per_month=hourly * HOURS_PER_MONTH,
        committed_usd_per_hour=sum(one.usd_per_hour for one in bought if one.committed_years > 0),
        upfront_usd=sum(one.upfront_usd for one in bought),
        usd_per_million_output_tokens=plan.cost.usd_per_million_output_tokens * times,
        usd_per_million_tokens=plan.cost.usd_per_million_tokens * times,
        bound_usd_per_hour=0.0,
        gap=1.0 if hourly > 0 else 0.0,
    )
