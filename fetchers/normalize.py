"""From what sources write to offers: GPU names and node shapes are placed, or the row is set aside with its reason.

Nothing is guessed: a name that could mean two GPUs, a price that is missing, a machine of unknown size are counted and
left out. Checks that need the other rows (duplicates, spot above on-demand) are in `fetchers.checks`.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Literal

from catalogs.errors import DataFileError, UnknownNameError
from catalogs.gpus import load_gpus
from catalogs.nodes import Node, load_nodes
from catalogs.offer_files import MAX_USD_PER_GPU_HOUR, MIN_USD_PER_GPU_HOUR, Term
from catalogs.providers import Provider, ProviderKind, get_provider

ALIASES_FILE = Path(__file__).parent.parent / "catalogs" / "data" / "gpu_aliases.csv"
ALIAS_COLUMNS = ("source", "provider", "spelling", "memory_gb", "gpu", "note")
ANY = "*"

# A "24 GB" card reports 22 to 24 and a B300 262 to 288, by source; another GPU or another size is farther off.
_MEMORY_RATIOS = (0.88, 1.13)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """One price as a source states it, in its own words.

    Attributes:
        source: short name of the data set.
        provider: provider as the source spells it.
        spelling: GPU (or machine) as the source spells it.
        price_usd: price in USD per hour; None when the source has none or has it in another currency.
        per: what the price buys: one GPU or the whole node.
        seen_on: the day on which the source saw the price.
        instance_type: the provider's own machine name; "" when the source does not name one.
        gpus: GPUs in the node; None when not stated.
        variant: what tells this product from another with the same GPU; ends the name of its node sizes.
        min_gpus: the fewest GPUs that can be had at this price.
        memory_gb: memory per GPU that the source states; used to refuse a wrong name, never to pick one size of two
            unless the alias table says so.
        community: on machines of private hosts that the provider passes on.
        max_nodes: how many such nodes were seen free; None when not stated.
        refused: why the source's reader already knows that this is no offer; "" otherwise.
        currency: in which the source states the price; only USD is placed.
        price_in_currency: the price per hour in that currency, where it is not USD; `price_usd` is None then.
    """

    source: str
    provider: str
    spelling: str
    price_usd: float | None
    per: Literal["gpu", "node"]
    term: Term
    seen_on: date
    region: str = "global"
    instance_type: str = ""
    variant: str = ""
    gpus: int | None = None
    min_gpus: int = 1
    memory_gb: float | None = None
    community: bool = False
    max_nodes: float | None = None
    refused: str = ""
    currency: str = "USD"
    price_in_currency: float | None = None


@dataclass(frozen=True, slots=True)
class PlacedOffer:
    """One row of a price file (columns as catalogs.offer_files.PRICE_COLUMNS); the price is in USD per node hour."""

    provider: str
    provider_kind: ProviderKind
    region: str
    instance_type: str
    gpu: str
    gpus_per_node: int
    term: Term
    price_usd_per_node_hour: float
    max_nodes: float | None
    seen_on: date

    @property
    def usd_per_gpu_hour(self) -> float:
        """Price of one GPU of the node, USD per hour."""
        return self.price_usd_per_node_hour / self.gpus_per_node

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two rows the same offer."""
        return (self.provider, self.region, self.instance_type, self.term)


@dataclass(frozen=True)
class Placed:
    """Outcome of placing rows: the offers, and every row left out with its reason."""

    offers: tuple[PlacedOffer, ...]
    set_aside: tuple[tuple[RawRow, str], ...]

    @property
    def reasons(self) -> Counter[str]:
        """How many rows were left out, by reason."""
        return Counter(reason for _, reason in self.set_aside)


class _NotPlacedError(Exception):
    """Ends the placing of one row; its text is the reason that the report shows."""


def place(rows: Iterable[RawRow]) -> Placed:
    """Turn raw rows into offers. A row priced per GPU becomes one offer per node size that its provider sells."""
    offers: list[PlacedOffer] = []
    set_aside: list[tuple[RawRow, str]] = []
    for row in rows:
        try:
            offers += _offers_of(row)
        except _NotPlacedError as reason:
            set_aside.append((row, str(reason)))
    return Placed(tuple(offers), tuple(set_aside))


