"""What goes into the history and what it answers: pulls, prices, rows set aside, the outcome of recording."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from catalogs.errors import CatalogError
from catalogs.offer_files import Term
from catalogs.providers import ProviderKind

MICRO = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_URL = re.compile(r"\b[a-z][a-z0-9+.\-]*://[^\s'\"<>]+", re.IGNORECASE)
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class HistoryError(CatalogError):
    """The history cannot be read or written; says where, what happened, and what was kept."""


class PricedOffer(Protocol):
    """An offer as sources give it (fetchers.normalize.PlacedOffer); fields as catalogs.offer_files.PRICE_COLUMNS."""

    @property
    def provider(self) -> str:
        """Short name of the provider."""

    @property
    def provider_kind(self) -> ProviderKind:
        """Kind of provider."""

    @property
    def region(self) -> str:
        """The provider's name of the region."""

    @property
    def instance_type(self) -> str:
        """The provider's name of the machine."""

    @property
    def gpu(self) -> str:
        """Canonical GPU name."""

    @property
    def gpus_per_node(self) -> int:
        """GPUs in the machine."""

    @property
    def term(self) -> Term:
        """Term of the price."""

    @property
    def price_usd_per_node_hour(self) -> float:
        """Price of the machine, USD per hour."""

    @property
    def max_nodes(self) -> float | None:
        """Stock; None when not stated."""

    @property
    def seen_on(self) -> date:
        """The day on which the source saw the price."""


@dataclass(frozen=True, kw_only=True)
class Pull:
    """One look at one source.

    Attributes:
        source: short name of the source ("aws", "vast").
        moment: when it was looked at; with a time zone.
        sha256: hash of the raw bytes (`RawPulls.keep` gives it); "" where there are none.
        url: where they came from. User names, passwords and the values of its query are not kept.
        size_bytes: how many raw bytes.
        http_status: what the server answered; None for a file.
        rows: rows that the source listed.
        citation: who publishes the prices, with the note that its licence asks for; "" leaves the known one.
        covers: (provider, term) pairs of which a complete look is the whole list: what other sources saw of them
            before this look no longer counts as an offer of today.
    """

    source: str
    moment: datetime
    sha256: str = ""
    url: str = ""
    size_bytes: int = 0
    http_status: int | None = None
    rows: int = 0
    citation: str = ""
    covers: tuple[tuple[str, Term], ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.source):
            raise HistoryError(f"source {self.source!r}: expected a name of 1 to 200 characters")
        if self.moment.tzinfo is None:
            raise HistoryError(f"moment {self.moment.isoformat()}: expected a time zone")
        if self.sha256 and not _SHA256.fullmatch(self.sha256):
            raise HistoryError(f"sha256 {self.sha256[:80]!r}: expected 64 hexadecimal digits")

    @property
    def moment_us(self) -> int:
        """The moment, in microseconds since 1970."""
        return to_us(self.moment)


@dataclass(frozen=True)
class SetAside:
    """A row that a check kept out.

    Attributes:
        reason: why.
        row: the row as its source states it; values must be what JSON holds.
        offer: what it would be if it were accepted; None where it cannot be placed. While it waits, the look says
            nothing about that offer: an older price stands, and the offer is not gone.
    """

    reason: str
    row: Mapping[str, Any]
    offer: PricedOffer | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """What a look changed, in offers.

    Attributes:
        new: not there before, or back.
        changed: there before at another price.
        gone: there before, absent from a complete look.
        same: at the same price.
        stock_changed: of `same`, those with another stock.
        set_aside: rows kept out.
        known: the same look had been recorded; nothing was written.
    """

    new: int = 0
    changed: int = 0
    gone: int = 0
    same: int = 0
    stock_changed: int = 0
    set_aside: int = 0
    known: bool = False


@dataclass(frozen=True, slots=True)
class RecordedLook:
    """One look as it was recorded.

    Attributes:
        moment: when.
        sha256: hash of its raw bytes.
        complete: whether it was the whole list.
        offers: how many it listed.
    """

    moment: datetime
    sha256: str
    complete: bool
    offers: int


