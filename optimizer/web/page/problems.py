"""What is wrong with a question, in the words of the page."""

from __future__ import annotations

import logging

from optimizer.questions.refusal import Refusal
from optimizer.questions.workers import Fault, NoAnswer

log = logging.getLogger("shardwise")


def problems_of(error: Exception) -> list[str]:
    """Return what is wrong with a question, a line a field, under the scenario's own names."""
    if isinstance(error, Refusal):
        return [
            f"{one.field.removeprefix('scenario.')}: {one.detail}" if one.field not in ("", "scenario") else one.detail
            for one in error.problems
        ]
    if isinstance(error, NoAnswer) and not isinstance(error, Fault):
        return [f"{error}."]
    log.error("a question of the page was not answered", exc_info=error)
    return ["a fault of the service's own; its log says more"]
