"""Spheron: offers of the data centres that it resells, for all GPUs of the offer."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from fetchers.groups import cheapest_of_kind
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries_of_parts, listed, mapping, number, shortfall, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

PAGE_SIZE = 100
MAX_PAGES = 50

_SXM = re.compile(r"sxm", re.IGNORECASE)
_PCIE = re.compile(r"pcie", re.IGNORECASE)


class Spheron(Source):
    """Offers that can be rented now; of offers that differ only in storage the cheapest is kept."""

    name = "spheron"
    title = "Spheron"
    url = "https://app.spheron.ai"
    kind = "reseller"
    terms = "documented public interface (docs.spheron.ai); 20 minutes minimum run time"

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every page of offers."""
        parts = []
        for page in range(1, MAX_PAGES + 1):
            params = {"page": str(page), "limit": str(PAGE_SIZE)}
            label = f"page {page}"
            parts.append(self.get(session, "/api/gpu-offers", label=label, params=params, previous=previous))
            pages = whole(mapping(document(self.name, parts[-1])).get("totalPages")) or 1
            if page >= pages:
                break
        return self.pull(*parts)

    def shortfall(self, pull: RawPull) -> str:
        """Return what the pages lack of the total that they state."""
        return shortfall(pull, "data", "total")

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return the cheapest offer of each kind and place; the price of an offer buys all its GPUs."""
        rows: list[RawRow] = []
        for gpu in entries_of_parts(pull, "data", keys=("gpuType", "offers")):
            for offer in listed(gpu.get("offers")):
                rows += _rows(gpu, offer, day) if isinstance(offer, dict) else []
        return cheapest_of_kind(rows)


def _rows(gpu: Entry, offer: Entry, day: date) -> list[RawRow]:
    places = [text(place) for place in listed(offer.get("clusters")) if text(place)] or [text(offer.get("region"))]
    is_spot = text(offer.get("instanceType")).upper() == "SPOT"
    rows = []
    for place in places:
        row = RawRow(
            source="spheron",
            provider="spheron",
            spelling=text(gpu.get("gpuType")),
            region=place or "global",
            gpus=whole(offer.get("gpuCount")),
            memory_gb=number(offer.get("gpu_memory")) or None,
            term="spot" if is_spot else "on-demand",
            price_usd=number(offer.get("price")),
            per="node",
            seen_on=day,
            refused=_why_not(gpu, offer),
        )
        rows.append(row)
        spot = number(offer.get("spot_price"))
        if spot and not is_spot:
            rows.append(replace(row, term="spot", price_usd=spot))
    return rows


def _why_not(gpu: Entry, offer: Entry) -> str:
    if offer.get("available") is False:
        return "not free to rent"
    if offer.get("maintenance") is True:
        return "under maintenance"
    if text(offer.get("instanceType")).upper() == "CLUSTER":
        return "a cluster of nodes, not one node"
    kind = text(gpu.get("gpuType"))
    told = " ".join(text(offer.get(field)) for field in ("offerId", "name", "interconnectType"))
    if (_PCIE.search(kind) and _SXM.search(told)) or (_SXM.search(kind) and _PCIE.search(told)):
        return "the offer's name contradicts its GPU type"
    return ""
