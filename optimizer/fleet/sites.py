"""Where nodes can be had for a fleet, and the ways to pay for them.

A site is one shape of node of one provider in one region, spot nodes apart: those may be taken back. Its nodes are paid
for by the hour, or for all hours of a commitment: a reserved term of the catalog, a contract of the user's, hardware of
one's own.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import date
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.choices import MICRO, UNLIMITED, broken_offer_rules
from optimizer.fleet.question import Commitment, Fleet, FleetScenario
from optimizer.fleet.traffic import Demand
from optimizer.owned import OWNED
from optimizer.scenario import Quota, Scenario

HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = 730
HOUR_S, DAY_S = 3600.0, 86_400.0

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Payment:
    """One way to pay for nodes of a site.

    Attributes:
        offer: row of the offers that it rests on.
        term: "on-demand", "spot", "reserved-1y", "reserved-3y" or "owned"; of a contract of the user's, the reserved
            term of its years.
        price_usd_per_hour: of one node, as it is billed.
        effective_usd_per_hour: what an hour of use costs of it, on average: with what spot interruptions waste, with
            hours that a contract runs on after the traffic has gone, and with the cost of paying in advance.
        committed_years: paid for in every hour of so many years; 0 by the hour.
        upfront_share: of a commitment, the share that is due on signing.
        max_nodes: stock; None where it is not known.
        commitment: position of the user's contract, where it is one.
    """

    offer: int
    term: str
    price_usd_per_hour: float
    effective_usd_per_hour: float
    committed_years: float = 0.0
    upfront_share: float = 0.0
    max_nodes: int | None = None
    commitment: int | None = None

    @property
    def price_micro_usd(self) -> int:
        """What the program counts of a node hour."""
        return round(self.effective_usd_per_hour * MICRO)

    @property
    def node_cap(self) -> int:
        """The most nodes to be had."""
        return UNLIMITED if self.max_nodes is None else self.max_nodes


@dataclass(frozen=True, slots=True)
class RentalSite:
    """One shape of node in one place, with the ways to pay for it, cheapest first."""

    shape: int
    provider: str
    region: str
    gpu: str
    gpus_per_node: int
    spot: bool
    payments: tuple[Payment, ...]


def rental_sites(
    scenario: FleetScenario,
    one: Scenario,
    offers: pd.DataFrame,
    shape_of: Ints,
    demands: tuple[Demand, ...],
    today: date,
) -> tuple[RentalSite, ...]:
    """Return the sites that could matter.

    Of sites that are alike to every rule (shape, quotas, regions of the classes; the provider where several are asked
    for) the cheaper ones stand for the dearer ones: a site is left out where a cheaper one is never sold out.

    Args:
        scenario: the question.
        one: the question of any one class: offers are held against its limits.
        offers: the offers at the user's own prices.
        shape_of: the node shape of each offer.
        demands: the classes, for the regions that they ask for.
        today: the day that price ages count from.
    """
    allowed = np.nonzero(broken_offer_rules(one, offers, today) == 0)[0]
    rows = offers.iloc[allowed].to_dict("records")
    by_site: dict[tuple[Any, ...], list[Payment]] = {}
    for position, row in zip(allowed.tolist(), rows, strict=True):
        key = (int(shape_of[position]), row["provider"], row["region"], row["term"] == "spot")
        by_site.setdefault(key, []).extend(_payments(scenario, position, row))
    sites = []
    for (shape, provider, region, spot), payments in by_site.items():
        first = offers.iloc[payments[0].offer]
        able = tuple(sorted((one for one in payments if one.node_cap > 0), key=lambda one: one.price_micro_usd))
        if able:
            gpu, count = str(first["gpu"]), int(first["gpus_per_node"])
            sites.append(RentalSite(shape, str(provider), str(region), gpu, count, bool(spot), able))
    return _not_dearer(scenario, sites, demands)


def _payments(scenario: FleetScenario, position: int, row: dict[Hashable, Any]) -> list[Payment]:
    """Return the ways to pay that an offer gives: its own, and contracts of the user's on it."""
    fleet, term, price = scenario.fleet, str(row["term"]), float(row["price_usd_per_node_hour"])
    stock = None if pd.isna(row["max_nodes"]) else int(row["max_nodes"])
    years = {"reserved-1y": 1.0, "reserved-3y": 3.0}.get(term, 0.0)
    if term == OWNED:
        hardware = next(one for one in scenario.prices.owned if one.label == row["instance_type"])
        years = hardware.years
    effective = effective_usd_per_hour(fleet, term, price, years)
    found = [Payment(position, term, price, effective, years, max_nodes=stock)]
    for number, contract in enumerate(scenario.commitments):
        if term == "on-demand" and _holds_for(contract, row):
            reduced, reserved = contract_price(contract, price), f"reserved-{contract.years}y"
            found.append(
                Payment(
                    position,
                    reserved,
                    reduced,
                    effective_usd_per_hour(fleet, reserved, reduced, contract.years, contract),
                    float(contract.years),
                    contract.upfront_share,
                    stock,
                    number,
                )
            )
    return found


