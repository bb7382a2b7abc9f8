"""`shardwise solve`: the cheapest layout, or fleet, that works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimizer import completion
from optimizer.cli_options import (
    OUTPUT,
    PRICES,
    TARGETS,
    AsOf,
    Engine,
    Headroom,
    Json,
    NoCalibration,
    OffersFile,
    Overhead,
    Performance,
    PerformanceTable,
    Plot,
    Policy,
    Text,
    Texts,
    Utilization,
    limit,
    option,
    target,
    traffic,
)
from optimizer.commands import solve_fleet
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, EXIT_OK, check_plot, draw, print_json


def register(app: typer.Typer) -> None:
    """Add the command to a group of commands."""
    app.command(epilog=EPILOG)(solve)


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
