"""`shardwise whatif sweep`: one question over a grid of values."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimizer import completion
from optimizer.cli_options import OUTPUT, Json, NoCalibration, Plot, Text, Texts, option
from optimizer.commands.common import EXIT_OK, EXIT_OTHER, check_plot, draw, print_json

if TYPE_CHECKING:
    from optimizer.whatif.sweep import Watch

SIGNAL_EXIT = 128  # what shells add to the number of the signal that ended a command
RUN = "How it runs"


EXITS = (
    "Exit codes: 0 all points are solved (infeasible ones are rows too); 2 bad input; 130 Ctrl-C and 143 SIGTERM, with "
    "what is solved kept; 1 anything else. SHARDWISE_DEBUG=1 shows tracebacks."
)


def register(whatif_app: typer.Typer) -> None:
    """Add the command to `shardwise whatif`."""
    whatif_app.command("sweep", epilog=EXITS)(whatif_sweep)


def whatif_sweep(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO.yaml", help="The question.", autocompletion=completion.SCENARIO)
    ],
    vary: Annotated[
        list[str],
        option(
            "--vary",
            help="A field and its values: a,b,c or START:STOP:STEP, START:STOP:xFACTOR, START:STOP:nCOUNT. Repeat it "
            "for the product. a+b is one point with both. price:H100*=0.8:1.2:n5 are factors on list prices of a GPU, "
            "provider or term; of a fleet, traffic=0.5:2:n4 are factors on all of its traffic.",
            metavar="FIELD=VALUES",
        ),
    ],
    out: Annotated[Path, option("--out", help="Where rows go: .csv or .parquet.", metavar="FILE", panel=OUTPUT)],
    settings: Annotated[
        Texts, option("--set", help="Set a field for every point (repeat it).", metavar="FIELD=VALUE")
    ] = None,
    plot: Plot = None,
    limit: Annotated[
        Text, option("--limit", help="Most rows in a table; 0 shows all.", metavar="N", default="40", panel=OUTPUT)
    ] = None,
    jobs: Annotated[
        Text, option("--jobs", help="Processes on this machine.", metavar="N", default="one per core", panel=RUN)
    ] = None,
    cluster: Annotated[
        Text, option("--cluster", help="A Dask scheduler to solve on.", metavar="tcp://HOST:PORT", panel=RUN)
    ] = None,
    time_limit: Annotated[
        Text,
        option(
            "--time-limit", help="Of a fleet: most time for each point.", metavar="SECONDS", default="20", panel=RUN
        ),
    ] = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Solve a question over a grid of values, in parallel; interrupted, run it again to go on."""
    import gc  # noqa: PLC0415

    from optimizer.errors import QuestionError  # noqa: PLC0415
    from optimizer.flags import (  # noqa: PLC0415
        RunFlags,
        SweepFlags,
        read_flags,
        read_fleet_question,
        read_question,
    )
    from optimizer.fleet.question import FleetScenario  # noqa: PLC0415
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.scenario import Scenario  # noqa: PLC0415
    from optimizer.whatif.engines import choose_engine  # noqa: PLC0415
    from optimizer.whatif.fields import read_settings  # noqa: PLC0415
    from optimizer.whatif.points import read_grid  # noqa: PLC0415
    from optimizer.whatif.sweep import SweepInterrupted, sweep  # noqa: PLC0415

    gc.enable()  # unlike a single answer, a sweep lives long enough for garbage to matter
    flags = read_flags(SweepFlags, {"limit": limit, "jobs": jobs})
    run = read_flags(RunFlags, {"time_limit": time_limit})
    fleet = read_fleet_question(scenario, {})
    if fleet is None and time_limit is not None:
        raise QuestionError("--time-limit: is for fleets; one layout is solved to the end, in less than a second")
    of: type[Scenario | FleetScenario] = Scenario if fleet is None else FleetScenario
    grid, set_to = read_grid(vary, of), read_settings(settings, of)
    check_plot(plot)
    if plot is not None:
        from optimizer.report.plots.sweep import check_grid  # noqa: PLC0415

        check_grid(grid)
    asked = fleet or read_question(scenario, {})
    solver = None if fleet is None else Settings(time_limit_s=run.time_limit)
    engine, said = choose_engine(flags.jobs, cluster)
    with _watch() as watch:
        if said:
            watch.say(said)
        try:
            found = sweep(asked, grid, out, engine, watch, fixed=set_to, settings=solver)
        except SweepInterrupted as stopped:
            watch.say(f"{stopped}; run the same command again to go on")
            raise typer.Exit(SIGNAL_EXIT + stopped.signal_number) from None
    if plot is not None:
        from optimizer.report.plots.sweep import sweep_picture  # noqa: PLC0415

        draw(sweep_picture(found), plot)
    if json:
        print_json(found)
    else:
        from optimizer.report.sweep import print_sweep  # noqa: PLC0415

        print_sweep(found, most_rows=flags.limit)
    raise typer.Exit(EXIT_OTHER if found.counts.get("failed") else EXIT_OK)


@contextmanager
def _watch() -> Iterator[Watch]:
    """Tell on standard error how a sweep goes: a bar where that is a terminal, else only what has to be said."""
    from optimizer.whatif.sweep import Watch  # noqa: PLC0415

    if not sys.stderr.isatty():
        yield Watch(say=lambda line: print(f"shardwise: {line}", file=sys.stderr))
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    console = Console(stderr=True, highlight=False, markup=False)
    shown = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*shown, console=console, transient=True) as progress:
        task = progress.add_task("solving", total=None)
        yield Watch(
            say=lambda line: console.print(f"shardwise: {line}"),
            solved=lambda done, total: progress.update(task, completed=done, total=total),
        )
