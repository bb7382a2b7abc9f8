"""Plans that `shardwise solve --json` printed, read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from optimizer.errors import QuestionError
from optimizer.plan import Plan
from optimizer.user_files import read_bounded

if TYPE_CHECKING:
    from optimizer.fleet.plan import FleetPlan

MAX_BYTES = 50_000_000
EXPECTED = "what `shardwise solve --json` prints"
STDIN = "-"
Answer = TypeVar("Answer", bound=BaseModel)


def read_plan(path: Path) -> Plan:
    """Read a Plan that `shardwise solve --json` printed.

    Raises:
        QuestionError: the file cannot be read or is no plan.
    """
    return _checked(Plan, read_bounded(path, MAX_BYTES, EXPECTED), str(path))


def read_any_plan(path: Path) -> Plan | FleetPlan:
    """Read a plan of one layout or of a fleet; "-" is standard input.

    Raises:
        QuestionError: it cannot be read, or is no plan.
    """
    if str(path) == STDIN:
        where, data = "standard input", sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise QuestionError(f"{where}: is larger than {MAX_BYTES:,} bytes; expected {EXPECTED}")
    else:
        where, data = str(path), read_bounded(path, MAX_BYTES, EXPECTED)
    if _is_fleet(data):
        from optimizer.fleet.plan import FleetPlan  # noqa: PLC0415  only a fleet needs it

        return _checked(FleetPlan, data, where)
    return _checked(Plan, data, where)


def _is_fleet(data: bytes) -> bool:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return False  # said where it is read
    return isinstance(fields, dict) and fields.get("kind") == "fleet"


def _checked(kind: type[Answer], data: bytes, where: str) -> Answer:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = f" ({place}: {first['msg']})" if place else f" ({first['msg']})"
        raise QuestionError(f"{where}: is not a plan{said}; expected {EXPECTED}") from None
