"""The drawing of costs: a bar for the answer and one for each layout that it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.report.drawings.colours import category, colour
from optimizer.report.drawings.svg import Canvas, fitting, text_width
from optimizer.wording import dollars

BAR, ROW = 16.0, 40.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing that costs so much an hour; `chosen` where it is the answer."""

    name: str
    usd_per_hour: float
    chosen: bool = False


def draw_costs(
    bars: Sequence[Bar], *, title: str = "Cost per hour", width: float = 720.0, standalone: bool = False
) -> str:
    """Draw costs as bars from zero, as SVG, in the order given.

    Args:
        bars: what costs how much.
        title: what they are, for those who do not see it.
        width: units that it is drawn in; letters are 12 of them high.
        standalone: bring the colours along (see `Canvas.svg`).
    """
    canvas = Canvas(width)
    most = max((bar.usd_per_hour for bar in bars), default=0.0) or 1.0
    room = width - text_width(f"{dollars(most)}/h", 12.5) - 10
    for number, bar in enumerate(bars):
        top = number * ROW
        canvas.text(0, top + 13, fitting(width, 12, bar.name), bold=bar.chosen)
        wide = bar.usd_per_hour / most * room
        canvas.rect(0, top + 18, max(wide, 1.0), BAR, fill=category(0) if bar.chosen else colour("line"), radius=2)
        canvas.text(max(wide, 1.0) + 6, top + 31, f"{dollars(bar.usd_per_hour)}/h", bold=bar.chosen)
    told = "; ".join(f"{bar.name}: {dollars(bar.usd_per_hour)} an hour" for bar in bars)
    return canvas.svg(title, f"{told}.", standalone=standalone)