def contract_price(contract: Commitment, price_usd_per_hour: float) -> float:
    """Return what a node costs an hour under a contract, of its price by the hour."""
    return price_usd_per_hour * (1 - contract.percent_off / 100)


def effective_usd_per_hour(
    fleet: Fleet, term: str, price_usd_per_hour: float, years: float, contract: Commitment | None = None
) -> float:
    """Return what an hour of use of a node costs on average, of what an hour is billed at (see Payment)."""
    if term == "spot":
        return price_usd_per_hour * (1 + spot_overhead(fleet))
    effective = price_usd_per_hour * _beyond_horizon(fleet, years)
    return effective if contract is None else effective * _paid_early(fleet, contract)


def _holds_for(contract: Commitment, row: dict[Hashable, Any]) -> bool:
    named = {name: getattr(contract, name) for name in ("provider", "gpu", "instance_type")}
    return all(value is None or row[name] == value for name, value in named.items())


def spot_overhead(fleet: Fleet) -> float:
    """Return what share more a spot node costs: after each interruption its successor is paid for while it starts."""
    wasted = min(fleet.interruptions_per_day * fleet.startup_s / DAY_S, 0.99)
    return wasted / (1 - wasted)


def _beyond_horizon(fleet: Fleet, years: float) -> float:
    """Return how many times over the hours of use are paid, where a commitment outlasts the traffic."""
    if fleet.horizon_months is None or years == 0.0:
        return 1.0
    return max(1.0, years * 12 / fleet.horizon_months)


def _paid_early(fleet: Fleet, contract: Commitment) -> float:
    """Return what paying in advance costs: what is due on signing is on average paid half the contract early."""
    return 1 + contract.upfront_share * contract.years / 2 * fleet.capital_rate_percent / 100


def start_micro_usd(fleet: Fleet, price_micro_usd: int, periods: int) -> int:
    """Return what each switching on of a node by the hour costs: its start-up, in whole steps of billing."""
    if periods == 1 or fleet.startup_s == 0.0:
        return 0
    billed_s = ceil(fleet.startup_s / fleet.billing_s) * fleet.billing_s
    return round(price_micro_usd * billed_s / HOUR_S)


def min_periods(fleet: Fleet, periods: int) -> int:
    """Return the hours that a node is paid for at the least, once it is switched on."""
    return min(max(ceil(max(fleet.min_billing_s, fleet.billing_s) / HOUR_S), 1), periods)


def quota_matches(quota: Quota, site: RentalSite) -> bool:
    """Say whether nodes of a site count towards a quota."""
    named = {name: getattr(quota, name) for name in ("gpu", "provider", "region")}
    return all(value is None or getattr(site, name) == value for name, value in named.items())


def _not_dearer(
    scenario: FleetScenario, sites: list[RentalSite], demands: tuple[Demand, ...]
) -> tuple[RentalSite, ...]:
    groups: dict[tuple[Any, ...], list[RentalSite]] = {}
    for site in sites:
        groups.setdefault(_signature(scenario, site, demands), []).append(site)
    kept = {id(site) for group in groups.values() for site in _front(group)}
    return tuple(site for site in sites if id(site) in kept)


def _signature(scenario: FleetScenario, site: RentalSite, demands: tuple[Demand, ...]) -> tuple[Any, ...]:
    """Return all that a rule could tell two sites of one shape apart by, but for price and stock."""
    fleet, limits = scenario.fleet, scenario.limits
    regions = frozenset(index for index, one in enumerate(demands) if not one.regions or site.region in one.regions)
    quotas = frozenset(index for index, quota in enumerate(limits.quotas) if quota_matches(quota, site))
    by_provider = fleet.min_providers > 1 or fleet.survive == "provider"
    return (
        site.shape,
        site.spot,
        regions,
        quotas,
        site.provider if by_provider else None,
        site.region if fleet.min_regions > 1 else None,
    )


def _front(group: list[RentalSite]) -> list[RentalSite]:
    """Return the sites of which some way to pay is not dearer than the same way elsewhere, where that is unlimited."""
    kept: dict[int, RentalSite] = {}
    for committed in (False, True):
        able = [(one, site) for site in group for one in site.payments if (one.committed_years > 0) == committed]
        for payment, site in sorted(able, key=lambda pair: (pair[0].price_micro_usd, pair[1].provider, pair[1].region)):
            kept[id(site)] = site
            if payment.max_nodes is None:
                break
    return list(kept.values())
