"""Checks between pulling and keeping: what came is held against what was known of its source before.

Rows that fail are set aside with their reason, and the older price stands until they are decided; a look that lacks
rows is kept as a partial one, which ends no price.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from catalogs.history import History, PricedOffer, RecordedLook, SetAside
from fetchers.checks import WHOLE_NODE_RATIO, check_one_by_one
from fetchers.normalize import Placed, PlacedOffer, RawRow, place

Key = tuple[str, str, str, str]
Usual = Mapping[tuple[str, str, str], float]

# A price that moved further than this is kept apart until a second look, or the user, says so too.
MOVE_RATIO = 3.0
# Two looks agree on a price that differs by no more than this.
AGREE_RATIO = 1.1
# ... and on a number of offers that differs by no more than this.
AGREE_COUNT_RATIO = 1.5
# Two refreshes within this time are one look: what was wrong with the first may still be.
SECOND_LOOK_AFTER = timedelta(minutes=10)
# Nobody rents a node of 8 at an eighth of the usual: that is the price of one GPU.
PART_OF_NODE_RATIO = 1 / 6
# A look with fewer than this share of the offers in force is no whole list until a second look says so too.
FAR_FEWER = 0.5
# Of fewer offers than this, half may well be gone.
FEWEST_TO_COMPARE = 10
_FEWEST_PROVIDERS = 4
# Any price that a GPU and a node of any size can have: asks which offers a row without a price is about.
_PROBE_USD = 3.0

MOVED = f"moved more than {MOVE_RATIO:g} times since the last look"
TOO_LOW = "far below the usual price (one GPU's price for a whole node?)"
TOO_HIGH = "far above the usual price (a whole node's price for one GPU?)"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row in the quarantine that could be an offer, and waits."""

    number: int
    reason: str
    key: Key
    price_usd_per_node_hour: float
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class Known:
    """What the history knows of a source before a look.

    Attributes:
        prices: offer in force -> USD per node hour.
        last: the newest look.
        waiting: rows set aside, not decided.
        confirmed: (reason, offer, price) of rows that were let in.
    """

    prices: Mapping[Key, float] = field(default_factory=dict)
    last: RecordedLook | None = None
    waiting: tuple[Waiting, ...] = ()
    confirmed: frozenset[tuple[str, Key, float]] = frozenset()


@dataclass(frozen=True, slots=True)
class Checked:
    """What of a look is kept.

    Attributes:
        offers: prices that passed.
        set_aside: rows that did not, with their reasons.
        unpriced: offers in force that the look lists without a price that can be used.
        confirms: rows of the quarantine that this look confirms, by number.
        partial: why the look is no whole list; "" when it is one.
    """

    offers: list[PlacedOffer]
    set_aside: list[SetAside]
    unpriced: list[PlacedOffer]
    confirms: tuple[int, ...]
    partial: str


def key_of(offer: PricedOffer) -> Key:
    """Return what makes two rows the same offer."""
    return (offer.provider, offer.region, offer.instance_type, offer.term)


def known_of(history: History, source: str) -> Known:
    """Return what the history knows of a source. Raises HistoryError."""
    frame = history.prices_as_of(None, [source])
    columns = ("provider", "region", "instance_type", "term", "price_usd_per_node_hour")
    rows = zip(*(frame[name].tolist() for name in columns), strict=True)
    prices = {(str(a), str(b), str(c), str(d)): float(price) for a, b, c, d, price in rows}
    waiting, confirmed = [], set()
    for row in history.quarantined(None, [source], placed=True).to_dict("records"):
        offer = row["offer"]
        key = (offer["provider"], offer["region"], offer["instance_type"], offer["term"])
        price = float(offer["price_usd_per_node_hour"])
        if row["state"] == "waiting":
            waiting.append(Waiting(int(row["number"]), row["reason"], key, price, row["last_seen"].to_pydatetime()))
        elif row["state"] == "confirmed":
            confirmed.add((row["reason"], key, price))
    return Known(prices, history.newest_look(source), tuple(waiting), frozenset(confirmed))


def usual_prices(offers: Iterable[Mapping[str, Any]]) -> Usual:
    """Return (GPU, kind of provider, term) -> median over providers of their lowest USD per GPU-hour, where four sell.

    Args:
        offers: rows with the columns of catalogs.offers.OFFER_COLUMNS.
    """
    lowest: dict[tuple[str, str, str], dict[str, float]] = {}
    for offer in offers:
        peers = lowest.setdefault((offer["gpu"], offer["provider_kind"], offer["term"]), {})
        price = offer["price_usd_per_node_hour"] / offer["gpus_per_node"]
        peers[offer["provider"]] = min(price, peers.get(offer["provider"], math.inf))
    return {group: median(peers.values()) for group, peers in lowest.items() if len(peers) >= _FEWEST_PROVIDERS}


