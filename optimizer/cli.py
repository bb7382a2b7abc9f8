"""The command line. Each command reads its question, calls one function, and prints its answer as tables or JSON.

Heavy imports (pandas, OR-Tools, rich) happen inside the commands, so that --help stays fast.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimizer import completion
from optimizer.cli_options import (
    BENCHMARK,
    KEPT,
    OUTPUT,
    PRICES,
    TARGETS,
    AsOf,
    AttentionDp,
    Csv,
    Engine,
    Ep,
    GpuName,
    Headroom,
    Json,
    KvCache,
    Match,
    Model,
    NoCalibration,
    OffersFile,
    OfGpu,
    OfProvider,
    OutCsv,
    Overhead,
    Performance,
    PerformanceTable,
    Plot,
    Policy,
    Pp,
    Text,
    Texts,
    Tp,
    Utilization,
    Weights,
    limit,
    option,
    server,
    target,
    traffic,
)
from optimizer.commands import api as _api  # noqa: F401  registers itself
from optimizer.commands import (
    breakeven,
    budget,
    explain,
    import_,
    mcp,
    pareto,
    reoptimize,
    report,
    schema,
    serve,
    shock,
    solve_fleet,
    watch,
)
from optimizer.commands import export as export_
from optimizer.commands import sweep as _sweep  # noqa: F401  registers itself
from optimizer.commands.common import (
    EPILOG,
    EXIT_BAD_INPUT,
    EXIT_INFEASIBLE,
    EXIT_OK,
    EXIT_OTHER,
    check_plot,
    draw,
    print_json,
)
from optimizer.commands.hub import with_models
from optimizer.commands.prices import prices_app
from optimizer.commands.whatif import whatif_app
from optimizer.version import __version__

if TYPE_CHECKING:
    from optimizer.flags import ReplicaFlags
    from optimizer.replica import Replica

app = typer.Typer(
    name="shardwise",
    help="The cheapest feasible GPU layout for a language model, proved, at dated prices.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
catalog_app = typer.Typer(help="List what the catalog holds.", no_args_is_help=True)
app.add_typer(catalog_app, name="catalog")
validate_app = typer.Typer(help="Compare predictions with what was measured.", no_args_is_help=True)
app.add_typer(validate_app, name="validate")
app.add_typer(whatif_app, name="whatif")
budget.register(whatif_app)
pareto.register(app)
breakeven.register(whatif_app)
shock.register(whatif_app)
reoptimize.register(app)
watch.register(app)
export_.register(app)
import_.register(app)
app.add_typer(prices_app, name="prices")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"shardwise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """The cheapest feasible GPU layout for a language model, proved, at dated prices."""


@app.command(epilog=EPILOG)
def solve(
    question: Annotated[
        Text,
        typer.Argument(
            metavar="SCENARIO.yaml|MODEL",
            help="A scenario file, or a model with the flags below.",
            show_default=False,
            autocompletion=completion.QUESTION,
        ),
    ] = None,
    input_tokens: Annotated[Text, traffic("--input-tokens", "Mean prompt length.")] = None,
    output_tokens: Annotated[Text, traffic("--output-tokens", "Mean answer length.")] = None,
    request_rate: Annotated[Text, traffic("--request-rate", "Requests per second.", "RATE")] = None,
    concurrency: Annotated[Text, traffic("--concurrency", "Requests always in flight.")] = None,
    output_tokens_per_second: Annotated[
        Text, traffic("--output-tokens-per-second", "Offline: what is to be produced.", "RATE")
    ] = None,
    context: Annotated[
        Text, traffic("--context", "Longest context to keep memory for.", default="input + output")
    ] = None,
    burstiness: Annotated[
        Text, traffic("--burstiness", "Squared variation of the times between arrivals: 1 Poisson.", "CV2", "1")
    ] = None,
    input_cv: Annotated[Text, traffic("--input-cv", "Variation of prompt lengths; chat is near 1.", "CV", "0")] = None,
    output_cv: Annotated[Text, traffic("--output-cv", "Variation of answer lengths.", "CV", "0")] = None,
    at: Annotated[
        Text,
        option("--at", help="mean, p50, p90, p95, p99.", metavar="LEVEL", default="mean", panel=TARGETS),
    ] = None,
    ttft_ms: Annotated[Text, target("--ttft-ms", "Time to first token.")] = None,
    tpot_ms: Annotated[Text, target("--tpot-ms", "Time per output token.")] = None,
    e2e_ms: Annotated[Text, target("--e2e-ms", "Arrival to last token.")] = None,
    confidence: Annotated[
        Text,
        option(
            "--confidence",
            help="Probability with which each target has to hold, as in 0.9.",
            metavar="SHARE",
            default="the prediction itself has to meet it",
            panel=TARGETS,
        ),
    ] = None,
    gpu: Annotated[Texts, limit("--gpu", "Only these GPU types.")] = None,
    exclude_gpu: Annotated[Texts, limit("--exclude-gpu", "Never these GPU types.")] = None,
    provider: Annotated[Texts, limit("--provider", "Only these providers.")] = None,
    exclude_provider: Annotated[Texts, limit("--exclude-provider", "Never these providers.")] = None,
    provider_kind: Annotated[
        Texts,
        limit("--provider-kind", "hyperscaler, gpu-cloud, marketplace, own, any.", "KIND", "all but marketplace"),
    ] = None,
    region: Annotated[Texts, limit("--region", "Only these regions.")] = None,
    instance_type: Annotated[Texts, limit("--instance-type", "Only these instance types.")] = None,
    term: Annotated[
        Texts, limit("--term", "on-demand, spot, reserved-1y, reserved-3y, any.", "TERM", "on-demand")
    ] = None,
    weights: Annotated[
        Texts, limit("--weights", "checkpoint, bf16, fp8, int8, int4, ..., any.", "FORMAT", "checkpoint")
    ] = None,
    kv_cache: Annotated[Texts, limit("--kv-cache", "auto, bf16, fp16, fp8, any.", "DTYPE", "auto")] = None,
    tp: Annotated[Texts, limit("--tp", "Tensor parallel sizes.", "N")] = None,
    pp: Annotated[Texts, limit("--pp", "Numbers of pipeline stages.", "N")] = None,
    ep: Annotated[Texts, limit("--ep", "Expert parallel sizes.", "N")] = None,
    attention_dp: Annotated[Texts, limit("--attention-dp", "Attention-DP sizes.", "N")] = None,
    replicas: Annotated[Texts, limit("--replicas", "Numbers of replicas.", "N")] = None,
    max_gpus: Annotated[Text, limit("--max-gpus", "Most GPUs rented.", "N")] = None,
    max_nodes: Annotated[Text, limit("--max-nodes", "Most nodes rented.", "N")] = None,
    budget_usd_per_hour: Annotated[
        Text, limit("--budget-usd-per-hour", "Most that the layout may cost.", "USD")
    ] = None,
    tp_across_nodes: Annotated[
        bool | None, limit("--tp-across-nodes", "Let a tensor parallel group cross nodes, at its cost.", "")
    ] = None,
    max_concurrency: Annotated[
        Text, limit("--max-concurrency", "Most requests a replica runs at once.", "N", "512")
    ] = None,
    max_utilization: Annotated[
        Text,
        limit("--max-utilization", "Share of capacity the traffic may use.", "SHARE", "0.85 of a rate, else 1"),
    ] = None,
    memory_policy: Policy = None,
    headroom: Headroom = None,
    overhead: Overhead = None,
    gpu_memory_utilization: Utilization = None,
    engine: Engine = None,
    performance: Performance = None,
    performance_table: PerformanceTable = None,
    as_of: AsOf = None,
    max_price_age_days: Annotated[
        Text, option("--max-price-age-days", help="Refuse prices older than this.", metavar="N", panel=PRICES)
    ] = None,
    max_price_age: Annotated[
        Text,
        option("--max-price-age", help="Answer from no older prices, as in 24h or 7d.", metavar="TIME", panel=PRICES),
    ] = None,
    discount: Annotated[
        Texts,
        option("--discount", help="Your own discount, as in aws=20.", metavar="[NAME=]PERCENT", panel=PRICES),
    ] = None,
    offers_file: OffersFile = None,
    capacity: Annotated[
        Path | None,
        option("--capacity", help="A table of kinds and rates, in place of a scenario.", metavar="FILE.json"),
    ] = None,
    slices: Annotated[bool, option("--slices", help="--capacity: each slice of a class on one kind.")] = False,
    one_kind: Annotated[bool, option("--one-kind", help="--capacity: each model on one kind.")] = False,
    explain: Annotated[bool, option("--explain", help="Show the reasoning, step by step.", panel=OUTPUT)] = False,
    time_limit: Annotated[
        Text,
        option("--time-limit", help="Most time for the solver.", metavar="SECONDS", default="20", panel=OUTPUT),
    ] = None,
    plot: Plot = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Find the cheapest layout that works, with its proof and its reasons."""
    others = {"question", "capacity", "slices", "one_kind", "explain", "time_limit", "no_calibration", "json"}
    others |= {"max_price_age", "plot"}
    flags = {name: value for name, value in locals().items() if name not in {*others, "others"}}
    from optimizer.commands.price_age import fresh  # noqa: PLC0415
    from optimizer.errors import QuestionError  # noqa: PLC0415
    from optimizer.flags import RunFlags, read_flags, read_fleet_question, read_question  # noqa: PLC0415

    check_plot(plot)
    run = read_flags(RunFlags, {"time_limit": time_limit, "max_price_age": max_price_age})
    if capacity is not None:
        from optimizer.commands.solve_capacity import solve_capacity_file  # noqa: PLC0415

        besides = {"question": question, "explain": explain, "max_price_age": max_price_age, "plot": plot} | flags
        code = solve_capacity_file(
            capacity, slices=slices, one_kind=one_kind, time_limit_s=run.time_limit, json=json, others=besides
        )
        raise typer.Exit(code)
    if slices or one_kind:
        raise QuestionError("--slices and --one-kind go with --capacity FILE.json")
    if question is None:
        raise QuestionError("solve: give a scenario file or a model, or --capacity FILE.json")
    fleet = read_fleet_question(question, flags)
    if fleet is not None:
        fleet = fresh(fleet, run.max_price_age)
        solve_fleet.run(fleet, time_limit_s=run.time_limit, explain=explain, json=json, plot=plot)
    scenario = fresh(read_question(question, flags), run.max_price_age)
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.solve import solve as solve_scenario  # noqa: PLC0415

    plan = solve_scenario(scenario, settings=Settings(time_limit_s=run.time_limit))
    if plot is not None:
        from optimizer.report.plots.plan import plan_picture  # noqa: PLC0415

        draw(plan_picture(plan), plot)
    if json:
        print_json(plan)
    else:
        from optimizer.report.plan import print_plan  # noqa: PLC0415

        print_plan(plan, explain=explain)
    raise typer.Exit(EXIT_INFEASIBLE if plan.status == "infeasible" else EXIT_OK)


