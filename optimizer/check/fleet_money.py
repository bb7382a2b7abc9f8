"""A fleet's money, added up anew: list prices, what an hour of use costs, commitments, starts, totals."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from math import ceil
from operator import mul

from optimizer.check.audit import TOLERANCE, Offer, close, exceeds
from optimizer.check.checks import offers_of
from optimizer.check.fleet_audit import FleetAudit, layout_of, where
from optimizer.check.fleet_nodes import HOUR_S
from optimizer.check.numbers import discounted, facts
from optimizer.fleet.plan import Purchase, Site
from optimizer.owned import OwnedHardware
from optimizer.plan import HOURS_PER_MONTH

HOURS_PER_YEAR = 8760
DAY_S = 86_400.0
MICRO_DOLLAR = 1e-6
YEARS = {"reserved-1y": 1.0, "reserved-3y": 3.0}
USD_PER_PORT = {"infiniband": 15_000.0, "ethernet": 7_000.0, "none": 0.0}  # see optimizer.owned for the source
OWNED = "owned"


def prices(audit: FleetAudit) -> Iterator[str]:
    """Each price is the catalog's, or the own hardware's, less the user's discounts and what a contract takes off."""
    for site, one in audit.purchases:
        for message in _price(audit, site, one):
            yield f"{where(site, one)}: {message}"


def _price(audit: FleetAudit, site: Site, one: Purchase) -> Iterator[str]:
    if one.contract is not None:
        yield from _contract(audit, site, one)
        if not 0 <= one.contract < len(audit.scenario.commitments):
            return
    offers = _offers(audit, site, one)
    if offers is None:
        return
    if not offers:
        yield "no offer of it in the catalog"
        return
    said = Decimal(str(one.price_usd_per_node_hour))
    asked = [(offer, _after_contract(audit, one, discounted(audit.scenario.prices, offer))) for offer in offers]
    priced = [offer for offer, price in asked if abs(price - said) <= Decimal("0.000001")]
    if not priced:
        listed = ", ".join(f"${price:.6f}" for _, price in asked)
        yield f"${said:.6f} a node hour, where the catalog at the user's own terms has {listed}"
        return
    if one.term != OWNED:
        problems = [list(facts(layout_of(site, one), offer)) for offer in priced]
        if all(problems):
            yield from problems[0]


def _contract(audit: FleetAudit, site: Site, one: Purchase) -> Iterator[str]:
    """Say whether a contract of the question's holds for what is bought under it."""
    number = one.contract if one.contract is not None else -1
    if not 0 <= number < len(audit.scenario.commitments):
        yield f"the question has no contract {number}"
        return
    contract = audit.scenario.commitments[number]
    holds_for = {"provider": site.provider, "gpu": site.gpu, "instance_type": one.instance_type}
    if any(getattr(contract, name) not in (None, value) for name, value in holds_for.items()):
        yield f"contract {number} does not hold for it"
    if one.term != f"reserved-{contract.years}y":
        yield f"a contract of {contract.years} years"


def _after_contract(audit: FleetAudit, one: Purchase, price: Decimal) -> Decimal:
    if one.contract is None:
        return price
    return price * (1 - Decimal(str(audit.scenario.commitments[one.contract].percent_off)) / 100)


def _offers(audit: FleetAudit, site: Site, one: Purchase) -> list[Offer] | None:
    """Return the offers that a purchase can rest on; None where there is no catalog to look into."""
    if one.term == OWNED:
        return [_as_offer(hardware) for hardware in audit.scenario.prices.owned if hardware.label == one.instance_type]
    layout = layout_of(site, one)
    rows = offers_of([layout], audit.offers)
    names = ("provider", "region", "instance_type", "gpu", "term")
    return rows and [row for row in rows if all(str(row[name]) == getattr(layout, name) for name in names)]


