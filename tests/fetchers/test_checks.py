"""Checks over one look: each with the smallest set of rows that passes and its twin that does not."""

from __future__ import annotations

from datetime import date
from typing import Any

from fetchers.checks import check_together
from fetchers.normalize import PlacedOffer


def _offer(**fields: Any) -> PlacedOffer:
    defaults: dict[str, Any] = {
        "provider": "runpod",
        "provider_kind": "gpu-cloud",
        "region": "global",
        "instance_type": "1x RTXA6000-48GB",
        "gpu": "RTXA6000-48GB",
        "gpus_per_node": 1,
        "term": "on-demand",
        "price_usd_per_node_hour": 0.79,
        "max_nodes": None,
        "seen_on": date(2026, 8, 22),
    }
    return PlacedOffer(**(defaults | fields))


def test_honest_rows_all_pass() -> None:
    offers = [
        _offer(),
        _offer(instance_type="2x", gpus_per_node=2, price_usd_per_node_hour=1.58),
        _offer(term="spot", price_usd_per_node_hour=0.79),
        _offer(region="eu"),
    ]
    kept, reasons = check_together(offers)
    assert kept == offers
    assert not reasons


def test_copies_are_dropped() -> None:
    kept, reasons = check_together([_offer(), _offer()])
    assert len(kept) == 1
    assert reasons == {"a copy of another row": 1}


def test_of_two_prices_for_one_offer_the_dearer_is_kept() -> None:
    # E12: Azure listed one machine at 0.178 and 0.086 in the same region.
    cheap, dear = _offer(price_usd_per_node_hour=0.086), _offer(price_usd_per_node_hour=0.178)
    for rows in ([cheap, dear], [dear, cheap]):
        kept, reasons = check_together(rows)
        assert kept == [dear]
        assert reasons == {"one offer at two prices (the dearer is kept)": 1}


def test_several_gpus_at_the_price_of_one_are_dropped() -> None:
    # E10: RunPod's 1x, 2x, 4x and 8x RTX A6000 all at 0.79.
    rows = [_offer(instance_type=f"{count}x", gpus_per_node=count) for count in (1, 2, 4, 8)]
    kept, reasons = check_together(rows)
    assert [offer.gpus_per_node for offer in kept] == [1]
    assert reasons == {"several GPUs at the price of one": 3}


def test_spot_above_on_demand_is_dropped() -> None:
    # Spheron's L40S on 2026-08-22: on-demand 0.96, spot 1.07.
    rows = [_offer(price_usd_per_node_hour=0.96), _offer(term="spot", price_usd_per_node_hour=1.07)]
    kept, reasons = check_together(rows)
    assert [offer.term for offer in kept] == ["on-demand"]
    assert reasons == {"spot above on-demand": 1}


def test_a_whole_node_price_for_one_gpu_is_dropped() -> None:
    # A tracker showed Verda's 8-GPU node, 18.32, as one H100; others stood at 2.29 to 3.3. 4 x the median 3.1 = 12.4.
    prices = {"verda": 18.32, "lambda": 3.1, "runpod": 2.99, "nebius": 2.95, "crusoe": 3.3}
    rows = [_offer(provider=name, price_usd_per_node_hour=price) for name, price in prices.items()]
    kept, reasons = check_together(rows)
    assert {offer.provider for offer in kept} == {"lambda", "runpod", "nebius", "crusoe"}
    assert sum(reasons.values()) == 1


def test_too_few_peers_make_no_median() -> None:
    rows = [
        _offer(provider=name, price_usd_per_node_hour=price) for name, price in {"a": 18.0, "b": 3.0, "c": 3.0}.items()
    ]
    assert len(check_together(rows)[0]) == 3


def test_other_kinds_of_provider_are_no_peers() -> None:
    rows = [_offer(provider=name, price_usd_per_node_hour=2.0) for name in "abcd"]
    rows.append(_offer(provider="azure", provider_kind="hyperscaler", price_usd_per_node_hour=12.29))
    assert len(check_together(rows)[0]) == 5
