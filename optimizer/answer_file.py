"""Answers that `--json` printed, read back: bounded, and with one message where they are not what they should be."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from optimizer.errors import QuestionError
from optimizer.user_files import read_bounded

MAX_BYTES = 50_000_000
A_PLAN = "what `shardwise solve --json` prints"
Answer = TypeVar("Answer", bound=BaseModel)


STDIN = "-"


def read_answer(kind: type[Answer], path: Path) -> Answer:
    """Read an answer of a kind that is known, from a file or, for "-", from standard input.

    Raises:
        QuestionError: the file cannot be read, or holds no such answer.
    """
    expected = A_PLAN if kind.__name__.endswith("Plan") else "what `--json` prints"
    data, where = read_data(str(path), expected)
    fields = json_of(data, where, expected)
    if kind.__name__ == "Plan" and isinstance(fields, dict) and fields.get("kind") == "fleet":
        raise QuestionError(f"{where}: is the plan of a fleet; expected the plan of one layout")
    return checked(kind, json.dumps(fields).encode(), where, expected)


def read_data(path: str, expected: str = A_PLAN) -> tuple[bytes, str]:
    """Return what a file or, for "-", standard input holds, and what messages call it.

    Raises:
        QuestionError: it cannot be read, or is too large.
    """
    if path != STDIN:
        return read_bounded(Path(path), MAX_BYTES, expected), path
    data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise QuestionError(f"standard input: is larger than {MAX_BYTES:,} bytes; expected {expected}")
    return data, "standard input"


def json_of(data: bytes, where: str, expected: str = A_PLAN) -> Any:
    """Return what JSON holds, in any encoding of Unicode; NaN and infinities, which are not JSON, are refused.

    Raises:
        QuestionError: it is no JSON.
    """
    if not data.strip():
        raise QuestionError(f"{where}: is empty; expected {expected}")
    try:
        fields = json.loads(data)
        json.dumps(fields, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"{where}: is not JSON ({_why(error)}); expected {expected}") from None
    return fields


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    return "a number in it is not finite" if str(error).startswith("Out of range") else str(error)


def checked(kind: type[Answer], data: bytes, where: str, expected: str = A_PLAN) -> Answer:
    """Return the answer that JSON holds; raises as `read_answer`, naming `where`."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = f" ({place}: {first['msg']})" if place else f" ({first['msg']})"
        what = "plan" if expected == A_PLAN else kind.__name__
        raise QuestionError(f"{where}: is not a {what}{said}; expected {expected}") from None
