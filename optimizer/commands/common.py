"""What every command shares: exit codes, the line below each help text, and how JSON is printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizer.report.plots.figure import Picture

EXIT_OK, EXIT_OTHER, EXIT_BAD_INPUT, EXIT_INFEASIBLE = 0, 1, 2, 3
# Of the sources of prices, some or all gave none.
EXIT_SOME_FAILED, EXIT_ALL_FAILED = 4, 5

EPILOG = (
    "Exit codes: 0 optimal, feasible or fits; 2 bad input; 3 infeasible or does not fit; 1 anything else. "
    "SHARDWISE_DEBUG=1 shows tracebacks."
)


def print_json(result: Any) -> None:
    """Print a pydantic model as JSON."""
    sys.stdout.write(result.model_dump_json(indent=2) + "\n")


def check_extra(command: str, extra: str, *packages: str) -> None:
    """Refuse a command whose packages are not installed, with the line that installs them.

    Raises:
        QuestionError: one of them is missing.
    """
    from importlib import import_module  # noqa: PLC0415

    from optimizer.errors import QuestionError  # noqa: PLC0415

    for name in packages:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise QuestionError(f'{command} needs {error.name}: pip install "shardwise[{extra}]"') from None


def check_plot(path: Path | None) -> None:
    """Refuse, before anything is worked out, a picture that could not be written."""
    if path is not None:
        from optimizer.report.plots import figure  # noqa: PLC0415

        figure.check_plot(path)


def draw(picture: Picture | None, path: Path) -> None:
    """Write the picture of an answer; where there is none to draw, say so on standard error."""
    if picture is None:
        sys.stderr.write(f"shardwise: --plot {path}: not written, for there is no layout to draw\n")
        return
    from optimizer.report.plots.figure import save  # noqa: PLC0415

    save(picture, path)
