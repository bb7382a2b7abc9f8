"""RunPod: GPU types with prices per GPU, and whether 1, 2, 4 or 8 of them can be had."""

from __future__ import annotations

from datetime import date

from fetchers.errors import ContentError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, listed, mapping, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

COUNTS = (1, 2, 4, 8)
CLOUDS = {"secure": "securePrice", "community": "communityPrice"}


def _query() -> str:
    """Return one query for every GPU type, count and cloud: an alias each in place of a request each."""
    fields = "minimumBidPrice uninterruptablePrice stockStatus"
    stock = " ".join(
        f"{cloud}{count}: lowestPrice(input: {{gpuCount: {count}, secureCloud: {secure}}}) {{ {fields} }}"
        for cloud, secure in (("secure", "true"), ("community", "false"))
        for count in COUNTS
    )
    facts = "id displayName memoryInGb secureCloud communityCloud securePrice communityPrice"
    return f"query {{ gpuTypes {{ {facts} maxGpuCountSecureCloud maxGpuCountCommunityCloud {stock} }} }}"


class RunPod(Source):
    """What its secure cloud and the community's hosts cost, on demand and as lowest bid, where there is stock."""

    name = "runpod"
    title = "RunPod"
    url = "https://api.runpod.io"
    kind = "provider"
    terms = "documented interface; its terms of use are said to forbid scraping the site, which is not done"

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every GPU type in one query."""
        return self.pull(self.post(session, "/graphql", json={"query": _query()}))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return rows for every GPU type, cloud and count that the type is sold in."""
        answer = document(self.name, pull.parts[0])
        errors = listed(mapping(answer).get("errors"))
        if errors and not mapping(answer).get("data"):
            said = text(mapping(errors[0]).get("message"))[:120]
            raise ContentError(self.name, f"the query was refused: {said!r}", "The interface has changed; report it.")
        types = entries(self.name, answer, "data", "gpuTypes", keys=("id", "securePrice", "secure1"))
        return [row for gpu in types for cloud in CLOUDS for count in COUNTS for row in _rows(gpu, cloud, count, day)]


def _rows(gpu: Entry, cloud: str, count: int, day: date) -> list[RawRow]:
    largest = whole(gpu.get(f"maxGpuCount{cloud.title()}Cloud"))
    if gpu.get(f"{cloud}Cloud") is False or (largest is not None and count > largest):
        return []
    stock = mapping(gpu.get(f"{cloud}{count}"))
    spelling = text(gpu.get("id"))
    is_slice = "MIG" in f"{spelling} {text(gpu.get('displayName'))}".upper().split()
    free = "" if stock.get("stockStatus") else "none free"  # null means none

    def row(term: str, price: float | None) -> RawRow:
        return RawRow(
            source="runpod",
            provider="runpod",
            spelling=spelling,
            gpus=count,
            memory_gb=number(gpu.get("memoryInGb")) or None,
            term="spot" if term == "spot" else "on-demand",
            price_usd=price,
            per="gpu",
            community=cloud == "community",
            seen_on=day,
            refused="a slice of a GPU" if is_slice else free,
        )

    price, bid = number(gpu.get(CLOUDS[cloud])), number(stock.get("minimumBidPrice"))
    return ([row("on-demand", price)] if price is not None or not free else []) + (
        [row("spot", bid)] if bid is not None else []
    )
