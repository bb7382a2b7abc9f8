"""Rules of a fleet that are a row or a few of sums: quotas, budget, numbers of kinds, spread, spot, a second node.

Each adds its rows to a model whose nodes, replicas and shares are there; the rules of traffic and room are the model's
own (fleet_model.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from ortools.math_opt.python import mathopt

from optimizer.programs.fleet_instance import Site
from optimizer.programs.fleet_money import cycle_hours

if TYPE_CHECKING:
    from optimizer.programs.fleet_model import FleetModel

Expression: TypeAlias = Any  # a MathOpt linear expression; OR-Tools leaves its sums untyped


def add_rules(fleet: FleetModel) -> None:
    """Add all of them, but for those that the model leaves out."""
    add_limits(fleet)
    add_budget(fleet)
    add_kind_counts(fleet)
    add_spread(fleet)
    add_spot_share(fleet)
    add_second_node(fleet)


def add_limits(fleet: FleetModel) -> None:
    """No more nodes than quotas allow, in every period."""
    for index, limit in enumerate(fleet.instance.limits):
        if limit.name in fleet.without:
            continue
        for period in fleet.table.periods:
            counted = mathopt.fast_sum(
                weight * fleet.site_nodes(site, period) for site, weight in limit.weights.items()
            )
            fleet.limit_rows[index] = fleet.model.add_linear_constraint(counted <= limit.most)


def add_budget(fleet: FleetModel) -> None:
    """An hour costs no more than the budget, on average over the cycle."""
    if fleet.instance.budget_micro_usd is None or "budget" in fleet.without:
        return
    most: Fraction = fleet.instance.budget_micro_usd * cycle_hours(fleet.instance)
    fleet.budget_row = fleet.model.add_linear_constraint(fleet.cost() <= int(most / fleet.step) * fleet.unit)


def add_kind_counts(fleet: FleetModel) -> None:
    """There are no more kinds than allowed, in all and for one model; kinds of one label are one."""
    instance = fleet.instance
    overall = instance.max_kinds is not None and "max_kinds" not in fleet.without
    grouped = instance.max_kinds_per_group is not None and "max_kinds_per_group" not in fleet.without
    if fleet.unbounded or not (overall or grouped):
        return
    of_group: dict[int, set[tuple[bool, int]]] = defaultdict(set)
    for kind in fleet.table.serves:
        label = fleet.table.label(kind)
        if label not in fleet.labels:
            fleet.labels[label] = fleet.integer(1)
        for group in fleet.table.groups_of[kind]:
            of_group[group].add(label)
    for (kind, _), count in fleet.replicas.items():
        fleet.model.add_linear_constraint(count <= count.upper_bound * fleet.labels[fleet.table.label(kind)])
    for (kind, _, _), share in fleet.shares.items():
        fleet.model.add_linear_constraint(share <= share.upper_bound * fleet.labels[fleet.table.label(kind)])
    if overall:
        fleet.model.add_linear_constraint(mathopt.fast_sum(fleet.labels.values()) <= instance.max_kinds)
    if grouped:
        for labels in of_group.values():
            counted = mathopt.fast_sum(fleet.labels[label] for label in labels)
            fleet.model.add_linear_constraint(counted <= instance.max_kinds_per_group)


def add_spread(fleet: FleetModel) -> None:
    """Nodes are paid for from enough providers and regions, in every period."""
    instance = fleet.instance
    spreads: tuple[tuple[str, int, Callable[[Site], str]], ...] = (
        ("min_providers", instance.min_providers, lambda site: site.provider),
        ("min_regions", instance.min_regions, lambda site: site.region),
    )
    for rule, least, name_of in spreads:
        if least <= 1 or rule in fleet.without:
            continue
        members: dict[str, list[int]] = defaultdict(list)
        for site, where in enumerate(instance.sites):
            members[name_of(where)].append(site)
        for period in fleet.table.periods:
            there = []
            for sites in members.values():
                used = fleet.integer(1)
                there.append(used)
                nodes = mathopt.fast_sum(fleet.site_nodes(site, period) for site in sites)
                fleet.model.add_linear_constraint(used <= nodes)
            fleet.model.add_linear_constraint(mathopt.fast_sum(there) >= least)


def add_spot_share(fleet: FleetModel) -> None:
    """No more of a model's requests than allowed is served on nodes that may be taken back, in every period."""
    if fleet.instance.max_spot_share >= 1 or "spot_share" in fleet.without:
        return
    on_spot: dict[tuple[int, int], list[Expression]] = defaultdict(list)
    total: dict[tuple[int, int], float] = defaultdict(float)
    for bundle in fleet.table.bundles:
        for period in fleet.table.periods:
            total[bundle.group, period] += bundle.demand[period]
    for (kind, b, period), share in fleet.shares.items():
        if fleet.instance.sites[fleet.instance.kinds[kind].site].spot:
            bundle = fleet.table.bundles[b]
            parts = bundle.units if fleet.counted else 1
            part = bundle.demand[period] / parts / total[bundle.group, period]
            on_spot[bundle.group, period].append(part * share)
    for served in on_spot.values():
        fleet.model.add_linear_constraint(mathopt.fast_sum(served) <= fleet.instance.max_spot_share * fleet.scale)


def add_second_node(fleet: FleetModel) -> None:
    """What has to survive a loss is served from two nodes at the least; the rest is in fleet_survive."""
    if fleet.instance.survive == "nothing" or {"survive", "traffic"} & fleet.without or fleet.scaled:
        return
    for b, bundle in enumerate(fleet.table.bundles):
        sites = {fleet.instance.kinds[kind].site for kind, served in fleet.table.serves.items() if b in served}
        for period in fleet.table.periods:
            if bundle.demand[period] > 0:
                nodes = mathopt.fast_sum(fleet.site_nodes(site, period) for site in sites)
                fleet.model.add_linear_constraint(nodes >= 2.0)
