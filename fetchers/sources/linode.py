"""Akamai (Linode): types with their hourly price; the GPU stands only in the label."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries_of_parts, listed, mapping, number, shortfall, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

MAX_PAGES = 20

_GPU = re.compile(r"(?:^|\+ )(?:Dedicated \d+GB \+ )?(RTX ?[A-Z]*\s?\d+(?: Ada| Blackwell)?)", re.IGNORECASE)


class Linode(Source):
    """What GPU types cost in most regions, and in those that are priced apart."""

    name = "linode"
    title = "Akamai (Linode)"
    url = "https://api.linode.com"
    kind = "provider"
    terms = "documented interface, no key for types"

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every page of types."""
        parts = []
        for page in range(1, MAX_PAGES + 1):
            params = {"page": str(page), "page_size": "500"}
            label = f"page {page}"
            parts.append(self.get(session, "/v4/linode/types", label=label, params=params, previous=previous))
            if page >= (whole(mapping(document(self.name, parts[-1])).get("pages")) or 1):
                break
        return self.pull(*parts)

    def shortfall(self, pull: RawPull) -> str:
        """Return what the pages lack of the total that they state."""
        return shortfall(pull, "data", "results")

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return a row a GPU type, and one for each region with its own price."""
        types = entries_of_parts(pull, "data", keys=("id", "gpus", "price"))
        return [row for entry in types if whole(entry.get("gpus")) for row in _rows(entry, day)]


def _rows(entry: Entry, day: date) -> list[RawRow]:
    label = text(entry.get("label"))
    found = _GPU.search(label)
    row = RawRow(
        source="linode",
        provider="linode",
        instance_type=text(entry.get("id")),
        spelling=found[1] if found else label,
        gpus=whole(entry.get("gpus")),
        term="on-demand",
        price_usd=number(mapping(entry.get("price")).get("hourly")),
        per="node",
        seen_on=day,
    )
    own = [mapping(price) for price in listed(entry.get("region_prices"))]
    return [row] + [replace(row, region=text(price.get("id")), price_usd=number(price.get("hourly"))) for price in own]
