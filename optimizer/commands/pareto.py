"""`shardwise pareto`: the whole front of cost against latency."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimizer import completion
from optimizer.cli_options import OUTPUT, Json, NoCalibration, Plot, Text, Texts, option
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, EXIT_OK, check_plot, draw, print_json

WHAT = "What layouts are compared by (cost, TPOT and TTFT when none is named)"
ScenarioFile = Annotated[
    str, typer.Argument(metavar="SCENARIO.yaml", help="A scenario file.", autocompletion=completion.SCENARIO)
]
Set = Annotated[
    Texts,
    option("--set", help="Change a field, as in workload.request_rate=8; may be repeated.", metavar="FIELD=VALUE"),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("pareto", epilog=EPILOG)(pareto)


def pareto(
    scenario: ScenarioFile,
    cost: Annotated[bool, option("--cost", help="Dollars an hour.", panel=WHAT)] = False,
    tpot: Annotated[bool, option("--tpot", help="Time per output token.", panel=WHAT)] = False,
    ttft: Annotated[bool, option("--ttft", help="Time to first token.", panel=WHAT)] = False,
    e2e: Annotated[bool, option("--e2e", help="Arrival to last token.", panel=WHAT)] = False,
    throughput: Annotated[bool, option("--throughput", help="The most traffic a layout carries.", panel=WHAT)] = False,
    up_to: Annotated[
        Text,
        option(
            "--up-to-usd-per-hour",
            help="The front ends at this cost.",
            metavar="USD",
            default="the scenario's budget, or ten times the least cost",
        ),
    ] = None,
    set_: Set = None,
    plot: Plot = None,
    out: Annotated[Path | None, option("--out", help="Write all points.", metavar="OUT.csv", panel=OUTPUT)] = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Show every layout that no other one beats in cost and latency: the whole front, exact.

    Latencies are at the scenario's traffic, at the level of targets.at. All feasible layouts in every useful number of
    replicas are compared, each replica at the concurrency limit that `solve` gives it.
    """
    named = {"cost": cost, "tpot": tpot, "ttft": ttft, "e2e": e2e, "throughput": throughput}
    asked = [name for name, wanted in named.items() if wanted]
    from optimizer.errors import QuestionError  # noqa: PLC0415

    if len(asked) == 1:
        others = ", ".join(f"--{name}" for name in named if name not in asked)
        raise QuestionError(f"pareto: --{asked[0]} alone is no front; name one of {others} as well, or none of them")
    from optimizer.flags import ParetoFlags, read_flags, read_question  # noqa: PLC0415
    from optimizer.whatif.fields import with_settings  # noqa: PLC0415

    check_plot(plot)
    flags = read_flags(ParetoFlags, {"up_to_usd_per_hour": up_to})
    question = with_settings(read_question(scenario, {}), set_)
    from optimizer.report import pareto as report  # noqa: PLC0415
    from optimizer.whatif.front import find_front  # noqa: PLC0415
    from optimizer.whatif.front_points import BY_DEFAULT, OBJECTIVES  # noqa: PLC0415

    objectives = [name for name in OBJECTIVES if name in asked] or BY_DEFAULT
    found = find_front(question, objectives, up_to_usd_per_hour=flags.up_to_usd_per_hour)
    if out is not None:
        report.write_front(found, out)
    if plot is not None:
        from optimizer.report.plots.front import front_picture  # noqa: PLC0415

        draw(front_picture(found), plot)
    if json:
        print_json(found)
    else:
        report.print_front(found)
    raise typer.Exit(EXIT_OK if found.points else EXIT_INFEASIBLE)
