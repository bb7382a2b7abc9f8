"""`shardwise simulate`: requests replayed on a plan."""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer.cli_options import Json, NoCalibration, Performance, PerformanceTable, PlanFile, Plot, Text, option
from optimizer.commands.common import EPILOG, check_plot, draw, print_json


def register(app: typer.Typer) -> None:
    """Add the command to a group of commands."""
    app.command(epilog=EPILOG)(simulate)


def simulate(
    plan: PlanFile,
    trace: Annotated[
        str, option("--trace", help="CSV of requests: arrival, input tokens, output tokens.", metavar="FILE")
    ],
    speedup: Annotated[
        Text, option("--speedup", help="Let requests arrive so many times as fast.", metavar="X", default="1")
    ] = None,
    limit: Annotated[Text, option("--limit", help="Only the first requests.", metavar="N", default="all")] = None,
    performance: Performance = None,
    performance_table: PerformanceTable = None,
    plot: Plot = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Replay a trace of requests on a plan: which targets hold, and how the closed form compares."""
    values = {"plan": plan, "trace": trace, "speedup": speedup, "limit": limit}
    from optimizer.flags import SimulateFlags, performance_asked, read_flags  # noqa: PLC0415
    from optimizer.simulate import replay  # noqa: PLC0415

    check_plot(plot)
    flags = read_flags(SimulateFlags, values)
    asked = performance_asked(performance, performance_table)
    found = replay(flags.plan, flags.trace, speedup=flags.speedup, limit=flags.limit, performance=asked)
    if plot is not None:
        from optimizer.report.plots.replay import replay_picture  # noqa: PLC0415

        draw(replay_picture(found), plot)
    if json:
        print_json(found)
    else:
        from optimizer.report.simulate import print_replay  # noqa: PLC0415

        print_replay(found)
