"""A canvas that writes SVG: shapes are added in drawing order, and all text is escaped here and nowhere else."""

from __future__ import annotations

import re
from html import escape

from optimizer.report.drawings.colours import colour, colours_css

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDTH_OF_EM = 0.56  # of a character of such fonts, on average
# What XML 1.0 cannot hold, escaped or not (https://www.w3.org/TR/xml/#charsets).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(text: object) -> str:
    """Return a text as XML and HTML show it, in content or in a quoted attribute."""
    return escape(_NOT_XML.sub("\ufffd", str(text)), quote=True)


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is, in the units of its font size."""
    return len(text) * size * WIDTH_OF_EM


def shortened(text: str, width: float, size: float) -> str:
    """Return a text that is about as wide as there is room, cut at the end where it is wider."""
    room = max(int(width / (size * WIDTH_OF_EM)), 1)
    return text if len(text) <= room else text[: max(room - 1, 0)].rstrip() + "\u2026"


def fitting(width: float, size: float, *choices: str) -> str:
    """Return the first of some texts that fits, or the last one cut."""
    for text in choices:
        if text_width(text, size) <= width:
            return text
    return shortened(choices[-1], width, size)


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Return a text in lines that are as wide as there is room, in letters of a size."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Canvas:
    """A drawing so many units wide; its height follows from what is drawn, and a page scales it."""

    def __init__(self, width: float):
        self.width = width
        self.height = 0.0
        self._parts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "none",
        stroke: str = "none",
        stroke_width: float = 1.0,
        radius: float = 0.0,
        opacity: float = 1.0,
        dash: str = "",
        tip: str = "",
    ) -> None:
        """Draw a box; `opacity` is of its fill, `tip` says what it is under a pointer."""
        facts = f'x="{_number(x)}" y="{_number(y)}" width="{_number(max(width, 0.0))}" height="{_number(height)}"'
        facts += f' fill="{fill}"' + (f' fill-opacity="{_number(opacity)}"' if opacity != 1.0 else "")
        if stroke != "none":
            facts += f' stroke="{stroke}" stroke-width="{_number(stroke_width)}"'
        facts += f' rx="{_number(radius)}"' if radius else ""
        facts += f' stroke-dasharray="{dash}"' if dash else ""
        self._add(f"<rect {facts}><title>{escaped(tip)}</title></rect>" if tip else f"<rect {facts}/>", y + height)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, *, stroke: str, width: float = 1.0, dash: str = ""
    ) -> None:
        """Draw a straight line."""
        ends = f'x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"'
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._add(f'<line {ends} stroke="{stroke}" stroke-width="{_number(width)}"{dashed}/>', max(y1, y2))

    def dot(self, x: float, y: float, radius: float, *, fill: str, stroke: str) -> None:
        """Draw a filled circle."""
        place = f'cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}"'
        self._add(f'<circle {place} fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>', y + radius)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12.0,
        fill: str | None = None,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Write a text on the baseline `y`."""
        facts = f'x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}" fill="{fill or colour("ink")}"'
        facts += f' text-anchor="{anchor}"' if anchor != "start" else ""
        facts += ' font-weight="600"' if bold else ""
        self._add(f"<text {facts}>{escaped(text)}</text>", y + size * 0.3)

    def _add(self, part: str, bottom: float) -> None:
        self._parts.append(part)
        self.height = max(self.height, bottom)

    def svg(self, title: str, description: str, *, standalone: bool = False, margin: float = 4.0) -> str:
        """Return the drawing.

        Args:
            title: what it is, for those who do not see it.
            description: what it shows.
            standalone: bring its colours along, as a file of its own needs them; a page sets them once for all.
            margin: room below.
        """
        box = f"0 0 {_number(self.width)} {_number(self.height + margin)}"
        style = f"<style>{colours_css('svg')}</style>" if standalone else ""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{_number(self.width)}" role="img" '
            f'font-family="{escaped(FONT)}" style="max-width:100%;height:auto">'
            f"<title>{escaped(title)}</title><desc>{escaped(description)}</desc>"
        )
        ground = f'<rect width="100%" height="100%" fill="{colour("ground")}"/>' if standalone else ""
        return f"{head}{style}{ground}{''.join(self._parts)}</svg>"
