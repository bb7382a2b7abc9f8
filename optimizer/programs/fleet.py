"""The cheapest fleet of an instance, as a mixed-integer program in MathOpt with HiGHS."""

from __future__ import annotations

from collections import defaultdict

from optimizer.programs.fleet_instance import FleetAnswer, FleetInstance
from optimizer.programs.fleet_model import Counts, FleetModel
from optimizer.programs.fleet_money import fleet_cost
from optimizer.programs.fleet_packing import pack
from optimizer.programs.fleet_rates import Shares, fewest_replicas, fits, repaired, spread
from optimizer.programs.fleet_table import FleetTable, read_instance
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline, run_highs

TIGHTER = 1 + 1e-6  # demand, where a fleet is only just too small within the solver's tolerance


def cheapest_fleet(instance: FleetInstance, settings: Settings | None = None) -> FleetAnswer:
    """Find the fleet of least cost over the cycle that serves all demand and keeps every rule.

    The answer is optimal only when the bound that was proved leaves no room for a cheaper fleet: costs come in steps
    (the greatest amount that all prices x hours are multiples of), and bounds are rounded up to one.

    Raises:
        QuestionError: replicas fit on a node in too many ways to be packed exactly.
        ValueError: the parts of the instance do not fit together.
    """
    chosen = settings or Settings()
    clock = Deadline(chosen.time_limit_s)
    table = read_instance(instance)
    fleet = FleetModel(table)
    fleet.model.minimize(fleet.cost())
    run = run_highs(fleet.model, clock.left_s, seed=chosen.seed, absolute_gap=fleet.step_gap())
    bound = None if run.bound is None else float(fleet.bound_micro_usd(run.bound))
    if not run.has_solution:
        return FleetAnswer(run.status, clock.seconds, bound_micro_usd=bound)
    return answer_of(table, fleet.chosen(run.values()), bound, clock)


def answer_of(table: FleetTable, counts: Counts, bound: float | None, clock: Deadline) -> FleetAnswer:
    """Turn the whole numbers of a solution into an answer: exact shares, packing, cost; optimal where the bound says."""
    instance = table.instance
    replicas: dict[tuple[int, int], int] = {}
    rates: dict[tuple[int, int, int], float] = {}
    packing = []
    for period in table.periods:
        here, shares = deal(table, counts, period)
        replicas |= {(kind, period): count for kind, count in here.items()}
        rates |= {(kind, c, period): rate for (kind, c), rate in class_rates(table, period, shares).items()}
        at: dict[int, dict[int, int]] = defaultdict(dict)
        for kind, count in here.items():
            at[instance.kinds[kind].site][kind] = count
        units = [
            unit
            for site in range(len(instance.sites))
            for unit in pack(
                instance, site, counts.site_nodes(site, period), at[site], counts.filled.get((site, period), ())
            )
        ]
        packing.append(tuple(units))
    cost = float(fleet_cost(instance, counts.nodes))
    best = cost if bound is None else min(bound, cost)
    return FleetAnswer(
        "optimal" if bound is not None and bound >= cost else "feasible",
        clock.seconds,
        cost_micro_usd=cost,
        bound_micro_usd=None if bound is None else best,
        nodes=counts.nodes,
        replicas=replicas,
        rates=rates,
        packing=tuple(packing),
    )


def deal(table: FleetTable, counts: Counts, period: int) -> tuple[dict[int, int], Shares]:
    """Return the replicas that are needed in a period, and the exact shares that they serve.

    Raises:
        RuntimeError: the solver's fleet cannot carry the demand exactly.
    """
    here = {kind: count for (kind, t), count in counts.replicas.items() if t == period}
    if table.instance.whole_classes:
        whole = {
            (kind, b): round(value) / table.bundles[b].units
            for (kind, b, t), value in counts.shares.items()
            if t == period and round(value)
        }
        shares: Shares | None = repaired(whole)
        assert shares is not None
        if not fits(table, period, shares, here):
            raise RuntimeError("the solver's fleet is too small for the classes that it was given")
        return here, shares
    if table.instance.survive == "nothing":
        here = fewest_replicas(table, period, here)
    shares = spread(table, period, here)
    if shares is None:
        raise RuntimeError("the solver's fleet is too small for the demand")
    return here, shares


def class_rates(table: FleetTable, period: int, shares: Shares) -> dict[tuple[int, int], float]:
    """Return (kind, class) -> requests/s, from shares of bundles."""
    rates: dict[tuple[int, int], float] = {}
    taken: dict[int, int] = defaultdict(int)
    for (kind, b), share in sorted(shares.items()):
        bundle = table.bundles[b]
        if table.instance.whole_classes:
            count = round(share * bundle.units)
            members = bundle.classes[taken[b] : taken[b] + count]
            taken[b] += count
            rates |= {(kind, index): table.instance.demand[period][index] for index in members}
            continue
        for index in bundle.classes:
            rate = table.instance.demand[period][index] * share
            if rate > 0:
                rates[kind, index] = rate
    return rates
