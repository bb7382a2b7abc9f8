"""The form: the question's fields, each with its error below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.validation_element import ValidationElement

from optimizer.fields import as_list
from optimizer.web.page.elements import Words, box, button
from optimizer.web.page.fields import (
    FORM,
    SECTIONS,
    TRAFFIC,
    FormField,
    Question,
    as_text,
    beside_the_form,
    by_field,
    get,
    put,
    traffic_kind,
    with_traffic,
)

FIELD = "outlined dense stack-label hide-bottom-space"
OPEN_AT_FIRST = ("traffic", "targets", "limits")


class Form:
    """The fields of a question, shown and changed.

    Attributes:
        question: what the fields say now.
    """

    def __init__(
        self,
        question: Question,
        *,
        models: Sequence[str],
        names: dict[str, Sequence[str]],
        on_submit: Callable[[], Any],
        on_change: Callable[[], Any],
    ):
        """Build the form where the page stands.

        Args:
            question: what the fields say at first.
            models: names of models to choose from.
            names: options of fields, by their path, that the catalog knows (GPUs, providers, regions).
            on_submit: called when the question is asked.
            on_change: called after each change of a field.
        """
        self.question = question
        self._models = list(models)
        self._names = names
        self._on_change = on_change
        self._filling = False
        self._fields: dict[str, ValidationElement[Any]] = {}
        self._folds: dict[str, Element] = {}
        self._build(on_submit)
        self.fill(question)

    def _build(self, on_submit: Callable[[], Any]) -> None:
        self._element = box("form", "form", aria_label="The question", novalidate="")
        self._element.on("submit.prevent", on_submit)
        with self._element:
            Words("The question", "h2", "unseen")
            model = ui.select(self._models, label="Model", with_input=True, on_change=self._changed("model"))
            self._fields["model"] = model.props(f"{FIELD} behavior=menu").classes("wide")
            for section, title in SECTIONS.items():
                fold = box("details", "fields", **({"open": ""} if section in OPEN_AT_FIRST else {}))
                self._folds[section] = fold
                with fold:
                    Words(title, "summary")
                    with box("div", "grid"):
                        if section == "traffic":
                            self._build_traffic()
                        for field in FORM:
                            if field.section == section:
                                self._build_field(field)
            self._beside = Words("", "p", "muted")
            self._problems = box("div", "problems", role="alert")
            with box("div", "actions"):
                solve = Words("Solve", "button", "button primary")
                solve.props["type"] = "submit"
                button("Start over", self._start_over)

    def _build_traffic(self) -> None:
        kind = ui.select(TRAFFIC, label="Traffic", value="request_rate", on_change=self._traffic_changed)
        self._kind = kind.props(f"{FIELD} behavior=menu").classes("wide")
        amount = ui.input(label="How much", on_change=self._traffic_changed)
        self._amount = amount.props(f"{FIELD} inputmode=decimal autocomplete=off").classes("wide")

    def _build_field(self, field: FormField) -> None:
        changed = self._changed(field.path)
        label = f"{field.label}, {field.unit}" if field.unit and field.unit != "tokens" else field.label
        element: Any
        if field.kind == "one":
            options = {"": f"{field.default} (default)"} | {one: one for one in field.options if one != field.default}
            element = ui.select(options, label=label, value="", on_change=changed).props(f"{FIELD} behavior=menu")
        elif field.kind == "many":
            options = {one: one for one in (self._names.get(field.path) or field.options)}
            element = ui.select(options, label=label, multiple=True, with_input=True, on_change=changed)
            element.props(f"{FIELD} use-chips behavior=menu").classes("wide")
            element.props["placeholder"] = "" if get(self.question, field.path) else field.default
        elif field.kind == "switch":
            element = ui.checkbox(label, on_change=changed).classes("wide")
        else:
            element = ui.input(label=label, placeholder=field.default, on_change=changed)
            mode = "text" if field.kind == "typed" or field.path.startswith(("memory.engine", "prices")) else "decimal"
            element.props(f"{FIELD} inputmode={mode} autocomplete=off")
        self._fields[field.path] = element

    def _changed(self, path: str) -> Callable[[Any], None]:
        def changed(event: Any) -> None:
            if self._filling:
                return
            value = event.value
            if path in _TYPED and isinstance(value, str):
                value = as_list(value)
            self.question = put(self.question, path, value.strip() if isinstance(value, str) else value)
            if isinstance(value, list) and path in _DEFAULTS:
                self._fields[path].props["placeholder"] = "" if value else _DEFAULTS[path]
            self._show_error(path, None)
            self._on_change()

        return changed

    def _traffic_changed(self) -> None:
        if not self._filling:
            self.question = with_traffic(self.question, str(self._kind.value), (self._amount.value or "").strip())
            self._amount.error = None
            self._on_change()

    def fill(self, question: Question) -> None:
        """Show another question."""
        self.question = question
        self._filling = True
        try:
            model = get(question, "model")
            self._fields["model"].value = model if model in self._models else None
            kind = traffic_kind(question)
            self._kind.value = kind
            self._amount.value = as_text(get(question, f"workload.{kind}"))
            for field in FORM:
                self._fill_field(field, get(question, field.path))
        finally:
            self._filling = False
        beside = beside_the_form(question)
        self._beside.text = f"Also said by the question, and kept: {', '.join(beside)[:300]}." if beside else ""
        self.show_problems(())

    def _fill_field(self, field: FormField, value: Any) -> None:
        element: Any = self._fields[field.path]
        if field.kind == "one":
            element.value = str(value) if str(value) in element.options else ""
        elif field.kind == "many":
            chosen = [str(one)[:200] for one in as_list(value)[:100]]
            unknown = {one: one for one in chosen if one not in element.options}
            if unknown:
                element.set_options(element.options | unknown)
            element.value = chosen
            element.props["placeholder"] = "" if chosen else field.default
        elif field.kind == "switch":
            element.value = value is True or str(value).lower() == "true"
        else:
            element.value = as_text(value)[:500]
        if value not in (None, "", [], False):
            self._folds[field.section].props["open"] = True

    def show_problems(self, problems: Sequence[str]) -> None:
        """Show problems of a scenario at the fields they belong to, and the rest above the button."""
        found, rest = by_field(problems)
        self._amount.error = next((found.pop(path) for path in list(found) if path[9:] in TRAFFIC), None)
        for path in self._fields:
            self._show_error(path, found.get(path))
        for field in FORM:
            if field.path in found:
                self._folds[field.section].props["open"] = True
        self._problems.clear()
        with self._problems:
            for problem in rest[:8]:
                Words(problem)
            if found or self._amount.error:
                Words("Please correct the fields marked above.")

    def _show_error(self, path: str, error: str | None) -> None:
        element = self._fields[path]
        if isinstance(element, ValidationElement):
            element.error = error

    def _start_over(self) -> None:
        ui.navigate.to("/")


_DEFAULTS = {field.path: field.default for field in FORM if field.kind == "many"}
_TYPED = frozenset(field.path for field in FORM if field.kind == "typed")