@app.command(epilog=EPILOG)
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


@app.command(epilog=EPILOG)
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


@app.command(epilog=EPILOG)
def simulate(
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN.json", help="What `shardwise solve --json` printed.", autocompletion=completion.PLAN
        ),
    ],
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


@app.command(epilog=EPILOG)
def calibrate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Results of `vllm bench serve --save-result`, GenAI-Perf or AIPerf, or a CSV of runs.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Text, server("--model", "A bundled model's Hub name, a config.json, or its folder.", "MODEL", "as in the file")
    ] = None,
    gpu: Annotated[Text, server("--gpu", "GPU type, as in `shardwise catalog gpus`.", "NAME")] = None,
    tp: Annotated[Text, server("--tp", "Tensor parallel size.")] = None,
    pp: Annotated[Text, server("--pp", "Pipeline stages.", default="1")] = None,
    ep: Annotated[Text, server("--ep", "Expert parallel size: 1, or all GPUs of a stage.", default="1")] = None,
    attention_dp: Annotated[Text, server("--attention-dp", "Attention-DP ranks.", default="1")] = None,
    replicas: Annotated[Text, server("--replicas", "Replicas that shared the requests.", default="1")] = None,
    weights: Annotated[
        Text, server("--weights", "bf16, fp8, int8, int4 and so on.", "FORMAT", "the checkpoint's own")
    ] = None,
    kv_cache: Annotated[Text, server("--kv-cache", "bf16, fp16, fp8.", "DTYPE", "the checkpoint's own")] = None,
    engine: Annotated[Text, server("--engine", "vllm, sglang or trtllm; vllm@0.19 for a version.", "NAME")] = None,
    engine_version: Annotated[Text, server("--engine-version", "As its makers write it.", "TEXT", "today's")] = None,
    concurrency: Annotated[
        Text, option("--concurrency", help="Requests always in flight.", metavar="N", panel=BENCHMARK)
    ] = None,
    request_rate: Annotated[
        Text, option("--request-rate", help="Requests per second.", metavar="RATE", panel=BENCHMARK)
    ] = None,
    input_tokens: Annotated[
        Text, option("--input-tokens", help="Mean prompt length.", metavar="N", panel=BENCHMARK)
    ] = None,
    output_tokens: Annotated[
        Text, option("--output-tokens", help="Mean answer length.", metavar="N", panel=BENCHMARK)
    ] = None,
    form: Annotated[
        Text,
        option(
            "--format",
            help="vllm-bench, genai-perf, aiperf, csv.",
            metavar="NAME",
            default="by what is in the file",
            panel=BENCHMARK,
        ),
    ] = None,
    force: Annotated[
        bool, option("--force", help="Use runs that look wrong, too.", metavar="", panel=BENCHMARK)
    ] = False,
    listed: Annotated[bool, option("--list", help="Show the files whose runs are kept.", panel=KEPT)] = False,
    refit: Annotated[bool, option("--refit", help="Fit the kept runs anew.", panel=KEPT)] = False,
    remove: Annotated[
        Text, option("--remove", help="Forget the runs of one file, by its name or hash.", metavar="NAME", panel=KEPT)
    ] = None,
    reset: Annotated[bool, option("--reset", help="Forget all runs, and the calibration.", panel=KEPT)] = False,
    dry_run: Annotated[bool, option("--dry-run", help="Work everything out and write nothing.", panel=OUTPUT)] = False,
    json: Json = False,
) -> None:
    """Calibrate predictions with your own benchmarks, on top of the bundled coefficients."""
    others = ("files", "form", "listed", "refit", "remove", "reset", "dry_run", "json", "others")
    values = {name: value for name, value in locals().items() if name not in others}
    from optimizer.errors import QuestionError  # noqa: PLC0415

    actions = {
        "FILE": bool(files),
        "--list": listed,
        "--refit": refit,
        "--remove": remove is not None,
        "--reset": reset,
    }
    asked = [name for name, one in actions.items() if one]
    if len(asked) != 1:
        said = f"{' and '.join(asked)} are" if asked else "nothing is"
        raise QuestionError(
            f"calibrate: {said} asked for; give benchmark files, or one of {', '.join(list(actions)[1:])}"
        )
    from optimizer.flags import CalibrateFlags, read_flags  # noqa: PLC0415
    from optimizer.own_runs import calibrate as own  # noqa: PLC0415

    flags = read_flags(CalibrateFlags, values | {"format": form})
    if listed:
        found = own.kept_calibration()
    elif remove is not None:
        found = own.remove(remove, dry_run=dry_run)
    else:
        found = own.reset(dry_run=dry_run) if reset else own.calibrate(files or (), flags, dry_run=dry_run)
    if json:
        print_json(found)
    else:
        from optimizer.report.calibrate import print_calibration, print_sources  # noqa: PLC0415

        (print_sources if listed else print_calibration)(found)


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


