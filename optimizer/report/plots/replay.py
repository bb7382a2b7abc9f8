"""A replayed trace as a picture: simulated latencies beside the closed form and the plan, and the targets."""

from __future__ import annotations

from typing import Any

from optimizer.report.plots.figure import BAD, COLOURS, GOOD, INK, Numbers, Picture, logarithmic
from optimizer.simulate import Latencies, Replay
from optimizer.wording import LATENCY_NAMES, milliseconds

LINES = (("simulated", COLOURS[0], "o", "-"), ("closed form", COLOURS[1], "s", "--"), ("plan", COLOURS[2], "^", ":"))


def replay_picture(found: Replay) -> Picture:
    """Return latencies by percentile, a panel each."""
    sources: list[tuple[str, Latencies | None]] = [
        ("simulated", found.simulated),
        ("closed form", found.closed_form),
        ("plan", found.planned),
    ]

    def paint(figure: Any) -> None:
        for axes, name in zip(figure.subplots(1, len(LATENCY_NAMES)), LATENCY_NAMES, strict=True):
            _paint(axes, found, name, sources)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)

    return Picture(f"Replayed: {found.summary}", (12.0, 4.6), paint, [_numbers(sources)])


def _paint(axes: Any, found: Replay, name: str, sources: list[tuple[str, Latencies | None]]) -> None:
    values: list[float] = []
    for (label, latencies), (_, colour, marker, dash) in zip(sources, LINES, strict=True):
        if latencies is None:
            continue
        by_level = getattr(latencies, f"{name}_ms")
        axes.plot(list(by_level), list(by_level.values()), dash, color=colour, marker=marker, label=label)
        values += by_level.values()
    axes.set_title(LATENCY_NAMES[name][0].upper() + LATENCY_NAMES[name][1:])
    for target in found.targets:
        if target.name == name:
            axes.axhline(target.target_ms, color=INK, linewidth=1.6)
            said = f"target at {target.at}: {'holds' if target.holds else 'missed'}, {target.attained:.1%} within"
            axes.annotate(said, (0.02, target.target_ms), xycoords=("axes fraction", "data"), xytext=(0, 4),
                          textcoords="offset points", color=GOOD if target.holds else BAD, fontsize=9)  # fmt: skip
            values.append(target.target_ms)
    axes.set_ylabel("ms")
    if not logarithmic(axes, "y", values):
        axes.set_ylim(0, max(values, default=1.0) * 1.15)
    axes.grid(visible=True, axis="y")


def _numbers(sources: list[tuple[str, Latencies | None]]) -> Numbers:
    levels = list(sources[0][1].ttft_ms) if sources[0][1] is not None else []
    rows = [
        [f"{said}, {label}", *(milliseconds(getattr(latencies, f"{name}_ms")[level]) for level in levels)]
        for name, said in LATENCY_NAMES.items()
        for label, latencies in sources
        if latencies is not None
    ]
    return Numbers(("", *levels), rows, "Latency")
