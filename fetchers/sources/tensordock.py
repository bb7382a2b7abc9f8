"""TensorDock: GPUs by location, with vCPUs, memory and disk charged apart."""

from __future__ import annotations

from datetime import date

from fetchers.groups import cheapest_of_kind
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries, listed, mapping, number, text, whole
from fetchers.pulls import RawPull
from fetchers.source import Source

COUNTS = (1, 2, 4, 8)
# A machine needs more than its GPUs. Per GPU, as small as serves a model: memory to load the weights of one GPU from.
VCPUS_PER_GPU = 4
RAM_GB_PER_GPU = 64
DISK_GB_PER_GPU = 200


class TensorDock(Source):
    """What whole machines would cost. Off unless asked for: about half of what it lists cannot be had."""

    name = "tensordock"
    title = "TensorDock"
    url = "https://dashboard.tensordock.com"
    kind = "marketplace"
    terms = "documented interface, token of one's own account"
    needs = ("TENSORDOCK_API_TOKEN",)
    on_by_default = False

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for what each location has."""
        self.demand_credentials(session.credentials)
        headers = {"Authorization": f"Bearer {session.credentials.secret(self.name, 'TENSORDOCK_API_TOKEN')}"}
        return self.pull(self.get(session, "/api/v2/locations", headers=headers, previous=previous))

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a GPU, count and country, with the price of its vCPUs, memory and disk added."""
        answer = document(self.name, pull.parts[0])
        places = entries(self.name, answer, "data", "locations", keys=("gpus",))
        rows: list[RawRow] = []
        for place in places:
            for gpu in listed(place.get("gpus")):
                rows += _rows(place, mapping(gpu), day)
        return cheapest_of_kind(rows)


def _rows(place: Entry, gpu: Entry, day: date) -> list[RawRow]:
    largest = whole(gpu.get("max_count")) or 0
    resources = mapping(gpu.get("resources"))
    rows = []
    for count in [count for count in COUNTS if count <= largest] or [1]:
        short = [
            what
            for what, field, each in (
                ("vCPUs", "max_vcpus", VCPUS_PER_GPU),
                ("memory", "max_ram_gb", RAM_GB_PER_GPU),
                ("disk", "max_storage_gb", DISK_GB_PER_GPU),
            )
            if (limit := number(resources.get(field))) is not None and limit < each * count
        ]
        refused = "not free to rent" if not largest else f"too little {', '.join(short)} for its GPUs" if short else ""
        rows.append(
            RawRow(
                source="tensordock",
                provider="tensordock",
                region=text(place.get("country")) or "global",
                spelling=text(gpu.get("v0Name")),
                gpus=count,
                term="on-demand",
                price_usd=_price(gpu, count),
                per="node",
                seen_on=day,
                refused=refused,
            )
        )
    return rows


def _price(gpu: Entry, count: int) -> float | None:
    parts = mapping(gpu.get("pricing"))
    each = [
        (number(gpu.get("price_per_hr")), 1),
        (number(parts.get("per_vcpu_hr")), VCPUS_PER_GPU),
        (number(parts.get("per_gb_ram_hr")), RAM_GB_PER_GPU),
        (number(parts.get("per_gb_storage_hr")), DISK_GB_PER_GPU),
    ]
    if any(price is None for price, _ in each):
        return None  # a part without a price is missing, not free
    return count * sum((price or 0.0) * quantity for price, quantity in each)
