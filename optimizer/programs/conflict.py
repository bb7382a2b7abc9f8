"""Which rules cannot hold together: a smallest core, from CP-SAT's assumptions."""

from __future__ import annotations

from optimizer.programs.layout import Choice, Demand, LayoutProgram, Settings, new_solver
from optimizer.programs.outcome import Status, read_outcome


def conflicting_rules(choices: list[Choice], demand: Demand, settings: Settings | None = None) -> tuple[str, ...]:
    """Return a set of rules that cannot all hold, from which none can be left out; empty when all can hold.

    The model has no objective: with one, CP-SAT returns every assumption. The core it gives is enough but need not be
    least, so each rule is left out in turn, and stays out where the others still conflict; the last solve is of the
    core alone.

    Where the solver runs out of time on whether a rule can be left out, the rule stays.

    Raises:
        RuntimeError: the solver ran out of time before it found any conflict, or the core did not conflict alone.
    """
    chosen = settings or Settings()
    status, core = _core(choices, demand, None, chosen)
    if status == "unknown":
        raise RuntimeError(
            "the solver ran out of time before it knew which rules conflict; give it a longer time limit"
        )
    for name in sorted(core):
        left_out, smaller = _core(choices, demand, core - {name}, chosen)
        if left_out == "infeasible":
            core = smaller
    if core and _core(choices, demand, core, chosen)[0] != "infeasible":
        raise RuntimeError(f"the conflict {sorted(core)} did not hold when solved alone")
    return tuple(sorted(core))


def _core(
    choices: list[Choice], demand: Demand, rules: frozenset[str] | None, settings: Settings
) -> tuple[Status, frozenset[str]]:
    """Return how it ended with `rules` (all when None) assumed, and which of them the solver proved to conflict."""
    program = LayoutProgram(choices, demand)
    assumed = {literal.index: name for name, literal in program.rules.items() if rules is None or name in rules}
    program.model.add_assumptions([program.rules[name] for name in assumed.values()])
    solver = new_solver(settings)
    outcome = read_outcome(solver, solver.solve(program.model))
    if outcome.status != "infeasible":
        return outcome.status, frozenset()
    return outcome.status, frozenset(assumed[index] for index in solver.sufficient_assumptions_for_infeasibility())
