"""`shardwise explain`: why a plan is as it is, and why not another layout."""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer.cli_options import Json, NoCalibration, PlanFile, Text, option
from optimizer.commands.common import EPILOG, print_json


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
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Say what binds in a plan and where its money goes, or why it is not another layout."""
    from optimizer.whatif.explained import explain_plan  # noqa: PLC0415

    found = explain_plan(plan, why_not)
    if json:
        print_json(found)
    else:
        from optimizer.report.explain import print_explained  # noqa: PLC0415

        print_explained(found)
