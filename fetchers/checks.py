"""Checks that need the other rows of one look: what contradicts them is left out and counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import median

from fetchers.normalize import PlacedOffer

# A whole-node price that stands as a per-GPU price is 8 times too high; no honest board costs 4 times the median of
# its kind of provider in the files studied (2026-08-22).
WHOLE_NODE_RATIO = 4.0
_FEWEST_FOR_MEDIAN = 4

_Check = Callable[[list[PlacedOffer]], tuple[list[PlacedOffer], Counter[str]]]


def check_together(offers: Iterable[PlacedOffer]) -> tuple[list[PlacedOffer], Counter[str]]:
    """Return the offers of one look that pass every check, and how many did not, by reason."""
    kept, set_aside = check_one_by_one(offers)
    return kept, Counter(reason for _, reason in set_aside)


def check_one_by_one(offers: Iterable[PlacedOffer]) -> tuple[list[PlacedOffer], list[tuple[PlacedOffer, str]]]:
    """Return the offers of one look that pass every check, and each of the others with its reason."""
    kept = list(offers)
    set_aside: list[tuple[PlacedOffer, str]] = []
    for check in _CHECKS:
        before = kept
        kept, failed = check(before)
        passed = {id(offer) for offer in kept}
        left = [offer for offer in before if id(offer) not in passed]
        # Only copies fail a check for one of two reasons; which copy is which is of no use to anybody.
        set_aside += zip(left, failed.elements(), strict=True)
    return kept, set_aside


def _without_duplicates(offers: list[PlacedOffer]) -> tuple[list[PlacedOffer], Counter[str]]:
    """Keep one row per offer; where copies differ in price keep the dearer, which no answer can undercut wrongly."""
    kept: dict[tuple[str, str, str, str], PlacedOffer] = {}
    reasons = Counter[str]()
    for offer in offers:
        other = kept.setdefault(offer.key, offer)
        if other is offer:
            continue
        same = other.price_usd_per_node_hour == offer.price_usd_per_node_hour
        reasons["a copy of another row" if same else "one offer at two prices (the dearer is kept)"] += 1
        if offer.price_usd_per_node_hour > other.price_usd_per_node_hour:
            kept[offer.key] = offer
    return list(kept.values()), reasons


def _price_grows_with_count(offers: list[PlacedOffer]) -> tuple[list[PlacedOffer], Counter[str]]:
    """Leave out nodes of several GPUs at the price of one: the source forgot to multiply."""
    single: dict[tuple[str, ...], float] = {}
    for offer in offers:
        if offer.gpus_per_node == 1:
            shape = _shape(offer)
            single[shape] = min(offer.price_usd_per_node_hour, single.get(shape, offer.price_usd_per_node_hour))
    return _split(
        offers,
        lambda o: o.gpus_per_node > 1 and o.price_usd_per_node_hour <= single.get(_shape(o), 0.0),
        "several GPUs at the price of one",
    )


def _spot_not_above_on_demand(offers: list[PlacedOffer]) -> tuple[list[PlacedOffer], Counter[str]]:
    """Leave out spot prices above the on-demand price of the same machine: one of the two is wrong."""
    on_demand = {offer.key[:3]: offer.price_usd_per_node_hour for offer in offers if offer.term == "on-demand"}
    return _split(
        offers,
        lambda o: o.term == "spot" and o.price_usd_per_node_hour > on_demand.get(o.key[:3], float("inf")),
        "spot above on-demand",
    )


def _not_a_whole_node_price(offers: list[PlacedOffer]) -> tuple[list[PlacedOffer], Counter[str]]:
    """Leave out per-GPU prices far above the median of the GPU among providers of the same kind."""
    prices: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for offer in offers:
        peers = prices[offer.gpu, offer.provider_kind, offer.term]
        peers[offer.provider] = min(offer.usd_per_gpu_hour, peers.get(offer.provider, float("inf")))
    limits = {
        group: WHOLE_NODE_RATIO * median(peers.values())
        for group, peers in prices.items()
        if len(peers) >= _FEWEST_FOR_MEDIAN
    }
    return _split(
        offers,
        lambda o: o.usd_per_gpu_hour > limits.get((o.gpu, o.provider_kind, o.term), float("inf")),
        f"over {WHOLE_NODE_RATIO:g} times the usual price (a whole node's price for one GPU?)",
    )


def _shape(offer: PlacedOffer) -> tuple[str, ...]:
    return (offer.provider, offer.provider_kind, offer.region, offer.gpu, offer.term)


def _split(
    offers: list[PlacedOffer], fails: Callable[[PlacedOffer], bool], reason: str
) -> tuple[list[PlacedOffer], Counter[str]]:
    kept = [offer for offer in offers if not fails(offer)]
    return kept, Counter({reason: len(offers) - len(kept)} if len(kept) < len(offers) else {})


_CHECKS: tuple[_Check, ...] = (
    _without_duplicates,
    _price_grows_with_count,
    _spot_not_above_on_demand,
    _not_a_whole_node_price,
)
