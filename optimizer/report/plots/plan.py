"""A plan as a picture: memory bars, and latency against targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.report.drawings.latency import Latency, latencies
from optimizer.report.plots.figure import BAD, COLOURS, GOOD, INK, MUTED, Numbers, Picture
from optimizer.report.plots.memory import memory_numbers, paint_memory
from optimizer.report.text import dollars
from optimizer.wording import LATENCY_NAMES, milliseconds


def plan_picture(plan: Plan) -> Picture | None:
    """Return the picture of an answer; None where there is none to draw."""
    if plan.layout is None or plan.memory is None or plan.performance is None or plan.cost is None:
        return None
    bars = [("fullest GPU", plan.memory)]
    rows = latencies(plan.performance, plan.targets)

    def paint(figure: Any) -> None:
        top, below = figure.subfigures(2, 1, height_ratios=(1.15, 2.2))
        axes = top.subplots()
        paint_memory(axes, bars)
        axes.set_title("Memory")
        top.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5)
        for each, row in zip(below.subplots(len(rows), 1), rows, strict=True):
            _paint_latency(each, row)

    title = f"{plan.summary}, {dollars(plan.cost.usd_per_hour)}/hour"
    return Picture(title, (9.0, 6.2), paint, [_latency_numbers(rows), memory_numbers(bars)])


def _paint_latency(axes: Any, row: Latency) -> None:
    """Draw one latency in ms from 0: its 80% band, the prediction, and the target."""
    asked = row.target.target if row.target is not None else 0.0
    if row.target is not None:
        axes.barh(0, asked, height=0.9, color=GOOD, alpha=0.12)
        axes.axvline(asked, color=INK, linewidth=2.2)
    axes.barh(0, row.high - row.low, left=row.low, height=0.4, color=COLOURS[0], alpha=0.45)
    axes.plot(row.predicted, 0, "o", color=COLOURS[0], markersize=7, markeredgecolor="white")
    said = (
        f"{row.label}: {milliseconds(row.predicted)}, 80% of runs {milliseconds(row.low)} to {milliseconds(row.high)}"
    )
    axes.set_title(said[0].upper() + said[1:])
    if row.target is not None:
        shade = GOOD if row.target.holds else BAD
        verdict = f"target {milliseconds(asked)}: {row.verdict}"
        axes.set_title(verdict, loc="right", color=shade, fontweight="bold")
    axes.set(xlim=(0, max(row.high, asked) * 1.06), ylim=(-0.5, 0.5), yticks=(), xlabel="ms")
    axes.spines["left"].set_visible(False)


def _latency_numbers(rows: Sequence[Latency]) -> Numbers:
    said = [
        [
            row.label,
            milliseconds(row.predicted),
            milliseconds(row.low),
            milliseconds(row.high),
            "-" if row.target is None else milliseconds(row.target.target),
            row.verdict,
        ]
        for row in rows
    ]
    return Numbers(("", "predicted", "80% from", "80% to", "target", ""), said, "Latency")


def fleet_picture(plan: FleetPlan) -> Picture | None:
    """Return the picture of a fleet: memory of each pool, and what each class gets of what it may take."""
    if plan.cost is None or not plan.pools:
        return None
    bars = [(f"{pool.id}: {pool.model}", pool.memory) for pool in plan.pools]
    shares = _shares(plan)

    def paint(figure: Any) -> None:
        top, below = figure.subfigures(2, 1, height_ratios=(1.2 + 0.45 * len(bars), 1.2 + 0.3 * max(len(shares), 1)))
        axes = top.subplots()
        paint_memory(axes, bars)
        axes.set_title("Memory of the fullest GPU of each pool")
        top.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5)
        _paint_shares(below.subplots(), shares)

    height = 3.2 + 0.5 * len(bars) + 0.32 * len(shares)
    numbers = [_share_numbers(shares), memory_numbers(bars)]
    return Picture(f"{plan.summary}, {dollars(plan.cost.usd_per_hour)}/hour", (9.6, height), paint, numbers)


def _shares(plan: FleetPlan) -> list[tuple[str, str, float, float]]:
    """Return (class on pool, latency, predicted ms, target ms) of every target."""
    rows = []
    for one in plan.classes:
        for pool in plan.pools:
            for served in pool.serves:
                if (pool.model, served.class_name) != (one.model, one.name) or served.share <= 0:
                    continue
                rows += [
                    (f"{one.name} on {pool.id}", label, float(getattr(served, f"{name}_ms")), float(target))
                    for name, label in LATENCY_NAMES.items()
                    if (target := one.targets.get(f"{name}_ms")) is not None
                ]
    return rows


def _paint_shares(axes: Any, rows: Sequence[tuple[str, str, float, float]]) -> None:
    axes.set_title("Predicted latency as a share of its target")
    if not rows:
        axes.text(0.5, 0.5, "no target is asked for", ha="center", color=MUTED, transform=axes.transAxes)
        axes.set_axis_off()
        return
    for at, (_, _, predicted, target) in enumerate(rows):
        share = predicted / target
        axes.plot([0, share], [at, at], color=COLOURS[0], linewidth=2, alpha=0.5)
        axes.plot(share, at, "o", color=GOOD if share <= 1 else BAD, markersize=7, markeredgecolor="white")
        axes.annotate(f"{milliseconds(predicted)} of {milliseconds(target)}", (share, at), xytext=(8, 0),
                      textcoords="offset points", va="center", fontsize=9)  # fmt: skip
    axes.axvline(1.0, color=INK, linewidth=2.2)
    most = max(1.0, *(predicted / target for _, _, predicted, target in rows))
    axes.set(xlim=(0, most * 1.25), yticks=range(len(rows)), xlabel="share of the target (1 is the target)")
    axes.set_yticklabels([f"{name}, {label}" for name, label, _, _ in rows])
    axes.invert_yaxis()
    axes.grid(axis="x")


def _share_numbers(rows: Sequence[tuple[str, str, float, float]]) -> Numbers:
    said = [[f"{name}, {label}", milliseconds(predicted), milliseconds(target), f"{predicted / target:.0%}"]
            for name, label, predicted, target in rows]  # fmt: skip
    return Numbers(("", "predicted", "target", "share"), said, "Latency of each class")
