"""The drawing of latencies: prediction, its 80% band, and the target, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.plan import Performance, Prediction, TargetCheck
from optimizer.report.drawings.colours import category, colour
from optimizer.report.drawings.svg import Canvas, fitting, text_width
from optimizer.wording import LATENCY_NAMES, milliseconds

BAR = 14.0


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency as it is drawn and told: milliseconds, at a mean or a percentile."""

    name: str
    at: str
    predicted: float
    low: float
    high: float
    target: TargetCheck | None

    @property
    def label(self) -> str:
        """What it is called, with its level where that is no mean."""
        said = LATENCY_NAMES.get(self.name, self.name)
        return said if self.at == "mean" else f"{said}, {self.at}"

    @property
    def verdict(self) -> str:
        """Whether its target holds, and how surely where that is close."""
        if self.target is None:
            return ""
        said = "holds" if self.target.holds else "missed"
        return f"{said}, {self.target.probability:.0%} sure" if self.target.close_call else said


def latencies(performance: Prediction, targets: Sequence[TargetCheck] = ()) -> list[Latency]:
    """Return the three latencies, each at the level of its target, with the 80% interval there."""
    asked = {target.name: target for target in targets}
    level = targets[0].at if targets else "mean"
    rows = []
    for name in LATENCY_NAMES:
        target = asked.get(name)
        at = target.at if target is not None else level
        mean, low, high = (float(getattr(performance, f"{name}_ms{end}")) for end in ("", "_low", "_high"))
        value = performance.latency_ms(name, at) if isinstance(performance, Performance) else mean
        factor = value / mean if mean > 0.0 else 1.0
        rows.append(Latency(name, at, value, low * factor, high * factor, target))
    return rows


def draw_latency(
    performance: Prediction, targets: Sequence[TargetCheck] = (), *, width: float = 720.0, standalone: bool = False
) -> str:
    """Draw predicted latencies against their targets as SVG; each row has its own scale, from 0.

    Args:
        performance: what is predicted.
        targets: what is asked for; a latency without a target is drawn alone.
        width: units that it is drawn in; letters are 11 or 12 of them high.
        standalone: bring the colours along (see `Canvas.svg`).
    """
    canvas = Canvas(width)
    rows = latencies(performance, targets)
    top = 0.0
    for row in rows:
        top = _draw_row(canvas, row, top)
    _key(canvas, top, any(row.target is not None for row in rows))
    told = "; ".join(latency_words(row) for row in rows)
    return canvas.svg("Predicted latency against targets", f"{told}.", standalone=standalone)


def latency_words(row: Latency) -> str:
    """Say a row in words."""
    said = f"{row.label} {milliseconds(row.predicted)} (80%: {milliseconds(row.low)} to {milliseconds(row.high)})"
    return said if row.target is None else f"{said}, target {milliseconds(row.target.target)}: {row.verdict}"


def _draw_row(canvas: Canvas, row: Latency, top: float) -> float:
    asked = row.target.target if row.target is not None else 0.0
    scale = (canvas.width - 8) / (max(row.high, row.predicted, asked, 1e-9) * 1.06)
    name = f"{row.label[0].upper()}{row.label[1:]}"
    canvas.text(0, top + 13, name, bold=True)
    if row.target is not None:
        shade = colour("good" if row.target.holds else "bad")
        short = f"{milliseconds(asked)}: {row.verdict}"
        room = canvas.width - text_width(name, 13) - 8
        said = fitting(room, 12.5, f"target {short}", short, row.verdict)
        canvas.text(canvas.width - 1, top + 13, said, anchor="end", bold=True, fill=shade)
    top += 24
    canvas.rect(0, top, canvas.width, BAR, fill=colour("panel"), radius=3)
    if row.target is not None:
        canvas.rect(0, top, asked * scale, BAR, fill=colour("good"), opacity=0.16, radius=3)
    canvas.rect(
        row.low * scale, top + 2, max((row.high - row.low) * scale, 1.5), BAR - 4, fill=category(0), opacity=0.5,
        tip=f"80% of measured runs: {milliseconds(row.low)} to {milliseconds(row.high)}",
    )  # fmt: skip
    at = row.predicted * scale
    canvas.dot(at, top + BAR / 2, 5, fill=category(0), stroke=colour("ground"))
    said = f"{milliseconds(row.predicted)} ({milliseconds(row.low)} \u2013 {milliseconds(row.high)})"
    half = text_width(said, 11) / 2
    middle = min(max(at, half), canvas.width - half)
    canvas.text(middle, top + BAR + 14, said, size=11, anchor="middle")
    if row.target is not None:
        x = asked * scale
        canvas.line(x, top - 3, x, top + BAR + 3, stroke=colour("ink"), width=2.5)
    return top + BAR + 26


def _key(canvas: Canvas, top: float, targets: bool) -> None:
    canvas.dot(6, top + 6, 4.5, fill=category(0), stroke=colour("ground"))
    canvas.text(15, top + 10, "predicted", size=11, fill=colour("muted"))
    canvas.rect(84, top + 1, 22, 10, fill=category(0), opacity=0.5)
    canvas.text(111, top + 10, "80% of measured runs", size=11, fill=colour("muted"))
    if targets:
        canvas.line(250, top, 250, top + 13, stroke=colour("ink"), width=2.5)
        canvas.text(257, top + 10, "target", size=11, fill=colour("muted"))
