"""Bring a dated price file of one's own, or of somebody's collection, into the price history.

Each day of a file is one complete look of its source. Rows that cannot be offers are set aside with their reasons.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path
from typing import Any

from catalogs.errors import CatalogError, DataFileError, UnknownNameError
from catalogs.history import History, Pull, SetAside, Summary
from catalogs.offer_files import MAX_FILE_BYTES, PRICE_COLUMNS, read_own_offers
from catalogs.providers import get_provider
from fetchers import dated_files
from fetchers.checks import check_one_by_one
from fetchers.normalize import PlacedOffer, RawRow, place

# SkyPilot repeats every machine of these for every region: its regions say nothing about stock.
_EVERYWHERE = frozenset({"lambda", "runpod"})

_Reader = Callable[[str, date], list[RawRow]]

# Formats whose rows carry their day: name -> the source that they are, and how a day is read.
DATED: dict[str, tuple[str, _Reader]] = {
    "machine-prices": ("machine-prices", partial(dated_files.read_machine_prices, source="machine-prices")),
    "aws-series": ("aws-p5-daily", partial(dated_files.read_aws_series, source="aws-p5-daily")),
    "gpurentalprices": ("gpurentalprices", partial(dated_files.read_gpurentalprices, source="gpurentalprices")),
    "hemgo": ("hemgo", partial(dated_files.read_hemgo, source="hemgo")),
    "cherielilili": ("cherielilili", partial(dated_files.read_cherielilili, source="cherielilili")),
}
FORMATS = ("shardwise", "skypilot", "gpuhunt", *DATED)


@dataclass(frozen=True, slots=True)
class ImportedLook:
    """One day of a file: what it changed in the history.

    Attributes:
        source: its name in the history.
        day: the day.
        summary: what changed; None where no row of the day can be an offer: nothing is recorded then, since such a
            look would end every price of its source.
        reasons: rows set aside, by reason.
    """

    source: str
    day: date
    summary: Summary | None
    reasons: Counter[str]


@dataclass(frozen=True, slots=True)
class _Day:
    day: date
    offers: list[PlacedOffer]
    set_aside: list[SetAside]


def import_file(
    history: History,
    path: Path,
    form: str,
    *,
    provider: str | None = None,
    day: date | None = None,
    source: str | None = None,
    today: date | None = None,
) -> Iterator[ImportedLook]:
    """Record every day of a file, the oldest first; each is whole once it is yielded.

    Args:
        history: where to.
        path: the file, UTF-8 text.
        form: one of FORMATS.
        provider: whose prices they are, for skypilot and gpuhunt, whose files do not say.
        day: the day on which they were seen, where rows do not say; for dated formats the only day to take.
        source: name of the source in the history; None takes the format's (with the provider, or the file's name).
        today: the day on which own offers without a date count as seen.

    Raises:
        UnknownNameError: the format or the provider is unknown.
        DataFileError: the file is not what its format needs, or none of its days holds an offer; days before a bad row
            stay.
    """
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS, f"Expected one of {', '.join(FORMATS)}.")
    data = _bytes_of(path)
    if form == "shardwise":
        days = _own_days(path, day, today or date.today())
        name = source or f"own-{path.stem}"
    elif form in DATED:
        name, reader = DATED[form]
        days, name = _dated_days(path, data, reader, day), source or name
    else:
        days, name = _undated_day(path, data, form, provider, day), source or f"{form}-{provider}"
    raw, recorded, left_out = history.raw.keep([data]), False, Counter[str]()
    for one in days:
        reasons = Counter(row.reason for row in one.set_aside)
        if not one.offers:
            left_out += reasons
            yield ImportedLook(name, one.day, None, reasons)
            continue
        pull = Pull(
            source=name,
            moment=datetime.combine(one.day, time(12), UTC),
            sha256=raw.sha256,
            url=path.name,
            size_bytes=raw.size_bytes,
            citation=f"{path.name}, imported as {form}",
        )
        recorded = True
        yield ImportedLook(name, one.day, history.record(pull, one.offers, set_aside=one.set_aside), reasons)
    if not recorded:
        why = "; ".join(f"{reason} ({count})" for reason, count in left_out.most_common(3)) or "it has no GPU rows"
        raise DataFileError(path, [f"holds no offer that can be used: {why}"])


def _own_days(path: Path, day: date | None, today: date) -> Iterator[_Day]:
    """One look: on the day given, else on the newest day that a row was seen."""
    rows: list[dict[str, Any]] = read_own_offers(path, day or today)[list(PRICE_COLUMNS)].to_dict("records")  # type: ignore[assignment]
    offers = [
        PlacedOffer(
            **row
            | {
                "price_usd_per_node_hour": round(row["price_usd_per_node_hour"], 6),
                "max_nodes": None if math.isnan(row["max_nodes"]) else row["max_nodes"],
                "seen_on": row["seen_on"].date(),
            }
        )
        for row in rows
    ]
    yield _Day(day or max(offer.seen_on for offer in offers), offers, [])


def _dated_days(path: Path, data: bytes, read: _Reader, only: date | None) -> Iterator[_Day]:
    text = _text_of(path, data)
    try:
        days = dated_files.days_in(text)
    except (KeyError, ValueError, StopIteration):
        raise DataFileError(path, ["has no column of days, or a day that is none (YYYY-MM-DD)"]) from None
    if only is not None and only not in days:
        raise DataFileError(path, [f"has no rows of {only}; it has {days[0]} to {days[-1]}"])
    for day in days if only is None else [only]:
        yield _placed(path, day, read, text)


def _undated_day(path: Path, data: bytes, form: str, provider: str | None, day: date | None) -> Iterator[_Day]:
    if provider is None or day is None:
        missing = " and ".join(flag for flag, value in (("provider", provider), ("date", day)) if value is None)
        raise CatalogError(f"{path.name}: a {form} file does not say its {missing}; give it")
    name = get_provider(provider).name

    def read(text: str, seen_on: date) -> list[RawRow]:
        if form == "gpuhunt":
            return dated_files.read_gpuhunt(text, name, seen_on, form)
        return dated_files.read_skypilot(text, name, seen_on, form, regions_are_stock=name not in _EVERYWHERE)

    yield _placed(path, day, read, _text_of(path, data))


def _placed(path: Path, day: date, read: _Reader, text: str) -> _Day:
    try:
        rows = read(text, day)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataFileError(path, [f"is not of this format: {error!r}"]) from None
    placed = place(rows)
    offers, failed = check_one_by_one(placed.offers)
    set_aside = [SetAside(reason, asdict(row)) for row, reason in placed.set_aside]
    set_aside += [SetAside(reason, asdict(offer), offer) for offer, reason in failed]
    return _Day(day, offers, set_aside)


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DataFileError(path, [f"cannot be read: {error.strerror or error}"]) from error
    if len(data) > MAX_FILE_BYTES:
        raise DataFileError(path, [f"is larger than {MAX_FILE_BYTES / 1e6:g} MB"])
    return data


def _text_of(path: Path, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFileError(path, [f"is not UTF-8 text: byte {error.start}"]) from None
    if "\x00" in text:
        raise DataFileError(path, ["is not text: it holds NUL characters"])
    return text
