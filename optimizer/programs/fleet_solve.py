"""Solving a fleet model, with failures added until none is left that the fleet does not survive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from optimizer.programs.fleet_apart import apart, solve_apart
from optimizer.programs.fleet_columns import ColumnSearch, Found, worth_separating
from optimizer.programs.fleet_counts import Counts
from optimizer.programs.fleet_instance import FleetAnswer, Survive
from optimizer.programs.fleet_model import FleetModel
from optimizer.programs.fleet_money import fleet_cost
from optimizer.programs.fleet_reduce import (
    SHARE_OF_TIME,
    Relaxation,
    exact_cost,
    left_possible,
    promising,
    restricted,
    worth_reducing,
)
from optimizer.programs.fleet_survive import SurvivingModel, node_contents, violated
from optimizer.programs.fleet_table import FleetTable
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline, run_highs
from optimizer.programs.outcome import Status

SCALE_GAP = SCALE_TOLERANCE = 1e-9
FIRST_TRY, FEW_MODELS = 0.1, 3  # of the time limit, for the model as it stands; as many times as long for few models
Aim = Literal["cost", "scale", "nothing"]


@dataclass(frozen=True, slots=True)
class Solved:
    """How a solve ended.

    Attributes:
        counts: the whole numbers of the best fleet; None without one.
        bound: no fleet is better: micro-dollars over the cycle, or a part of the demand; None where nothing is proved.
        scale: the part of the demand that is served.
    """

    status: Status
    counts: Counts | None
    bound: float | None
    scale: float = 1.0


def solve_fleet(
    table: FleetTable,
    settings: Settings,
    clock: Deadline,
    *,
    aim: Aim,
    without: Iterable[str] = (),
    replicas: Mapping[tuple[int, int], int] | None = None,
    reduce: bool = True,
    start: FleetAnswer | None = None,
) -> Solved:
    """Solve an instance for one aim: the least cost, the largest part of the demand, or any fleet at all.

    Args:
        table: the instance.
        settings: how the solver runs.
        clock: how long it may.
        aim: what is wanted.
        without: names of rules that need not hold.
        replicas: (kind, period) -> replicas, where they are settled already.
        reduce: leave kinds out of a large table that cannot be in a cheapest fleet.
        start: a fleet that keeps every rule, to begin from.

    Raises:
        QuestionError: too many ways to share a node.
    """
    left_out = frozenset(without)
    alone = aim == "cost" and replicas is None and not left_out
    if alone and apart(table):
        counts = solve_apart(table, clock)
        if counts is not None:
            cost = float(fleet_cost(table.instance, counts.nodes))
            return Solved("optimal", counts, cost)
    if alone and reduce and worth_reducing(table):
        reduced = _solve_reduced(table, settings, clock)
        if reduced is not None:
            return reduced
    # Where no demand has to be served, none has to be served after a loss.
    surviving = "nothing" if left_out & {"survive", "traffic"} else table.instance.survive
    contents = {site: node_contents(table, site) for site in table.kinds_at} if surviving == "node" else None
    fleet = FleetModel(
        table,
        left_out,
        scaled=aim == "scale",
        patterns_of=None if contents is None else contents.__getitem__,
    )
    if replicas is not None:
        for key, count in fleet.replicas.items():
            count.lower_bound = count.upper_bound = replicas.get(key, 0)
    if aim == "cost":
        fleet.model.minimize(fleet.cost())
    elif aim == "scale":
        fleet.model.maximize(fleet.scale)
    if surviving != "nothing":
        ended = _solve_surviving(fleet, settings, clock, aim, surviving, start)
    elif alone and worth_separating(table):
        ended = _solve_separately(fleet, settings, clock)
    else:
        ended = _solve_once(fleet, settings, clock, aim, clock.left_s, start)
    bound = ended.bound
    if aim == "cost" and bound is not None:
        bound = float(fleet.bound_micro_usd(bound))
    return Solved(ended.status, ended.counts, bound, ended.scale)


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a run ended, with bound and objective in the unit of the model's objective."""

    status: Status
    counts: Counts | None
    bound: float | None
    objective: float | None = None
    scale: float = 1.0


