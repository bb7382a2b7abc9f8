"""Predicted against measured speed, a point a run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from optimizer.report.plots.figure import INK, MARKERS, MUTED, Numbers, Picture, colour_of, decades
from optimizer.validate.speed import SpeedValidation
from optimizer.validate.speed_predict import QUANTITIES
from optimizer.validate.speed_report import LABELS

OFF = (0.8, 1.25)  # the dashed lines: predictions that are off by so much


def speed_picture(found: SpeedValidation, result: pd.DataFrame) -> Picture:
    """Return predicted against measured TTFT, TPOT and throughput, by scenario."""
    points = result[result["not_judged"] == ""]

    def paint(figure: Any) -> None:
        for axes, name in zip(figure.subplots(1, len(QUANTITIES)), QUANTITIES, strict=True):
            _paint(axes, points, name)
        found_names = {
            label: handle
            for axes in figure.axes
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if found_names:
            handles, labels = list(found_names.values()), list(found_names)
            figure.legend(handles, labels, loc="outside lower center", ncols=5, markerscale=2)

    title = f"Predicted against measured, {found.judged:,} runs (dashed: {OFF[0]} and {OFF[1]} times)"
    return Picture(title, (13.0, 5.2), paint, [_numbers(found)])


def _paint(axes: Any, points: pd.DataFrame, name: str) -> None:
    measured = pd.to_numeric(points[name], errors="coerce") if name in points else pd.Series(dtype=float)
    known = points[measured > 0]
    scenarios = sorted(set(points["scenario"]))  # the same colour in every panel
    for scenario, part in known.groupby("scenario"):
        place = scenarios.index(scenario)
        axes.plot(
            measured[part.index], part[f"predicted_{name}"], MARKERS[place % len(MARKERS)], color=colour_of(place),
            markersize=3, markeredgewidth=0, alpha=0.45, label=str(scenario),
        )  # fmt: skip
    unit = "" if name.startswith("output") else ", ms"
    decades(axes, [*measured[known.index], *known[f"predicted_{name}"]])
    axes.set(xlabel=f"measured {LABELS[name]}{unit}", ylabel=f"predicted{unit}")
    axes.set_title(LABELS[name])
    axes.axline((1, 1), (10, 10), color=INK, linewidth=0.9)
    for off in OFF:
        axes.axline((1, off), (10, 10 * off), color=MUTED, linewidth=0.7, linestyle="--")


def _numbers(found: SpeedValidation) -> Numbers:
    groups = [("all", "all but bursts", found.overall), *((one.by, one.name, one.errors) for one in found.groups)]
    rows = [
        [
            f"{by}: {name}" if by != "all" else name,
            LABELS[one.quantity],
            f"{one.rows:,}",
            f"{one.mean_percent:.1f}",
            f"{one.median_percent:.1f}",
            f"{one.bias_percent:+.1f}",
            f"{one.covered:.0%}",
        ]
        for by, name, errors in groups
        for one in errors
    ]
    return Numbers(("runs of", "figure", "runs", "mean error, %", "median, %", "bias, %", "covered"), rows, "Errors")
