"""How the price of the offer that an answer rents has moved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from optimizer.plan import Layout


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


def price_history(layout: Layout) -> tuple[PriceStood, ...]:
    """Return the prices that the layout's offer has had, the earliest first; empty for hardware of one's own."""
    from optimizer.report.prices import periods  # noqa: PLC0415  pandas: for workers only

    names = ("gpu", "provider", "region", "term", "instance_type")
    exact = {name: str(getattr(layout, name)).replace("[", "[[]") for name in names}
    _, frame = periods(dict(exact), None, None, None)
    for name in names:
        frame = frame[frame[name] == getattr(layout, name)]
    frame = frame.sort_values(["first_seen", "source"], kind="stable")
    return tuple(
        PriceStood(row.first_seen.date(), row.last_seen.date(), float(row.price_usd_per_node_hour), str(row.source))
        for row in frame.itertuples()
    )
