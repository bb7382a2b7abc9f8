"""DigitalOcean: sizes of GPU machines with their hourly price."""

from __future__ import annotations

from datetime import date

from fetchers.errors import ContentError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries_of_parts, listed, mapping, number, shortfall, text, whole
from fetchers.pulls import RawPart, RawPull
from fetchers.source import Source

MAX_PAGES = 20


class DigitalOcean(Source):
    """GPU sizes in the regions that sell them; a size without regions cannot be had."""

    name = "digitalocean"
    title = "DigitalOcean"
    url = "https://api.digitalocean.com"
    kind = "provider"
    terms = "documented interface, token of one's own account"
    needs = ("DIGITALOCEAN_TOKEN",)

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every page of sizes."""
        self.demand_credentials(session.credentials)
        headers = {"Authorization": f"Bearer {session.credentials.secret(self.name, 'DIGITALOCEAN_TOKEN')}"}
        parts: list[RawPart] = []
        for page in range(1, MAX_PAGES + 1):
            params = {"page": str(page), "per_page": "200"}
            label = f"page {page}"
            parts.append(self.get(session, "/v2/sizes", label=label, params=params, headers=headers, previous=previous))
            pages = mapping(mapping(mapping(document(self.name, parts[-1])).get("links")).get("pages"))
            if not text(pages.get("next")):
                return self.pull(*parts)
        raise ContentError(self.name, f"more than {MAX_PAGES} pages of sizes", "The interface has changed; report it.")

    def shortfall(self, pull: RawPull) -> str:
        """Return what the pages lack of the total that they state."""
        return shortfall(pull, "sizes", "meta", "total")

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a GPU size and region."""
        sizes = entries_of_parts(pull, "sizes", keys=("slug", "price_hourly", "regions"))
        return [row for size in sizes if isinstance(size.get("gpu_info"), dict) for row in _rows(size, day)]


def _rows(size: Entry, day: date) -> list[RawRow]:
    gpu = mapping(size.get("gpu_info"))
    memory_gb = number(mapping(gpu.get("vram")).get("amount"))
    regions = [text(region) for region in listed(size.get("regions")) if text(region)]
    refused = "no region has it" if not regions else "not free to rent" if size.get("available") is False else ""
    return [
        RawRow(
            source="digitalocean",
            provider="digitalocean",
            region=region,
            instance_type=text(size.get("slug")),
            spelling=text(gpu.get("model")),
            gpus=whole(gpu.get("count")),
            memory_gb=memory_gb or None,
            term="on-demand",
            price_usd=number(size.get("price_hourly")),
            per="node",
            seen_on=day,
            refused=refused,
        )
        for region in regions or ["global"]
    ]
