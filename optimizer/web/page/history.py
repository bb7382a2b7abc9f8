"""How the price of the offer that an answer rents has moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from optimizer.plan import Layout

OFFER = ("provider", "region", "instance_type", "term", "gpu")


@dataclass(frozen=True, slots=True)
class PriceStood:
    """A time that a price stood.

    Attributes:
        first_seen, last_seen: the days it was seen on first and last.
        usd_per_node_hour: at list price.
        source: short name of the source.
    """

    first_seen: date
    last_seen: date
    usd_per_node_hour: float
    source: str


def patterns_of(layout: Layout) -> dict[str, str]:
    """Return the patterns that a history is asked with to hold the offer that a layout rents."""
    return {name: str(getattr(layout, name)).replace("[", "[[]")[:200] for name in OFFER}


def history_of(layout: Layout, rows: Iterable[Mapping[str, Any]]) -> tuple[PriceStood, ...]:
    """Return the prices that the layout's offer has had, the earliest first.

    Args:
        layout: what rents it.
        rows: as a history lists them: the offer, `first_seen` and `last_seen` as text, price and source.
    """
    found = [
        PriceStood(
            date.fromisoformat(str(row["first_seen"])[:10]),
            date.fromisoformat(str(row["last_seen"])[:10]),
            float(row["price_usd_per_node_hour"]),
            str(row["source"]),
        )
        for row in rows
        if all(row[name] == getattr(layout, name) for name in OFFER)
    ]
    return tuple(sorted(found, key=lambda one: (one.first_seen, one.last_seen, one.source)))
