"""What every command shares: exit codes, the line below each help text, and how JSON is printed."""

from __future__ import annotations

import sys
from typing import Any

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
