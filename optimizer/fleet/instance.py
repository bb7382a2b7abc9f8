"""From sites, replica kinds and demand to the fleet program's instance, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.choices import MICRO
from optimizer.fleet.kinds import ModelKinds
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.sites import RentalSite, min_periods, quota_matches, start_micro_usd
from optimizer.fleet.traffic import Demand, Traffic
from optimizer.programs.fleet_instance import FleetInstance, Kind, NodeLimit, Option
from optimizer.programs.fleet_instance import Site as ProgramSite


@dataclass(frozen=True, slots=True)
class Posed:
    """An instance and what its positions stand for.

    Attributes:
        kinds: for each kind of the instance, the position of its ModelKinds and its row in their table.
        period_of_hour: for each hour of the traffic, the period of the instance that it is.
    """

    instance: FleetInstance
    sites: tuple[RentalSite, ...]
    kinds: tuple[tuple[int, int], ...]
    period_of_hour: tuple[int, ...]


def pose_fleet(
    scenario: FleetScenario, traffic: Traffic, models: Sequence[ModelKinds], sites: tuple[RentalSite, ...]
) -> Posed:
    """Return the program's instance.

    Args:
        scenario: the question.
        traffic: its demand.
        models: the replica kinds of each model.
        sites: where nodes can be had.
    """
    fleet, limits = scenario.fleet, scenario.limits
    demand, hours, period_of_hour = _periods(scenario, traffic)
    kinds, origin = _kinds(traffic.demands, models, sites)
    used = sorted({kind.site for kind in kinds})
    place = {site: position for position, site in enumerate(used)}
    kept = tuple(sites[site] for site in used)
    instance = FleetInstance(
        sites=tuple(_program_site(scenario, site, len(hours)) for site in kept),
        kinds=tuple(
            Kind(place[kind.site], kind.gpus, kind.rates, nodes=kind.nodes, label=kind.label) for kind in kinds
        ),
        demand=demand,
        hours=hours,
        groups=tuple(one.model for one in traffic.demands),
        limits=_limits(scenario, kept),
        budget_micro_usd=None if limits.budget_usd_per_hour is None else round(limits.budget_usd_per_hour * MICRO),
        max_kinds=fleet.max_kinds,
        max_kinds_per_group=fleet.max_kinds_per_model,
        min_providers=fleet.min_providers,
        min_regions=fleet.min_regions,
        survive=fleet.survive,
        max_spot_share=fleet.max_spot_share,
    )
    return Posed(instance, kept, origin, period_of_hour)


def _periods(
    scenario: FleetScenario, traffic: Traffic
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...], tuple[int, ...]]:
    """Return demand by period and class, the hours of each period, and the period of each hour.

    Hours that ask for the same are one period: all of them where nothing depends on their order, else those that
    follow each other.
    """
    fleet, count = scenario.fleet, len(traffic.hours)
    by_hour = [tuple(one.rates[hour] for one in traffic.demands) for hour in range(count)]
    shortest = min_periods(fleet, count)
    in_order = shortest > 1 or start_micro_usd(fleet, MICRO, count) > 0
    demand: list[tuple[float, ...]] = []
    hours: list[float] = []
    period_of_hour: list[int] = []
    for hour, asked in enumerate(by_hour):
        same = demand.index(asked) if not in_order and asked in demand else None
        if same is None and in_order and shortest == 1 and demand and demand[-1] == asked:
            same = len(demand) - 1
        if same is None:
            demand.append(asked)
            hours.append(0.0)
            same = len(demand) - 1
        hours[same] += traffic.hours[hour]
        period_of_hour.append(same)
    return tuple(demand), tuple(hours), tuple(period_of_hour)


def _kinds(
    demands: Sequence[Demand], models: Sequence[ModelKinds], sites: Sequence[RentalSite]
) -> tuple[list[Kind], tuple[tuple[int, int], ...]]:
    """Return every replica kind on every site of its shape that may serve any of its classes."""
    by_shape: dict[int, list[int]] = {}
    for position, site in enumerate(sites):
        by_shape.setdefault(site.shape, []).append(position)
    may = [[not one.regions or site.region in one.regions for one in demands] for site in sites]
    labels: dict[tuple[object, ...], int] = {}
    found: list[Kind] = []
    origin: list[tuple[int, int]] = []
    for number, model in enumerate(models):
        columns = ["gpu", "weights", "kv_cache", "tp", "pp", "ep", "attention_dp", "targets"]
        names = model.table[columns].itertuples(index=False, name=None)
        facts = zip(
            model.table["shape"].tolist(),
            model.table["gpus"].tolist(),
            model.table["nodes_per_replica"].tolist(),
            names,
            model.rates.tolist(),
            strict=True,
        )
        for row, (shape, gpus, nodes, name, carried) in enumerate(facts):
            label = labels.setdefault((number, *name), len(labels))
            for place in by_shape.get(shape, ()):
                rates = [0.0] * len(demands)
                for index, rate in zip(model.classes, carried, strict=True):
                    rates[index] = rate if may[place][index] else 0.0
                if any(rates):
                    found.append(Kind(place, gpus, tuple(rates), nodes=nodes, label=label))
                    origin.append((number, row))
    return found, tuple(origin)


def _program_site(scenario: FleetScenario, site: RentalSite, periods: int) -> ProgramSite:
    hourly = min_periods(scenario.fleet, periods)
    options = tuple(
        Option(
            price_micro_usd=one.price_micro_usd,
            node_cap=one.node_cap,
            committed=one.committed_years > 0,
            start_micro_usd=0 if one.committed_years else start_micro_usd(scenario.fleet, one.price_micro_usd, periods),
            min_periods=1 if one.committed_years else hourly,
        )
        for one in site.payments
    )
    return ProgramSite(site.gpus_per_node, options, provider=site.provider, region=site.region, spot=site.spot)


def _limits(scenario: FleetScenario, sites: Sequence[RentalSite]) -> tuple[NodeLimit, ...]:
    """Return what may be rented at the most, of each quota and in all."""
    limits = scenario.limits
    found: list[NodeLimit] = []

    def add(name: str, members: list[int], most_gpus: int | None, most_nodes: int | None) -> None:
        if most_gpus is not None:
            found.append(NodeLimit(name, {site: sites[site].gpus_per_node for site in members}, most_gpus))
        if most_nodes is not None:
            found.append(NodeLimit(name, dict.fromkeys(members, 1), most_nodes))

    every = list(range(len(sites)))
    add("max_gpus", every, limits.max_gpus, None)
    add("max_nodes", every, None, limits.max_nodes)
    for number, quota in enumerate(limits.quotas):
        members = [site for site in every if quota_matches(quota, sites[site])]
        add(f"quotas.{number}", members, quota.max_gpus, quota.max_nodes)
    return tuple(found)
