"""The status is read before any value."""

from __future__ import annotations

import pytest
from ortools.sat.python import cp_model

from optimizer.programs.outcome import read_outcome


def solved(model: cp_model.CpModel, seconds: float = 10.0) -> tuple[cp_model.CpSolver, cp_model.CpSolverStatus]:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    return solver, solver.solve(model)


def test_an_optimal_run_has_its_objective_and_bound() -> None:
    model = cp_model.CpModel()
    model.minimize(model.new_int_var(3, 9, "x"))
    outcome = read_outcome(*solved(model))

    assert (outcome.status, outcome.objective, outcome.bound, outcome.has_solution) == ("optimal", 3, 3, True)


def test_an_infeasible_run_has_neither_though_the_solver_reads_zero() -> None:
    model = cp_model.CpModel()
    x = model.new_int_var(3, 9, "x")
    model.add(x > 9)
    model.minimize(x)
    solver, status = solved(model)

    # What STYLE warns of: read without its status, this would be a free plan.
    assert solver.objective_value == 0
    outcome = read_outcome(solver, status)
    assert (outcome.status, outcome.objective, outcome.bound, outcome.has_solution) == ("infeasible", None, None, False)


def test_a_run_that_is_out_of_time_knows_nothing() -> None:
    model = cp_model.CpModel()
    model.minimize(model.new_int_var(0, 9, "x"))
    outcome = read_outcome(*solved(model, seconds=0.0))

    assert (outcome.status, outcome.objective, outcome.has_solution) == ("unknown", None, False)


def test_an_invalid_model_is_an_error_of_the_program() -> None:
    model = cp_model.CpModel()
    x = model.new_int_var(0, 2**62, "x")
    model.add(x * 4 <= 2**62)

    with pytest.raises(RuntimeError, match="invalid model"):
        read_outcome(*solved(model))
