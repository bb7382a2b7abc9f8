"""Rows of a catalog or of prices, a part of them at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from optimizer.plan import AnswerPart

if TYPE_CHECKING:
    from optimizer.report.catalog import Listing


class Listed(AnswerPart):
    """Rows as the command line prints them with --json.

    Attributes:
        total: rows that fit, of which `rows` are those from `offset` on.
        note: what the figures are.
    """

    total: int
    offset: int
    rows: tuple[dict[str, JsonValue], ...]
    note: str

    @classmethod
    def of(cls, listing: Listing, offset: int, limit: int) -> Listed:
        """Return a part of a listing."""
        some = listing.rows[offset : offset + limit]
        rows = tuple({name: _plain(value) for name, value in row.items()} for row in some)
        return cls(total=len(listing.rows), offset=offset, rows=rows, note=listing.note)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "item"):  # numpy's numbers
        return value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
