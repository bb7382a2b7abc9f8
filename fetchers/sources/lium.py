"""Lium: single hosts with a price per GPU; any count between the smallest order and what is free can be rented."""

from __future__ import annotations

from datetime import date

from fetchers.groups import cheapest_of_kind
from fetchers.http import HttpSession
from fetchers.names import nominal_memory_gb
from fetchers.normalize import RawRow
from fetchers.payload import Entry, entries_of_parts, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

COUNTS = (1, 2, 4, 8)


class Lium(Source):
    """What can be rented now; the cheapest host of each kind, count and country. Any field may be null."""

    name = "lium"
    title = "Lium"
    url = "https://lium.io"
    kind = "marketplace"
    terms = "documented public feed (docs.lium.io); version 1 only ever gains fields"

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every node."""
        return self.pull(self.get(session, "/api/public/v1/nodes", previous=previous))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return the cheapest host of each kind, count and country."""
        nodes = entries_of_parts(pull, "nodes", keys=("gpu_model", "price_per_gpu_hour", "available_gpu_count"))
        return cheapest_of_kind(row for node in nodes for row in _rows(node, day))


def _rows(node: Entry, day: date) -> list[RawRow]:
    memory_gb, free = number(node.get("gpu_memory_gb")), whole(node.get("available_gpu_count"))
    smallest = max(1, whole(node.get("min_rentable_gpu_count")) or whole(node.get("gpu_count")) or 1)
    largest = min(free or 0, whole(node.get("gpu_count")) or 0)
    counts = [count for count in sorted({smallest, largest, *COUNTS}) if smallest <= count <= largest]
    refused = "" if counts else "its size is not stated" if free is None else "not free to rent"
    return [
        RawRow(
            source="lium",
            provider="lium",
            spelling=text(node.get("gpu_model")),
            region=text(node.get("country_code")).upper() or "global",
            gpus=count,
            memory_gb=nominal_memory_gb(memory_gb) if memory_gb else None,
            term="spot" if node.get("tier") == "spot" else "on-demand",
            price_usd=number(node.get("price_per_gpu_hour")),
            per="gpu",
            max_nodes=float(largest // count) if counts else None,
            seen_on=day,
            refused=refused,
        )
        for count in counts or [smallest]
    ]
