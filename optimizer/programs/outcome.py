"""What a solver run ended with: status first, values only where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ortools.sat.python import cp_model

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One solver run, with every value read only after its status.

    Attributes:
        objective, bound: None unless there is a solution (objective), or the solver states a bound.
    """

    status: Status
    objective: int | None
    bound: int | None
    seconds: float

    @property
    def has_solution(self) -> bool:
        """Whether variables may be read."""
        return self.status in ("optimal", "feasible")


def read_outcome(solver: cp_model.CpSolver, status: cp_model.CpSolverStatus) -> Outcome:
    """Map a CP-SAT response; without a solution its objective would read 0 and its variables anything.

    Raises:
        RuntimeError: the model itself is invalid, which is a fault of the program and not of the question.
    """
    if status == cp_model.MODEL_INVALID:
        raise RuntimeError("the constraint program built an invalid model")
    names: dict[object, Status] = {
        cp_model.OPTIMAL: "optimal",
        cp_model.FEASIBLE: "feasible",
        cp_model.INFEASIBLE: "infeasible",
    }
    name = names.get(status, "unknown")
    solved = name in ("optimal", "feasible")
    return Outcome(
        status=name,
        objective=round(solver.objective_value) if solved else None,
        bound=round(solver.best_objective_bound) if solved else None,
        seconds=solver.wall_time,
    )
