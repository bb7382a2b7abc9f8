"""A source for tests of the refresh: a shop whose list of prices, clock and manners the test decides."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from catalogs.history import History
from fetchers.credentials import Credentials
from fetchers.http import HttpSession, Limits
from fetchers.normalize import RawRow
from fetchers.payload import document, entries, number, text
from fetchers.pulls import RawPull
from fetchers.refresh import Refreshed, refresh
from fetchers.source import Source
from tests.fetchers.server import Answer, Server

START = datetime(2026, 8, 20, 6, 0, tzinfo=UTC)
DAY = timedelta(days=1)
LIMITS = Limits(connect_s=2.0, read_s=20.0, total_s=30.0, tries=1)


class Shop(Source):
    """Sells p5.48xlarge (8 H100) in regions of its own."""

    name = "shop"
    title = "Shop"
    url = "https://shop.example"
    kind = "provider"
    terms = "for tests"

    def __init__(self, base_url: str, now: datetime = START, *, name: str = "shop", stated: int | None = None):
        super().__init__(base_url)
        self.name = name  # type: ignore[misc]
        self.now = now
        self.stated = stated

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        part = self.get(session, "/prices", previous=previous)
        return self.pull(replace(part, fetched_at=self.now))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        listed = entries(self.name, document(self.name, pull.parts[0]), "prices")
        return [
            RawRow(
                source=self.name,
                provider=text(one.get("provider", "aws")),
                spelling=one.get("gpu", "p5.48xlarge"),
                instance_type=one.get("type", "p5.48xlarge"),
                region=one["region"],
                price_usd=number(one.get("usd")),
                currency=one.get("currency", "USD"),
                per="node",
                term=one.get("term", "on-demand"),
                seen_on=day,
                max_nodes=one.get("stock"),
            )
            for one in listed
        ]

    def shortfall(self, pull: RawPull) -> str:
        came = len(document(self.name, pull.parts[0])["prices"])
        return "" if self.stated is None or came >= self.stated else f"{came} of the {self.stated} entries came"


def listing(prices: dict[str, float | None] | Iterable[dict[str, Any]]) -> bytes:
    """The shop's list: region -> USD per node hour, or entries."""
    rows = [{"region": r, "usd": p} for r, p in prices.items()] if isinstance(prices, dict) else list(prices)
    return json.dumps({"prices": rows}).encode()


def put(server: Server, prices: dict[str, float | None] | Iterable[dict[str, Any]] | bytes, **headers: str) -> None:
    body = prices if isinstance(prices, bytes) else listing(prices)
    server.on("/prices", Answer(body, headers=headers))


def session(**environment: str) -> HttpSession:
    return HttpSession(Credentials(environment), LIMITS, sleep=lambda _: None)


def ask(history: History, *shops: Source, **options: Any) -> dict[str, Refreshed]:
    """Refresh the shops; returns what became of each."""
    with session() as open_session:
        return {one.source: one for one in refresh(history, shops, open_session, **options)}


def prices(history: History, source: str = "shop", moment: Any = None) -> dict[str, float]:
    """region -> USD per node hour in force."""
    frame = history.prices_as_of(moment, [source])
    return dict(zip(frame["region"], frame["price_usd_per_node_hour"], strict=True))
