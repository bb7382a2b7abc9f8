"""One layout, as a CP-SAT program: which choice, how many replicas, how many whole nodes, at the least cost.

The table of choices is finished before it comes here (see optimizer.choices): this file knows integers and rule names
only. Each rule has a literal; a choice that breaks a rule can be taken only where the literal is off. With every
literal on, the program finds the cheapest layout; with the literals as assumptions and no objective, it finds which
rules cannot hold together (optimizer.programs.conflict).
"""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from optimizer.programs.outcome import Outcome, read_outcome

COUNTING_RULES = ("traffic", "budget", "quota", "replicas_allowed")


@dataclass(frozen=True, slots=True)
class Settings:
    """How the solver runs.

    Attributes:
        time_limit_s: after it the best layout so far is the answer, with its bound.
        workers: parallel searches; CP-SAT with a single one can stay far from the optimum.
        seed: fixed, so that two runs search alike.
    """

    time_limit_s: float = 20.0
    workers: int = 2
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of the table, in whole numbers.

    Attributes:
        replicas: the fewest replicas that carry the traffic.
        replicas_per_node, nodes_per_replica: how replicas pack on whole nodes; one of the two is 1.
        node_cap: the most nodes to be had.
        price_micro_usd: of one node hour.
        rank: breaks ties between equal costs; lower is preferred.
        broken: names of the rules it breaks whatever the count (counting rules are the program's own).
    """

    replicas: int
    replicas_per_node: int
    nodes_per_replica: int
    node_cap: int
    price_micro_usd: int
    rank: int
    broken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Demand:
    """What the user asks of the counts: a budget and the replica counts allowed (both None when not asked)."""

    budget_micro_usd: int | None = None
    replicas_allowed: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class LayoutAnswer:
    """The layout that the program chose: position in the list of choices, counts, cost and its proved bound."""

    outcome: Outcome
    choice: int | None = None
    replicas: int | None = None
    nodes: int | None = None
    cost_micro_usd: int | None = None
    bound_micro_usd: int | None = None


class LayoutProgram:
    """The variables and constraints that every use of the program shares."""

    def __init__(self, choices: list[Choice], demand: Demand):
        self.choices = choices
        self.model = cp_model.CpModel()
        self.taken = [self.model.new_bool_var(f"choice_{index}") for index in range(len(choices))]
        most_replicas = max(choice.replicas for choice in choices)
        most_nodes = max(_nodes_for(choice, choice.replicas) for choice in choices)
        if demand.replicas_allowed:
            most_replicas = max(most_replicas, *demand.replicas_allowed)
            most_nodes = max(most_nodes, *(_nodes_for(choice, most_replicas) for choice in choices))
        self.replicas = self.model.new_int_var(1, most_replicas, "replicas")
        self.nodes = self.model.new_int_var(1, most_nodes, "nodes")
        most_cost = most_nodes * max(choice.price_micro_usd for choice in choices)
        self.cost = self.model.new_int_var(0, most_cost, "cost_micro_usd")
        names = {name for choice in choices for name in choice.broken} | set(COUNTING_RULES)
        self.rules = {name: self.model.new_bool_var(name) for name in sorted(names)}
        self.add_one_choice()
        self.add_packing()
        self.add_broken_rules()
        self.add_traffic()
        self.add_quota()
        self.add_demand(demand)

    def add_one_choice(self) -> None:
        """Exactly one replica split on one offer is rented."""
        self.model.add_exactly_one(self.taken)

    def add_packing(self) -> None:
        """Whole nodes are bought, enough to hold every replica, and all are paid for."""
        for literal, choice in zip(self.taken, self.choices, strict=True):
            if choice.nodes_per_replica > 1:
                self.model.add(self.nodes == choice.nodes_per_replica * self.replicas).only_enforce_if(literal)
            else:
                room = choice.replicas_per_node * self.nodes
                self.model.add(room >= self.replicas).only_enforce_if(literal)
            self.model.add(self.cost == choice.price_micro_usd * self.nodes).only_enforce_if(literal)

    def add_broken_rules(self) -> None:
        """A choice that breaks a rule is taken only where the rule is given up."""
        for literal, choice in zip(self.taken, self.choices, strict=True):
            for name in sorted(choice.broken):
                self.model.add_implication(literal, ~self.rules[name])

    def add_traffic(self) -> None:
        """There are enough replicas to carry the traffic within the targets."""
        for literal, choice in zip(self.taken, self.choices, strict=True):
            self.model.add(self.replicas >= choice.replicas).only_enforce_if(literal, self.rules["traffic"])

    def add_quota(self) -> None:
        """No more nodes are rented than quotas and stock allow."""
        for literal, choice in zip(self.taken, self.choices, strict=True):
            self.model.add(self.nodes <= choice.node_cap).only_enforce_if(literal, self.rules["quota"])

    def add_demand(self, demand: Demand) -> None:
        """The budget holds, and the number of replicas is one that the user allows."""
        if demand.budget_micro_usd is not None:
            self.model.add(self.cost <= demand.budget_micro_usd).only_enforce_if(self.rules["budget"])
        if demand.replicas_allowed:
            domain = cp_model.Domain.from_values(list(demand.replicas_allowed))
            allowed = self.rules["replicas_allowed"]
            self.model.add_linear_expression_in_domain(self.replicas, domain).only_enforce_if(allowed)

    def add_no_spare_replicas(self, demand: Demand) -> None:
        """No more replicas are run than the traffic needs, even where a node that is paid for has room."""
        for literal, choice in zip(self.taken, self.choices, strict=True):
            enough = [count for count in demand.replicas_allowed or () if count >= choice.replicas]
            self.model.add(self.replicas <= min(enough, default=choice.replicas)).only_enforce_if(literal)

    def rank(self) -> cp_model.LinearExpr:
        """The rank of the choice taken, for ties."""
        ranks = [choice.rank for choice in self.choices]
        weighted: cp_model.LinearExpr = cp_model.LinearExpr.weighted_sum(self.taken, ranks)
        return weighted


def _nodes_for(choice: Choice, replicas: int) -> int:
    if choice.nodes_per_replica > 1:
        return replicas * choice.nodes_per_replica
    return -(-replicas // choice.replicas_per_node)


def new_solver(settings: Settings) -> cp_model.CpSolver:
    """Return a solver that runs as the settings say."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = settings.time_limit_s
    solver.parameters.num_workers = settings.workers
    solver.parameters.random_seed = settings.seed
    # CP-SAT's handler of Ctrl-C belongs to the thread that solves: another thread that gets the signal aborts.
    solver.parameters.catch_sigint_signal = False
    # On some dozens of choices, probing and looking for symmetry take longer than the search that they would shorten.
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    return solver


def cheapest(choices: list[Choice], demand: Demand, settings: Settings | None = None) -> LayoutAnswer:
    """Find the cheapest layout that keeps every rule; between equal costs the one of the lowest rank.

    The bound is on the cost alone: no choice of this table that keeps every rule costs less.
    """
    program = LayoutProgram(choices, demand)
    for literal in program.rules.values():
        program.model.add(literal == 1)
    program.add_no_spare_replicas(demand)
    ranks = 1 + max(choice.rank for choice in choices)
    # One objective in two digits, cost then rank: a rank is always less than one micro-dollar's worth.
    program.model.minimize(program.cost * ranks + program.rank())
    solver = new_solver(settings or Settings())
    # Every choice here keeps every rule: the search is over before a presolve would be.
    solver.parameters.cp_model_presolve = False
    outcome = read_outcome(solver, solver.solve(program.model))
    if not outcome.has_solution:
        return LayoutAnswer(outcome)
    bound = None if outcome.bound is None else outcome.bound // ranks
    cost = solver.value(program.cost)
    return LayoutAnswer(
        outcome,
        choice=next(index for index, literal in enumerate(program.taken) if solver.boolean_value(literal)),
        replicas=solver.value(program.replicas),
        nodes=solver.value(program.nodes),
        cost_micro_usd=cost,
        bound_micro_usd=cost if outcome.status == "optimal" or bound is None else min(bound, cost),
    )
