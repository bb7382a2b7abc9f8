"""A listing as lines of text: columns that fit the width, whole names and figures, no line broken."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a listing.

    Attributes:
        title: its heading.
        rank: 0 is always shown; of the others the highest go first where the width is short.
        digits: digits behind the point of its numbers; None for a column of text, which stands on the left.
    """

    title: str
    rank: int = 0
    digits: int | None = None


def line_width() -> int | None:
    """Return the columns that a line may take: COLUMNS, or the terminal's; None (no limit) where there is neither."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def render(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Column], width: int | None
) -> tuple[str, list[str]]:
    """Return the table of some rows, and the titles of the columns that the width left no room for.

    Args:
        rows: values by field.
        columns: what to show, by field, in order.
        width: characters that a line may take; None for no limit.
    """
    cells = {field: [_cell(row[field], column.digits) for row in rows] for field, column in columns.items()}
    widths = {field: max(map(len, (column.title, *cells[field]))) for field, column in columns.items()}
    shown = _that_fit(columns, widths, width)
    lines = [_line(columns, widths, shown, {field: column.title for field, column in columns.items()})]
    lines.append(GAP.join("-" * widths[field] for field in shown))
    lines += [
        _line(columns, widths, shown, {field: cells[field][number] for field in shown}) for number in range(len(rows))
    ]
    return "\n".join(lines), [column.title for field, column in columns.items() if field not in shown]


def _that_fit(columns: Mapping[str, Column], widths: Mapping[str, int], width: int | None) -> list[str]:
    shown = list(columns)
    while width is not None and sum(widths[field] + len(GAP) for field in shown) - len(GAP) > width:
        last = max(shown, key=lambda field: columns[field].rank)
        if columns[last].rank == 0:
            break
        shown.remove(last)
    return shown


def _line(
    columns: Mapping[str, Column], widths: Mapping[str, int], shown: Sequence[str], texts: Mapping[str, str]
) -> str:
    padded = (
        texts[field].ljust(widths[field]) if columns[field].digits is None else texts[field].rjust(widths[field])
        for field in shown
    )
    return GAP.join(padded).rstrip()


def _cell(value: Any, digits: int | None) -> str:
    if value is None:
        return "-"
    return str(value) if digits is None else f"{value:,.{digits}f}"