def _offers_of(row: RawRow) -> list[PlacedOffer]:
    if row.refused:
        raise _NotPlacedError(row.refused)
    provider = _provider_of(row)
    price = _price_of(row)
    node = load_nodes().get((provider.name, row.instance_type)) if row.instance_type else None
    if row.term != "spot" and row.instance_type in provider.not_sold:
        raise _NotPlacedError("listed on-demand although it is only sold as spot")
    gpu = node.gpu if node else gpu_of(row, provider.name)
    _check_memory(row, gpu)
    offers = []
    for instance_type, gpus in _shapes(row, provider, node, gpu):
        usd_per_node = price * gpus if row.per == "gpu" else price
        if not MIN_USD_PER_GPU_HOUR <= usd_per_node / gpus <= MAX_USD_PER_GPU_HOUR:
            raise _NotPlacedError(f"price outside {MIN_USD_PER_GPU_HOUR:g} to {MAX_USD_PER_GPU_HOUR:g} $ per GPU-hour")
        offers.append(
            PlacedOffer(
                provider=provider.name,
                provider_kind="marketplace" if row.community else provider.kind,
                region=row.region,
                instance_type=f"{instance_type} (community)" if row.community else instance_type,
                gpu=gpu,
                gpus_per_node=gpus,
                term=row.term,
                price_usd_per_node_hour=round(usd_per_node, 6),
                max_nodes=row.max_nodes,
                seen_on=row.seen_on,
            )
        )
    return offers


def _provider_of(row: RawRow) -> Provider:
    try:
        provider = get_provider(row.provider)
    except UnknownNameError as error:
        raise _NotPlacedError("provider not in the catalog") from error
    if provider.bid_floors:
        raise _NotPlacedError("a bid floor, not a price")
    return provider


def _price_of(row: RawRow) -> float:
    if row.currency != "USD":
        raise _NotPlacedError(f"price in {row.currency[:10] or 'no currency'}, not in USD")
    if row.price_usd is None or math.isnan(row.price_usd):
        raise _NotPlacedError("price missing or not in USD")
    if not 0 < row.price_usd < math.inf:
        raise _NotPlacedError("price zero, negative or infinite")
    return row.price_usd


def _check_memory(row: RawRow, gpu: str) -> None:
    known = load_gpus().get(gpu)
    if known is None:
        raise _NotPlacedError("GPU not in the catalog")
    if row.memory_gb is not None:
        low, high = _MEMORY_RATIOS
        if not low <= row.memory_gb / known.memory_gib <= high:
            raise _NotPlacedError("memory does not fit the GPU name (another card or a slice of one)")


def _shapes(row: RawRow, provider: Provider, node: Node | None, gpu: str) -> list[tuple[str, int]]:
    """Return the (instance type, GPUs) that the price buys."""
    if row.per == "node" or row.gpus is not None:
        if node is not None:
            return [(row.instance_type, node.gpus_per_node)]
        if row.gpus is None:
            raise _NotPlacedError("machine not in the node table")
        if row.gpus < 1:
            raise _NotPlacedError("a part of a GPU")
        return [(row.instance_type or f"{row.gpus}x {gpu}", row.gpus)]
    if gpu in provider.machines:
        return list(provider.machines[gpu].items())
    sold = provider.counts_of(gpu)
    counts = [count for count in sold if count >= row.min_gpus] or [row.min_gpus]
    variant = f" {row.variant}" if row.variant else ""
    return [(f"{count}x {gpu}{variant}", count) for count in counts]


def gpu_of(row: RawRow, provider: str) -> str:
    """Return the canonical GPU that a row's spelling means; the alias table's note is the reason when it means none."""
    table = load_aliases()
    memory = "" if row.memory_gb is None else f"{row.memory_gb:g}"
    spelling = row.spelling.strip()
    if not spelling:
        raise _NotPlacedError("no GPU named")
    for key in (
        (row.source, provider, spelling, memory),
        (row.source, provider, spelling, ""),
        (row.source, provider, ANY, ""),
        (row.source, ANY, spelling, memory),
        (row.source, ANY, spelling, ""),
    ):
        if key in table:
            gpu, note = table[key]
            if not gpu:
                raise _NotPlacedError(note)
            return gpu
    raise _NotPlacedError("machine not in the node table" if row.instance_type else "GPU name not in the alias table")


@lru_cache(maxsize=1)
def load_aliases() -> Mapping[tuple[str, str, str, str], tuple[str, str]]:
    """Return (source, provider or "*", spelling, memory or "") -> (canonical GPU or "", note) (cached).

    Raises:
        DataFileError: a row stands twice, or names no GPU without saying why.
    """
    table: dict[tuple[str, str, str, str], tuple[str, str]] = {}
    problems: list[str] = []
    with ALIASES_FILE.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != ALIAS_COLUMNS:
            raise DataFileError(ALIASES_FILE, [f"columns are {reader.fieldnames}, expected {list(ALIAS_COLUMNS)}"])
        for line, entry in enumerate(reader, start=2):
            key = (entry["source"], entry["provider"], entry["spelling"], entry["memory_gb"])
            if key in table:
                problems.append(f"line {line}: {key} stands twice")
            if not entry["gpu"] and not entry["note"]:
                problems.append(f"line {line}: names no GPU and gives no reason")
            table[key] = (entry["gpu"], entry["note"])
    if problems:
        raise DataFileError(ALIASES_FILE, problems)
    return table
