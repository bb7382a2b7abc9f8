"""A fleet at other prices than it was solved at: what its purchases cost then, and which rules it breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any

import numpy as np
import pandas as pd

from optimizer.choices import MICRO
from optimizer.fleet.plan import FleetCost, FleetPlan, Purchase, Site
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.sites import HOURS_PER_YEAR, contract_price, effective_usd_per_hour, start_micro_usd
from optimizer.owned import OWNED
from optimizer.plan import HOURS_PER_MONTH
from optimizer.wording import place_words


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
                gone.append(f"{purchase_words(site, one)} is no longer listed")
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


def listed_term(one: Purchase) -> str:
    """Return the term of the offer that a purchase rests on: a contract of the user's is on on-demand prices."""
    return one.term if one.contract is None else "on-demand"


def _row_of(site: Site, one: Purchase, offers: pd.DataFrame) -> pd.Series | None:
    wanted = {"provider": site.provider, "region": site.region, "gpu": site.gpu}
    wanted |= {"instance_type": one.instance_type, "term": listed_term(one)}
    matches = np.ones(len(offers), dtype=bool)
    for column, value in wanted.items():
        matches &= (offers[column] == value).to_numpy()
    rows = offers[matches]
    return None if rows.empty else rows.iloc[0]


def _repriced(plan: FleetPlan, scenario: FleetScenario, one: Purchase, row: pd.Series) -> Purchase:
    price = float(row["price_usd_per_node_hour"])
    contract = None if one.contract is None else scenario.commitments[one.contract]
    if contract is not None:
        price = contract_price(contract, price)
    effective = effective_usd_per_hour(scenario.fleet, one.term, price, one.committed_years, contract)
    effective_micro = round(effective * MICRO)
    start_usd = one.start_usd
    if start_usd > 0:
        start_usd = start_micro_usd(scenario.fleet, effective_micro, len(plan.hours)) / MICRO
    node_hours = sum(map(mul, one.nodes_by_period, plan.hours))
    committed = max(one.nodes_by_period) * price * one.committed_years * HOURS_PER_YEAR
    upfront = 0.0
    if one.term == OWNED:
        hardware = next(owned for owned in scenario.prices.owned if owned.label == one.instance_type)
        upfront = hardware.capital_usd * max(one.nodes_by_period)
    elif contract is not None:
        upfront = committed * contract.upfront_share
    return one.model_copy(
        update={
            "price_usd_per_node_hour": price,
            "effective_usd_per_node_hour": effective_micro / MICRO,
            "start_usd": start_usd,
            "usd_per_hour": (node_hours * effective_micro / MICRO + one.starts * start_usd) / sum(plan.hours),
            "upfront_usd": upfront,
            "committed_usd": committed,
            "max_nodes": stock_of(row),
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


def stock_of(row: pd.Series) -> int | None:
    """Return the nodes that an offer says are to be had; None where it does not say."""
    return None if pd.isna(row["max_nodes"]) else int(row["max_nodes"])


def gone_words(offer: Mapping[str, Any]) -> str:
    """Say that an offer is not listed any more."""
    return f"{offer['gpus_per_node']}x {offer['gpu']} ({place_words(offer)}) is no longer listed"


def purchase_words(site: Site, one: Purchase) -> str:
    """Say the offer that a purchase rests on."""
    offer = site.model_dump() | {"instance_type": one.instance_type, "term": listed_term(one)}
    return f"{site.gpus_per_node}x {site.gpu} ({place_words(offer)})"
