"""`shardwise validate`: predictions beside what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimizer.cli_options import PRICES, Json, NoCalibration, OutCsv, Performance, PerformanceTable, Plot, option
from optimizer.commands.common import EPILOG, check_plot, draw, print_json

validate_app = typer.Typer(help="Compare predictions with what was measured.", no_args_is_help=True)


@validate_app.command("memory", epilog=EPILOG)
def validate_memory(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Reports, a row each, with their engine logs.")],
    out: OutCsv = None,
    json: Json = False,
) -> None:
    """Predict weights, KV tokens, concurrency and fit of each report, and compare with what the engine logged."""
    from optimizer.validate import print_validation, validate_file, write_predictions  # noqa: PLC0415

    found = validate_file(file)
    if out is not None:
        write_predictions(file, out, found)
    if json:
        print_json(found)
    else:
        print_validation(found)


@validate_app.command("speed", epilog=EPILOG)
def validate_speed(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Measured serving runs, a row each.")],
    out: OutCsv = None,
    plot: Plot = None,
    performance: Performance = None,
    performance_table: PerformanceTable = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Predict TTFT, TPOT and throughput of each run, and compare with what was measured."""
    from optimizer.flags import performance_asked  # noqa: PLC0415
    from optimizer.validate import speed, speed_report  # noqa: PLC0415

    check_plot(plot)
    found, result = speed.validate_speed(file, performance_asked(performance, performance_table))
    if out is not None:
        speed.write_predicted(result, out)
    if plot is not None:
        from optimizer.report.plots.speed import speed_picture  # noqa: PLC0415

        draw(speed_picture(found, result), plot)
    if json:
        print_json(found)
    else:
        speed_report.print_speed_validation(found)


@validate_app.command("decisions", epilog=EPILOG)
def validate_decisions(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Measured serving runs, a row each.")],
    prices: Annotated[
        Path | None,
        option(
            "--prices",
            help="CSV with columns gpu, usd_per_gpu_hour.",
            metavar="PRICES.csv",
            default="the catalog's cheapest on-demand price of each GPU",
            panel=PRICES,
        ),
    ] = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Compare the layouts that predictions choose with those that measurements choose."""
    from optimizer.validate import speed_decisions, speed_report  # noqa: PLC0415

    found = speed_decisions.validate_decisions(file, speed_decisions.gpu_prices(prices))
    if json:
        print_json(found)
    else:
        speed_report.print_decisions(found)
