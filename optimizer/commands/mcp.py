"""`shardwise mcp`: tools for agents, over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer.cli_options import NoCalibration, Text, option
from optimizer.commands.common import EXIT_OK, check_extra


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("mcp", epilog="Exit codes: 0 the client has closed; 2 bad input; 1 anything else.")(mcp)


def mcp(
    workers: Annotated[
        Text, option("--workers", help="Questions answered at once.", metavar="N", default="one per core")
    ] = None,
    time_limit: Annotated[
        Text, option("--time-limit", help="Most time for an answer.", metavar="SECONDS", default="120")
    ] = None,
    no_calibration: NoCalibration = False,
) -> None:
    """Serve the questions as tools for agents, over standard input and output (Model Context Protocol).

    A client starts it: {"command": "shardwise", "args": ["mcp"]}.
    """
    import gc  # noqa: PLC0415

    from optimizer.flags import McpFlags, read_flags  # noqa: PLC0415

    flags = read_flags(McpFlags, {"workers": workers, "time_limit": time_limit})
    check_extra("mcp", "mcp", "mcp.server", "pebble")
    from optimizer.mcp_server.server import serve  # noqa: PLC0415
    from optimizer.questions.workers import WorkerSettings  # noqa: PLC0415

    gc.enable()  # unlike a single answer, a server lives long enough for garbage to matter
    given = {} if flags.workers is None else {"processes": flags.workers}
    serve(WorkerSettings(time_limit_s=flags.time_limit, **given))
    raise typer.Exit(EXIT_OK)
