"""The health file of `shardwise watch`: when the last look was, what came of it, and when the next one is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from optimizer.errors import QuestionError
from optimizer.plan import AnswerPart
from optimizer.user_files import read_bounded

MAX_BYTES = 10_000_000


class Health(AnswerPart):
    """What the health file holds; written whole after each look and on leaving.

    Attributes:
        pid: of the process; null once it has left.
        started: when it began.
        runs, failed_runs: looks so far, and those that an error ended.
        last_run: when the last look began; last_run_seconds: how long it took.
        last_success: when the last look that no error ended began.
        next_run: when the next one is due; null once it has left.
        last_error: what went wrong last, with its moment; null where nothing did.
        verdicts: plan file -> verdict of the last look.
        sources: source of prices -> what became of it at the last look.
    """

    schema_version: Literal["1"] = "1"
    kind: Literal["watch"] = "watch"
    shardwise_version: str
    pid: int | None
    started: datetime
    runs: int = 0
    failed_runs: int = 0
    last_run: datetime | None = None
    last_run_seconds: float | None = None
    last_success: datetime | None = None
    next_run: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    verdicts: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, str] = Field(default_factory=dict)


def last_run(path: Path | None) -> datetime | None:
    """Return when an earlier process looked last; None where its file does not say."""
    if path is None or not path.exists():
        return None
    try:
        return Health.model_validate_json(read_bounded(path, MAX_BYTES, "a health file")).last_run
    except (QuestionError, ValidationError):
        return None
