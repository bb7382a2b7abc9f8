"""Vast.ai: offers of single machines; the price is the whole machine's."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date

from catalogs.offer_files import Term
from fetchers.http import HttpSession
from fetchers.names import country_of, nominal_memory_gb
from fetchers.normalize import RawRow
from fetchers.payload import Entry, entries_of_parts, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

MIB_PER_GIB = 1024
MAX_OFFERS = 5_000


class Vast(Source):
    """Machines that can be rented now; those of one kind in one country make one row at the lowest price."""

    name = "vast"
    title = "Vast.ai"
    url = "https://console.vast.ai"
    kind = "marketplace"
    terms = "documented public search; answers 429 above about two requests a second"
    interval_s = 0.7

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every rentable offer, on-demand prices with their lowest bids."""
        query = {"rentable": {"eq": True}, "rented": {"eq": False}, "type": "on-demand", "limit": MAX_OFFERS}
        return self.pull(self.post(session, "/api/v0/bundles/", json=query))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return the cheapest machine of each kind and country, and every machine that is set aside."""
        rows: list[RawRow] = []
        for offer in entries_of_parts(pull, "offers", keys=("gpu_name", "num_gpus", "dph_total", "rentable")):
            rows += _rows_of(offer, day)
        return [row for row in rows if row.refused or row.price_usd is None] + _cheapest(rows)


def _rows_of(offer: Entry, day: date) -> list[RawRow]:
    gpu_ram = number(offer.get("gpu_ram"))
    row = RawRow(
        source="vast",
        provider="vast",
        spelling=text(offer.get("gpu_name")),
        region=country_of(text(offer.get("geolocation"))),
        gpus=whole(offer.get("num_gpus")),
        memory_gb=None if gpu_ram is None else nominal_memory_gb(gpu_ram / MIB_PER_GIB),
        term="on-demand",
        price_usd=number(offer.get("dph_total")),
        per="node",
        max_nodes=1.0,
        seen_on=day,
        refused=_why_not(offer),
    )
    min_bid = number(offer.get("min_bid"))  # null: the host takes no bids
    return [row] if min_bid is None else [row, replace(row, term="spot", price_usd=min_bid)]


def _why_not(offer: Entry) -> str:
    if offer.get("rentable") is not True or offer.get("rented") is True:
        return "not free to rent"
    if offer.get("verification") not in (None, "verified"):
        return "a machine that the marketplace has not verified"
    if offer.get("is_bid") is True:
        return "a bid, not an offer"
    return ""


def _cheapest(rows: list[RawRow]) -> list[RawRow]:
    """Return one row per kind, country and term at its lowest price, with the number of machines at that price."""
    groups: dict[tuple[str, float | None, int | None, str, Term], list[RawRow]] = defaultdict(list)
    for row in rows:
        if not row.refused and row.price_usd is not None:
            groups[row.spelling, row.memory_gb, row.gpus, row.region, row.term].append(row)
    found = []
    for group in groups.values():
        positive = [row for row in group if row.price_usd and row.price_usd > 0]
        found += [row for row in group if row not in positive]
        if positive:
            lowest = min(positive, key=lambda row: row.price_usd or 0.0)
            found.append(replace(lowest, max_nodes=float(sum(row.price_usd == lowest.price_usd for row in positive))))
    return found