@catalog_app.command("gpus")
def catalog_gpus(match: Match = None, json: Json = False, csv: Csv = False) -> None:
    """List GPU types: usable memory, bandwidth, dense FLOP/s, scale-up domain."""
    from optimizer.report import catalog  # noqa: PLC0415

    catalog.print_table(catalog.gpus(match), json=json, csv=csv)


@catalog_app.command("models")
def catalog_models(match: Match = None, json: Json = False, csv: Csv = False) -> None:
    """List bundled models: parameters, KV bytes per token, context, checkpoint format."""
    from optimizer.report import catalog  # noqa: PLC0415

    catalog.print_table(catalog.models(match), json=json, csv=csv)


@catalog_app.command("nodes")
def catalog_nodes(
    match: Match = None, provider: OfProvider = None, gpu: OfGpu = None, json: Json = False, csv: Csv = False
) -> None:
    """List rentable node shapes: GPUs, fabric, network."""
    from optimizer.report import catalog  # noqa: PLC0415

    catalog.print_table(catalog.nodes(match, provider, gpu), json=json, csv=csv)


@catalog_app.command("offers")
def catalog_offers(
    match: Match = None,
    provider: OfProvider = None,
    gpu: OfGpu = None,
    term: Annotated[Text, option("--term", help="Only this term.", metavar="TERM")] = None,
    region: Annotated[Text, option("--region", help="Only this region.", metavar="NAME")] = None,
    as_of: AsOf = None,
    offers_file: OffersFile = None,
    limit: Annotated[
        Text, option("--limit", help="Most rows in a table; 0 shows all.", metavar="N", default="50", panel=OUTPUT)
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List priced offers, cheapest per GPU first."""
    from optimizer.flags import OffersFlags, read_flags  # noqa: PLC0415
    from optimizer.report import catalog  # noqa: PLC0415

    flags = read_flags(OffersFlags, {"as_of": as_of, "limit": limit})
    table = catalog.offers(match, provider, gpu, term, region, flags.as_of, tuple(offers_file or ()))
    catalog.print_table(table, json=json, csv=csv, limit=flags.limit)


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


explain.register(app)
schema.register(app)
report.register(app)
serve.register(app)
mcp.register(app)


def main() -> None:
    """Run the command line: errors of the user's are one message and exit code 2, other faults one line and 1."""
    from catalogs.errors import CatalogError  # noqa: PLC0415
    from optimizer.errors import QuestionError  # noqa: PLC0415

    gc.disable()  # a short process: looking for garbage among the imports costs more than it frees
    try:
        with_models(app)
    except (QuestionError, CatalogError) as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_OTHER)
    except Exception as error:
        if os.environ.get("SHARDWISE_DEBUG"):
            raise
        _fail(f"{type(error).__name__}: {error}\n(SHARDWISE_DEBUG=1 shows where)", EXIT_OTHER)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"shardwise: {message}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