def check_incoming(
    placed: Placed, known: Known, *, moment: datetime, usual: Usual | None = None, shortfall: str = ""
) -> Checked:
    """Return what of a look is kept.

    Args:
        placed: its rows, placed.
        known: what was known of its source before.
        moment: when the look was.
        usual: what others ask, for offers that are new (`usual_prices`).
        shortfall: why the source's answer itself is not whole; "" when it is.
    """
    offers, failed = check_one_by_one(placed.offers)
    offers, strange = _split(offers, lambda offer: _strange(offer, known, usual or {}))
    offers, moved = _split(offers, lambda offer: _moved(offer, known, moment))
    listed = {offer.key for offer in offers}
    kept_apart: list[tuple[PlacedOffer, str]] = []
    for offer, reason in [*failed, *strange, *moved]:
        if offer.key not in listed and (reason, offer.key, offer.price_usd_per_node_hour) in known.confirmed:
            offers.append(offer)
            listed.add(offer.key)
        else:
            kept_apart.append((offer, reason))
    named = listed | {offer.key for offer, _ in kept_apart}
    unpriced = _unpriced(placed.set_aside, known, named)
    return Checked(
        offers,
        [
            *(SetAside(reason, _plain(row)) for row, reason in placed.set_aside),
            *(SetAside(reason, _described(offer, known), offer) for offer, reason in kept_apart),
        ],
        unpriced,
        tuple(one.number for offer in offers for one in _confirmed_by(offer, known, moment)),
        shortfall or _far_fewer(len(named) + len(unpriced), len(listed), known, moment),
    )


def _split(offers: list[PlacedOffer], why: Any) -> tuple[list[PlacedOffer], list[tuple[PlacedOffer, str]]]:
    judged = [(offer, why(offer)) for offer in offers]
    return [offer for offer, reason in judged if not reason], [(offer, reason) for offer, reason in judged if reason]


def _strange(offer: PlacedOffer, known: Known, usual: Usual) -> str:
    """Return why a new offer's price cannot be; one that was there before is held against its own price."""
    others = usual.get((offer.gpu, offer.provider_kind, offer.term))
    if others is None or offer.key in known.prices:
        return ""
    if offer.usd_per_gpu_hour > WHOLE_NODE_RATIO * others:
        return TOO_HIGH
    return TOO_LOW if offer.gpus_per_node > 1 and offer.usd_per_gpu_hour < PART_OF_NODE_RATIO * others else ""


def _moved(offer: PlacedOffer, known: Known, moment: datetime) -> str:
    before = known.prices.get(offer.key)
    if before is None or _ratio(before, offer.price_usd_per_node_hour) <= MOVE_RATIO:
        return ""
    return "" if _confirmed_by(offer, known, moment) else MOVED


def _confirmed_by(offer: PlacedOffer, known: Known, moment: datetime) -> list[Waiting]:
    """Return the rows set aside for a move that this offer, at a later look, repeats."""
    return [
        one
        for one in known.waiting
        if one.reason == MOVED
        and one.key == offer.key
        and _ratio(one.price_usd_per_node_hour, offer.price_usd_per_node_hour) <= AGREE_RATIO
        and moment - one.last_seen >= SECOND_LOOK_AFTER
        and known.last is not None
        and one.last_seen >= known.last.moment
    ]


def _ratio(one: float, other: float) -> float:
    return max(one, other) / min(one, other)


def _unpriced(set_aside: Iterable[tuple[RawRow, str]], known: Known, named: set[Key]) -> list[PlacedOffer]:
    """Return the offers in force that rows are about whose price cannot be used."""
    rows = [
        replace(row, price_usd=_PROBE_USD, currency="USD")
        for row, reason in set_aside
        if reason.startswith("price") and not row.refused
    ]
    about = {offer.key: offer for offer in place(rows).offers}
    return [offer for key, offer in about.items() if key in known.prices and key not in named]


def _far_fewer(named: int, listed: int, known: Known, moment: datetime) -> str:
    """Return why a look is far too short to be the whole list; a second one as short is believed."""
    before, last = len(known.prices), known.last
    if before < FEWEST_TO_COMPARE or named >= FAR_FEWER * before:
        return ""
    again = (
        last is not None
        and not last.complete
        and last.offers < FAR_FEWER * before
        and moment - last.moment >= SECOND_LOOK_AFTER
        and _ratio(max(last.offers, 1), max(listed, 1)) <= AGREE_COUNT_RATIO
    )
    return "" if again else f"{named} offers, {before} before: kept as a part of the list until a second look agrees"


def _described(offer: PlacedOffer, known: Known) -> dict[str, Any]:
    """Return what is the same at every look that repeats the row: stock and day are left out."""
    fields = asdict(offer)
    del fields["seen_on"], fields["max_nodes"]
    before = known.prices.get(offer.key)
    return fields if before is None else {**fields, "price_usd_per_node_hour_before": before}


def _plain(row: RawRow) -> dict[str, Any]:
    fields = asdict(row)
    del fields["seen_on"], fields["max_nodes"]
    if fields["price_usd"] is not None and not math.isfinite(fields["price_usd"]):
        fields["price_usd"] = str(fields["price_usd"])
    return fields
