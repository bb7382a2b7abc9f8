"""Looks for tests, and the naive history that keeps every one of them: what the periods must agree with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import pandas as pd

from catalogs.history import Pull, SetAside
from catalogs.offer_files import Term
from catalogs.providers import ProviderKind

START = datetime(2026, 7, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Priced:
    """An offer as sources give it."""

    instance_type: str = "gpu_1x_h100_sxm5"
    price_usd_per_node_hour: float = 4.29
    max_nodes: float | None = None
    seen_on: date = date.max
    provider: str = "lambda"
    provider_kind: ProviderKind = "gpu-cloud"
    region: str = "global"
    gpu: str = "H100-SXM-80GB"
    gpus_per_node: int = 1
    term: Term = "on-demand"


def at(hours: float) -> datetime:
    """A moment so many hours after the first."""
    return START + timedelta(hours=hours)


def look(hours: float, source: str = "tracker", **fields: object) -> Pull:
    """A pull so many hours after the first moment."""
    return Pull(source=source, moment=at(hours), **fields)  # type: ignore[arg-type]


def offers(prices: Mapping[str, float | tuple[float, float | None]]) -> list[Priced]:
    """Offers by instance type: a price, or a price and a stock."""
    pairs = {name: price if isinstance(price, tuple) else (price, None) for name, price in prices.items()}
    return [Priced(name, price, stock) for name, (price, stock) in pairs.items()]


def aside(name: str, price: float, reason: str = "more than 3 times the last price") -> SetAside:
    """A row that a check kept out, of an offer that can be placed."""
    return SetAside(reason, {"name": name, "usd": price}, Priced(name, price))


def told(frame: pd.DataFrame) -> dict[str, tuple[float, float | None]]:
    """A table of offers as instance type -> (price, stock)."""
    return {
        row.instance_type: (row.price_usd_per_node_hour, None if pd.isna(row.max_nodes) else row.max_nodes)
        for row in frame.itertuples()
    }


def spans(frame: pd.DataFrame) -> list[tuple[float, float, float, float | None, bool]]:
    """Periods as (price, hours of first look, of last look, until, gone)."""
    return [
        (
            row.price_usd_per_node_hour,
            _hours(row.first_seen),
            _hours(row.last_seen),
            None if pd.isna(row.until) else _hours(row.until),
            bool(row.gone),
        )
        for row in frame.itertuples()
    ]


def _hours(moment: datetime) -> float:
    return (moment - START) / timedelta(hours=1)


@dataclass
class Naive:
    """Every look of one source; an offer stands as the last look at it said."""

    looks: list[tuple[datetime, bool, dict[str, tuple[float, float | None]], frozenset[str]]] = field(
        default_factory=list
    )

    def add(
        self,
        moment: datetime,
        prices: Mapping[str, tuple[float, float | None]],
        *,
        complete: bool = True,
        silent: Iterable[str] = (),
    ) -> None:
        """Keep a look; it says nothing of `silent` offers."""
        self.looks.append((moment, complete, dict(prices), frozenset(silent)))

    def as_of(self, moment: datetime) -> dict[str, tuple[float, float | None]]:
        """What stands at a moment."""
        standing: dict[str, tuple[float, float | None]] = {}
        for when, complete, prices, silent in sorted(self.looks, key=lambda one: one[0]):
            if when > moment:
                break
            if complete:
                standing = {name: value for name, value in standing.items() if name in silent}
            standing |= prices
        return standing
