"""`shardwise fit` and `shardwise predict`: one replica that the user names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from optimizer.cli_options import (
    AttentionDp,
    Engine,
    Ep,
    GpuName,
    Headroom,
    Json,
    KvCache,
    Model,
    NoCalibration,
    Overhead,
    Performance,
    PerformanceTable,
    Plot,
    Policy,
    Pp,
    Text,
    Tp,
    Utilization,
    Weights,
    option,
)
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, EXIT_OK, check_plot, draw, print_json

if TYPE_CHECKING:
    from optimizer.flags import ReplicaFlags
    from optimizer.replica import Replica


def register(app: typer.Typer) -> None:
    """Add both commands to a group of commands."""
    app.command(epilog=EPILOG)(fit)
    app.command(epilog=EPILOG)(predict)


def fit(
    model: Model,
    gpu: GpuName,
    tp: Tp = None,
    pp: Pp = None,
    ep: Ep = None,
    attention_dp: AttentionDp = None,
    weights: Weights = None,
    kv_cache: KvCache = None,
    context: Annotated[
        Text, option("--context", help="Tokens kept for each request.", metavar="N", default="8192")
    ] = None,
    concurrency: Annotated[Text, option("--concurrency", help="Requests at once.", metavar="N", default="1")] = None,
    memory_policy: Policy = None,
    headroom: Headroom = None,
    overhead: Overhead = None,
    gpu_memory_utilization: Utilization = None,
    engine: Engine = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Say whether one replica fits in memory, and how much more it would hold."""
    values = {name: value for name, value in locals().items() if name not in ("plot", "json")}
    from optimizer.fit import fit as fit_replica  # noqa: PLC0415
    from optimizer.flags import FitFlags, read_flags  # noqa: PLC0415
    from optimizer.memory import MemoryPolicy  # noqa: PLC0415

    check_plot(plot)
    flags = read_flags(FitFlags, values)
    policy = MemoryPolicy(
        name=flags.memory_policy,
        headroom=flags.headroom,
        overhead=flags.overhead,
        gpu_memory_utilization=flags.gpu_memory_utilization,
        engine=flags.engine,
    )
    found = fit_replica(_replica(flags), context_tokens=flags.context, concurrency=flags.concurrency, policy=policy)
    if plot is not None:
        from optimizer.report.plots.memory import fit_picture  # noqa: PLC0415

        draw(fit_picture(found), plot)
    if json:
        print_json(found)
    else:
        from optimizer.report.replica import print_fit  # noqa: PLC0415

        print_fit(found)
    raise typer.Exit(EXIT_OK if found.fits else EXIT_INFEASIBLE)


def predict(
    model: Model,
    gpu: GpuName,
    concurrency: Annotated[str, option("--concurrency", help="Requests always in flight.", metavar="N")],
    input_tokens: Annotated[str, option("--input-tokens", help="Prompt length.", metavar="N")],
    output_tokens: Annotated[str, option("--output-tokens", help="Answer length.", metavar="N")],
    tp: Tp = None,
    pp: Pp = None,
    ep: Ep = None,
    attention_dp: AttentionDp = None,
    weights: Weights = None,
    kv_cache: KvCache = None,
    performance: Performance = None,
    performance_table: PerformanceTable = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Predict latency and throughput of one replica."""
    values = {name: value for name, value in locals().items() if name not in ("no_calibration", "json")}
    from optimizer.flags import PredictFlags, environment_performance, read_flags  # noqa: PLC0415
    from optimizer.predict import predict as predict_replica  # noqa: PLC0415

    values["performance"] = performance or environment_performance()
    flags = read_flags(PredictFlags, values)
    found = predict_replica(
        _replica(flags),
        concurrency=flags.concurrency,
        input_tokens=flags.input_tokens,
        output_tokens=flags.output_tokens,
        performance=flags.source,
    )
    if json:
        print_json(found)
    else:
        from optimizer.report.replica import print_speed  # noqa: PLC0415

        print_speed(found)


def _replica(flags: ReplicaFlags) -> Replica:
    from catalogs.models import load_model  # noqa: PLC0415
    from optimizer.replica import name_replica  # noqa: PLC0415

    return name_replica(
        load_model(flags.model),
        flags.gpu,
        tp=flags.tp,
        pp=flags.pp,
        ep=flags.ep,
        attention_dp=flags.attention_dp,
        weights=flags.weights,
        kv_cache=flags.kv_cache,
    )
