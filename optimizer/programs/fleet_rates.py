"""The exact shares of a fleet whose whole numbers are known: a small linear program in each period, then repaired.

A mixed-integer solver keeps rows to within its tolerance only. Here the loads are spread as evenly as the rules allow
and scaled so that every class is covered to the last digit; a fleet whose replicas are then overfull is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ortools.math_opt.python import mathopt

from optimizer.programs.fleet_table import ROUNDING, FleetTable, whole_up
from optimizer.programs.mathopt_outcome import run_highs

Shares = dict[tuple[int, int], float]  # (kind, bundle) -> share of the bundle
LP_SECONDS = 60.0


class TooSmallError(RuntimeError):
    """A fleet that the solver found within its tolerance cannot carry the demand to nine digits.

    Attributes:
        bound: what was proved of the cost all the same.
    """

    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Dealt:
    """Demand of a period shared out over replicas.

    Attributes:
        fullest: of all kinds, the largest part of its replicas' time that is used; above 1 they cannot carry it.
    """

    shares: Shares
    fullest: float

    @property
    def fits(self) -> bool:
        """Whether no replica has more to do than it can, to nine digits."""
        return self.fullest <= 1 + ROUNDING


def loads_of(table: FleetTable, period: int, shares: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Return how many replicas of each kind the shares keep busy."""
    loads: dict[int, float] = defaultdict(float)
    for (kind, bundle), share in shares.items():
        loads[kind] += share * table.load(kind, bundle, period)
    return loads


def dealt(
    table: FleetTable, period: int, shares: Mapping[tuple[int, int], float], replicas: Mapping[int, int]
) -> Dealt:
    """Scale shares to cover every class exactly, and say how full the replicas are then."""
    exact = repaired(shares)
    full = [
        load / replicas[kind] if replicas.get(kind) else float("inf")
        for kind, load in loads_of(table, period, exact).items()
    ]
    return Dealt(exact, max(full, default=0.0))


def spread(
    table: FleetTable, period: int, replicas: Mapping[int, int], *, spot: bool = True, fewest: bool = False
) -> Dealt | None:
    """Share the demand of a period out over given replicas; None where they cannot serve every class at all.

    Args:
        table: the instance.
        period: which.
        replicas: kind -> replicas.
        spot: whether the limit on what is served on spot nodes counts (it need not in a failure).
        fewest: use as few GPUs as possible of those there are, instead of loading all as evenly as possible.
    """
    model = mathopt.Model()
    shares: dict[tuple[int, int], mathopt.Variable] = {}
    wanted = [b for b, bundle in enumerate(table.bundles) if bundle.demand[period] > 0]
    served: dict[int, list[mathopt.Variable]] = {b: [] for b in wanted}
    fullest = model.add_variable(lb=0.0, ub=1.0 if fewest else float("inf"))
    gpus = []
    for kind, count in replicas.items():
        load = []
        for bundle in table.serves.get(kind, ()):
            if bundle in served and count:
                share = shares[kind, bundle] = model.add_variable(lb=0.0, ub=1.0)
                served[bundle].append(share)
                load.append(table.load(kind, bundle, period) / count * share)
                gpus.append(table.instance.kinds[kind].gpus * table.load(kind, bundle, period) * share)
        if load:
            model.add_linear_constraint(mathopt.fast_sum(load) <= fullest)
    if not all(served.values()):
        return None
    for variables in served.values():
        model.add_linear_constraint(mathopt.fast_sum(variables) == 1.0)
    if spot:
        _limit_spot(table, period, model, shares)
    model.minimize(mathopt.fast_sum(gpus) if fewest else fullest)
    run = run_highs(model, LP_SECONDS)
    if not run.has_solution:
        return None
    values = run.values()
    return dealt(table, period, {key: values[share] for key, share in shares.items()}, replicas)


def _limit_spot(
    table: FleetTable, period: int, model: mathopt.Model, shares: Mapping[tuple[int, int], mathopt.Variable]
) -> None:
    if table.instance.max_spot_share >= 1:
        return
    for group in {bundle.group for bundle in table.bundles}:
        total = sum(bundle.demand[period] for bundle in table.bundles if bundle.group == group)
        on_spot = [
            table.bundles[b].demand[period] / total * share
            for (kind, b), share in shares.items()
            if table.bundles[b].group == group and table.instance.sites[table.instance.kinds[kind].site].spot
        ]
        if on_spot:
            model.add_linear_constraint(mathopt.fast_sum(on_spot) <= table.instance.max_spot_share)


def repaired(shares: Mapping[tuple[int, int], float]) -> Shares:
    """Drop rounding noise, and scale each bundle's shares to add up to one."""
    kept = {key: share for key, share in shares.items() if share > ROUNDING}
    sums: dict[int, float] = defaultdict(float)
    for (_, bundle), share in kept.items():
        sums[bundle] += share
    return {key: share / sums[key[1]] for key, share in kept.items()}


def fewest_replicas(table: FleetTable, period: int, replicas: Mapping[int, int]) -> dict[int, int]:
    """Leave out replicas that the demand of a period does not need."""
    found = spread(table, period, replicas, fewest=True)
    if found is None:
        return dict(replicas)
    needed = {kind: min(whole_up(load), replicas[kind]) for kind, load in loads_of(table, period, found.shares).items()}
    return {kind: count for kind, count in needed.items() if count}


def class_rates(table: FleetTable, period: int, shares: Shares, *, whole: bool) -> dict[tuple[int, int], float]:
    """Return (kind, class) -> requests/s, from shares of bundles; `whole` classes are each given to one kind."""
    rates: dict[tuple[int, int], float] = {}
    taken: dict[int, int] = defaultdict(int)
    demand = table.instance.demand[period]
    for (kind, b), share in sorted(shares.items()):
        bundle = table.bundles[b]
        if whole:
            count = round(share * bundle.units)
            members = bundle.classes[taken[b] : taken[b] + count]
            taken[b] += count
            rates |= {(kind, index): demand[index] for index in members if demand[index] > 0}
        else:
            rates |= {(kind, index): demand[index] * share for index in bundle.classes if demand[index] * share > 0}
    return rates
