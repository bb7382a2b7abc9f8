"""The command line. Each command reads its question, calls one function, and prints its answer as tables or JSON.

A command is a file in optimizer/commands. Heavy imports (pandas, OR-Tools, rich) happen inside the commands, so that
--help stays fast.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from optimizer.commands import (
    api,
    breakeven,
    budget,
    calibrate,
    explain,
    export,
    import_,
    mcp,
    pareto,
    reoptimize,
    replica,
    report,
    schema,
    serve,
    shock,
    simulate,
    solve,
    sweep,
    watch,
)
from optimizer.commands.catalog import catalog_app
from optimizer.commands.common import EPILOG, EXIT_BAD_INPUT, EXIT_OTHER
from optimizer.commands.hub import with_models
from optimizer.commands.prices import prices_app
from optimizer.commands.validate import validate_app
from optimizer.commands.whatif import whatif_app
from optimizer.version import __version__

# What --help lists under which heading, in this order; groups come after commands.
PANELS = {
    "Answers": ("solve", "explain", "pareto", "fit", "predict", "whatif"),
    "From an answer to a running service": ("export", "import", "report", "serve", "mcp"),
    "Prices that move": ("reoptimize", "watch", "prices"),
    "Predictions and measurements": ("calibrate", "simulate", "validate"),
    "Reference": ("schema", "catalog"),
}

app = typer.Typer(
    name="shardwise",
    help="The cheapest feasible GPU layout for a language model, proved, at dated prices.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"shardwise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, metavar="", help="Print the version and leave."),
    ] = False,
) -> None:
    """The cheapest feasible GPU layout for a language model, proved, at dated prices."""


def _add_commands() -> None:
    commands = (solve, explain, pareto, replica, export, import_, report, serve, mcp)
    for module in (*commands, reoptimize, watch, calibrate, simulate, schema):
        module.register(app)
    for module in (api, breakeven, budget, shock, sweep):
        module.register(whatif_app)
    groups = {"whatif": whatif_app, "prices": prices_app, "validate": validate_app, "catalog": catalog_app}
    for name, commands_of in groups.items():
        app.add_typer(commands_of, name=name)
    for each in (app, *groups.values()):
        for command in each.registered_commands:
            command.help = _paragraphs(inspect.getdoc(command.callback) or "")
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    for command in app.registered_commands:
        command.rich_help_panel = panel_of[str(command.name or getattr(command.callback, "__name__", ""))]
    for group in app.registered_groups:
        group.rich_help_panel = panel_of[group.name or ""]


def _paragraphs(text: str) -> str:
    """Return text whose paragraphs are one line each, to be broken where the terminal ends."""
    return "\n\n".join(" ".join(one.split()) for one in text.split("\n\n"))


_add_commands()


def main() -> None:
    """Run the command line: errors of the user's are one message and exit code 2, other faults one line and 1."""
    from catalogs.errors import CatalogError  # noqa: PLC0415
    from optimizer.errors import QuestionError  # noqa: PLC0415

    gc.disable()  # a short process: looking for garbage among the imports costs more than it frees
    _make_streams_bear_anything()
    try:
        try:
            with_models(app)
        finally:
            sys.stdout.flush()  # here, where what goes wrong can still be said
    except (QuestionError, CatalogError) as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except BrokenPipeError:
        _drop_output()
        sys.exit(EXIT_OTHER)
    except Exception as error:
        if os.environ.get("SHARDWISE_DEBUG"):
            raise
        if isinstance(error, OSError) and error.strerror:
            _drop_output()
            _fail(f"{error.filename or 'standard output'}: {error.strerror}", EXIT_OTHER)
        _fail(f"{type(error).__name__}: {error}\n(SHARDWISE_DEBUG=1 shows where)", EXIT_OTHER)


def _make_streams_bear_anything() -> None:
    """Write to nowhere where a stream is closed, and escape letters that the terminal's encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  for all of the process
        elif getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Drop what standard output has not taken, so that the end of the process does not try again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"shardwise: {message}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
