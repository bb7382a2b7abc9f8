"""The cheapest fleet of an instance, and the most traffic that one allows, in MathOpt with HiGHS."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from optimizer.programs.fleet_columns import worth_separating
from optimizer.programs.fleet_counts import Counts
from optimizer.programs.fleet_instance import UNLIMITED, FleetAnswer, FleetInstance, Packed
from optimizer.programs.fleet_model import FleetModel
from optimizer.programs.fleet_money import fleet_cost, is_proved
from optimizer.programs.fleet_narrow import cheapest_of_many, is_large
from optimizer.programs.fleet_packing import pack
from optimizer.programs.fleet_rates import Dealt, TooSmallError, class_rates, dealt, fewest_replicas, spread
from optimizer.programs.fleet_reduce import worth_reducing
from optimizer.programs.fleet_solve import Solved, solve_fleet
from optimizer.programs.fleet_survive import deal_after, failures_of, possible_losses
from optimizer.programs.fleet_table import FleetTable, read_instance
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline, run_highs

SPARE_SECONDS = 2.0
TIGHTER = 1 + 2e-6
SCALE_GAP = 1e-6  # relative: a scale this near to its bound is the largest


def cheapest_fleet(instance: FleetInstance, settings: Settings | None = None) -> FleetAnswer:
    """Find the fleet of least cost over the cycle that serves all demand and keeps every rule.

    The answer is optimal only when the bound that was proved leaves no room for a cheaper fleet: costs come in steps
    (the greatest amount that all prices x hours are multiples of), and bounds are rounded up to one.

    Raises:
        QuestionError: replicas can share a node in too many ways to be packed exactly.
        ValueError: the parts of the instance do not fit together.
    """
    chosen = settings or Settings()
    clock = Deadline(chosen.time_limit_s)
    table = read_instance(instance)
    one_period = worth_reducing(table) or worth_separating(table)  # these are narrowed where they are solved
    if is_large(table) and not instance.whole_classes and not one_period:
        found = cheapest_of_many(table, chosen, clock, _as_it_stands)
        if found is not None:
            return found
    return _as_it_stands(instance, replace(chosen, time_limit_s=clock.left_s))


def _as_it_stands(instance: FleetInstance, chosen: Settings, start: FleetAnswer | None = None) -> FleetAnswer:
    """Find the cheapest fleet with every kind of the instance in the model, beginning from one that is known."""
    clock, table = Deadline(chosen.time_limit_s), read_instance(instance)
    try:
        return _cheapest(table, table, chosen, clock, None, start)
    except TooSmallError as error:
        # The solver keeps rows to a millionth: a little more demand gives a fleet that is large enough for all of it.
        return _cheapest(table, read_instance(_scaled(instance, TIGHTER)), chosen, clock, error.bound, None)


def _cheapest(
    table: FleetTable,
    asked: FleetTable,
    settings: Settings,
    clock: Deadline,
    proved: float | None,
    start: FleetAnswer | None,
) -> FleetAnswer:
    """Solve for the demand of `asked` and answer for that of `table`, with the bound that is proved for it."""
    solved = solve_fleet(asked, settings, clock, aim="cost", start=start)
    bound = solved.bound if proved is None else proved
    if solved.counts is None:
        return FleetAnswer(solved.status, clock.seconds, bound_micro_usd=bound)
    counts = solved.counts
    try:
        if solved.status != "optimal" and table.instance.survive == "nothing" and not table.instance.whole_classes:
            counts = _without_spare_nodes(table, counts, settings)
        return answer_of(table, counts, bound, clock)
    except TooSmallError as error:
        error.bound = bound
        raise


def _without_spare_nodes(table: FleetTable, counts: Counts, settings: Settings) -> Counts:
    """Drop nodes that the replicas of a fleet do not need: a search that ran out of time may have left some."""
    needed = {
        (kind, period): count for period in table.periods for kind, count in deal(table, counts, period)[0].items()
    }
    fewer = solve_fleet(table, settings, Deadline(SPARE_SECONDS), aim="cost", replicas=needed).counts
    if fewer is None or fleet_cost(table.instance, fewer.nodes) > fleet_cost(table.instance, counts.nodes):
        return counts
    return fewer


def most_traffic(instance: FleetInstance, settings: Settings | None = None) -> FleetAnswer:
    """Find the fleet that carries the most of the demand, the same factor of every class and period.

    `scale` is that factor (it may be above 1) and `scale_bound` what was proved; the fleet carries scale x demand, and
    among those with the same replicas it is the cheapest.

    Raises:
        QuestionError: replicas can share a node in too many ways to be packed exactly.
        ValueError: the parts of the instance do not fit together, or neither a budget nor caps bound the traffic.
    """
    chosen = settings or Settings()
    clock = Deadline(chosen.time_limit_s)
    ceiling = _most_conceivable(instance, chosen, clock)
    if ceiling is None:
        return FleetAnswer("infeasible", clock.seconds)
    if ceiling <= 0:
        return FleetAnswer(
            "optimal", clock.seconds, cost_micro_usd=0.0, bound_micro_usd=0.0, scale=0.0, scale_bound=0.0
        )
    table = read_instance(_scaled(instance, ceiling), apart=instance.whole_classes)
    solved = solve_fleet(table, chosen, clock, aim="scale")
    bound = None if solved.bound is None else min(solved.bound, 1.0) * ceiling
    if solved.counts is None:
        return FleetAnswer(solved.status, clock.seconds, scale_bound=bound)
    return _carrying(instance, table, solved, ceiling, bound, chosen, clock)


def _scaled(instance: FleetInstance, factor: float) -> FleetInstance:
    return replace(instance, demand=tuple(tuple(amount * factor for amount in period) for period in instance.demand))


def _most_conceivable(instance: FleetInstance, settings: Settings, clock: Deadline) -> float | None:
    """Return a factor that no fleet exceeds, from the linear relaxation; None where not even no demand is feasible."""
    limited = {site for limit in instance.limits for site, weight in limit.weights.items() if weight > 0}
    table = read_instance(instance)
    if not table.bundles:
        raise ValueError("there is no demand to carry more of")
    open_ended = [
        site
        for site in table.kinds_at
        if site not in limited and any(one.node_cap >= UNLIMITED for one in instance.sites[site].options)
    ]
    if instance.budget_micro_usd is None and open_ended:
        raise ValueError("nothing bounds the traffic: give a budget, or a cap on every node that can serve it")
    relaxed = FleetModel(table, whole_numbers=False, scaled=True, unbounded=True)
    relaxed.model.maximize(relaxed.scale)
    run = run_highs(relaxed.model, clock.left_s, seed=settings.seed)
    return run.value(relaxed.scale) * (1 + SCALE_GAP) if run.has_solution else None


def _carrying(
    instance: FleetInstance,
    table: FleetTable,
    solved: Solved,
    ceiling: float,
    bound: float | None,
    settings: Settings,
    clock: Deadline,
) -> FleetAnswer:
    """Say how much the fleet that was found carries exactly, and drop what it does not need for that."""
    counts = solved.counts
    assert counts is not None
    deals: list[Dealt | None] = []
    for period in table.periods:
        deals.append(_deal_as_found(table, counts, period))
        if instance.survive != "nothing":
            deals += [deal_after(table, counts, loss) for loss in possible_losses(table, counts, period)]
    fullest = max((float("inf") if deal is None else deal.fullest for deal in deals), default=0.0)
    scale = ceiling / fullest if fullest > 0 else 0.0
    if scale <= 0:
        settled = bound is not None and bound <= SCALE_GAP
        return FleetAnswer("optimal" if settled else "feasible", clock.seconds, scale=0.0, scale_bound=bound)
    reached = read_instance(_scaled(instance, scale), apart=instance.whole_classes)
    cheaper = solve_fleet(reached, settings, clock, aim="cost", replicas=counts.replicas)
    answer = answer_of(reached, cheaper.counts or counts, None, clock)
    proved = None if bound is None else max(bound, scale)
    return replace(
        answer,
        status="optimal" if proved is not None and proved <= scale * (1 + SCALE_GAP) else "feasible",
        scale=scale,
        scale_bound=proved,
    )


def _deal_as_found(table: FleetTable, counts: Counts, period: int) -> Dealt | None:
    here = {kind: count for (kind, t), count in counts.replicas.items() if t == period}
    if not table.instance.whole_classes:
        return spread(table, period, here)
    shares = {(kind, b): share for (kind, b, t), share in counts.shares.items() if t == period and share}
    return dealt(table, period, shares, here)


def answer_of(table: FleetTable, counts: Counts, bound: float | None, clock: Deadline) -> FleetAnswer:
    """Turn the whole numbers of a solution into an answer: exact shares, packing and cost; optimal if the bound is."""
    instance = table.instance
    replicas: dict[tuple[int, int], int] = {}
    rates: dict[tuple[int, int, int], float] = {}
    packing = []
    for period in table.periods:
        here, shares = deal(table, counts, period)
        replicas |= {(kind, period): count for kind, count in here.items()}
        of_classes = class_rates(table, period, shares.shares, whole=instance.whole_classes)
        rates |= {(kind, index, period): rate for (kind, index), rate in of_classes.items()}
        packing.append(_packed(table, counts, period, here))
    cost = float(fleet_cost(instance, counts.nodes))
    return FleetAnswer(
        "optimal" if is_proved(cost, bound) else "feasible",
        clock.seconds,
        cost_micro_usd=cost,
        bound_micro_usd=None if bound is None else min(bound, cost),
        nodes=counts.nodes,
        replicas=replicas,
        rates=rates,
        packing=tuple(packing),
        failures=() if instance.survive == "nothing" else failures_of(table, counts),
    )


def _packed(table: FleetTable, counts: Counts, period: int, replicas: dict[int, int]) -> tuple[Packed, ...]:
    instance = table.instance
    at: dict[int, dict[int, int]] = defaultdict(dict)
    for kind, count in replicas.items():
        at[instance.kinds[kind].site][kind] = count
    units: list[Packed] = []
    for site in range(len(instance.sites)):
        held = counts.filled.get((site, period), ())
        nodes = counts.site_nodes(site, period)
        units += pack(instance, site, nodes, at[site], held, by_kind=instance.survive == "node")
    return tuple(units)


def deal(table: FleetTable, counts: Counts, period: int) -> tuple[dict[int, int], Dealt]:
    """Return the replicas that are needed in a period, and the exact shares that they serve.

    Raises:
        TooSmallError: the solver's fleet cannot carry the demand exactly.
    """
    here = {kind: count for (kind, t), count in counts.replicas.items() if t == period}
    if table.instance.whole_classes:
        units = table.bundles
        whole = {
            (kind, b): round(value) / units[b].units
            for (kind, b, t), value in counts.shares.items()
            if t == period and round(value)
        }
        found: Dealt | None = dealt(table, period, whole, here)
    else:
        if table.instance.survive == "nothing" and not counts.settled:
            here = fewest_replicas(table, period, here)
        found = spread(table, period, here)
    if found is None or not found.fits:
        raise TooSmallError("the solver's fleet is too small for the demand")
    return here, found
