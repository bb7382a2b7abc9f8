"""The next cheapest offers that run exactly the same commands, should the chosen one be sold out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pandas as pd

from catalogs.errors import CatalogError
from catalogs.offers import load_offers
from optimizer.choices import MICRO, broken_offer_rules, node_caps
from optimizer.errors import QuestionError
from optimizer.export.deployment import Nodes
from optimizer.owned import OWNED
from optimizer.scenario import Scenario
from optimizer.solve import at_own_prices

MOST = 3
_KEY = ("provider", "region", "instance_type", "term")


@dataclass(frozen=True)
class Market:
    """The offers of the plan's day, those that its question allows.

    Attributes:
        offers: at the user's own prices, cheapest first, with `node_cap`.
        problem: why there are none to look at; empty where there are.
    """

    offers: pd.DataFrame
    problem: str = ""


def market_of(scenario: Scenario, day: date) -> Market:
    """Return the offers of a day that a question's own limits allow.

    Prices that are not there any more leave none, with the reason: launch files do not need them.
    """
    try:
        listed = load_offers(day, scenario.prices.offers_files)
        offers = at_own_prices(scenario, listed).frame
    except (CatalogError, QuestionError) as error:
        return Market(pd.DataFrame(), str(error).splitlines()[0])
    offers = offers.assign(node_cap=node_caps(scenario, offers))
    return Market(offers[broken_offer_rules(scenario, offers, day) == 0])


def fallbacks(
    market: Market, chosen: Nodes, *, nodes_per_replica: int, scale_up_gpus: int, most_usd_per_hour: float | None = None
) -> tuple[Nodes, ...]:
    """Return at most three offers of nodes of the same shape, enough of them to be had, cheapest first.

    Args:
        market: what is allowed.
        chosen: the nodes of the plan.
        nodes_per_replica: above 1 the network between nodes has to be the same as well.
        scale_up_gpus: GPUs per scale-up domain of the chosen nodes.
        most_usd_per_hour: the budget, where there is one.
    """
    frame = market.offers
    if frame.empty:
        return ()
    alike = frame["gpu"].eq(chosen.gpu) & frame["gpus_per_node"].eq(chosen.gpus_per_node)
    alike &= frame["fabric"].eq(chosen.fabric) & frame["scale_up_gpus"].eq(scale_up_gpus)
    if nodes_per_replica > 1:
        alike &= frame["network"].eq(chosen.network)
        if chosen.network_gbit_per_s is not None:
            alike &= frame["network_gbit_per_s"].ge(chosen.network_gbit_per_s)
    alike &= frame["node_cap"].ge(chosen.count) & frame["term"].ne(OWNED)
    if most_usd_per_hour is not None:
        costs = (frame["price_usd_per_node_hour"] * chosen.count * MICRO).round()
        alike &= costs.le(round(most_usd_per_hour * MICRO))
    rows = frame[alike]
    taken = tuple(getattr(chosen, name) for name in _KEY)
    others = [row for row in rows.to_dict("records") if tuple(row[name] for name in _KEY) != taken]
    return tuple(nodes_of(row, chosen.count) for row in others[:MOST])


def nodes_of(offer: dict[Any, Any], count: int) -> Nodes:
    """Return an offer as nodes to rent."""
    rate = offer["network_gbit_per_s"]
    return Nodes(
        provider=str(offer["provider"]),
        region=str(offer["region"]),
        instance_type=str(offer["instance_type"]),
        term=str(offer["term"]),
        gpu=str(offer["gpu"]),
        gpus_per_node=int(offer["gpus_per_node"]),
        count=count,
        price_usd_per_node_hour=float(offer["price_usd_per_node_hour"]),
        price_seen_on=pd.Timestamp(offer["seen_on"]).date(),
        fabric=str(offer["fabric"]),
        network=str(offer["network"]),
        network_gbit_per_s=None if pd.isna(rate) else float(rate),
    )
