"""What the last look at each plan found: a file beside the plans, written whole.

It holds figures only; without it, or where it is damaged, every plan is looked at as if for the first time.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from optimizer.errors import QuestionError
from optimizer.plan import AnswerPart
from optimizer.reoptimize.answer import Figures, Verdict
from optimizer.user_files import read_bounded, write_whole

FILE_NAME = ".shardwise-reoptimize.json"
MAX_BYTES = 500_000_000


class Kept(AnswerPart):
    """What is kept of a look at a plan.

    Attributes:
        mark: digest of all that could change its answer (see optimizer.reoptimize.prices.mark).
        moment: of the look.
        verdict: that it came to.
        worth_since: the first look of those in a row that found a switch worth it.
        announced: the verdict that was last sent out; null before the first.
    """

    mark: str
    moment: datetime
    figures: Figures
    verdict: Verdict
    worth_since: datetime | None = None
    announced: Verdict | None = None


class State(AnswerPart):
    """The plans of one folder, by file name."""

    schema_version: Literal["1"] = "1"
    plans: dict[str, Kept] = Field(default_factory=dict)


def read_state(folder: Path) -> tuple[State, str]:
    """Return the state of a folder's plans, and a warning where its file could not be used."""
    path = folder / FILE_NAME
    if not path.exists():
        return State(), ""
    try:
        return State.model_validate_json(read_bounded(path, MAX_BYTES, "what `reoptimize` keeps")), ""
    except (QuestionError, ValidationError):
        return State(), f"{path}: cannot be used, so every plan counts as seen for the first time"


def write_state(folder: Path, state: State) -> str:
    """Write the state whole; return a warning where that is not possible."""
    try:
        write_whole(folder / FILE_NAME, state.model_dump_json())
    except OSError as error:
        return f"{folder / FILE_NAME}: cannot be written ({error.strerror or error}): a switch needs twice the margin"
    return ""
