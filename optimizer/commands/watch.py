"""`shardwise watch PLANS...`: the same as `reoptimize`, on a schedule, until stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimizer.cli_options import OUTPUT, PRICES, Json, NoCalibration, Text, option
from optimizer.commands.common import EXIT_OK, EXIT_OTHER
from optimizer.commands.reoptimize import (
    AtOnce,
    Horizon,
    MaxPriceAge,
    MaxPriceAgeDays,
    MinSaving,
    Notify,
    Out,
    Plans,
    Signed,
    SwitchCost,
    TimeLimit,
    check_out,
    read_rules,
    rules_of,
    show,
)

if TYPE_CHECKING:
    from optimizer.reoptimize.answer import Reoptimization

EPILOG = "Exit codes: 0 stopped by SIGTERM or SIGINT, or --once has looked; 2 bad input; 1 anything else."
SCHEDULE = "Schedule"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(watch)


def watch(
    plans: Plans,
    cron: Annotated[
        str, option("--cron", help="When, as in a crontab, by the machine's clock.", metavar='"M H D M W"',
                    default='"0 */6 * * *"', panel=SCHEDULE)
    ] = "0 */6 * * *",
    once: Annotated[bool, option("--once", help="Look now, and leave.", panel=SCHEDULE)] = False,
    no_refresh: Annotated[bool, option("--no-refresh", help="Do not pull prices first.", panel=PRICES)] = False,
    max_price_age: MaxPriceAge = None,
    max_price_age_days: MaxPriceAgeDays = None,
    switch_cost_usd: SwitchCost = None,
    min_saving: MinSaving = None,
    horizon: Horizon = None,
    at_once: AtOnce = False,
    signed: Signed = False,
    notify: Notify = None,
    out: Out = None,
    health_file: Annotated[
        Path | None, option("--health-file", help="JSON of the last look and the next.", metavar="FILE", panel=OUTPUT)
    ] = None,
    metrics_port: Annotated[
        Text, option("--metrics-port", help="Serve Prometheus metrics.", metavar="N", default="none", panel=OUTPUT)
    ] = None,
    metrics_host: Annotated[
        str, option("--metrics-host", help="On this address.", metavar="ADDRESS", default="127.0.0.1", panel=OUTPUT)
    ] = "127.0.0.1",
    time_limit: TimeLimit = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Pull prices and look at saved plans on a schedule, until stopped."""
    from optimizer.commands.pulling import last_looks, pull  # noqa: PLC0415
    from optimizer.errors import QuestionError  # noqa: PLC0415
    from optimizer.flags import WatchFlags, read_flags  # noqa: PLC0415
    from optimizer.notify import announcer  # noqa: PLC0415
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.reoptimize.plans import find_plans  # noqa: PLC0415
    from optimizer.reoptimize.run import reoptimize  # noqa: PLC0415
    from optimizer.watch.cron import trigger  # noqa: PLC0415
    from optimizer.watch.metrics import serve  # noqa: PLC0415
    from optimizer.watch.watcher import INSTALL, Watcher  # noqa: PLC0415

    flags, rules = read_rules(locals()), rules_of(read_rules(locals()), at_once, signed)
    port = read_flags(WatchFlags, {"metrics_port": metrics_port}).metrics_port
    check_out(out)
    announce = announcer(notify)

    def look(stop: Callable[[], bool]) -> Reoptimization:
        return reoptimize(
            plans,
            rules,
            max_age_days=flags.most_days,
            settings=Settings(time_limit_s=flags.time_limit),
            sources=() if no_refresh else pull(stop=stop),
            announce=announce,
            stop=stop,
        )

    watcher = Watcher(look, ages=last_looks, show=lambda found: show(found, out, json), health_file=health_file)
    if once:
        raise typer.Exit(EXIT_OTHER if watcher.run() is None else EXIT_OK)
    try:
        when = trigger(cron)
        end = None if port is None else serve(watcher.metrics, metrics_host, port)
    except ImportError:
        raise QuestionError(INSTALL) from None
    try:
        find_plans(plans)  # wrong paths are said at once
        watcher.until_stopped(when)
    finally:
        if end is not None:
            end()
