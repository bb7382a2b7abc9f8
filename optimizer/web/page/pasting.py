"""A scenario pasted as YAML: of one layout, which goes into the form, or of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from nicegui import ui

from optimizer.errors import QuestionError
from optimizer.scenario import is_fleet
from optimizer.web.page.elements import Words, box, button
from optimizer.web.page.fields import Question
from optimizer.yaml_file import read_value

MOST_BYTES = 200_000


def read_pasted(text: str) -> Question:
    """Return the fields that a pasted scenario says; they are still to be checked.

    Raises:
        QuestionError: it is too large, is not YAML, or is not a mapping.
    """
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise QuestionError(f"scenario: is larger than {MOST_BYTES:,} bytes")
    try:
        content = read_value(text)
    except ValueError as error:
        raise QuestionError(f"scenario: {error}") from None
    if not isinstance(content, Mapping):
        raise QuestionError("scenario: expected a mapping of fields (model, workload, ...)")
    return {str(name): value for name, value in content.items()}


class Pasting:
    """The area for a scenario, and its buttons."""

    def __init__(
        self,
        question: Callable[[], Mapping[str, Any]],
        *,
        ask: Callable[[Question], Any],
        ask_fleet: Callable[[Question], Any],
        refuse: Callable[[Sequence[str]], Any],
    ):
        """Build it where the page stands.

        Args:
            question: returns what the form says.
            ask: called with a question of one layout.
            ask_fleet: called with a fleet's.
            refuse: called with what is wrong.
        """
        self._question, self._ask, self._ask_fleet, self._refuse = question, ask, ask_fleet, refuse
        with box("details", "card"):
            Words("Paste a scenario (YAML)", "summary")
            Words("One layout or a fleet, as in a scenario file. Files it names are not opened.", "p", "muted")
            self._area = ui.textarea(label="Scenario").props("outlined dense stack-label rows=10 spellcheck=false")
            self._area.props["maxlength"] = MOST_BYTES
            self._area.classes("wide mono")
            with box("div", "actions"):
                button("Solve the scenario", self._solve)
                button("Show the form as YAML", self._show)

    def _show(self) -> None:
        self._area.value = yaml.safe_dump(dict(self._question()), sort_keys=False, allow_unicode=True)

    def _solve(self) -> None:
        try:
            fields = read_pasted(self._area.value or "")
        except QuestionError as error:
            self._refuse([str(error)])
            return
        (self._ask_fleet if is_fleet(fields) else self._ask)(fields)
