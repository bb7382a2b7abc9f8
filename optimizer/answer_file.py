"""Answers that `--json` printed, read back: bounded, and with one message where they are not what they should be."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from optimizer.errors import QuestionError
from optimizer.user_files import read_bounded

MAX_BYTES = 50_000_000
A_PLAN = "what `shardwise solve --json` prints"
Answer = TypeVar("Answer", bound=BaseModel)


def read_answer(kind: type[Answer], path: Path) -> Answer:
    """Read an answer of a kind that is known.

    Raises:
        QuestionError: the file cannot be read, or holds no such answer.
    """
    expected = A_PLAN if kind.__name__.endswith("Plan") else "what `--json` prints"
    return checked(kind, read_bounded(path, MAX_BYTES, expected), str(path), expected)


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
