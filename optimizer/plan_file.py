"""Plans that `shardwise solve --json` printed, read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.answer_file import A_PLAN, MAX_BYTES, checked, read_answer
from optimizer.errors import QuestionError
from optimizer.plan import Plan
from optimizer.user_files import read_bounded

if TYPE_CHECKING:
    from optimizer.fleet.plan import FleetPlan

STDIN = "-"


def read_plan(path: Path) -> Plan:
    """Read a Plan that `shardwise solve --json` printed.

    Raises:
        QuestionError: the file cannot be read or is no plan.
    """
    return read_answer(Plan, path)


def read_any_plan(path: Path) -> Plan | FleetPlan:
    """Read a plan of one layout or of a fleet; "-" is standard input.

    Raises:
        QuestionError: it cannot be read, or is no plan.
    """
    if str(path) == STDIN:
        where, data = "standard input", sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise QuestionError(f"{where}: is larger than {MAX_BYTES:,} bytes; expected {A_PLAN}")
    else:
        where, data = str(path), read_bounded(path, MAX_BYTES, A_PLAN)
    if _is_fleet(data):
        from optimizer.fleet.plan import FleetPlan  # noqa: PLC0415  only a fleet needs it

        return checked(FleetPlan, data, where)
    return checked(Plan, data, where)


def _is_fleet(data: bytes) -> bool:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return False  # said where it is read
    return isinstance(fields, dict) and fields.get("kind") == "fleet"
