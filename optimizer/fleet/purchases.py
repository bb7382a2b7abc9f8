"""What is bought and what it costs: sites with their purchases, and the cost of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING

import pandas as pd

from optimizer.choices import MICRO
from optimizer.fleet.hours import Hours
from optimizer.fleet.plan import FleetCost, Purchase, Site
from optimizer.fleet.sites import HOURS_PER_MONTH, HOURS_PER_YEAR, Payment, RentalSite
from optimizer.programs.fleet_instance import FleetAnswer

if TYPE_CHECKING:
    from optimizer.fleet.problem import FleetProblem


def describe_site(hours: Hours, position: int, name: str) -> Site:
    """Return a site of the answer with what is bought there."""
    problem = hours.problem
    rental = problem.posed.sites[position]
    offer = problem.catalog.frame.iloc[rental.payments[0].offer]
    network_rate = offer["network_gbit_per_s"]
    purchases = tuple(
        _purchase(hours, rental, position, number)
        for number in range(len(rental.payments))
        if any(hours.nodes(position, number))
    )
    return Site(
        id=name,
        provider=rental.provider,
        provider_kind=str(offer["provider_kind"]),
        region=rental.region,
        instance_type=str(offer["instance_type"]),
        gpu=rental.gpu,
        gpus_per_node=rental.gpus_per_node,
        spot=rental.spot,
        fabric=str(offer["fabric"]),
        scale_up_gpus=int(offer["scale_up_gpus"]),
        network=str(offer["network"]),
        network_gbit_per_s=None if pd.isna(network_rate) else float(network_rate),
        purchases=purchases,
    )


def _purchase(hours: Hours, rental: RentalSite, site: int, number: int) -> Purchase:
    problem = hours.problem
    payment: Payment = rental.payments[number]
    option = problem.instance.sites[site].options[number]
    nodes = hours.nodes(site, number)
    starts = 0
    if not option.committed and hours.count > 1:
        starts = sum(max(now - before, 0) for before, now in zip((nodes[-1], *nodes[:-1]), nodes, strict=True))
    node_hours = sum(count * hour for count, hour in zip(nodes, problem.traffic.hours, strict=True))
    total = node_hours * option.price_micro_usd + starts * option.start_micro_usd
    offer = problem.catalog.frame.iloc[payment.offer]
    committed = nodes[0] * payment.price_usd_per_hour * payment.committed_years * HOURS_PER_YEAR
    return Purchase(
        instance_type=str(offer["instance_type"]),
        term=payment.term,
        price_usd_per_node_hour=payment.price_usd_per_hour,
        effective_usd_per_node_hour=option.price_micro_usd / MICRO,
        committed_years=payment.committed_years,
        nodes_by_period=nodes,
        starts=starts,
        start_usd=option.start_micro_usd / MICRO,
        usd_per_hour=total / MICRO / sum(problem.traffic.hours),
        upfront_usd=_upfront(problem, payment, str(offer["instance_type"]), nodes[0], committed),
        committed_usd=committed,
        max_nodes=payment.max_nodes,
        price_seen_on=offer["seen_on"].date(),
        price_source=str(offer["source"]),
        contract=payment.commitment,
    )


def _upfront(problem: FleetProblem, payment: Payment, instance_type: str, nodes: int, committed: float) -> float:
    if payment.term != "owned":
        return committed * payment.upfront_share
    hardware = next(one for one in problem.scenario.prices.owned if one.label == instance_type)
    return hardware.capital_usd * nodes


def fleet_cost(problem: FleetProblem, answer: FleetAnswer, sites: Sequence[Site]) -> FleetCost:
    """Return what the fleet costs, with the bound that the program proved."""
    traffic = problem.traffic
    total_hours = sum(traffic.hours)
    per_hour = (answer.cost_micro_usd or 0.0) / MICRO / total_hours
    bound = min((answer.bound_micro_usd or 0.0) / MICRO / total_hours, per_hour)
    if answer.status == "optimal":
        bound = per_hour
    by_hour = [
        sum(one.nodes_by_period[hour] * one.effective_usd_per_node_hour for site in sites for one in site.purchases)
        for hour in range(len(traffic.hours))
    ]
    committed = sum(one.usd_per_hour for site in sites for one in site.purchases if one.committed_years > 0)

    def tokens(*names: str) -> float:
        """Millions of tokens an hour, on average."""
        each = [(sum(getattr(one.traffic, name) for name in names), one.rates) for one in traffic.demands]
        cycle = sum(count * sum(map(mul, rates, traffic.hours)) for count, rates in each)
        return float(cycle * 3600 / total_hours / 1e6)

    return FleetCost(
        usd_per_hour=per_hour,
        peak_usd_per_hour=max(by_hour),
        usd_per_month=per_hour * HOURS_PER_MONTH,
        committed_usd_per_hour=committed,
        upfront_usd=sum(one.upfront_usd for site in sites for one in site.purchases),
        usd_per_million_output_tokens=per_hour / tokens("output_tokens"),
        usd_per_million_tokens=per_hour / tokens("input_tokens", "output_tokens"),
        bound_usd_per_hour=bound,
        gap=1 - bound / per_hour if per_hour > 0 else 0.0,
    )