def _as_offer(hardware: OwnedHardware) -> Offer:
    # A price has to be one: hardware that costs nothing still counts a cent.
    price = max(round(owned_usd_per_hour(hardware), 6), 0.01)
    fields = {"provider": "own", "gpu": hardware.gpu, "instance_type": hardware.label, "term": OWNED}
    return fields | {"price_usd_per_node_hour": price}


def machine_usd(hardware: OwnedHardware) -> float:
    """Return what a node of one's own costs with its network when it is bought."""
    ports = hardware.gpus_per_node if hardware.ports_per_node is None else hardware.ports_per_node
    per_port = USD_PER_PORT[hardware.network] if hardware.usd_per_port is None else hardware.usd_per_port
    return hardware.capital_usd_per_node + ports * per_port


def owned_usd_per_hour(hardware: OwnedHardware) -> float:
    """Return what a node of one's own costs an hour: an annuity, upkeep, power and space."""
    paid, rate, years = machine_usd(hardware), hardware.capital_rate_percent / 100, hardware.years
    back = paid * hardware.residual_share
    if rate > 0:
        # The value today of what is got back is taken off what is paid; the rest is paid off in equal parts.
        annuity = rate / (1 - float((1 + rate) ** -years))
        yearly = (paid - back * float((1 + rate) ** -years)) * annuity
    else:
        yearly = (paid - back) / years
    yearly += paid * hardware.upkeep_percent_per_year / 100
    power = hardware.power_kw_per_node * hardware.pue * hardware.usd_per_kwh
    space = hardware.power_kw_per_node * hardware.hosting_usd_per_kw_month * 12 / HOURS_PER_YEAR
    return yearly / HOURS_PER_YEAR + power + space


def effective_prices(audit: FleetAudit) -> Iterator[str]:
    """An hour of use costs its price, with what spot wastes, what outlasts the traffic, and what is paid early."""
    fleet = audit.scenario.fleet
    for site, one in audit.purchases:
        hardware = [each for each in audit.scenario.prices.owned if each.label == one.instance_type]
        years = hardware[0].years if one.term == OWNED and hardware else YEARS.get(one.term, 0.0)
        if not close(one.committed_years, years):
            yield f"{where(site, one)}: committed for {one.committed_years:g} years, not {years:g}"
        price = one.price_usd_per_node_hour
        if one.term == "spot":
            price /= 1 - min(fleet.interruptions_per_day * fleet.startup_s / DAY_S, 0.99)
        if years and fleet.horizon_months is not None:
            price *= max(1.0, years * 12 / fleet.horizon_months)
        if one.contract is not None and one.contract < len(audit.scenario.commitments):
            early = audit.scenario.commitments[one.contract].upfront_share * years / 2
            price *= 1 + early * fleet.capital_rate_percent / 100
        if not close(one.effective_usd_per_node_hour, price) and (
            abs(one.effective_usd_per_node_hour - price) > MICRO_DOLLAR
        ):
            yield f"{where(site, one)}: an hour costs ${price:.6f}, not ${one.effective_usd_per_node_hour:.6f}"


def start_costs(audit: FleetAudit) -> Iterator[str]:
    """Switching a node on costs its start-up, in whole steps of billing; nothing where it never goes off."""
    fleet = audit.scenario.fleet
    for site, one in audit.purchases:
        hours = ceil(fleet.startup_s / fleet.billing_s) * fleet.billing_s / HOUR_S
        committed = one.committed_years > 0 or len(audit.plan.hours) == 1
        if one.starts == 0 and one.start_usd == 0.0:
            continue  # nothing is ever switched on
        expected = 0.0 if committed else one.effective_usd_per_node_hour * hours
        if abs(one.start_usd - expected) > 2 * MICRO_DOLLAR * max(hours, 1.0):
            yield f"{where(site, one)}: switching a node on costs ${expected:.6f}, not ${one.start_usd:.6f}"


