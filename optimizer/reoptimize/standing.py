"""What a saved plan costs at the prices of the day, and which rules of its question it breaks then."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from optimizer.check import by_rule, check_layout
from optimizer.check.fleet import check_fleet
from optimizer.choices import MICRO
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.repriced import fleet_at_prices, gone_words, listed_term, stock_of
from optimizer.plan import Layout, Plan
from optimizer.reoptimize.prices import Asked
from optimizer.scenario import Scenario
from optimizer.whatif.prices import same_offer

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
        (site.provider, site.region, one.instance_type, listed_term(one))
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
        return Standing(None, 0.0, {OFFER: gone_words(plan.layout.model_dump())})
    model = asked.models[asked.scenario.model]
    found = check_layout(asked.scenario, model, layout, offers=asked.listed.frame, today=asked.today)
    hourly = round(layout.nodes * layout.price_usd_per_node_hour * MICRO) / MICRO
    committed = hourly if layout.term.startswith("reserved") or layout.term == "owned" else 0.0
    return Standing(hourly, committed, by_rule(found))


def at_prices(layout: Layout, offers: pd.DataFrame) -> Layout | None:
    """Return a layout at the price, stock and date of its offer in a table; None where its offer is not listed."""
    rows = offers[same_offer(offers, layout)]
    if rows.empty:
        return None
    row = rows.iloc[0]
    return layout.model_copy(
        update={
            "price_usd_per_node_hour": round(float(row["price_usd_per_node_hour"]) * MICRO) / MICRO,
            "max_nodes": stock_of(row),
            "price_seen_on": row["seen_on"].date(),
            "price_source": str(row["source"]),
        }
    )


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
    return Standing(round(cost.usd_per_hour * MICRO) / MICRO, cost.committed_usd_per_hour, by_rule(found))
