"""Google Cloud: the billing catalog prices GPUs, cores, memory and local disks apart; here they are added up again."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

from catalogs.offer_files import Term
from fetchers.dated_files import HOURS_PER_MONTH
from fetchers.errors import ContentError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import Entry, document, entries_of_parts, listed, mapping, number, text
from fetchers.pulls import RawPart, RawPull
from fetchers.source import Source

COMPUTE_SERVICE = "6F81-5844-456A"
MAX_PAGES = 100
MACHINES_FILE = Path(__file__).parent.parent / "data" / "gcp_machines.csv"

_TERMS: dict[str, Term] = {"OnDemand": "on-demand", "Preemptible": "spot"}
# Other ways to buy the same resources; "DWS" is capacity reserved for set dates.
_NOT_PLAIN = re.compile(r"sole tenancy|reserved|premium|custom|suspended|commitment|dws", re.IGNORECASE)
_CORE_OR_RAM = re.compile(r"^(?:Spot Preemptible )?(\w+) (?:Accelerator Optimized )?Instance (Core|Ram) running", re.I)
_GPU = re.compile(r"^(?:Spot Preemptible )?(.+?) GPU (?:attached|running)", re.I)
_SLICE = re.compile(r"^(?:Spot Preemptible )?A4 (Nvidia B200) \(1 gpu slice\)", re.I)
_SSD = re.compile(r"^SSD backed Local Storage", re.I)
_RTX = "RTX 6000 96GB"

_Part = tuple[str, str]  # what ("core", "ram", "gpu", "slice", "ssd") and of which family or GPU


@dataclass(frozen=True)
class Machine:
    """What a machine type is made of; `family` is that of its core and RAM SKUs, "slice" when one SKU holds all."""

    instance_type: str
    family: str
    gpu_skus: tuple[str, ...]
    gpus: int
    vcpus: float
    ram_gib: float
    local_ssd_gib: float

    def parts(self, gpu: str) -> dict[_Part, float]:
        """Return the quantity of each part when the GPU's SKU is called `gpu`."""
        if self.family == "slice":
            return {("slice", gpu): self.gpus}
        parts = {("core", self.family): self.vcpus, ("ram", self.family): self.ram_gib, ("gpu", gpu): self.gpus}
        return parts | ({("ssd", ""): self.local_ssd_gib} if self.local_ssd_gib else {})


class Gcp(Source):
    """On-demand and spot prices of the machine types whose make-up is known, in every region that prices all parts."""

    name = "gcp"
    title = "Google Cloud"
    url = "https://cloudbilling.googleapis.com"
    kind = "provider"
    terms = "documented interface, API key of one's own project"
    needs = ("GCP_API_KEY",)

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Ask for every page of SKUs of Compute Engine, in USD."""
        self.demand_credentials(session.credentials)
        headers = {"X-Goog-Api-Key": session.credentials.secret(self.name, "GCP_API_KEY")}
        parts: list[RawPart] = []
        token = ""
        for page in range(1, MAX_PAGES + 1):
            params = {"currencyCode": "USD", "pageSize": "5000"} | ({"pageToken": token} if token else {})
            path, label = f"/v1/services/{COMPUTE_SERVICE}/skus", f"page {page}"
            parts.append(self.get(session, path, label=label, params=params, headers=headers, previous=previous))
            token = text(mapping(document(self.name, parts[-1])).get("nextPageToken"))
            if not token:
                return self.pull(*parts)
        raise ContentError(self.name, f"more than {MAX_PAGES} pages of SKUs", "The interface has changed; report it.")

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine type, region and term for which every part has a price."""
        prices: dict[tuple[str, Term], dict[_Part, set[float]]] = defaultdict(lambda: defaultdict(set))
        some = False
        for sku in entries_of_parts(pull, "skus", keys=("description", "category", "pricingInfo", "serviceRegions")):
            some = True
            found = _priced_part(sku)
            if found is None:
                continue
            part, term, price = found
            for region in listed(sku.get("serviceRegions")):
                prices[text(region), term][part].add(price)
        if not some:
            raise ContentError(self.name, "the catalog is empty", "The id of the service is wrong; report it.")
        return list(_rows(prices, day))


def _rows(prices: dict[tuple[str, Term], dict[_Part, set[float]]], day: date) -> Iterator[RawRow]:
    for (region, term), parts in sorted(prices.items()):
        for machine in load_machines():
            for gpu in machine.gpu_skus:
                needed = machine.parts(gpu)
                if not all(part in parts for part in needed):
                    continue
                unclear = [part for part in needed if len(parts[part]) > 1]
                yield RawRow(
                    source="gcp",
                    provider="gcp",
                    region=region,
                    instance_type=machine.instance_type,
                    spelling=machine.instance_type,
                    gpus=machine.gpus,
                    term=term,
                    price_usd=sum(max(parts[part]) * quantity for part, quantity in needed.items()),
                    per="node",
                    seen_on=day,
                    refused=f"two prices for its {unclear[0][0]}" if unclear else "",
                )
                break


def _priced_part(sku: Entry) -> tuple[_Part, Term, float] | None:
    """Return what a SKU prices, for which term, and its price per hour; None when it is no part of a machine."""
    term = _TERMS.get(text(mapping(sku.get("category")).get("usageType")))
    description = text(sku.get("description"))
    part = None if _NOT_PLAIN.search(description) else _part(description)
    pricing = [mapping(info) for info in listed(sku.get("pricingInfo"))]
    if term is None or part is None or not pricing:
        return None
    expression = mapping(pricing[-1].get("pricingExpression"))
    price, unit = _unit_price(expression), text(expression.get("usageUnit"))
    if price is None:
        return None
    per_month = unit.endswith("mo")
    if part[0] == "ssd":
        return (part, term, price / HOURS_PER_MONTH) if per_month else (part, term, price)
    return None if per_month else (part, term, price)


def _part(description: str) -> _Part | None:
    if found := _SLICE.search(description):
        return "slice", found[1]
    if _SSD.search(description):
        return "ssd", ""
    if found := _CORE_OR_RAM.search(description):
        return found[2].lower(), found[1]
    if _RTX in description:
        return "gpu", _RTX
    if found := _GPU.search(description):
        return "gpu", found[1]
    return None


def _unit_price(expression: Entry) -> float | None:
    """Return the price from the first unit on: whole units and billionths are apart and must be added."""
    for rate in listed(expression.get("tieredRates")):
        unit_price = mapping(mapping(rate).get("unitPrice"))
        if not number(mapping(rate).get("startUsageAmount")) and unit_price.get("currencyCode", "USD") == "USD":
            return (number(unit_price.get("units")) or 0.0) + (number(unit_price.get("nanos")) or 0.0) / 1e9
    return None


@lru_cache(maxsize=1)
def load_machines() -> tuple[Machine, ...]:
    """Return the machine types whose make-up is known (cached)."""
    with MACHINES_FILE.open(encoding="utf-8", newline="") as file:
        return tuple(
            Machine(
                instance_type=row["instance_type"],
                family=row["family"],
                gpu_skus=tuple(row["gpu_skus"].split("|")),
                gpus=int(row["gpus"]),
                vcpus=float(row["vcpus"]),
                ram_gib=float(row["ram_gib"]),
                local_ssd_gib=float(row["local_ssd_gib"]),
            )
            for row in csv.DictReader(file)
        )
