"""`shardwise calibrate`: predictions moved by the user's own benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimizer.cli_options import BENCHMARK, KEPT, OUTPUT, Json, Text, option, server
from optimizer.commands.common import EPILOG, print_json


def register(app: typer.Typer) -> None:
    """Add the command to a group of commands."""
    app.command(epilog=EPILOG)(calibrate)


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
