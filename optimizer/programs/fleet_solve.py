"""Solving a fleet model, with failures added until none is left that the fleet does not survive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from optimizer.programs.fleet_instance import FleetAnswer
from optimizer.programs.fleet_model import Counts, FleetModel
from optimizer.programs.fleet_survive import SurvivingModel, node_contents, violated
from optimizer.programs.fleet_table import FleetTable
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline, run_highs
from optimizer.programs.outcome import Status

Aim = Literal["cost", "scale", "nothing"]


@dataclass(frozen=True, slots=True)
class Solved:
    """How a solve ended.

    Attributes:
        counts: the whole numbers of the best fleet; None without one.
        bound: on the objective of `fleet`: no fleet is better; None where nothing is proved.
    """

    status: Status
    fleet: FleetModel
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
        start: a fleet that keeps every rule, to begin from.

    Raises:
        QuestionError: too many ways to share a node.
    """
    left_out = frozenset(without)
    # Without traffic to serve there is nothing to survive.
    surviving = "nothing" if {"survive", "traffic"} & left_out else table.instance.survive
    contents = {site: node_contents(table, site) for site in table.kinds_at} if surviving == "node" else None
    fleet = FleetModel(
        table,
        left_out,
        scaled=aim == "scale",
        patterns_of=None if contents is None else contents.__getitem__,
    )
    if aim == "cost":
        fleet.model.minimize(fleet.cost())
    elif aim == "scale":
        fleet.model.maximize(fleet.scale)
    if replicas is not None:
        for key, count in fleet.replicas.items():
            count.lower_bound = count.upper_bound = replicas.get(key, 0)
    failing = SurvivingModel(fleet, surviving)
    bound: float | None = None
    while True:
        gap = fleet.step_gap() if aim == "cost" else 1e-9
        hint = None if start is None else fleet.hint(start)
        run = run_highs(fleet.model, clock.left_s, seed=settings.seed, absolute_gap=gap, hint=hint)
        bound = run.bound if run.bound is not None else bound
        if not run.has_solution:
            return Solved(run.status, fleet, None, bound)
        values = run.values()
        counts = fleet.chosen(values)
        scale = float(values[fleet.scale]) if aim == "scale" else 1.0
        if surviving == "nothing":
            return Solved(run.status, fleet, counts, bound, scale)
        losses = violated(table, counts, scale)
        if not losses:
            return Solved(run.status, fleet, counts, bound, scale)
        if clock.passed:
            return Solved("unknown", fleet, None, bound)
        for loss in losses:
            failing.add(loss)
