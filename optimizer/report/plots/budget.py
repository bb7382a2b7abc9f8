"""What budgets buy, as a picture: a panel for each thing that was maximized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimizer.fleet.budget import FleetBudgets
from optimizer.report.budget import TITLES, UNITS
from optimizer.report.plots.figure import BAD, INK, MARKERS, MUTED, Numbers, Picture, colour_of, logarithmic
from optimizer.whatif.budget_report import Bought, BudgetReport

LEAST = ("tpot", "ttft")  # where less is better


def budget_picture(report: BudgetReport) -> Picture:
    """Return what each budget buys of each thing, against the budget."""
    found: dict[str, list[tuple[float, Bought]]] = {}
    for answer in report.budgets:
        for one in answer.bought:
            found.setdefault(one.what, []).append((answer.usd_per_hour, one))
    across = 2 if len(found) > 1 else 1
    down = -(-len(found) // across)

    def paint(figure: Any) -> None:
        panels = figure.subplots(down, across, squeeze=False).flat
        for number, (axes, (what, points)) in enumerate(zip(panels, found.items(), strict=False)):
            _paint(axes, what, points, number, report.least_usd_per_hour)
        for axes in list(figure.axes)[len(found) :]:
            axes.set_axis_off()
        key = [figure.axes[0].plot([], [], "--", color=MUTED)[0], figure.axes[0].plot([], [], "x", color=BAD)[0]]
        said = ["least cost of the scenario as it is asked", "the budget buys none"]
        figure.legend(key, said, loc="outside lower center", ncols=2)

    title = f"What budgets buy: {report.scenario['model']}"
    return Picture(title, (5.2 * across + 0.6, 3.0 * down + 0.8), paint, [_numbers(found)])


def _paint(axes: Any, what: str, points: Sequence[tuple[float, Bought]], number: int, least: float | None) -> None:
    bought = [(budget, one) for budget, one in points if one.value is not None]
    values = [float(one.value) for _, one in bought if one.value is not None]
    shade = colour_of(number)
    axes.plot(
        [budget for budget, _ in bought],
        values,
        color=shade,
        marker=MARKERS[number],
        drawstyle="steps-post",
        linewidth=1.6,
    )
    for (budget, one), value in zip(bought, values, strict=True):
        axes.annotate(
            f"{value:,.0f}" if one.unit == "tokens" else f"{value:,.3g}", (budget, value),
            xytext=(6, 5) if what in LEAST else (0, 7), ha="left" if what in LEAST else "center",
            textcoords="offset points", fontsize=9,
        )  # fmt: skip
    none = [budget for budget, one in points if one.value is None]
    if none:
        axes.plot(none, [0.03] * len(none), "x", color=BAD, transform=axes.get_xaxis_transform(), clip_on=False)
    budgets = [budget for budget, _ in points]
    if least is not None and min(budgets) <= least <= max(budgets):
        axes.axvline(least, color=MUTED, linestyle="--", linewidth=1)
    unit = UNITS.get(points[0][1].unit, points[0][1].unit)
    axes.set_title(TITLES[what][0].upper() + TITLES[what][1:])
    axes.set(xlabel="budget, USD per hour", ylabel=unit)
    logarithmic(axes, "x", budgets)
    if not logarithmic(axes, "y", values):
        axes.set_ylim(0, max(values, default=1.0) * 1.25)
    axes.margins(x=0.12)
    axes.grid(visible=True, axis="y")


def _numbers(found: dict[str, list[tuple[float, Bought]]]) -> Numbers:
    rows = [
        [TITLES[what], f"{budget:,.2f}", one.said, "-" if one.usd_per_hour is None else f"{one.usd_per_hour:,.2f}",
         one.summary or ""]
        for what, points in found.items()
        for budget, one in points
    ]  # fmt: skip
    return Numbers(("", "budget, USD per hour", "buys", "costs, USD per hour", "layout"), rows)


def fleet_budget_picture(found: FleetBudgets) -> Picture:
    """Return the most traffic that each budget carries of a fleet."""
    points = [(one.budget_usd_per_hour, one.requests_per_second) for one in found.budgets if one.times is not None]
    none = [one.budget_usd_per_hour for one in found.budgets if one.times is None]

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot(*zip(*points, strict=True), color=colour_of(0), marker="o") if points else None
        for one in found.budgets:
            if one.times is not None:
                place = (one.budget_usd_per_hour, one.requests_per_second)
                axes.annotate(f"{one.times:.3g} times", place, xytext=(0, 8), textcoords="offset points", ha="center")
        if none:
            axes.plot(none, [0.03] * len(none), "x", color=BAD, transform=axes.get_xaxis_transform(), clip_on=False)
        axes.axhline(found.asked_requests_per_second, color=INK, linestyle="--", linewidth=1, label="the traffic asked")
        axes.set(xlabel="budget, USD per hour", ylabel="requests/s of all classes, in the busiest hour")
        axes.set_ylim(0, max([found.asked_requests_per_second, *(rate for _, rate in points)]) * 1.2)
        axes.grid(visible=True, axis="y")
        axes.legend()

    rows = [
        [f"{one.budget_usd_per_hour:,.2f}", "-" if one.times is None else f"{one.times:.3g}",
         f"{one.requests_per_second:,.3g}", "-" if one.usd_per_hour is None else f"{one.usd_per_hour:,.2f}"]
        for one in found.budgets
    ]  # fmt: skip
    headings = ("budget, USD per hour", "times the traffic", "requests/s", "costs, USD per hour")
    return Picture("The most traffic that each budget carries", (8.0, 4.8), paint, [Numbers(headings, rows)])
