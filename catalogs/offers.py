"""Offers: one node at one price from one provider, region and term, seen on one date.

The bundled snapshot is `data/prices/<source>/<date>.csv` (columns `offer_files.PRICE_COLUMNS`), with the rows that
could not be used counted in `<date>.set_aside.csv`, and each source's citation in `data/prices/sources.toml`.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from catalogs.errors import CatalogError, DataFileError, UnknownNameError
from catalogs.gpus import get_gpu
from catalogs.offer_files import (
    KEY,
    TERMS,
    Term,
    read_own_offers,
    read_price_files,
    read_set_aside,
    with_node_facts,
)
from catalogs.providers import ProviderKind, load_providers

__all__ = [
    "OFFER_COLUMNS",
    "Discount",
    "Offer",
    "OfferTable",
    "ProviderKind",
    "Term",
    "discounted",
    "load_offers",
    "repriced",
    "sorted_offers",
]

PRICES_FOLDER = Path(__file__).parent / "data" / "prices"

# A price older than this beside the newest one in view is history, not an offer.
MAX_AGE = timedelta(days=365)

OFFER_COLUMNS = (
    "provider",  # "aws", "spheron", ...
    "provider_kind",  # ProviderKind
    "region",  # the provider's own region name; "global" when one price holds everywhere or none is named
    "instance_type",  # the provider's own name, or "4x H200-SXM-141GB" where GPUs are sold by count
    "gpu",  # canonical GPU name
    "gpus_per_node",  # int
    "fabric",  # catalogs.nodes.Fabric
    "scale_up_gpus",  # int
    "network",  # catalogs.nodes.Network
    "network_gbit_per_s",  # float, NaN when unknown
    "term",  # Term
    "price_usd_per_node_hour",  # float > 0
    "max_nodes",  # float: stock seen; NaN when not stated
    "seen_on",  # datetime64: the day the price was seen
    "source",  # short name of the source file's data set, e.g. "gpurentalprices"
)
_SORT = ["price_usd_per_node_hour", "provider", "region", "instance_type", "term"]


@dataclass(frozen=True)
class OfferTable:
    """Priced offers as one pandas table.

    Attributes:
        frame: one row an offer, columns OFFER_COLUMNS in that order, RangeIndex, sorted by price then by names.
        as_of: the date asked for (today when none was).
        sources: short source name -> citation (who, where, licence note).
        set_aside: offers not usable -> how many, by reason (a missing price, an unknown GPU, ...).
    """

    frame: pd.DataFrame
    as_of: date
    sources: dict[str, str]
    set_aside: dict[str, int]


@dataclass(frozen=True)
class Offer:
    """One row of an OfferTable; fields as OFFER_COLUMNS, None where the table holds NaN."""

    provider: str
    provider_kind: ProviderKind
    region: str
    instance_type: str
    gpu: str
    gpus_per_node: int
    fabric: str
    scale_up_gpus: int
    network: str
    network_gbit_per_s: float | None
    term: Term
    price_usd_per_node_hour: float
    max_nodes: float | None
    seen_on: date
    source: str

    @property
    def price_usd_per_gpu_hour(self) -> float:
        """Price of one GPU of the node, USD per hour."""
        return self.price_usd_per_node_hour / self.gpus_per_node

    @classmethod
    def at(cls, table: OfferTable, row: int) -> Offer:
        """Return the offer in a row of the table (position, not label)."""
        cells = table.frame.iloc[row]
        values: dict[str, Any] = {field.name: _plain(cells[field.name]) for field in fields(cls)}
        return cls(**values)


@dataclass(frozen=True)
class Discount:
    """The user's own terms: a percentage off every offer that matches all the names given.

    Attributes:
        provider: short provider name; None for every provider.
        percent: 0 (nothing off) to below 100.
        gpu, instance_type, term: further conditions; None for any.
    """

    provider: str | None
    percent: float
    gpu: str | None = None
    instance_type: str | None = None
    term: Term | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.percent < 100:
            raise CatalogError(f"Expected a discount of 0 to below 100 percent, got {self.percent}.")
        if self.term is not None and self.term not in TERMS:
            raise UnknownNameError("term", self.term, TERMS)


@dataclass(frozen=True)
class _Look:
    """One dated file of one source."""

    source: str
    day: date
    path: Path

    @property
    def set_aside_path(self) -> Path:
        return self.path.with_name(f"{self.path.stem}.set_aside.csv")


def load_offers(
    as_of: date | None = None,
    extra_files: tuple[Path, ...] = (),
    *,
    folder: Path = PRICES_FOLDER,
    today: date | None = None,
) -> OfferTable:
    """Return the offers known on a date: of every source its newest dated file that is not later.

    Where sources cover the same provider, region, machine and term, the row seen last stands; on a tie the source whose
    name sorts first. Rows seen over a year before the newest row in view are set aside. A row of the user's own files
    stands before any bundled one, and before one of a later file.

    Args:
        as_of: the day whose prices are wanted; None takes the newest.
        extra_files: CSV files of the user's own offers (provider kind "own" unless the file says otherwise).
        folder: where the dated files lie.
        today: the day on which own offers without a date count as seen, and `as_of` of the result when none was asked.

    Raises:
        CatalogError: no file is as old as `as_of`; says the first date there is.
        DataFileError: a file has bad rows; every one is named with row, field and value.
    """
    today = today or date.today()
    looks = _newest_looks(folder, as_of)
    bundled = read_price_files([(look.source, look.path) for look in looks])
    set_aside = Counter[str]()
    for look in looks:
        set_aside.update(read_set_aside(look.set_aside_path))
    if bundled.empty:
        raise CatalogError(f"{folder} holds no offers.")
    fresh = bundled["seen_on"] >= bundled["seen_on"].max() - MAX_AGE
    set_aside["seen over a year before the newest price"] += int((~fresh).sum())
    bundled = _last_seen(bundled[fresh])
    all_citations = load_citations(folder)
    citations = {look.source: all_citations[look.source] for look in looks}
    frame = with_node_facts(bundled)
    if extra_files:
        own, own_citations = _own_offers(extra_files, today)
        frame = pd.concat([own, frame], ignore_index=True).drop_duplicates(KEY)
        citations |= own_citations
    kept = {reason: count for reason, count in sorted(set_aside.items()) if count}
    return OfferTable(sorted_offers(frame), as_of or today, citations, kept)


def discounted(table: OfferTable, discounts: Sequence[Discount]) -> OfferTable:
    """Return the table at the user's own terms: matching prices times (1 - percent/100), discount after discount.

    Raises:
        UnknownNameError: a discount names a provider, GPU or machine that is not there; near matches offered.
    """
    if not discounts:
        return table
    prices = table.frame["price_usd_per_node_hour"].to_numpy(copy=True)
    for discount in discounts:
        prices[_matches(table.frame, discount)] *= 1 - discount.percent / 100
    return repriced(table, prices)


def repriced(table: OfferTable, price_usd_per_node_hour: np.ndarray) -> OfferTable:
    """Return the table with these prices, one a row of its frame, sorted anew."""
    return replace(table, frame=sorted_offers(table.frame.assign(price_usd_per_node_hour=price_usd_per_node_hour)))


def first_day(folder: Path = PRICES_FOLDER) -> date:
    """Return the first day for which there are prices."""
    return min(look.day for look in _looks(folder))


@lru_cache(maxsize=8)
def load_citations(folder: Path = PRICES_FOLDER) -> dict[str, str]:
    """Return short source name -> citation (cached). Raises DataFileError when a source has none."""
    path = folder / "sources.toml"
    try:
        citations = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataFileError(path, [f"cannot be read: {error}"]) from error
    missing = sorted({look.source for look in _looks(folder)} - set(citations))
    if missing:
        raise DataFileError(path, [f"has no citation for {source}" for source in missing])
    return citations


def _looks(folder: Path) -> list[_Look]:
    looks = []
    for path in sorted(folder.glob("*/*.csv")):
        if path.name.endswith(".set_aside.csv"):
            continue
        try:
            looks.append(_Look(path.parent.name, date.fromisoformat(path.stem), path))
        except ValueError as error:
            raise DataFileError(path, ["is not named by its date (YYYY-MM-DD.csv)"]) from error
    if not looks:
        raise CatalogError(f"{folder} holds no dated price files.")
    return looks


def _newest_looks(folder: Path, as_of: date | None) -> list[_Look]:
    looks = _looks(folder)
    newest: dict[str, _Look] = {}
    for look in looks:
        if as_of is None or look.day <= as_of:
            newest[look.source] = max(look, newest.get(look.source, look), key=lambda one: one.day)
    if not newest:
        raise CatalogError(f"No prices are as old as {as_of}: the first are of {min(look.day for look in looks)}.")
    return list(newest.values())


def _last_seen(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep, of rows for the same offer, the one seen last; on a tie the source whose name sorts first."""
    ordered = frame.sort_values(["seen_on", "source"], ascending=[False, True], kind="stable")
    return ordered.drop_duplicates(KEY)


