"""`shardwise explain`: why a plan is as it is, and why not another layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from optimizer.cli_options import OUTPUT, Json, NoCalibration, PlanFile, Text, option
from optimizer.commands.common import EPILOG, print_json
from optimizer.errors import QuestionError

if TYPE_CHECKING:
    from optimizer.fleet.plan import FleetPlan


def register(app: typer.Typer) -> None:
    """Add the command to a group of commands."""
    app.command(epilog=EPILOG)(explain)


def explain(
    plan: PlanFile,
    why_not: Annotated[
        Text,
        option(
            "--why-not",
            help='A layout in your words, as in "4x A100-SXM-80GB tp=4" or "2 nodes of 8x H100 TP8 fp8 spot".',
            metavar="LAYOUT",
        ),
    ] = None,
    time_limit: Annotated[
        Text,
        option(
            "--time-limit",
            help="Of a fleet: most time for solving it again.",
            metavar="SECONDS",
            default="20",
            panel=OUTPUT,
        ),
    ] = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Say what binds in a plan and where its money goes, or why it is not another layout."""
    from optimizer.export.plans import read_plan_of  # noqa: PLC0415
    from optimizer.flags import RunFlags, read_flags  # noqa: PLC0415
    from optimizer.fleet.plan import FleetPlan  # noqa: PLC0415

    run = read_flags(RunFlags, {"time_limit": time_limit})
    given = read_plan_of(str(plan))
    if isinstance(given, FleetPlan):
        _explain_fleet(given, str(plan), why_not, run.time_limit, json)
        return
    if time_limit is not None:
        raise QuestionError("--time-limit: is for fleets; one layout is solved to the end, in less than a second")
    from optimizer.whatif.explained import explain_answer  # noqa: PLC0415

    found = explain_answer(given, why_not, where=str(plan))
    if json:
        print_json(found)
    else:
        from optimizer.report.explain import print_explained  # noqa: PLC0415

        print_explained(found)


def _explain_fleet(plan: FleetPlan, where: str, why_not: str | None, time_limit_s: float, json: bool) -> None:
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.whatif.fleet_explained import WHY_NOT, explain_fleet  # noqa: PLC0415

    if why_not is not None:
        raise QuestionError(f"--why-not {why_not!r}: {where} is the plan of a fleet, and {WHY_NOT}")
    found = explain_fleet(plan, where=where, settings=Settings(time_limit_s=time_limit_s))
    if json:
        print_json(found)
    else:
        from optimizer.report.fleet_explain import print_fleet_explained  # noqa: PLC0415

        print_fleet_explained(found)
