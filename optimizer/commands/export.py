"""`shardwise export`: launch files that start exactly the layout of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimizer.cli_options import OUTPUT, Json, PlanFile, Text, option
from optimizer.commands.common import EPILOG, print_json, print_utf8

ENGINE = "The engine"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("export", epilog=EPILOG)(export)


def export(
    plan: PlanFile,
    to: Annotated[
        str,
        option(
            "--to",
            help="vllm, sglang, trtllm (scripts), docker-compose, kubernetes, helm-values, skypilot, dstack, "
            "terraform-vars.",
            metavar="TARGET",
        ),
    ],
    engine: Annotated[
        Text, option("--engine", help="vllm, sglang or trtllm.", metavar="NAME", default="the plan's", panel=ENGINE)
    ] = None,
    engine_version: Annotated[
        Text,
        option("--engine-version", help="Its release.", metavar="V", default="the plan's, or the newest", panel=ENGINE),
    ] = None,
    image: Annotated[
        Text, option("--image", help="Container image.", metavar="NAME", default="the engine's own", panel=ENGINE)
    ] = None,
    model: Annotated[
        Text,
        option("--model", help="Checkpoint to load: a Hub name or a folder.", metavar="NAME", default="the plan's"),
    ] = None,
    trust_remote_code: Annotated[
        bool, option("--trust-remote-code", help="Let the engine run code that comes with the checkpoint.")
    ] = False,
    port: Annotated[Text, option("--port", help="Where it serves.", metavar="N", default="8000")] = None,
    name: Annotated[
        Text, option("--name", help="What the deployment is called.", metavar="NAME", default="from the model")
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "--out",
            help="Write to this file, or folder where there are several; - for standard output.",
            metavar="PATH",
            panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[bool, option("--force", help="Replace files that are there.", panel=OUTPUT)] = False,
    json: Json = False,
) -> None:
    """Write the commands or manifests that start exactly the layout of a plan."""
    values = {
        "engine": engine,
        "engine_version": engine_version,
        "model": model,
        "port": port,
        "name": name,
        "image": image,
        "trust_remote_code": trust_remote_code or None,
    }
    from optimizer.engines import ENGINE_NAMES  # noqa: PLC0415
    from optimizer.errors import QuestionError  # noqa: PLC0415
    from optimizer.export.options import ExportOptions  # noqa: PLC0415
    from optimizer.export.targets import check_target, launch_files  # noqa: PLC0415
    from optimizer.flags import read_flags  # noqa: PLC0415

    check_target(to)
    if to in ENGINE_NAMES:
        if engine is not None and engine != to:
            raise QuestionError(f"--to {to} is an engine, and --engine {engine} another; give one of them")
        values["engine"] = to
    options = read_flags(ExportOptions, values)
    from optimizer.export.answer import exported  # noqa: PLC0415
    from optimizer.export.engines.launch import FOLDER  # noqa: PLC0415
    from optimizer.export.plans import deployments, read_plan_of  # noqa: PLC0415
    from optimizer.export.writing import as_text, write_files  # noqa: PLC0415

    found = deployments(read_plan_of(str(plan)), options)
    files = launch_files(to, found)
    for one in found:
        for note in one.launch.notes:
            if note.startswith("needs a checkpoint") or (model is None and note.startswith(FOLDER)):
                typer.echo(f"shardwise: {one.name}: {note}", err=True)
    written = write_files(files, out, force=force) if out is not None and str(out) != "-" else ()
    if json:
        print_json(exported(to, found, files))
    elif written:
        typer.echo("\n".join(map(str, written)))
    else:
        print_utf8(as_text(files))
