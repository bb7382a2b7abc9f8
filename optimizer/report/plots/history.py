"""How prices moved, over dates, with the offer of a plan marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from importlib import import_module
from typing import Any

import pandas as pd

from optimizer.errors import QuestionError
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.report.plots.figure import BAD, DASHES, INK, LINE, MARKERS, Numbers, Picture, colour_of
from optimizer.wording import dollars

KEY = ["provider", "instance_type", "region", "term", "source"]
MOST_NAMED = 8  # of the offers, those that cost least at the end; the others are grey


@dataclass(frozen=True)
class Mark:
    """The offer of a plan."""

    gpu: str
    provider: str
    instance_type: str
    region: str
    term: str
    usd_per_gpu_hour: float
    seen_on: date

    def is_of(self, names: Sequence[Any]) -> bool:
        """Whether a line is of this offer."""
        return tuple(names[:4]) == (self.provider, self.instance_type, self.region, self.term)


def marks_of(plan: Plan | FleetPlan) -> list[Mark]:
    """Return the offers that a plan rents, at its own prices."""
    if isinstance(plan, FleetPlan):
        return [
            Mark(site.gpu, site.provider, one.instance_type, site.region, one.term,
                 one.price_usd_per_node_hour / site.gpus_per_node, one.price_seen_on)
            for site in plan.sites
            for one in site.purchases
        ]  # fmt: skip
    one = plan.layout
    if one is None:
        return []
    price = one.price_usd_per_node_hour / one.gpus_per_node
    return [Mark(one.gpu, one.provider, one.instance_type, one.region, one.term, price, one.price_seen_on)]


def history_picture(frame: pd.DataFrame, marks: Sequence[Mark] = ()) -> Picture:
    """Return the price of each offer over time, as steps that break off where it was gone.

    Raises:
        QuestionError: there is nothing to draw.
    """
    if frame.empty:
        raise QuestionError("--plot: no price fits, so there is nothing to draw")
    lines = [_Line(tuple(names), part) for names, part in frame.groupby(KEY, sort=False)]
    lines.sort(key=lambda line: (not any(mark.is_of(line.names) for mark in marks), line.last, line.label))

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        _paint(axes, lines, marks)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)

    gpus = sorted(set(frame["gpu"]))
    what = gpus[0] if len(gpus) == 1 else f"{len(gpus)} GPU types"
    title = f"List prices of {what}: {len(lines):,} offer{'s' if len(lines) > 1 else ''}"
    return Picture(title, (10.0, 5.8), paint, [_numbers(lines, marks)])


class _Line:
    """The price of one offer over time."""

    def __init__(self, names: tuple[Any, ...], periods: pd.DataFrame):
        self.names = names
        self.label = " ".join(str(name) for name in names if name != "global")
        self.times: list[Any] = []
        self.prices: list[float] = []
        self.rows: list[tuple[Any, Any, float, str]] = []
        for row in periods.to_dict("records"):
            stop = row["last_seen"] if pd.isna(row["until"]) else row["until"]
            price = float(row["price_usd_per_gpu_hour"])
            self.times += [row["first_seen"], stop, stop]
            self.prices += [price, price, float("nan") if row["gone"] else price]
            then = "stands" if pd.isna(row["until"]) else "gone" if row["gone"] else "changed"
            self.rows.append((row["first_seen"], stop, price, then))
        self.last = self.rows[-1][2]


def _paint(axes: Any, lines: Sequence[_Line], marks: Sequence[Mark]) -> None:
    others = lines[MOST_NAMED:]
    for number, line in enumerate(others):
        said = f"{len(others):,} other offer{'s' if len(others) > 1 else ''}" if number == 0 else None
        axes.plot(line.times, line.prices, color=LINE, linewidth=0.7, alpha=0.6, label=said, zorder=1)
    for number, line in enumerate(lines[:MOST_NAMED]):
        marked = any(mark.is_of(line.names) for mark in marks)
        axes.plot(
            line.times, line.prices, label=line.label, color=colour_of(number), zorder=3 if marked else 2,
            linestyle=DASHES[(number // 6) % len(DASHES)], linewidth=2.6 if marked else 1.4,
            marker=MARKERS[number % len(MARKERS)], markersize=4.5,
        )  # fmt: skip
    for number, mark in enumerate(marks):
        seen = datetime.combine(mark.seen_on, time(12), UTC)
        axes.plot([seen], [mark.usd_per_gpu_hour], "*", color=BAD, markeredgecolor=INK, markersize=17, zorder=5,
                  label="the plan's price" if number == 0 else None)  # fmt: skip
        axes.annotate(f"plan: {dollars(mark.usd_per_gpu_hour)}", (seen, mark.usd_per_gpu_hour), xytext=(-10, 12),
                      textcoords="offset points", ha="right", fontweight="bold", zorder=6)  # fmt: skip
    _date_axis(axes)
    prices = [price for line in lines for _, _, price, _ in line.rows] + [mark.usd_per_gpu_hour for mark in marks]
    axes.set(ylabel="USD per GPU-hour", ylim=(0, max(prices) * 1.12))
    axes.grid(visible=True, axis="y")


def _date_axis(axes: Any) -> None:
    dates: Any = import_module("matplotlib.dates")  # an extra, and not typed
    locator = dates.AutoDateLocator(minticks=3, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.set_xlabel("date (UTC)")


def _numbers(lines: Sequence[_Line], marks: Sequence[Mark]) -> Numbers:
    rows = [
        [line.label + (" (the plan's)" if any(mark.is_of(line.names) for mark in marks) else ""),
         f"{price:,.3f}", f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}", then]
        for line in lines
        for first, last, price, then in line.rows
    ]  # fmt: skip
    return Numbers(("offer", "USD per GPU-hour", "from", "to", "then"), rows)
