"""A large table of kinds, narrowed to those that a cheapest fleet could use.

The linear relaxation gives a bound z and, for each count that is zero in it, its reduced cost: what the least cost
rises by for each one at the least. A fleet that uses a kind has a replica of it in some period and a node of its site;
so with a fleet in hand that costs U, a kind whose reduced costs come to more than U - z is in no cheaper fleet,
whatever the other rules are, and is left out. (Reduced cost fixing: Dantzig, Fulkerson and Johnson 1954.)

The fleet in hand is found among few kinds: those that would serve a model alone for the least, whose cost follows from
the whole replicas and nodes of each period without a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ortools.math_opt.python import mathopt

from optimizer.programs.fleet_instance import Failure, FleetAnswer, FleetInstance, Packed
from optimizer.programs.fleet_model import FleetModel
from optimizer.programs.fleet_money import is_proved
from optimizer.programs.fleet_table import FleetTable, whole_up
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline
from optimizer.programs.quiet import quiet_stdout

LARGE = 200  # kinds x periods from which on narrowing is worth its linear program
FIRST_KINDS = 3  # of each model, that the fleet in hand is found among
FIRST_SHARE = 0.25  # of the time, for finding it
SLACK = 1e-6  # relative: what the linear program's own tolerances may hide

Solve = Callable[[FleetInstance, Settings, FleetAnswer | None], FleetAnswer]


def is_large(table: FleetTable) -> bool:
    """Whether an instance is worth narrowing."""
    return len(table.serves) * len(table.periods) > LARGE


def cheapest_of_many(table: FleetTable, settings: Settings, clock: Deadline, solve: Solve) -> FleetAnswer | None:
    """Return the cheapest fleet of a large instance; None where its relaxation says nothing, so that all has to go in.

    Args:
        table: the instance.
        settings: how the solver runs.
        clock: how long it may.
        solve: finds the cheapest fleet of an instance as it stands, beginning from one that is known, if any.
    """
    scores, least = _scores(table)
    if least is None:
        return None
    order = sorted(scores, key=lambda kind: (scores[kind], kind))
    first: set[int] = set()
    for group in {bundle.group for bundle in table.bundles}:
        first |= set(cheapest_alone(table, group)[:FIRST_KINDS])
    # And the best kinds of each class, so that there is a fleet among them also where no kind serves a whole model.
    for b in range(len(table.bundles)):
        first |= set([kind for kind in order if b in table.serves[kind]][:2])
    limited = replace(settings, time_limit_s=clock.left_s * FIRST_SHARE)
    in_hand = _solved(table.instance, sorted(first), limited, solve, None)
    most = None if in_hand.cost_micro_usd is None else in_hand.cost_micro_usd - least + abs(least) * SLACK
    kept = [kind for kind in sorted(scores) if most is None or scores[kind] <= most]
    if set(kept) <= first and in_hand.status == "optimal":
        return replace(in_hand, seconds=clock.seconds)
    start = in_hand if in_hand.cost_micro_usd is not None else None
    kept = sorted({*kept, *(kind for kind, _ in in_hand.replicas)})
    found = _solved(table.instance, kept, replace(settings, time_limit_s=clock.left_s), solve, start)
    return replace(_better(in_hand, found, least), seconds=clock.seconds)


def _better(one: FleetAnswer, other: FleetAnswer, least: float) -> FleetAnswer:
    """Return the cheaper fleet, with what the second run, on all that could be in a cheaper one, has proved."""
    if one.cost_micro_usd is None:
        return other
    bound = max(other.bound_micro_usd or least, least)
    if other.status == "infeasible":
        bound = one.cost_micro_usd
    best = one if other.cost_micro_usd is None or one.cost_micro_usd < other.cost_micro_usd else other
    cost = best.cost_micro_usd or 0.0
    proved = other.status in ("optimal", "infeasible") or is_proved(cost, bound)
    return replace(
        best, status="optimal" if proved else "feasible", bound_micro_usd=cost if proved else min(bound, cost)
    )


def _scores(table: FleetTable) -> tuple[dict[int, float], float | None]:
    """Return kind -> what using it raises the cost by at the least, and the least cost, in micro-dollars."""
    relaxed = FleetModel(table, whole_numbers=False)
    relaxed.model.minimize(relaxed.cost())
    with quiet_stdout():
        result = mathopt.solve(relaxed.model, mathopt.SolverType.GLOP)
    if result.termination.reason != mathopt.TerminationReason.OPTIMAL or not result.has_dual_feasible_solution():
        return {}, None
    of, micro = result.reduced_costs(), relaxed.micro_usd_per_unit
    site_least: dict[int, float] = {}
    for (site, _, _), variable in relaxed.nodes.items():
        cost = max(of.get(variable, 0.0), 0.0) * micro
        site_least[site] = min(site_least.get(site, cost), cost)
    scores: dict[int, float] = {}
    for (kind, _), variable in relaxed.replicas.items():
        cost = max(of.get(variable, 0.0), 0.0) * micro
        scores[kind] = min(scores.get(kind, cost), cost)
    return {kind: cost + site_least.get(table.instance.kinds[kind].site, 0.0) for kind, cost in scores.items()}, float(
        result.objective_value()
    ) * micro


def cheapest_alone(table: FleetTable, group: int) -> list[int]:
    """Return the kinds that serve all of a model, by what the model would cost on each alone."""
    wanted = [b for b, bundle in enumerate(table.bundles) if bundle.group == group]
    costs = {
        kind: _cost_alone(table, kind, wanted)
        for kind, served in table.serves.items()
        if all(b in served for b in wanted)
    }
    able = {kind: cost for kind, cost in costs.items() if cost is not None}
    return sorted(able, key=lambda kind: (able[kind], kind))


def _cost_alone(table: FleetTable, kind: int, bundles: list[int]) -> float | None:
    """Return the least cost of serving these bundles with one kind on nodes of its own; None where stock is short."""
    instance, one = table.instance, table.instance.kinds[kind]
    site = instance.sites[one.site]
    nodes = []
    for period in table.periods:
        replicas = whole_up(sum(table.load(kind, b, period) for b in bundles))
        nodes.append(replicas * one.nodes if one.nodes > 1 else -(-replicas // (site.gpus_per_node // one.gpus)))
    hours = instance.hours
    committed = [option for option in site.options if option.committed and option.node_cap >= max(nodes)]
    hourly = [option for option in site.options if not option.committed and option.node_cap >= max(nodes)]
    always = min((option.price_micro_usd for option in committed), default=None)
    found = []
    for kept in {0, *nodes} if always is not None else {0}:
        over = [max(count - kept, 0) for count in nodes]
        cost = kept * (always or 0) * sum(hours)
        if not any(over):
            found.append(cost)
        for option in hourly if any(over) else []:
            starts = sum(max(now - before, 0) for before, now in zip((over[-1], *over[:-1]), over, strict=True))
            used = sum(count * hour for count, hour in zip(over, hours, strict=True))
            found.append(cost + used * option.price_micro_usd + starts * option.start_micro_usd * (len(hours) > 1))
    return min(found, default=None)


def _solved(
    instance: FleetInstance, kinds: list[int], settings: Settings, solve: Solve, start: FleetAnswer | None
) -> FleetAnswer:
    """Solve with these kinds only; kinds in the answer are those of the whole instance."""
    fewer = replace(
        instance,
        kinds=tuple(replace(instance.kinds[kind], label=_label(instance, kind)) for kind in kinds),
    )
    place = {kind: position for position, kind in enumerate(kinds)}
    known = None if start is None else _of_all(start, place)
    return _of_all(solve(fewer, settings, known), dict(enumerate(kinds)))


def _label(instance: FleetInstance, kind: int) -> int:
    """Return a kind's label, or one of its own that no other has."""
    label = instance.kinds[kind].label
    return label if label >= 0 else 1_000_000_000 + kind


def _of_all(answer: FleetAnswer, kind_of: Mapping[int, int]) -> FleetAnswer:
    def packed(unit: Packed) -> Packed:
        return replace(unit, replicas={kind_of[kind]: count for kind, count in unit.replicas.items()})

    def failed(one: Failure) -> Failure:
        return replace(
            one,
            lost={kind_of[kind]: count for kind, count in one.lost.items()},
            rates={(kind_of[kind], index): rate for (kind, index), rate in one.rates.items()},
        )

    return replace(
        answer,
        replicas={(kind_of[kind], period): count for (kind, period), count in answer.replicas.items()},
        rates={(kind_of[kind], index, period): rate for (kind, index, period), rate in answer.rates.items()},
        packing=tuple(tuple(map(packed, units)) for units in answer.packing),
        failures=tuple(map(failed, answer.failures)),
    )
