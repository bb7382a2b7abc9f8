"""Charts of the page as SVG: the front of cost against a latency, and how a price moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta

from optimizer.plan import Layout
from optimizer.report.drawings.colours import category, colour
from optimizer.report.drawings.svg import Canvas, text_width
from optimizer.report.text import dollars, milliseconds
from optimizer.web.page.history import PriceStood
from optimizer.whatif.front_points import COLUMNS, Front, Objective
from optimizer.wording import LATENCY_NAMES

LEFT, RIGHT, TOP, BOTTOM = 62.0, 20.0, 26.0, 42.0
DOT = 9.0


def draw_front(front: Front, name: Objective, *, width: float = 720.0, height: float = 300.0) -> str:
    """Draw the points of a front, cost along and one latency up, both in proportion (logarithmic).

    Each point bears its number, the cheapest 1, as the table beside it does; the knee has a ring of its own.

    Args:
        front: with points.
        name: "tpot", "ttft" or "e2e".
        width: units that it is drawn in; letters are 11 of them high.
        height: the same, up.
    """
    canvas = Canvas(width)
    column = COLUMNS[name]
    costs = [point.usd_per_hour for point in front.points]
    values = [max(float(getattr(point, column)), 1e-6) for point in front.points]
    across = _Scale(min(costs), max(costs), LEFT + DOT, width - RIGHT - DOT)
    up = _Scale(min(values), max(values), height - BOTTOM - DOT, TOP + DOT)
    canvas.text(0, 12, f"{LATENCY_NAMES[name].capitalize()} (up) against cost (along)", size=12, bold=True)
    for value in up.ticks(4):
        canvas.line(LEFT, up.at(value), width - RIGHT, up.at(value), stroke=colour("line"), width=0.5, dash="2 3")
        canvas.text(LEFT - 6, up.at(value) + 4, milliseconds(value), size=11, anchor="end", fill=colour("muted"))
    for value in across.ticks(max(int(width // 110), 2)):
        canvas.line(across.at(value), TOP, across.at(value), height - BOTTOM, stroke=colour("line"), width=0.5)
        canvas.text(across.at(value), height - BOTTOM + 16, dollars(value), size=11, anchor="middle",
                    fill=colour("muted"))  # fmt: skip
    canvas.text(width - RIGHT, height - 6, "USD per hour", size=11, anchor="end", fill=colour("muted"))
    gpus = list(dict.fromkeys(point.layout.gpu for point in front.points))
    for at in range(len(front.points) - 1, -1, -1):  # the cheapest on top
        point, x, y = front.points[at], across.at(costs[at]), up.at(values[at])
        if point.knee:
            canvas.dot(x, y, DOT + 4, fill="none", stroke=colour("ink"))
        canvas.dot(x, y, DOT, fill=colour("ground"), stroke=category(gpus.index(point.layout.gpu)))
        canvas.text(x, y + 4, str(at + 1), size=11, anchor="middle", bold=True)
    told = "; ".join(
        f"{at}: {dollars(cost)} an hour, {milliseconds(value)}{', the knee' if point.knee else ''}, {point.summary}"
        for at, (cost, value, point) in enumerate(zip(costs, values, front.points, strict=True), start=1)
    )
    return canvas.svg(f"Cost against {LATENCY_NAMES[name]}", f"{told}.")


class _Scale:
    """From values to places, in proportion."""

    def __init__(self, low: float, high: float, start: float, end: float):
        if high <= low * 1.02:
            low, high = low / 1.1, high * 1.1
        self._low, self._high, self._start, self._end = low, high, start, end

    def at(self, value: float) -> float:
        """Return the place of a value."""
        share = math.log(value / self._low) / math.log(self._high / self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self, most: int) -> list[float]:
        """Return round values inside, at most so many."""
        for steps in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
            first = math.floor(math.log10(self._low))
            last = math.ceil(math.log10(self._high))
            found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            found = [value for value in found if self._low <= value <= self._high]
            if len(found) <= most:
                return found or [self._low, self._high][:most]
        return [self._low, self._high]


class _PriceField:
    """Where days (along) and prices from zero (up) lie on a canvas."""

    def __init__(self, history: Sequence[PriceStood], layout: Layout, width: float, height: float):
        self._width, self._height = width, height
        self.first = min(*(one.first_seen for one in history), layout.price_seen_on)
        self.last = max(*(one.last_seen for one in history), layout.price_seen_on)
        if self.first == self.last:
            self.first, self.last = self.first - timedelta(days=1), self.last + timedelta(days=1)
        self.most = max(*(one.usd_per_node_hour for one in history), layout.price_usd_per_node_hour)

    def x(self, day: date) -> float:
        """Return the place of a day."""
        return LEFT + DOT + (day - self.first) / (self.last - self.first) * (self._width - RIGHT - LEFT - 2 * DOT)

    def y(self, usd_per_node_hour: float) -> float:
        """Return the place of a price."""
        return self._height - BOTTOM - usd_per_node_hour / (self.most * 1.15) * (self._height - BOTTOM - TOP)


def draw_prices(history: Sequence[PriceStood], layout: Layout, *, width: float = 720.0, height: float = 180.0) -> str:
    """Draw how the price of the offer that a layout rents has moved, with the one that was used marked.

    Args:
        history: at least one price.
        layout: what rents it.
        width: units that it is drawn in; letters are 11 of them high.
        height: the same, up.
    """
    canvas, field = Canvas(width), _PriceField(history, layout, width, height)
    canvas.text(0, 12, "USD per node-hour", size=12, bold=True)
    for price in (0.0, field.most / 2, field.most):
        y = field.y(price)
        canvas.line(LEFT, y, width - RIGHT, y, stroke=colour("line"), width=0.5, dash="2 3")
        canvas.text(LEFT - 6, y + 4, dollars(price), size=11, anchor="end", fill=colour("muted"))
    for day, anchor in ((field.first, "start"), (field.last, "end")):
        canvas.text(field.x(day), height - BOTTOM + 18, day.isoformat(), size=11, anchor=anchor, fill=colour("muted"))
    _draw_stretches(canvas, field, history)
    used = f"used: {dollars(layout.price_usd_per_node_hour)}, seen {layout.price_seen_on}"
    _mark_used(canvas, field, layout, used)
    told = "; ".join(
        f"{dollars(one.usd_per_node_hour)} from {one.first_seen} to {one.last_seen} ({one.source})" for one in history
    )
    offer = f"{layout.provider} {layout.instance_type}, {layout.region}, {layout.term}"
    return canvas.svg(f"Price of {offer}", f"{told}; {used}.")


def _draw_stretches(canvas: Canvas, field: _PriceField, history: Sequence[PriceStood]) -> None:
    """Draw each price from the first day to the last that it was seen, joined to the one before of its source."""
    sources = list(dict.fromkeys(one.source for one in history))
    before: dict[str, PriceStood] = {}
    for one in history:
        line = category(sources.index(one.source))
        start, end, y = field.x(one.first_seen), field.x(one.last_seen), field.y(one.usd_per_node_hour)
        if (earlier := before.get(one.source)) is not None:
            canvas.line(field.x(earlier.last_seen), field.y(earlier.usd_per_node_hour), start, y,
                        stroke=line, width=1, dash="4 3")  # fmt: skip
        canvas.line(start, y, end, y, stroke=line, width=3)
        canvas.dot(start, y, 2.5, fill=line, stroke=line)
        canvas.dot(end, y, 2.5, fill=line, stroke=line)
        before[one.source] = one


def _mark_used(canvas: Canvas, field: _PriceField, layout: Layout, said: str) -> None:
    x, y = field.x(layout.price_seen_on), field.y(layout.price_usd_per_node_hour)
    canvas.dot(x, y, 6, fill=colour("ground"), stroke=colour("ink"))
    anchor = "end" if x > canvas.width / 2 else "start"
    least = text_width(said, 12) if anchor == "end" else 0
    canvas.text(max(min(x, canvas.width - 4), least), y - 11, said, anchor=anchor, bold=True)