def _own_offers(files: Iterable[Path], today: date) -> tuple[pd.DataFrame, dict[str, str]]:
    frames, citations = [], {}
    for path in files:
        source = f"own:{path.name}"
        frames.append(read_own_offers(path, today).assign(source=source))
        citations[source] = f"the user's own file {path}"
    return pd.concat(frames, ignore_index=True), citations


def sorted_offers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return offers as an OfferTable holds them: by price, then by names, with its columns and a RangeIndex."""
    return frame.sort_values(_SORT, kind="stable", ignore_index=True)[list(OFFER_COLUMNS)]


def _matches(frame: pd.DataFrame, discount: Discount) -> np.ndarray:
    matches = np.ones(len(frame), dtype=bool)
    if discount.provider is not None:
        known = set(frame["provider"])
        if discount.provider not in known | set(load_providers()):
            raise UnknownNameError("provider", discount.provider, known)
        matches &= (frame["provider"] == discount.provider).to_numpy()
    if discount.gpu is not None:
        matches &= (frame["gpu"] == get_gpu(discount.gpu).name).to_numpy()
    if discount.instance_type is not None:
        known = set(frame.loc[matches, "instance_type"])
        if discount.instance_type not in known:
            raise UnknownNameError("instance type", discount.instance_type, known)
        matches &= (frame["instance_type"] == discount.instance_type).to_numpy()
    if discount.term is not None:
        matches &= (frame["term"] == discount.term).to_numpy()
    return matches


def _plain(cell: object) -> object:
    """Return a table cell as a plain Python value, None for NaN."""
    if isinstance(cell, pd.Timestamp):
        return cell.date()
    if isinstance(cell, np.generic):
        cell = cell.item()
    return None if isinstance(cell, float) and np.isnan(cell) else cell
