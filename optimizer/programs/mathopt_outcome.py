"""One run of a MathOpt model in HiGHS: status first, values only where there are any, standard output kept clean."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ortools.math_opt.python import mathopt

from optimizer.programs.outcome import Status
from optimizer.programs.quiet import quiet_stdout

LEAST_SECONDS = 0.05
_OPTIMAL = mathopt.TerminationReason.OPTIMAL
_INFEASIBLE = mathopt.TerminationReason.INFEASIBLE
_NEITHER = mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED


@dataclass(frozen=True, slots=True)
class Run:
    """How a run ended.

    Attributes:
        objective: of the best solution; None without one.
        bound: no solution is better; None where the solver proved none.
        values: of the variables of the best solution.
    """

    status: Status
    seconds: float
    objective: float | None
    bound: float | None
    result: Any

    @property
    def has_solution(self) -> bool:
        """Whether values may be read."""
        return self.status in ("optimal", "feasible")

    def value(self, variable: mathopt.Variable) -> float:
        """Return one variable's value.

        Raises:
            RuntimeError: there is no solution to read.
        """
        if not self.has_solution:
            raise RuntimeError(f"a solver run that ended {self.status} has no values")
        return float(self.result.variable_values(variable))

    def dual(self, row: mathopt.LinearConstraint) -> float:
        """Return the dual of a row of a linear program.

        Raises:
            RuntimeError: there is no optimum to read it at.
        """
        if self.status != "optimal":
            raise RuntimeError(f"a solver run that ended {self.status} has no duals")
        return float(self.result.dual_values(row))

    def values(self) -> Mapping[mathopt.Variable, float]:
        """Return every variable's value, in one pass.

        Raises:
            RuntimeError: there is no solution to read.
        """
        if not self.has_solution:
            raise RuntimeError(f"a solver run that ended {self.status} has no values")
        return self.result.variable_values()  # type: ignore[no-any-return]


class Deadline:
    """How much of a time limit is left, over several runs."""

    def __init__(self, time_limit_s: float):
        self._begun = time.perf_counter()
        self._end = self._begun + time_limit_s

    @property
    def left_s(self) -> float:
        """Seconds left; never below what a run needs to begin."""
        return max(self._end - time.perf_counter(), LEAST_SECONDS)

    @property
    def passed(self) -> bool:
        """Whether the limit is over."""
        return time.perf_counter() >= self._end

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._begun


def run_highs(
    model: mathopt.Model,
    time_limit_s: float,
    *,
    seed: int = 1,
    absolute_gap: float = 0.0,
    relative_gap: float = 0.0,
    presolve: bool = True,
    tolerance: float | None = None,
    hint: Mapping[mathopt.Variable, float] | None = None,
) -> Run:
    """Solve to gap 0: a solution within `absolute_gap` of its bound is optimal (less than one step of the objective).

    A `relative_gap` is for runs that only look for good solutions. Rows hold to `tolerance` (HiGHS's own is 1e-6). A
    `hint` is a solution to begin from.

    HiGHS has been seen to call feasible models infeasible in its presolve, so that word is taken from it only when a
    run without presolve says the same.

    Raises:
        RuntimeError: the model is invalid or unbounded, which is a fault of the program and not of the question.
    """
    begun = time.perf_counter()
    first = _run(model, time_limit_s, seed, (absolute_gap, relative_gap), presolve, tolerance, hint)
    if first.status != "infeasible" or not presolve:
        return first
    left = max(time_limit_s - (time.perf_counter() - begun), LEAST_SECONDS)
    return _run(model, left, seed, (absolute_gap, relative_gap), False, tolerance, hint)


@dataclass(frozen=True, slots=True)
class Linear:
    """The optimum of a linear program, with the duals of its rows."""

    objective: float
    duals: Mapping[mathopt.LinearConstraint, float]


def run_lp(model: mathopt.Model) -> Linear:
    """Solve a small linear program that has an optimum, in GLOP, or in HiGHS where GLOP is not sure.

    Raises:
        RuntimeError: neither solved it, which is a fault of the program.
    """
    for solver in (mathopt.SolverType.GLOP, mathopt.SolverType.HIGHS):
        with quiet_stdout():
            result = mathopt.solve(model, solver)
        if result.termination.reason == _OPTIMAL and result.has_dual_feasible_solution():
            return Linear(float(result.objective_value()), result.dual_values())
    raise RuntimeError(f"a linear program was not solved: {result.termination}")


def _run(
    model: mathopt.Model,
    time_limit_s: float,
    seed: int,
    gaps: tuple[float, float],
    presolve: bool,
    tolerance: float | None,
    hint: Mapping[mathopt.Variable, float] | None,
) -> Run:
    parameters = mathopt.SolveParameters(
        time_limit=timedelta(seconds=max(time_limit_s, LEAST_SECONDS)),
        relative_gap_tolerance=gaps[1],
        absolute_gap_tolerance=gaps[0],
        random_seed=seed,
        presolve=None if presolve else mathopt.Emphasis.OFF,
    )
    if tolerance is not None:
        for name in ("mip_feasibility_tolerance", "primal_feasibility_tolerance"):
            parameters.highs.double_options[name] = tolerance
    known = mathopt.ModelSolveParameters(
        solution_hints=[mathopt.SolutionHint(variable_values=dict(hint))] if hint else []
    )
    begun = time.perf_counter()
    with quiet_stdout():
        result = mathopt.solve(model, mathopt.SolverType.HIGHS, params=parameters, model_params=known)
    return _read(result, time.perf_counter() - begun)


def _read(result: Any, seconds: float) -> Run:
    reason = result.termination.reason
    if reason == mathopt.TerminationReason.UNBOUNDED:
        raise RuntimeError("the constraint program built an unbounded model")
    if reason in (_INFEASIBLE, _NEITHER):
        return Run("infeasible", seconds, None, None, None)
    bound = result.termination.objective_bounds.dual_bound
    known = float(bound) if bound is not None and math.isfinite(bound) else None
    if not result.has_primal_feasible_solution():
        return Run("unknown", seconds, None, known, None)
    status: Status = "optimal" if reason == _OPTIMAL else "feasible"
    return Run(status, seconds, float(result.objective_value()), known, result)