@dataclass(frozen=True, slots=True)
class SourceState:
    """How one source stands; moments are None where there was none.

    Attributes:
        name: its short name.
        citation: who publishes it.
        looks: how many are recorded.
        first_look, last_look: the oldest and the newest.
        last_complete: the newest that was the whole list.
        offers: how many it lists now.
        waiting: rows set aside that could be offers, and wait for a decision.
        failures: failed pulls since the last look.
        last_failure: when the newest failure was.
        last_failure_reason: what it said.
    """

    name: str
    citation: str
    looks: int
    first_look: datetime | None
    last_look: datetime | None
    last_complete: datetime | None
    offers: int
    waiting: int
    failures: int
    last_failure: datetime | None
    last_failure_reason: str

    def age(self, now: datetime | None = None) -> timedelta | None:
        """Return how long ago the last look was; None where there was none."""
        return None if self.last_look is None else (now or datetime.now(UTC)) - self.last_look


@dataclass(frozen=True)
class Facts:
    """What an offer is, apart from its price."""

    provider_kind: str
    gpu: str
    gpus_per_node: int


Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Row:
    """One checked price of one look, ready to be compared and stored."""

    key: Key
    facts: Facts
    price_microusd: int
    max_nodes: float | None
    carried_from: date | None


def to_us(moment: datetime) -> int:
    """Return whole microseconds since 1970 UTC."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_us(us: int) -> datetime:
    """Return the moment of so many microseconds since 1970 UTC."""
    return _EPOCH + timedelta(microseconds=us)


def end_of(moment: date | datetime) -> int:
    """Return the last microsecond that counts "as of" a moment; a day counts to its end, UTC.

    Raises:
        HistoryError: a moment without a time zone.
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise HistoryError(f"moment {moment.isoformat()}: expected a time zone")
        return to_us(moment)
    return to_us(datetime(moment.year, moment.month, moment.day, tzinfo=UTC)) + 86_400 * MICRO - 1


def start_of(moment: date | datetime) -> int:
    """Return the first microsecond of a moment; a day starts at midnight, UTC."""
    return end_of(moment) if isinstance(moment, datetime) else end_of(moment) - 86_400 * MICRO + 1


def without_secrets(text: str) -> str:
    """Return text with the user, the password, and the values of the query taken out of every URL in it."""
    return _URL.sub(lambda found: _plain_url(found.group()), text)


def _plain_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "[a URL that cannot be read]"
    host = parts.netloc.rpartition("@")[2]
    names = [part.partition("=")[0] for part in parts.query.split("&") if "=" in part]
    return urlunsplit((parts.scheme, host, parts.path, "&".join(f"{name}=..." for name in names), ""))


def checked(offer: PricedOffer, moment: datetime) -> Row:
    """Return an offer as it is stored.

    Raises:
        HistoryError: a name, count, price or day cannot be one.
    """
    key = (offer.provider, offer.region, offer.instance_type, offer.term)
    for name in (*key, offer.gpu, offer.provider_kind):
        if not _NAME.fullmatch(name):
            raise HistoryError(f"{name[:80]!r}: expected a name of 1 to 200 printable characters")
    price = offer.price_usd_per_node_hour
    if not 0 < price < 1e9:
        raise HistoryError(f"{' '.join(key)}: expected a price above 0 and below 1e9 USD per node hour, got {price}")
    microusd = round(price * MICRO)
    if not microusd or offer.gpus_per_node < 1:
        raise HistoryError(f"{' '.join(key)}: {price} USD per hour for {offer.gpus_per_node} GPUs is no price")
    stock = offer.max_nodes
    stock = None if stock is None or math.isnan(stock) else float(stock)
    carried = offer.seen_on if offer.seen_on < moment.astimezone(UTC).date() else None
    facts = Facts(offer.provider_kind, offer.gpu, int(offer.gpus_per_node))
    return Row(key, facts, microusd, stock, carried)