def purchase_money(audit: FleetAudit) -> Iterator[str]:
    """What each purchase costs an hour, on signing and in all follows from its nodes and prices."""
    for site, one in audit.purchases:
        node_hours = sum(nodes * hours for nodes, hours in zip(one.nodes_by_period, audit.plan.hours, strict=True))
        per_hour = node_hours * one.effective_usd_per_node_hour + one.starts * one.start_usd
        nodes = max(one.nodes_by_period)
        committed = nodes * one.price_usd_per_node_hour * HOURS_PER_YEAR * one.committed_years
        hardware = [each for each in audit.scenario.prices.owned if each.label == one.instance_type]
        upfront = 0.0
        if one.contract is not None and one.contract < len(audit.scenario.commitments):
            upfront = committed * audit.scenario.commitments[one.contract].upfront_share
        elif one.term == OWNED and hardware:
            upfront = nodes * machine_usd(hardware[0])
        expected = {
            "usd_per_hour": per_hour / audit.cycle_hours,
            "committed_usd": committed,
            "upfront_usd": upfront,
        }
        for name, value in expected.items():
            # Prices are counted in whole micro-dollars.
            slack = MICRO_DOLLAR * max(nodes, 1) * (1 if name == "usd_per_hour" else HOURS_PER_YEAR * 3)
            if abs(getattr(one, name) - value) > max(slack, TOLERANCE * value):
                yield f"{where(site, one)}: {name} is {getattr(one, name):.6f}, not {value:.6f}"


def fleet_cost(audit: FleetAudit) -> Iterator[str]:
    """The fleet's cost is the sum of its purchases, and every other figure of money follows."""
    said = audit.plan.cost
    if said is None:
        return
    parts = [one for _, one in audit.purchases]
    hourly = sum(one.usd_per_hour for one in parts)
    tokens_in, tokens_out = (_tokens_per_hour(audit, name) for name in ("input_tokens", "output_tokens"))
    expected = {
        "usd_per_hour": hourly,
        "usd_per_month": hourly * HOURS_PER_MONTH,
        "committed_usd_per_hour": sum(one.usd_per_hour for one in parts if one.committed_years > 0),
        "upfront_usd": sum(one.upfront_usd for one in parts),
        "usd_per_million_output_tokens": hourly / tokens_out * 1e6,
        "usd_per_million_tokens": hourly / (tokens_in + tokens_out) * 1e6,
        "peak_usd_per_hour": max(_usd_in(audit, period) for period in audit.periods),
    }
    nodes = sum(max(one.nodes_by_period) for one in parts) + 1
    for name, value in expected.items():
        if not close(getattr(said, name), value) and abs(getattr(said, name) - value) > MICRO_DOLLAR * nodes:
            yield f"cost.{name} is {getattr(said, name):.6f}, not {value:.6f}"


def _tokens_per_hour(audit: FleetAudit, name: str) -> float:
    tokens = 0.0
    for one in audit.plan.classes:
        requests = sum(map(mul, one.requests_per_second_by_period, audit.plan.hours))
        tokens += requests * float(getattr(one, name))
    return tokens * 3600 / audit.cycle_hours


def _usd_in(audit: FleetAudit, period: int) -> float:
    """Return what the nodes of a period cost an hour, once they are on."""
    return sum(one.nodes_by_period[period] * one.effective_usd_per_node_hour for _, one in audit.purchases)


def bound(audit: FleetAudit) -> Iterator[str]:
    """The bound is no higher than the cost, and the gap is what lies between them."""
    said = audit.plan.cost
    if said is None:
        return
    if exceeds(said.bound_usd_per_hour, said.usd_per_hour):
        yield f"the bound ${said.bound_usd_per_hour:.6f} is above the cost ${said.usd_per_hour:.6f}"
    gap = (said.usd_per_hour - said.bound_usd_per_hour) / said.usd_per_hour if said.usd_per_hour > 0 else 0.0
    if abs(said.gap - gap) > TOLERANCE:
        yield f"the gap is {gap:.6%}, not {said.gap:.6%}"
