"""Prime Intellect: machines of many clouds that it resells; the price buys the whole machine."""

from __future__ import annotations

from datetime import date

from fetchers.errors import ContentError
from fetchers.groups import cheapest_of_kind
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, entries_of_parts, mapping, number, shortfall, text, whole
from fetchers.pulls import RawPart, RawPull
from fetchers.source import Source

PAGE_SIZE = 100
MAX_PAGES = 50
_IN_STOCK = frozenset({"", "available", "low", "medium", "high"})


class PrimeIntellect(Source):
    """What can be rented now; the cheapest machine of each kind, cloud and place."""

    name = "prime-intellect"
    title = "Prime Intellect"
    url = "https://api.primeintellect.ai"
    kind = "reseller"
    terms = "documented interface, key with the right to read availability"
    needs = ("PRIME_API_KEY",)

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every page of machines."""
        self.demand_credentials(session.credentials)
        headers = {"Authorization": f"Bearer {session.credentials.secret(self.name, 'PRIME_API_KEY')}"}
        parts: list[RawPart] = []
        seen = 0
        for page in range(1, MAX_PAGES + 1):
            params = {"page": str(page), "page_size": str(PAGE_SIZE)}
            label, path = f"page {page}", "/api/v1/availability/gpus"
            parts.append(self.get(session, path, label=label, params=params, headers=headers, previous=previous))
            answer = document(self.name, parts[-1])
            found = len(entries(self.name, answer, "items"))
            seen += found
            if not found or seen >= (whole(mapping(answer).get("totalCount")) or 0):
                return self.pull(*parts)
        raise ContentError(self.name, f"more than {MAX_PAGES} pages", "The interface has changed; report it.")

    def shortfall(self, pull: RawPull) -> str:
        """Return what the pages lack of the total that they state."""
        return shortfall(pull, "items", "totalCount")

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return the cheapest machine of each kind, cloud and place."""
        items = entries_of_parts(pull, "items", keys=("gpuType", "gpuCount", "prices"))
        return cheapest_of_kind(_row(item, day) for item in items if text(item.get("gpuType")) != "CPU_NODE")


def _row(item: Entry, day: date) -> RawRow:
    prices, gpus = mapping(item.get("prices")), whole(item.get("gpuCount"))
    currency = text(prices.get("currency")).upper() or "USD"
    price, total_gb = number(prices.get("onDemand")), number(item.get("gpuMemory"))
    upstream, spelling, socket = text(item.get("provider")), text(item.get("gpuType")), text(item.get("socket"))
    stock = text(item.get("stockStatus")).lower()
    return RawRow(
        source="prime-intellect",
        provider="primeintellect",
        region=text(item.get("dataCenter")) or text(item.get("country")) or "global",
        instance_type=f"{upstream} {gpus}x {spelling} {socket}".strip() if upstream and gpus else "",
        spelling=f"{spelling} {socket}".strip(),
        gpus=gpus,
        memory_gb=total_gb / gpus if total_gb and gpus else None,  # the stated memory is that of all GPUs
        term="spot" if item.get("isSpot") is True else "on-demand",
        price_usd=price if currency == "USD" else None,
        currency=currency,
        price_in_currency=None if currency == "USD" else price,
        per="node",
        community=text(item.get("security")) == "community_cloud",
        seen_on=day,
        refused="" if stock in _IN_STOCK else "not free to rent",
    )
