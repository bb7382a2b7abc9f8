"""`shardwise solve` on a fleet's question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from optimizer.commands.common import EXIT_INFEASIBLE, EXIT_OK, EXIT_OTHER, draw, print_json

if TYPE_CHECKING:
    from optimizer.fleet.question import FleetScenario


def run(scenario: FleetScenario, *, time_limit_s: float, explain: bool, json: bool, plot: Path | None = None) -> None:
    """Solve, print, and leave with the exit code of the answer."""
    from optimizer.fleet.solve import solve_fleet  # noqa: PLC0415
    from optimizer.programs.layout import Settings  # noqa: PLC0415

    plan = solve_fleet(scenario, settings=Settings(time_limit_s=time_limit_s))
    if plot is not None:
        from optimizer.report.plots.plan import fleet_picture  # noqa: PLC0415

        draw(fleet_picture(plan), plot)
    if json:
        print_json(plan)
    else:
        from optimizer.report.fleet import print_fleet  # noqa: PLC0415

        print_fleet(plan, explain=explain)
    codes = {"infeasible": EXIT_INFEASIBLE, "unknown": EXIT_OTHER}
    raise typer.Exit(codes.get(plan.status, EXIT_OK))
