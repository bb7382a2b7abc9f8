"""The answer as a page: figures, drawings, reasons. Each function builds one section where it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui.element import Element

from optimizer.plan import Plan
from optimizer.report.drawings import draw_latency, draw_layout, draw_memory
from optimizer.report.text import amount_of, dollars, milliseconds
from optimizer.web.page import words
from optimizer.web.page.charts import draw_front, draw_prices
from optimizer.web.page.elements import (
    Words,
    box,
    bullets,
    button,
    card,
    drawing,
    figures,
    folded,
    open_table,
    table,
    table_rows,
    with_attributes,
)
from optimizer.web.page.history import PriceStood
from optimizer.whatif.front_points import Front

WIDE, NARROW = 780.0, 350.0
SHOWN_AT_FIRST = 8
ROWS_AT_FIRST = 12
BADGES = {"optimal": "Optimal, proved", "feasible": "Feasible, not proved", "infeasible": "Infeasible"}


def both_widths(draw: Callable[[float], str]) -> None:
    """Draw twice, for wide and for narrow windows; the style sheet shows one."""
    drawing(draw(WIDE), "drawing if-wide")
    drawing(draw(NARROW), "drawing if-narrow")


def badge(status: str) -> Element:
    """Show the status in a word; its colour says it again."""
    return Words(BADGES.get(status, status), "span", f"badge {status}")


def show_headline(plan: Plan) -> Element:
    """Show what the answer is, what it costs and what is proved of it."""
    with card("Answer", "headline") as found:
        badge(plan.status)
        Words(plan.summary, "p", "summary")
        figures(words.headline(plan))
        Words(words.proof(plan), "p", "muted")
        if plan.warnings:
            with box("div", "warnings", role="note", aria_label="Warnings"):
                bullets([f"Warning: {warning}" for warning in plan.warnings])
    return found


def show_layout(plan: Plan) -> None:
    """Draw the layout."""
    layout = plan.layout
    if layout is None:
        return
    with card("Layout"):
        Words(
            f"{amount_of(layout.nodes, 'node')} at {dollars(layout.price_usd_per_node_hour)} per node-hour, region "
            f"{layout.region}.",
            "p",
            "muted",
        )
        both_widths(lambda width: draw_layout(layout, width=width))


def show_memory(plan: Plan) -> None:
    """Draw the memory of the fullest GPU."""
    memory = plan.memory
    if memory is None:
        return
    with card("Memory per GPU"):
        both_widths(lambda width: draw_memory(memory, width=width))
        Words(words.memory_line(plan), "p", "muted")


def show_latency(plan: Plan) -> None:
    """Draw latencies against their targets."""
    performance = plan.performance
    if performance is None:
        return
    with card("Latency and throughput"):
        both_widths(lambda width: draw_latency(performance, plan.targets, width=width))
        bullets(words.performance_lines(plan), "muted")


def show_prices(plan: Plan) -> Element:
    """Say which prices count; return where their history goes."""
    with card("Prices"):
        bullets(words.price_lines(plan), "plain")
        return box("div", "later")


def show_history(place: Element, plan: Plan, history: Sequence[PriceStood]) -> None:
    """Draw how the price of the chosen offer moved."""
    layout = plan.layout
    place.clear()
    with place:
        if not history or layout is None:
            Words("No history of this offer's price is kept.", "p", "muted")
            return
        both_widths(lambda width: draw_prices(history, layout, width=width))
        rows = [
            (str(one.first_seen), str(one.last_seen), dollars(one.usd_per_node_hour), one.source) for one in history
        ]
        columns = (("first seen", "left"), ("last seen", "left"), ("$/node-hour", "right"), ("source", "left"))
        with folded("The same as a table", classes="inner"):
            table("Prices of this offer", columns, rows)


def show_front(place: Element, front: Front, plan: Plan) -> None:
    """Draw the front of cost against latency, with its points as a table."""
    place.clear()
    with place:
        if not front.points:
            Words("No layout keeps every rule, so there is no front.", "p", "muted")
            return
        Words(
            f"{len(front.points)} layouts that no other beats in cost, TPOT and TTFT, of {front.compared:,} compared. "
            "The numbers are those of the table; the ring marks the best step up from the cheapest.",
            "p",
            "muted",
        )
        for name in ("tpot", "ttft"):
            both_widths(lambda width, name=name: draw_front(front, name, width=width))  # type: ignore[misc]
        rows = [
            (
                str(at),
                dollars(point.usd_per_hour),
                milliseconds(point.tpot_ms),
                milliseconds(point.ttft_ms),
                f"{point.summary}{' (knee)' if point.knee else ''}"
                f"{' (the answer)' if point.summary == plan.summary else ''}",
            )
            for at, point in enumerate(front.points, start=1)
        ]
        columns = (("#", "right"), ("$/hour", "right"), ("TPOT", "right"), ("TTFT", "right"), ("layout", "left"))
        table("Layouts of the front", columns, rows[:ROWS_AT_FIRST])
        if rest := rows[ROWS_AT_FIRST:]:
            with folded(f"{len(rest)} dearer ones", classes="inner"):
                table("Dearer layouts of the front", columns, rest)


class Alternatives:
    """The cheapest layout on each other GPU as a table, sorted by the column whose heading is pressed."""

    def __init__(self, plan: Plan):
        self._found = plan.alternatives
        self._column, self._down, self._most = 1, False, SHOWN_AT_FIRST
        if self._found:
            with folded(f"Other GPUs, and why they lost ({len(self._found)})", opened=True):
                self._place = box("div")
            self._show()

    def _show(self) -> None:
        self._place.clear()
        with self._place:
            self._show_table()
            if len(self._found) > self._most:
                button(f"Show all {len(self._found)}", self._show_all)

    def _show_all(self) -> None:
        self._most = len(self._found)
        self._show()

    def _show_table(self) -> None:
        found = words.sorted_alternatives(self._found, self._column, down=self._down)[: self._most]
        with open_table("The cheapest layout on each other GPU"):
            with box("thead", role="rowgroup"), box("tr", role="row"):
                for at, (title, side) in enumerate(words.ALTERNATIVE_COLUMNS):
                    self._heading(at, title, side)
            table_rows(words.ALTERNATIVE_COLUMNS, map(words.alternative_row, found))

    def _heading(self, at: int, title: str, side: str) -> None:
        here = at == self._column
        order = ("descending" if self._down else "ascending") if here else "none"
        arrow = (" \u25bc" if self._down else " \u25b2") if here else ""
        with with_attributes(box("th", side), scope="col", role="columnheader", aria_sort=order):
            button(f"{title}{arrow}", lambda: self._sort(at), "heading")

    def _sort(self, column: int) -> None:
        self._down = not self._down if column == self._column else False
        self._column = column
        self._show()


def show_cheaper(plan: Plan, follow: Callable[[str], Any]) -> None:
    """List what would be cheaper, each with a button that asks so."""
    if not plan.cheaper_if:
        return
    with card("It would be cheaper with"), box("ul", "advice"):
        for one in plan.cheaper_if:
            with box("li"):
                with box("div"):
                    Words(
                        f"{one.change}: {dollars(one.usd_per_hour)}/hour, saves "
                        f"{dollars(one.saving_usd_per_hour)}/hour",
                        "strong",
                    )
                    Words(one.summary, "p", "muted")
                button("Apply", lambda flag=one.flag: follow(flag), label=f"Apply: {one.change}")


def show_ladder(plan: Plan) -> None:
    """Show the four steps that explain the answer."""
    if not plan.explanation:
        return
    with folded("How one gets there, step by step"):
        for step in plan.explanation:
            Words(step.title, "h3")
            bullets(step.lines)


def show_ruled_out(plan: Plan) -> None:
    """Show how many candidates each rule ruled out."""
    if not plan.ruled_out:
        return
    total = sum(plan.ruled_out.values())
    with folded(f"Ruled out: {total:,} of {plan.solver.candidates:,} candidates"):
        Words("Each is counted under the first rule it breaks.", "p", "muted")
        columns = (("rule", "left"), ("count", "right"), ("what it asks", "left"))
        table("Candidates ruled out, by rule", columns, words.ruled_out_rows(plan))


def show_infeasible(plan: Plan, follow: Callable[[str], Any], can_follow: Callable[[str], bool]) -> Element:
    """Show why nothing works, what comes near, and the least changes that would do; return the head of it."""
    with card("Answer", "headline") as found:
        badge(plan.status)
        Words("No layout in the catalog keeps every rule.", "p", "summary")
        for line in words.price_lines(plan)[:1]:
            Words(line, "p", "muted")
        if plan.warnings:
            with box("div", "warnings", role="note", aria_label="Warnings"):
                bullets([f"Warning: {warning}" for warning in plan.warnings])
    with card("These rules cannot hold together"):
        table(
            "Rules in conflict",
            (("rule", "left"), ("what it asks", "left"), ("here", "left")),
            [(one.rule, one.meaning, one.needs) for one in plan.conflict],
        )
    if plan.least_changes:
        with card("The least change that would do"), box("ul", "advice"):
            for one in plan.least_changes:
                with box("li"):
                    with box("div"):
                        Words(f"{one.change}: {dollars(one.usd_per_hour)}/hour", "strong")
                        Words(one.summary, "p", "muted")
                    if can_follow(one.flag):
                        button("Apply", lambda flag=one.flag: follow(flag), label=f"Apply: {one.change}")
    if plan.nearest_misses:
        with card("Nearest misses"), box("ul"):
            for miss in plan.nearest_misses:
                with box("li"):
                    Words(f"{miss.summary}: {dollars(miss.usd_per_hour)}/hour", "strong")
                    bullets([f"breaks {name}: {said}" for name, said in miss.breaks.items()])
    return found
