"""Plans that `shardwise solve --json` printed, read back."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from optimizer.errors import QuestionError
from optimizer.plan import Plan
from optimizer.user_files import read_bounded

MAX_BYTES = 50_000_000


def read_plan(path: Path) -> Plan:
    """Read a Plan that `shardwise solve --json` printed.

    Raises:
        QuestionError: the file cannot be read or is no plan.
    """
    data = read_bounded(path, MAX_BYTES, "what `solve --json` prints")
    try:
        return Plan.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        where = f" ({place}: {first['msg']})" if place else f" ({first['msg']})"
        raise QuestionError(f"{path}: is not a plan{where}; expected what `shardwise solve --json` prints") from None
