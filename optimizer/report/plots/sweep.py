"""A sweep as a picture: cost against the varied number; colours are layouts, or the values of a second field."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from optimizer.errors import QuestionError
from optimizer.report.plots.figure import BAD, LINE, MARKERS, MUTED, Numbers, Picture, colour_of, logarithmic
from optimizer.report.sweep import SOLVED, layout_of, layout_words, shown
from optimizer.whatif.chunks import Row
from optimizer.whatif.points import Grid
from optimizer.whatif.price_factors import PREFIX
from optimizer.whatif.sweep import Sweep

MOST_NAMED = 12  # entries of a legend
MOST_MARKED = 40  # points of a line that each get a marker
UNITS = {
    "workload.request_rate": "requests/s",
    "workload.concurrency": "requests in flight",
    "workload.output_tokens_per_second": "output tokens/s",
    "limits.budget_usd_per_hour": "USD/hour",
}


def check_grid(grid: Grid) -> None:
    """Refuse, before anything is solved, a grid that could not be drawn.

    Raises:
        QuestionError: more than two fields are varied, or none of numbers.
    """
    if len(grid.axes) > 2:
        raise QuestionError(f"--plot draws one or two varied fields; {len(grid.axes)} are varied")
    if not any(axis.is_numeric for axis in grid.axes):
        raise QuestionError(f"--plot needs a varied field of numbers; {' and '.join(grid.names)} have none")


def sweep_picture(found: Sweep) -> Picture:
    """Return a sweep of one or two fields."""
    across, *others = sorted(found.varied, key=lambda varied: not _numeric(varied.values))
    rows = sorted(found.table(), key=lambda row: row[across.field])

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        if others:
            _draw_lines(axes, rows, across.field, others[0].field, others[0].values)
        else:
            _draw_stretches(axes, rows, across.field)
        _draw_unsolved(axes, rows, across.field, bool(others))
        _finish(axes, found, across.field, rows, bool(others))

    fields = " and ".join(varied.field for varied in found.varied)
    return Picture(f"{_model_words(found)}: cheapest layout by {fields}", (9.6, 5.8), paint, [_numbers(found, rows)])


def _numbers(found: Sweep, rows: list[Row]) -> Numbers:
    fields = [varied.field for varied in found.varied]
    said = [
        [
            *(shown(row[field]) for field in fields),
            f"{row['usd_per_hour']:,.2f}" if row["status"] in SOLVED else str(row["status"]),
            layout_words(row) if row["status"] in SOLVED else "",
        ]
        for row in rows
    ]
    return Numbers((*(_label(field) for field in fields), "USD per hour", "layout"), said)


def _draw_stretches(axes: Any, rows: list[Row], field: str) -> None:
    """One line, in the colour of the layout that is the cheapest there; a grey one holds the stretches together."""
    solved = [row for row in rows if row["status"] in SOLVED]
    for _, same in itertools.groupby(rows, lambda row: row["status"] in SOLVED):
        part = [row for row in same if row["status"] in SOLVED]
        axes.plot(*_points(part, field), color=LINE, linewidth=1.0, zorder=1)
    for place, layout in enumerate(dict.fromkeys(layout_of(row) for row in solved)):
        first = next(row for row in solved if layout_of(row) == layout)
        label = layout_words(first) if place < MOST_NAMED else None
        colour = colour_of(place) if place < MOST_NAMED else MUTED
        shape = MARKERS[place % len(MARKERS)]
        for at, same in itertools.groupby(rows, layout_of):
            if at == layout:
                part = list(same)
                marker = shape if len(rows) <= MOST_MARKED or len(part) == 1 else None
                axes.plot(
                    *_points(part, field),
                    color=colour, marker=marker, markersize=5, linewidth=2.4, label=label, zorder=2,
                )  # fmt: skip
                label = None


def _draw_lines(axes: Any, rows: list[Row], field: str, other: str, values: Sequence[Any]) -> None:
    """A line for each value of the second field; its markers say which GPU."""
    from matplotlib import colormaps  # noqa: PLC0415  an extra

    gpus = list(dict.fromkeys(row["gpu"] for row in rows if row["status"] in SOLVED))
    ordered = _numeric(values) and len(values) > 3
    for place, value in enumerate(values):
        part = [row for row in rows if row[other] == value]
        colour = colormaps["viridis"](0.88 * place / (len(values) - 1)) if ordered else colour_of(place)
        label: str | None = shown(value) if place < MOST_NAMED else None
        for solved, same in itertools.groupby(part, lambda row: row["status"] in SOLVED):
            if solved:
                axes.plot(*_points(list(same), field), color=colour, linewidth=2.0, label=label)
                label = None
        if len(part) <= MOST_MARKED:
            for row in part:
                if row["status"] in SOLVED:
                    marker = MARKERS[gpus.index(row["gpu"]) % len(MARKERS)]
                    axes.plot(*_points([row], field), color=colour, marker=marker, markersize=6)
    if all(sum(row[other] == value for row in rows) <= MOST_MARKED for value in values[:1]):
        for place, gpu in enumerate(gpus[:MOST_NAMED]):
            axes.plot([], [], color=MUTED, linestyle="", marker=MARKERS[place % len(MARKERS)], label=gpu)


def _draw_unsolved(axes: Any, rows: list[Row], field: str, several: bool) -> None:
    """A cross at the foot for each value at which some point has no layout."""
    values = sorted({row[field] for row in rows if row["status"] not in SOLVED})
    if values:
        foot = axes.get_xaxis_transform()
        axes.plot(
            values,
            [0.02] * len(values),
            "x",
            color=BAD,
            transform=foot,
            label="no layout (of some)" if several else "no layout",
            clip_on=False,
        )


def _finish(axes: Any, found: Sweep, field: str, rows: list[Row], two: bool) -> None:
    costs = [row["usd_per_hour"] for row in rows if row["status"] in SOLVED]
    values = [row[field] for row in rows]
    axes.set_xlabel(_label(field))
    axes.set_ylabel("cost of the cheapest layout, USD/hour")
    logarithmic(axes, "x", values)
    if not logarithmic(axes, "y", costs):
        axes.set_ylim(bottom=0)
    axes.grid(visible=True, which="major")
    other = next((varied.field for varied in found.varied if varied.field != field), "")
    title = f"lines: {_label(other)}; markers: GPU" if two else "layout"
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 3 if two else 2}
    axes.legend(title=title, **place)


def _model_words(found: Sweep) -> str:
    model = str(found.scenario.get("model") or "").rpartition("/")[2]
    return "Several models" if any(varied.field == "model" for varied in found.varied) else model or "Model"


def _label(field: str) -> str:
    if field.startswith(PREFIX):
        return f"list price of {field.removeprefix(PREFIX)}, times"
    words = field.rpartition(".")[2]
    if words.endswith("_ms"):
        return f"{words.removesuffix('_ms').upper()} target, ms"
    unit = UNITS.get(field)
    said = words.replace("_usd_per_hour", "").replace("_", " ")
    return f"{said}, {unit}" if unit else said


def _points(rows: list[Row], field: str) -> tuple[list[Any], list[Any]]:
    return [row[field] for row in rows], [row["usd_per_hour"] for row in rows]


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
