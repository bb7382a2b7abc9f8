"""`shardwise serve`: the JSON service and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optimizer.cli_options import NoCalibration, Text, Texts, option
from optimizer.commands.common import check_extra

ACCESS, LIMITS = "Who may use it", "What it bears"
EXITS = (
    "Every flag but --token-file has a variable: SHARDWISE_SERVE_PORT for --port and so on; the token's is "
    "SHARDWISE_SERVE_TOKEN. Exit codes: 0 ended by Ctrl-C or SIGTERM; 2 bad input, as a port that is taken; 1 anything "
    "else."
)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=EXITS)(serve)


def serve(
    host: Annotated[
        Text, option("--host", help="Address to listen on.", metavar="ADDRESS", default="127.0.0.1")
    ] = None,
    port: Annotated[Text, option("--port", help="Port; 0 takes a free one.", metavar="N", default="8000")] = None,
    workers: Annotated[
        Text, option("--workers", help="Questions answered at once.", metavar="N", default="one per core")
    ] = None,
    token_file: Annotated[
        Path | None,
        option("--token-file", help="File of the token that requests have to bring.", metavar="FILE", panel=ACCESS),
    ] = None,
    allow_anyone: Annotated[
        bool, option("--allow-anyone", help="Serve other machines without a token.", panel=ACCESS)
    ] = False,
    allow_host: Annotated[
        Texts, option("--allow-host", help="Another name that it is addressed by.", metavar="NAME", panel=ACCESS)
    ] = None,
    max_body_bytes: Annotated[
        Text, option("--max-body-bytes", help="The largest request.", metavar="N", default="2000000", panel=LIMITS)
    ] = None,
    time_limit: Annotated[
        Text,
        option("--time-limit", help="From a request to its answer.", metavar="SECONDS", default="60", panel=LIMITS),
    ] = None,
    max_waiting: Annotated[
        Text, option("--max-waiting", help="Questions that may wait.", metavar="N", default="200", panel=LIMITS)
    ] = None,
    job_time_limit: Annotated[
        Text, option("--job-time-limit", help="The same for a job.", metavar="SECONDS", default="600", panel=LIMITS)
    ] = None,
    max_jobs: Annotated[
        Text, option("--max-jobs", help="Jobs, running or kept.", metavar="N", default="100", panel=LIMITS)
    ] = None,
    keep_jobs: Annotated[
        Text, option("--keep-jobs", help="How long results are kept.", metavar="SECONDS", default="3600", panel=LIMITS)
    ] = None,
    stop: Annotated[
        Text,
        option(
            "--stop", help="What requests may still take at the end.", metavar="SECONDS", default="10", panel=LIMITS
        ),
    ] = None,
    no_calibration: NoCalibration = False,
) -> None:
    """Serve answers as JSON and as a page, on this machine unless told otherwise."""
    flags = {
        "host": host,
        "port": port,
        "workers": workers,
        "allow_anyone": allow_anyone or None,
        "allow_hosts": allow_host,
        "max_body_bytes": max_body_bytes,
        "time_limit_s": time_limit,
        "max_waiting": max_waiting,
        "job_time_limit_s": job_time_limit,
        "max_jobs": max_jobs,
        "keep_jobs_s": keep_jobs,
        "stop_s": stop,
    }
    import gc  # noqa: PLC0415

    from optimizer.web.settings import read_settings  # noqa: PLC0415

    settings = read_settings(flags, token_file)
    check_extra("serve", "web", "fastapi", "pebble", "prometheus_client", "uvicorn")
    from optimizer.web.server import serve as serve_app  # noqa: PLC0415

    gc.enable()  # unlike a single answer, a service lives long enough for garbage to matter
    serve_app(settings, lambda address: typer.echo(f"Shardwise serves at {address} (Ctrl-C ends it)"))
