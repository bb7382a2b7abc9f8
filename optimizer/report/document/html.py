"""HTML put together from typed pieces: whatever is text is escaped, and only what was built here counts as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from optimizer.report.drawings.svg import escaped

WIDTHS = {"wide": 720.0, "narrow": 340.0}  # of drawings, by the class that shows them
VOID = {"meta", "br", "hr"}


class Markup(str):
    """Text that is HTML already; everything else is escaped when it is put in."""

    __slots__ = ()


Piece = str | Markup | Iterable["Piece"]


def content(piece: Piece) -> str:
    """Return a piece, or pieces one behind the other, as HTML."""
    if isinstance(piece, Markup):
        return str(piece)
    if isinstance(piece, str):
        return escaped(piece)
    return "".join(content(one) for one in piece)


def tag(name: str, /, *pieces: Piece, **attributes: str) -> Markup:
    """Return an element; `class_` is class, other underscores are dashes, empty attributes are left out."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items() if value
    )
    return Markup(f"<{name}{said}>" if name in VOID else f"<{name}{said}>{content(pieces)}</{name}>")


def paragraphs(texts: Iterable[str], class_: str = "") -> list[Markup]:
    """Return a paragraph of each text."""
    return [tag("p", text, class_=class_) for text in texts]


def bullets(items: Iterable[Piece]) -> Piece:
    """Return a list, or nothing where there are no items."""
    found = [tag("li", item) for item in items]
    return tag("ul", found) if found else ()


def table(headings: Sequence[str], rows: Iterable[Sequence[Piece]], *, right: Iterable[int] = ()) -> Markup:
    """Return a table that becomes a list of cards on a narrow screen.

    Args:
        headings: of the columns; an empty one has no name on a card either.
        rows: a cell for each heading.
        right: numbers of the columns that hold figures.
    """
    figures = set(right)
    sides = ["r" if at in figures else "" for at in range(len(headings))]
    head = tag("tr", [tag("th", name, class_=side, scope="col") for name, side in zip(headings, sides, strict=True)])
    body = [
        tag(
            "tr",
            [
                tag("td", cell, class_=side, data_label=name)
                for cell, side, name in zip(row, sides, headings, strict=True)
            ],
        )
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="scroll")


def facts(pairs: Iterable[tuple[str, Piece]]) -> Markup:
    """Return names with what they are, as a list of definitions."""
    return tag("dl", [(tag("dt", name), tag("dd", what)) for name, what in pairs])


def section(title: str, *pieces: Piece) -> Markup:
    """Return a section with its heading."""
    return tag("section", tag("h2", title), *pieces)


def drawing(draw: Callable[[float], str], caption: str = "") -> Markup:
    """Return an SVG in two widths, of which a screen or a sheet of paper shows the one that it has room for.

    Args:
        draw: draws it in so many units across.
        caption: what stands below.
    """
    both = [tag("div", Markup(draw(width)), class_=name) for name, width in WIDTHS.items()]
    return tag("figure", *both, *([tag("figcaption", caption)] if caption else []))
