"""The few elements that the page is made of, beside the toolkit's own. Text is set as text, never read as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement


class Words(TextElement):
    """A text in an HTML element of a kind: p, h2, td, span and so on."""

    def __init__(self, text: str, tag: str = "p", classes: str = ""):
        super().__init__(tag=tag, text=text)
        self.classes(classes)


def box(tag: str = "div", classes: str = "", **attributes: str) -> Element:
    """Return an element to put others into; attributes are set as they are (aria_label for aria-label)."""
    element = ui.element(tag).classes(classes)
    return with_attributes(element, **attributes)


def with_attributes(element: Element, **attributes: Any) -> Element:
    """Set attributes of an element, aria_label for aria-label, without reading their values as markup."""
    for name, value in attributes.items():
        element.props[name.rstrip("_").replace("_", "-")] = value
    return element


def drawing(svg: str, classes: str = "drawing") -> Element:
    """Show an SVG that our own functions drew, which escape every text in it."""
    return ui.html(svg, sanitize=False).classes(classes)


def card(title: str, classes: str = "") -> Element:
    """Return a section with a heading, to put others into."""
    section = box("section", f"card {classes}")
    with section:
        heading = Words(title, "h2")
    section.props["aria-labelledby"] = heading.html_id
    heading.props["id"] = heading.html_id
    return section


def folded(title: str, *, opened: bool = False, classes: str = "") -> Element:
    """Return what opens with a click or the Enter key on its title (a native details element)."""
    details = box("details", f"card {classes}")
    if opened:
        details.props["open"] = True
    with details:
        Words(title, "summary")
    return details


def button(text: str, on_click: Callable[..., Any], classes: str = "quiet", label: str = "") -> Words:
    """Return a native button; `label` is what is read aloud where the text alone does not say enough."""
    element = Words(text, "button", f"button {classes}")
    element.props["type"] = "button"
    if label:
        element.props["aria-label"] = label
    element.on("click", on_click)
    return element


def figures(pairs: Iterable[tuple[str, str, str]]) -> Element:
    """Show numbers with what they are: (name, number, what stands below it)."""
    listed = box("dl", "figures")
    with listed:
        for name, number, below in pairs:
            with box("div"):
                Words(name, "dt")
                Words(number, "dd", "number")
                if below:
                    Words(below, "dd", "below")
    return listed


def bullets(lines: Sequence[str], classes: str = "") -> Element:
    """Show lines as a list."""
    listed = box("ul", classes)
    with listed:
        for line in lines:
            Words(line, "li")
    return listed


def table(caption: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> Element:
    """Show a table; a column is (heading, "left" or "right")."""
    around = open_table(caption)
    with around:
        with box("thead", role="rowgroup"), box("tr", role="row"):
            for title, side in columns:
                with_attributes(Words(title, "th", side), scope="col", role="columnheader")
        table_rows(columns, rows)
    return around


def open_table(caption: str) -> Element:
    """Return a table to put head and rows into; in a narrow window its rows become blocks, so roles are said."""
    with box("div", "scrolls", tabindex="0", role="region", aria_label=caption):
        around = box("table", role="table")
        with around:
            Words(caption, "caption", "unseen")
    return around


def table_rows(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> None:
    """Put rows into a table."""
    with box("tbody", role="rowgroup"):
        for row in rows:
            with box("tr", role="row"):
                for (title, side), cell in zip(columns, row, strict=True):
                    with_attributes(Words(cell, "td", side), role="cell", data_name=title)


def announce(text: str, kind: str = "info") -> None:
    """Tell the user something in passing."""
    ui.notify(text, type=kind, position="bottom", timeout=4000)  # type: ignore[arg-type]
