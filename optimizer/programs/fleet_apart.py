"""Models that share nothing: where a node is one replica, and nothing couples models, each is solved by itself.

The cheapest sets of replicas of all models together cost no more than any fleet, so where they keep the quotas that
there are, they are the cheapest fleet. Where classes are whole, the same sets are a bound, and the fleet if the classes
can be dealt out over them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

import numpy as np
from ortools.math_opt.python import mathopt

from optimizer.programs.fleet_blocks import Block, Floats, Replicas, TooManyError, as_replicas
from optimizer.programs.fleet_counts import Counts
from optimizer.programs.fleet_money import node_cost
from optimizer.programs.fleet_rates import spread
from optimizer.programs.fleet_table import ROUNDING, FleetTable
from optimizer.programs.mathopt_outcome import Deadline, run_highs

Given = dict[tuple[int, int], int]  # (kind, bundle) -> whole classes
DEAL_SECONDS = 2.0
MOST_DEALS, DEAL_SHARE = (
    12,
    0.2,
)  # sets that are tried, and the part of the time: where many fail, the program is better


def apart(table: FleetTable) -> bool:
    """Whether a node is one replica of the only kind on it, and no rule but caps and quotas couples models."""
    instance = table.instance
    return (
        len(table.periods) == 1
        and instance.budget_micro_usd is None
        and instance.max_kinds is None
        and instance.max_kinds_per_group is None
        and instance.min_providers <= 1
        and instance.min_regions <= 1
        and instance.survive == "nothing"
        and instance.max_spot_share >= 1
        and bool(table.bundles)
        and all(len(kinds) == 1 for kinds in table.kinds_at.values())
        and all(_is_a_node(table, kind) for kind in table.serves)
        and all(len(groups) == 1 for groups in table.groups_of.values())
        and all(any(b in served for served in table.serves.values()) for b in range(len(table.bundles)))
    )


def _is_a_node(table: FleetTable, kind: int) -> bool:
    one = table.instance.kinds[kind]
    site = table.instance.sites[one.site]
    return (
        one.nodes == 1
        and site.gpus_per_node // one.gpus == 1
        and len(site.options) == 1
        and site.options[0].price_micro_usd > 0
    )


def solve_apart(table: FleetTable, clock: Deadline) -> Counts | None:
    """Return the cheapest sets of all models, as a fleet; None where they are not one, or were not found."""
    replicas: dict[tuple[int, int], int] = {}
    shares: dict[tuple[int, int, int], float] = {}
    for group in sorted({bundle.group for bundle in table.bundles}):
        block = Block(table, group, 0, {kind: {kind: 1} for kind in table.serves})
        prices = np.array([float(node_cost(table.instance, table.instance.kinds[k].site, 0, 0)) for k in block.kinds])
        if table.instance.whole_classes:
            share = Deadline(DEAL_SHARE * clock.left_s)
            found, given = _first_dealt(table, group, block, prices, share)
            shares |= {(kind, b, 0): float(count) for (kind, b), count in given.items()}
        else:
            found = block.cheapest(prices, clock)
        if found is None:
            return None
        replicas |= as_replicas(block, found)
    nodes = {(table.instance.kinds[kind].site, 0, 0): count for (kind, _), count in replicas.items()}
    return Counts(nodes, replicas, shares, {}, settled=True) if _allowed(table, nodes) else None


def _first_dealt(
    table: FleetTable, group: int, block: Block, prices: Floats, clock: Deadline
) -> tuple[Replicas | None, Given]:
    """Return the cheapest set over which whole classes can be dealt out; nothing where that could not be settled."""
    try:
        for found in islice(block.in_order(prices, clock), MOST_DEALS):
            replicas = {kind: count for (kind, _), count in as_replicas(block, found).items()}
            given = deal_whole(table, group, replicas)
            if given is None:
                return None, {}
            if given:
                return found, given
    except TooManyError:
        pass
    return None, {}


def _allowed(table: FleetTable, nodes: dict[tuple[int, int, int], int]) -> bool:
    sites = table.instance.sites
    return all(count <= sites[site].options[0].node_cap for (site, _, _), count in nodes.items()) and all(
        sum(limit.weights.get(site, 0) * count for (site, _, _), count in nodes.items()) <= limit.most
        for limit in table.instance.limits
    )


def deal_whole(table: FleetTable, group: int, replicas: Mapping[int, int]) -> Given | None:
    """Give each whole class of a model to one kind: {} where that is impossible, None where it was not settled."""
    bundles = [b for b, bundle in enumerate(table.bundles) if bundle.group == group]
    alone = FleetTable(
        table.instance,
        tuple(table.bundles[b] for b in bundles),
        {
            kind: {at: table.serves[kind][b] for at, b in enumerate(bundles) if b in table.serves[kind]}
            for kind in replicas
        },
    )
    split = spread(alone, 0, replicas)
    if split is None or not split.fits:
        return {}
    given = _rounded(alone, replicas, split.shares) or _dealt(alone, replicas)
    return None if given is None else {(kind, bundles[at]): count for (kind, at), count in given.items()}


def _rounded(table: FleetTable, replicas: Mapping[int, int], shares: Mapping[tuple[int, int], float]) -> Given | None:
    """Keep the whole part of each share, and put what is left where it fits best, the largest first."""
    given: dict[tuple[int, int], int] = defaultdict(int)
    left = {b: bundle.units for b, bundle in enumerate(table.bundles)}
    room = {kind: float(count) for kind, count in replicas.items()}
    for (kind, b), share in shares.items():
        whole = int(share * table.bundles[b].units + ROUNDING)
        given[kind, b] += whole
        left[b] -= whole
        room[kind] -= whole * _unit(table, kind, b)
    units = [b for b, count in left.items() for _ in range(count)]
    units.sort(key=lambda b: -min(_unit(table, kind, b) for kind in replicas if b in table.serves[kind]))
    for b in units:
        able = [k for k in replicas if b in table.serves[k] and _unit(table, k, b) <= room[k] + ROUNDING]
        if not able:
            return None
        best = min(able, key=lambda k: _unit(table, k, b) / (room[k] + 1e-12))
        given[best, b] += 1
        room[best] -= _unit(table, best, b)
    return {key: count for key, count in given.items() if count}


def _dealt(table: FleetTable, replicas: Mapping[int, int]) -> Given | None:
    """Ask the solver for any way to deal whole classes out: {} where there is none, None where it ran out of time."""
    model = mathopt.Model()
    given: dict[tuple[int, int], mathopt.Variable] = {}
    for kind, count in replicas.items():
        load = []
        for b in table.serves[kind]:
            most = min(table.bundles[b].units, int(count / _unit(table, kind, b) + ROUNDING))
            given[kind, b] = model.add_integer_variable(lb=0, ub=most)
            load.append(_unit(table, kind, b) * given[kind, b])
        model.add_linear_constraint(mathopt.fast_sum(load) <= count)
    for b, bundle in enumerate(table.bundles):
        mine = [variable for (_, other), variable in given.items() if other == b]
        model.add_linear_constraint(mathopt.fast_sum(mine) == bundle.units)
    run = run_highs(model, DEAL_SECONDS, tolerance=ROUNDING)
    if not run.has_solution:
        return {} if run.status == "infeasible" else None
    values = run.values()
    found = {key: round(values[variable]) for key, variable in given.items() if round(values[variable])}
    loads: dict[int, float] = defaultdict(float)
    for (kind, b), count in found.items():
        loads[kind] += count * _unit(table, kind, b)
    return found if all(load <= replicas[kind] * (1 + ROUNDING) for kind, load in loads.items()) else None


def _unit(table: FleetTable, kind: int, b: int) -> float:
    """Replicas that one class of a bundle keeps busy."""
    return table.load(kind, b, 0) / table.bundles[b].units
