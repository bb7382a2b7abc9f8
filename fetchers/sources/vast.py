"""Vast.ai: offers of single machines; the price is the whole machine's."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from fetchers.groups import cheapest_of_kind
from fetchers.http import HttpSession
from fetchers.names import country_of, nominal_memory_gb
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries_of_parts, listed, mapping, number, text, whole
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

    def shortfall(self, pull: RawPull) -> str:
        """Return whether the list ends where the number asked for ends."""
        came = sum(len(listed(mapping(document(self.name, part)).get("offers"))) for part in pull.parts)
        return "" if came < MAX_OFFERS else f"it sent the {MAX_OFFERS} offers asked for, and may have more"

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return the cheapest machine of each kind and country, and every machine that is set aside."""
        rows: list[RawRow] = []
        for offer in entries_of_parts(pull, "offers", keys=("gpu_name", "num_gpus", "dph_total", "rentable")):
            rows += _rows_of(offer, day)
        return cheapest_of_kind(rows)


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