def _solve_reduced(table: FleetTable, settings: Settings, clock: Deadline) -> Solved | None:
    """Leave kinds out that cannot be in a cheapest fleet, by what a fleet of the most promising ones costs."""
    priced = Relaxation(table).solve(clock)
    if priced is None:
        return None
    few = promising(priced)
    share = Deadline(SHARE_OF_TIME * clock.left_s)
    first = solve_fleet(restricted(table, few), settings, share, aim="cost", reduce=False)
    if first.counts is None:
        return None
    cost = exact_cost(table, first.counts.nodes)
    kinds = left_possible(priced, cost)
    bound = max(priced.bound, min(first.bound or 0.0, cost) if set(kinds) <= set(few) else 0.0)
    if bound >= cost or len(kinds) == len(table.serves):
        return Solved("optimal", first.counts, cost) if bound >= cost else None
    last = solve_fleet(restricted(table, kinds), settings, clock, aim="cost", reduce=False)
    bound = max(bound, min(last.bound or 0.0, cost))
    if last.counts is None or exact_cost(table, last.counts.nodes) >= cost:
        return Solved("optimal" if bound >= cost else "feasible", first.counts, bound)
    return Solved(last.status, last.counts, bound)


def _solve_once(
    fleet: FleetModel,
    settings: Settings,
    clock: Deadline,
    aim: Aim,
    seconds: float,
    start: FleetAnswer | None = None,
) -> _Ended:
    gap = fleet.step_gap() if aim == "cost" else SCALE_GAP
    tolerance = SCALE_TOLERANCE if aim == "scale" else None
    run = run_highs(
        fleet.model,
        min(seconds, clock.left_s),
        seed=settings.seed,
        absolute_gap=gap,
        tolerance=tolerance,
        hint=None if start is None else fleet.hint(start),
    )
    if not run.has_solution:
        return _Ended(run.status, None, run.bound)
    values = run.values()
    scale = float(values[fleet.scale]) if aim == "scale" else 1.0
    return _Ended(run.status, fleet.chosen(values), run.bound, run.objective, scale)


def _solve_surviving(
    fleet: FleetModel,
    settings: Settings,
    clock: Deadline,
    aim: Aim,
    surviving: Survive,
    start: FleetAnswer | None,
) -> _Ended:
    failing = SurvivingModel(fleet, surviving)
    while True:
        solved = _solve_once(fleet, settings, clock, aim, clock.left_s, start)
        if solved.counts is None:
            return solved
        losses = violated(fleet.table, solved.counts, solved.scale)
        if not losses:
            return solved
        if clock.passed:
            return _Ended("unknown", None, solved.bound)
        for loss in losses:
            failing.add(loss)


def _solve_separately(fleet: FleetModel, settings: Settings, clock: Deadline) -> _Ended:
    """Give the model as it stands a short try, then search by sets of replicas, then give it the rest of the time."""
    models = len({bundle.group for bundle in fleet.table.bundles})
    share = FIRST_TRY * (FEW_MODELS if models <= FEW_MODELS else 1)
    first = _solve_once(fleet, settings, clock, "cost", share * clock.left_s)
    if first.status in ("optimal", "infeasible"):
        return first
    found = ColumnSearch(fleet.table, settings, clock).run()
    best, bound = _better(first, found)
    if best.counts is None or best.objective is None or bound is None or clock.passed:
        return replace(best, bound=bound)
    if bound >= best.objective - fleet.step_gap():
        return replace(best, bound=bound)
    fleet.model.add_linear_constraint(fleet.cost() <= best.objective - fleet.step_gap())
    fleet.model.add_linear_constraint(fleet.cost() >= bound)
    last = _solve_once(fleet, settings, clock, "cost", clock.left_s)
    if last.status == "infeasible":
        return replace(best, bound=best.objective)
    bound = max(bound, min(last.bound, best.objective)) if last.bound is not None else bound
    return replace(last if last.counts is not None else best, bound=bound)


def _better(first: _Ended, found: Found | None) -> tuple[_Ended, float | None]:
    if found is None:
        return first, first.bound
    bounds = [bound for bound in (first.bound, found.bound) if bound is not None]
    best = first
    if found.counts is not None and (first.objective is None or found.objective < first.objective):
        best = replace(first, status="feasible", counts=found.counts, objective=found.objective)
    return best, max(bounds, default=None)
