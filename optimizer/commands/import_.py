"""`shardwise import`: a running server's command read back to a layout, and priced against the best one."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from optimizer.cli_options import (
    OUTPUT,
    TARGETS,
    AsOf,
    Json,
    NoCalibration,
    OffersFile,
    Text,
    option,
    target,
    traffic,
)
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, print_json

WHERE = "Where it runs"
MAX_BYTES = 100_000

import_app = typer.Typer(help="Read what runs today, and price it against the best layout.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    app.add_typer(import_app, name="import")


def _where(name: str, help: str, metavar: str = "NAME", default: str | None = None) -> Any:  # noqa: A002
    return option(name, help=help, metavar=metavar, default=default, panel=WHERE)


@import_app.command("vllm", epilog=EPILOG)
def vllm(
    command: Annotated[
        str, typer.Argument(metavar="COMMAND", help='"vllm serve ...", quoted as a whole; - for standard input.')
    ],
    gpu: Annotated[Text, _where("--gpu", "GPU type; with traffic, the server is priced.")] = None,
    provider: Annotated[Text, _where("--provider", "Provider.", default="the cheapest")] = None,
    region: Annotated[Text, _where("--region", "Region.", default="the cheapest")] = None,
    instance_type: Annotated[Text, _where("--instance-type", "Instance type.", default="the cheapest")] = None,
    term: Annotated[Text, _where("--term", "on-demand, spot, reserved-1y, reserved-3y.", "TERM")] = None,
    nodes: Annotated[Text, _where("--nodes", "Nodes in all.", "N")] = None,
    replicas: Annotated[Text, _where("--replicas", "Servers like this one.", "N", "1")] = None,
    model: Annotated[
        Text,
        option(
            "--model",
            help="The model that it is, where its checkpoint has a name of its own.",
            metavar="MODEL",
            default="the command's",
        ),
    ] = None,
    scenario: Annotated[
        Text, traffic("--scenario", "Take traffic, targets and limits from a scenario file.", "FILE.yaml")
    ] = None,
    input_tokens: Annotated[Text, traffic("--input-tokens", "Mean prompt length.")] = None,
    output_tokens: Annotated[Text, traffic("--output-tokens", "Mean answer length.")] = None,
    request_rate: Annotated[Text, traffic("--request-rate", "Requests per second.", "RATE")] = None,
    concurrency: Annotated[Text, traffic("--concurrency", "Requests always in flight.")] = None,
    output_tokens_per_second: Annotated[
        Text, traffic("--output-tokens-per-second", "Offline: what is to be produced.", "RATE")
    ] = None,
    context: Annotated[Text, traffic("--context", "Longest context.", default="input + output")] = None,
    at: Annotated[
        Text, option("--at", help="mean, p50, p90, p95, p99.", metavar="LEVEL", default="mean", panel=TARGETS)
    ] = None,
    ttft_ms: Annotated[Text, target("--ttft-ms", "Time to first token.")] = None,
    tpot_ms: Annotated[Text, target("--tpot-ms", "Time per output token.")] = None,
    e2e_ms: Annotated[Text, target("--e2e-ms", "Arrival to last token.")] = None,
    as_of: AsOf = None,
    offers_file: OffersFile = None,
    layout_words: Annotated[
        bool,
        option(
            "--layout-words", help="Print only the layout, as `explain --why-not` takes it (with --gpu).", panel=OUTPUT
        ),
    ] = False,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Read the command of a vLLM server back to a layout; price it against the cheapest one that works.

    The command is taken apart and never run. Flags that say nothing of the layout are kept and listed.
    """
    where = {
        "gpu": gpu,
        "provider": provider,
        "region": region,
        "instance_type": instance_type,
        "term": term,
        "nodes": nodes,
        "replicas": replicas,
    }
    asked = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "request_rate": request_rate,
        "concurrency": concurrency,
        "output_tokens_per_second": output_tokens_per_second,
        "context": context,
        "at": at,
        "ttft_ms": ttft_ms,
        "tpot_ms": tpot_ms,
        "e2e_ms": e2e_ms,
        "as_of": as_of,
        "offers_file": offers_file,
    }
    from optimizer.commands.import_question import hardware_of, question_of  # noqa: PLC0415
    from optimizer.export.served import read_vllm  # noqa: PLC0415

    text = command if command != "-" else sys.stdin.read(MAX_BYTES + 1)
    served = read_vllm(text, model)
    hardware = hardware_of(where)
    question = question_of(scenario, served, asked)
    from optimizer.export.served_answer import ServedPrice  # noqa: PLC0415
    from optimizer.export.served_price import layout_words as words_of  # noqa: PLC0415
    from optimizer.export.served_price import price_served  # noqa: PLC0415

    if hardware is not None and question is not None and not layout_words:
        found = price_served(served, hardware, question)
    else:
        found = ServedPrice(command=served, layout_words="" if hardware is None else words_of(served, hardware))
    if hardware is None and question is not None:
        typer.echo("shardwise: it is not priced: give --gpu, the type that it runs on, as well", err=True)
    if layout_words:
        from optimizer.errors import QuestionError  # noqa: PLC0415

        if hardware is None:
            raise QuestionError("--layout-words: a layout names its GPUs; give --gpu as well")
        typer.echo(found.layout_words)
    elif json:
        print_json(found)
    else:
        from optimizer.report.served import print_served  # noqa: PLC0415

        print_served(found)
    if found.prices_as_of is not None and found.best is None:
        raise typer.Exit(EXIT_INFEASIBLE)
