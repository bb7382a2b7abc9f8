"""`shardwise solve --capacity FILE.json`: the cheapest replicas for a user's own table of kinds and rates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimizer.commands.common import EXIT_INFEASIBLE, EXIT_OK, EXIT_OTHER, print_json
from optimizer.errors import QuestionError


def solve_capacity_file(
    file: Path,
    *,
    slices: bool,
    one_kind: bool,
    time_limit_s: float,
    json: bool,
    others: Mapping[str, Any],
) -> int:
    """Read the table, solve it, print the answer, and return the exit code.

    Args:
        file: the table.
        slices: each slice of a class goes to one kind as a whole.
        one_kind: each model runs on one kind.
        time_limit_s: most time for the solver.
        json: print JSON instead of tables.
        others: the question and flags of a scenario by name; none may be given.

    Raises:
        QuestionError: the file is not usable, or there is a scenario besides it.
    """
    if given := [name for name, value in others.items() if value not in (None, [], False)]:
        names = ", ".join("SCENARIO" if name == "question" else f"--{name.replace('_', '-')}" for name in given)
        raise QuestionError(f"--capacity is a question of its own; leave out {names}")
    from optimizer.fleet.capacity_solve import solve_capacity  # noqa: PLC0415  needs OR-Tools
    from optimizer.fleet.capacity_table import load_capacity_table  # noqa: PLC0415
    from optimizer.programs.layout import Settings  # noqa: PLC0415

    table = load_capacity_table(file)
    answer = solve_capacity(table, slices=slices, one_kind=one_kind, settings=Settings(time_limit_s=time_limit_s))
    if json:
        print_json(answer)
    else:
        from optimizer.report.capacity_table import print_capacity_answer  # noqa: PLC0415

        print_capacity_answer(answer)
    return {"infeasible": EXIT_INFEASIBLE, "unknown": EXIT_OTHER}.get(answer.status, EXIT_OK)
