"""Vultr: plans of virtual machines and of bare metal, priced per plan and hour."""

from __future__ import annotations

import re
from datetime import date

from fetchers.http import HttpSession
from fetchers.names import size_of_spelling
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, listed, mapping, number, shortfall, text, whole
from fetchers.pulls import RawPart, RawPull
from fetchers.source import Source

MAX_PAGES = 20

_METAL = re.compile(r"-(?:(\d+)-)?([a-z0-9]+)-gpu$")


class Vultr(Source):
    """GPU plans in the places that have them."""

    name = "vultr"
    title = "Vultr"
    url = "https://api.vultr.com"
    kind = "provider"
    terms = "documented interface, no key for public plans"

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for the plans of both kinds, page by page."""
        parts: list[RawPart] = []
        for kind, path, asked in (
            ("plans", "/v2/plans", {"type": "all", "per_page": "500"}),
            ("plans_metal", "/v2/plans-metal", {"per_page": "500"}),
        ):
            params = asked
            for page in range(1, MAX_PAGES + 1):
                label = f"{kind} {page}"
                parts.append(self.get(session, path, label=label, params=params, previous=previous))
                links = mapping(mapping(mapping(document(self.name, parts[-1])).get("meta")).get("links"))
                if not text(links.get("next")):
                    break
                params = {**asked, "cursor": text(links.get("next"))}
        return self.pull(*parts)

    def shortfall(self, pull: RawPull) -> str:
        """Return what the pages of each kind lack of the total that they state."""
        kinds = ("plans", "plans_metal")
        pulls = {kind: RawPull(self.name, tuple(p for p in pull.parts if p.label.split()[0] == kind)) for kind in kinds}
        return "; ".join(filter(None, (shortfall(pulls[kind], kind, "meta", "total") for kind in kinds)))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a GPU plan and place."""
        rows: list[RawRow] = []
        for part in pull.parts:
            kind = part.label.split()[0]
            for plan in entries(self.name, document(self.name, part), kind, keys=("id", "hourly_cost", "locations")):
                if "gpu" in text(plan.get("id")) or text(plan.get("gpu_type")):
                    rows += _rows(plan, day)
        return rows


def _rows(plan: Entry, day: date) -> list[RawRow]:
    spelling, gpus = _gpus(plan)
    places = [text(place) for place in listed(plan.get("locations")) if text(place)]
    refused = "" if places else "no place has it"
    if plan.get("deploy_ondemand") is False:
        refused = "not sold on demand"
    return [
        RawRow(
            source="vultr",
            provider="vultr",
            region=place,
            instance_type=text(plan.get("id")),
            spelling=spelling,
            gpus=gpus,
            term="on-demand",
            price_usd=number(plan.get("hourly_cost")),
            per="node",
            seen_on=day,
            refused=refused,
        )
        for place in places or ["global"]
    ]


def _gpus(plan: Entry) -> tuple[str, int | None]:
    """Return the GPU and how many: gpu_vram_gb is the whole plan's, and bare-metal plans tell only by their id."""
    spelling, total_gb = text(plan.get("gpu_type")), number(plan.get("gpu_vram_gb"))
    size_gb = size_of_spelling("vultr", spelling)
    if spelling and total_gb is not None and size_gb:
        return spelling, int(total_gb // size_gb)  # 0: a part of a GPU
    found = _METAL.search(text(plan.get("id")))
    if not spelling and found:
        return f"metal {found[2]}", whole(found[1] or "1")
    return spelling, None
