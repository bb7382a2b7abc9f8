"""CloudRift: machine types with prices in cents, and how many are free in each data centre."""

from __future__ import annotations

from datetime import date

from fetchers.http import HttpSession
from fetchers.names import nominal_memory_gb
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, listed, mapping, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

INTERFACE_VERSION = "2025-03-21"
CENTS_PER_USD = 100
BYTES_PER_GIB = 1024**3


class CloudRift(Source):
    """Virtual machines that can be rented now."""

    name = "cloudrift"
    title = "CloudRift"
    url = "https://api.cloudrift.ai"
    kind = "marketplace"
    terms = "documented interface, no key for machine types"

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for the machine types of its virtual machines."""
        selector = {"selector": {"ByServiceAndLocation": {"services": ["vm"]}}}
        query = {"version": INTERFACE_VERSION, "data": selector}
        return self.pull(self.post(session, "/api/v1/instance-types/list", json=query))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a variant and data centre."""
        types = entries(self.name, document(self.name, pull.parts[0]), "data", "instance_types", keys=("variants",))
        return [
            row
            for entry in types
            for variant in listed(entry.get("variants"))
            if isinstance(variant, dict)
            for row in _rows(entry, variant, day)
        ]


def _rows(entry: Entry, variant: Entry, day: date) -> list[RawRow]:
    cents, vram_bytes = number(variant.get("cost_per_hour")), number(variant.get("vram"))
    places = mapping(variant.get("nodes_per_dc")) or {"global": 0}
    gpus = whole(variant.get("gpu_count"))
    return [
        RawRow(
            source="cloudrift",
            provider="cloudrift",
            region=text(place) or "global",
            instance_type=text(variant.get("name")),
            spelling=text(entry.get("brand_short")),
            gpus=gpus,
            memory_gb=nominal_memory_gb(vram_bytes / BYTES_PER_GIB) if vram_bytes else None,
            term="on-demand",
            price_usd=None if cents is None else cents / CENTS_PER_USD,
            per="node",
            max_nodes=float(whole(nodes) or 0) or None,
            seen_on=day,
            refused="" if whole(nodes) else "none free",
        )
        for place, nodes in places.items()
        if gpus
    ]
