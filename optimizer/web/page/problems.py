"""What is wrong with a question, in the words of the page."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from optimizer.questions.no_answer import Fault, NoAnswer
from optimizer.questions.refusal import Refusal
from optimizer.web.page.elements import Words, box, bullets

REFUSED = "The question cannot be answered as it stands."
MOST_PROBLEMS, MOST_CHARACTERS = 20, 600  # that are shown
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


def problem_line(error: Exception) -> str:
    """Return the same in one line, for a small place."""
    return "; ".join(problems_of(error))[:MOST_CHARACTERS]


def show_refusal(problems: Sequence[str]) -> None:
    """Show what is wrong where the answer would be."""
    with box("section", "card headline", role="alert"):
        Words("Not answered", "span", "badge infeasible")
        Words(REFUSED, "p", "summary")
        bullets([problem[:MOST_CHARACTERS] for problem in problems[:MOST_PROBLEMS]])
