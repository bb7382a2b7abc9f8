"""The one place where pictures are opened and saved: their style, their colours, and the files that they become.

The same answer gives the same bytes of SVG, PNG and HTML with the same matplotlib: no dates, no random ids.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.errors import QuestionError
from optimizer.report.document.html import Markup, Piece, table, tag
from optimizer.report.document.render import POLICY
from optimizer.report.document.style import style
from optimizer.report.drawings.colours import CATEGORIES, LIGHT
from optimizer.report.drawings.svg import escaped
from optimizer.user_files import write_whole

ENDINGS = (".png", ".svg", ".html", ".pdf")
INSTALL = 'pip install "shardwise[plot]"'
INK, MUTED, LINE, GOOD, BAD = (LIGHT[name] for name in ("ink", "muted", "line", "good", "bad"))
COLOURS = tuple(LIGHT[f"c{number}"] for number in range(CATEGORIES))
MARKERS = "osD^vP*X<>hd"
DASHES = ("-", "--", "-.", ":")
_FIGURE = re.compile(r"[-+$]?[\d.,]+(e[-+]?\d+)?( ?(ms|s|%))?$|-$")
WIDE = 20  # from this ratio of largest to smallest on, an axis is logarithmic
_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e6eaee",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.parse_math": False,  # a dollar sign is money
    "svg.hashsalt": "shardwise",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
_NO_DATES: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": "shardwise"},
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None, "Creator": "shardwise", "Producer": None},
}


@dataclass(frozen=True)
class Numbers:
    """The figures of a picture as a table, which an HTML file shows below it."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """What is drawn.

    Attributes:
        title: in one line, without a full stop.
        inches: width and height.
        paint: draws on the matplotlib figure that it is given.
        numbers: the figures drawn, for those who do not see them.
    """

    title: str
    inches: tuple[float, float]
    paint: Callable[[Any], None]
    numbers: Sequence[Numbers] = ()


def check_plot(path: Path | None) -> None:
    """Refuse, before anything is worked out, a picture that could not be written.

    Raises:
        QuestionError: the file has another ending, or matplotlib is not installed.
    """
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        raise QuestionError(f"--plot {path}: expected a file that ends in {', '.join(ENDINGS)}")
    try:
        import matplotlib  # noqa: F401, PLC0415  an extra
    except ModuleNotFoundError:
        raise QuestionError(f"--plot needs matplotlib: {INSTALL}") from None


def save(picture: Picture, path: Path) -> None:
    """Draw a picture and write it whole or not at all; its ending says as what.

    Raises:
        QuestionError: the ending is not known, matplotlib is not installed, or the file cannot be written.
    """
    check_plot(path)
    ending = path.suffix.lower()
    data = _drawn(picture, ".svg" if ending == ".html" else ending)
    content = _page(picture, data.decode("utf-8")) if ending == ".html" else data
    try:
        write_whole(path, content, private=False)
    except OSError as error:
        raise QuestionError(f"--plot {path}: cannot be written ({error.strerror or error})") from None


def _drawn(picture: Picture, ending: str) -> bytes:
    from matplotlib import rc_context  # noqa: PLC0415  an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context(_STYLE):
        figure = Figure(figsize=picture.inches, dpi=130, layout="constrained")
        picture.paint(figure)
        figure.suptitle(picture.title, x=0.01, ha="left", fontsize=12, fontweight="bold", wrap=True)
        out = io.BytesIO()
        figure.savefig(out, format=ending[1:], metadata=_NO_DATES[ending])
    return out.getvalue()


def _page(picture: Picture, svg: str) -> str:
    """Return one page with the picture and its numbers, that asks for nothing."""
    start = svg.index("<svg")
    named = f'<svg role="img" aria-label="{escaped(picture.title)}" style="max-width:100%;height:auto" '
    drawn = Markup(named + svg[start:].removeprefix("<svg"))
    tables: list[Piece] = []
    for numbers in picture.numbers:
        tables += [
            tag("h2", numbers.title or "The numbers"),
            table(numbers.headings, numbers.rows, right=_figures(numbers)),
        ]
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", picture.title),
        tag("style", Markup(style() + "main{max-width:1060px}figure{background:#fff;border-radius:8px;padding:8px}")),
    )
    body = tag("main", tag("figure", drawn), *tables)
    return f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', body), lang='en')}\n"


def _figures(numbers: Numbers) -> list[int]:
    """Return the columns that hold figures only."""
    columns = range(len(numbers.headings)) if numbers.rows else range(0)
    return [at for at in columns if all(_FIGURE.match(row[at]) for row in numbers.rows)]


def colour_of(number: int) -> str:
    """Return the colour of a category; after the last comes the first (with another marker or dash)."""
    return COLOURS[number % len(COLOURS)]


def logarithmic(axes: Any, which: str, values: Sequence[float]) -> bool:
    """Make an axis logarithmic, with plain numbers on it, where its values range widely; say whether it is."""
    if not values or min(values) <= 0 or max(values) / min(values) < WIDE:
        return False
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415  an extra

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axis.set_minor_formatter(NullFormatter())
    return True


def decades(axes: Any, values: Sequence[float]) -> None:
    """Make both axes logarithmic over the same range, in a square, with plain numbers at the powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter  # noqa: PLC0415  an extra

    known = [float(value) for value in values if value > 0] or [1.0]
    low, high = min(known) / 1.5, max(known) * 1.5
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set_box_aspect(1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, numticks=6))
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
        axis.set_minor_formatter(NullFormatter())
