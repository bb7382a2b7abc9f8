"""Shadeform: machines of many clouds that it resells under one account."""

from __future__ import annotations

from datetime import date

from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, entries_of_parts, listed, mapping, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

CENTS_PER_USD = 100


class Shadeform(Source):
    """What can be rented now, with prices in cents. The same machine is also sold by its own cloud."""

    name = "shadeform"
    title = "Shadeform"
    url = "https://api.shadeform.ai"
    kind = "reseller"
    terms = "documented interface, key of one's own account"
    needs = ("SHADEFORM_API_KEY",)

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every machine type."""
        self.demand_credentials(session.credentials)
        headers = {"X-API-KEY": session.credentials.secret(self.name, "SHADEFORM_API_KEY")}
        return self.pull(self.get(session, "/v1/instances/types", headers=headers, previous=previous))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine type and place that has it free; types that no place has are set aside."""
        types = entries_of_parts(pull, "instance_types", keys=("hourly_price", "configuration", "availability"))
        return [row for entry in types for row in _rows(entry, day)]


def _rows(entry: Entry, day: date) -> list[RawRow]:
    machine = mapping(entry.get("configuration"))
    gpus = whole(machine.get("num_gpus"))
    if gpus == 0:
        return []
    cents = number(entry.get("hourly_price"))
    places = [mapping(place) for place in listed(entry.get("availability"))]
    free = [text(place.get("region")) for place in places if place.get("available") is True]
    interconnect = text(machine.get("interconnect")).lower()
    spelling = text(machine.get("gpu_type"))
    return [
        RawRow(
            source="shadeform",
            provider="shadeform",
            region=region or "global",
            instance_type=f"{text(entry.get('cloud'))}_{text(entry.get('shade_instance_type'))}",
            spelling=f"{spelling} {interconnect}" if spelling and interconnect else spelling,
            gpus=gpus,
            memory_gb=number(machine.get("vram_per_gpu_in_gb")) or None,
            term="on-demand",
            price_usd=None if cents is None else cents / CENTS_PER_USD,
            per="node",
            seen_on=day,
            refused="" if free else "no place has it free",
        )
        for region in free or ["global"]
    ]
