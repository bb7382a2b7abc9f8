"""Placing raw rows: names, node sizes, and every trap that a source has been seen to set."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from catalogs.gpus import load_gpus
from catalogs.providers import load_providers
from fetchers.normalize import PlacedOffer, RawRow, load_aliases, place

DAY = date(2026, 8, 22)


def _raw(**fields: Any) -> RawRow:
    defaults: dict[str, Any] = {
        "source": "gpurentalprices",
        "provider": "runpod",
        "spelling": "h100-sxm",
        "price_usd": 3.29,
        "per": "gpu",
        "term": "on-demand",
        "seen_on": DAY,
    }
    return RawRow(**(defaults | fields))


def _offers(**fields: Any) -> tuple[PlacedOffer, ...]:
    placed = place([_raw(**fields)])
    assert not placed.set_aside, placed.set_aside
    return placed.offers


def _reason(**fields: Any) -> str:
    placed = place([_raw(**fields)])
    assert not placed.offers
    ((row, reason),) = placed.set_aside
    assert row == _raw(**fields)
    return reason


class TestNodeSizes:
    def test_a_price_per_gpu_becomes_one_offer_per_size_sold(self) -> None:
        offers = _offers()
        # RunPod sells 1, 2, 4, 8: 3.29, 6.58, 13.16, 26.32 $/h.
        assert [(o.instance_type, o.price_usd_per_node_hour) for o in offers] == [
            ("1x H100-SXM-80GB", 3.29),
            ("2x H100-SXM-80GB", 6.58),
            ("4x H100-SXM-80GB", 13.16),
            ("8x H100-SXM-80GB", 26.32),
        ]

    def test_sizes_below_the_stated_minimum_are_not_offered(self) -> None:
        assert [o.gpus_per_node for o in _offers(provider="scaleway", min_gpus=4)] == [4, 8]

    def test_a_minimum_above_every_known_size_is_the_size(self) -> None:
        offers = _offers(provider="massedcompute", spelling="h100-nvl", min_gpus=2)
        assert [o.gpus_per_node for o in offers] == [2]

    def test_a_tracker_price_buys_the_machines_that_have_it(self) -> None:
        # Lambda's 3.99 is the rate of its 8-GPU machine only (4.29 alone): 8 x 3.99 = 31.92.
        (offer,) = _offers(provider="lambda", price_usd=3.99)
        assert (offer.instance_type, offer.price_usd_per_node_hour) == ("gpu_8x_h100_sxm5", 31.92)

    def test_a_stated_count_is_kept(self) -> None:
        (offer,) = _offers(source="cherielilili", provider="vast.ai", spelling="H100_SXM", gpus=3, price_usd=2.0)
        assert (offer.instance_type, offer.price_usd_per_node_hour) == ("3x H100-SXM-80GB", 6.0)

    def test_a_machine_price_is_for_the_whole_node(self) -> None:
        (offer,) = _offers(
            source="karpenter-aws",
            provider="aws",
            spelling="p5.48xlarge",
            instance_type="p5.48xlarge",
            per="node",
            price_usd=55.04,
        )
        assert (offer.gpu, offer.gpus_per_node, offer.usd_per_gpu_hour) == ("H100-SXM-80GB", 8, pytest.approx(6.88))

    def test_a_machine_of_unknown_size_is_set_aside(self) -> None:
        reason = _reason(
            source="karpenter-aws",
            provider="aws",
            spelling="p2.xlarge",
            instance_type="p2.xlarge",
            per="node",
            price_usd=0.9,
        )
        assert reason == "machine not in the node table"

    def test_community_hosts_are_a_marketplace_of_their_own(self) -> None:
        offers = _offers(community=True, price_usd=2.69)
        assert {o.provider_kind for o in offers} == {"marketplace"}
        assert offers[0].instance_type == "1x H100-SXM-80GB (community)"
        assert {o.provider_kind for o in _offers()} == {"gpu-cloud"}

    def test_editions_of_one_gpu_stay_apart(self) -> None:
        offers = _offers(spelling="rtx-pro-6000-wk", variant="workstation edition", price_usd=1.89)
        assert offers[0].instance_type == "1x RTXPRO6000-96GB workstation edition"


class TestNames:
    @pytest.mark.parametrize(
        ("source", "provider", "spelling", "gpu"),
        [
            ("gpurentalprices", "datacrunch", "b300", "B300-SXM-288GB"),
            ("gpurentalprices", "runpod", "h200-nvl", "H200-NVL-141GB"),
            ("gpurentalprices", "coreweave", "h100", "H100-SXM-80GB"),  # whole boards only
            ("gpurentalprices", "scaleway", "h100", "H100-PCIE-80GB"),  # listed beside h100-sxm
            ("hemgo", "Nebius", "H100", "H100-SXM-80GB"),
            ("skypilot", "vast", "RTX6000-Ada", "RTX6000ADA-48GB"),
            ("gpuhunt", "nebius", "RTXPRO6000", "RTXPRO6000-96GB"),
        ],
    )
    def test_spelling_is_placed(self, source: str, provider: str, spelling: str, gpu: str) -> None:
        offers = _offers(source=source, provider=provider, spelling=spelling, price_usd=2.0)
        assert {o.gpu for o in offers} == {gpu}

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"provider": "together", "spelling": "h100"}, "form factor not stated"),
            (
                {"provider": "jarvislabs", "spelling": "a100", "memory_gb": 80.0},
                "form factor and memory size not stated",
            ),
            ({"provider": "spheron", "spelling": "h100"}, "sold in SXM and PCIe form"),
            ({"spelling": "h100-sxm-v2"}, "GPU name not in the alias table"),
            ({"spelling": " "}, "no GPU named"),  # case E02: a count without a name
            ({"spelling": "rtx-5080", "price_usd": 0.4}, "GPU not in the catalog"),
            ({"provider": "nobody"}, "provider not in the catalog"),
            ({"source": "runpod", "spelling": "unknown"}, "a placeholder, not a GPU"),
        ],
    )
    def test_what_cannot_be_placed_is_set_aside_with_its_reason(self, fields: dict[str, Any], reason: str) -> None:
        assert _reason(**fields).startswith(reason)

    def test_a_memory_that_tells_two_sizes_apart_is_used(self) -> None:
        offers = _offers(source="vast", provider="vast", spelling="A100 SXM4", memory_gb=40.0, gpus=1, price_usd=0.6)
        assert offers[0].gpu == "A100-SXM-40GB"
        offers = _offers(source="vast", provider="vast", spelling="A100 SXM4", memory_gb=80.0, gpus=1, price_usd=0.6)
        assert offers[0].gpu == "A100-SXM-80GB"

    def test_the_alias_table_names_catalog_gpus_or_says_why_not(self) -> None:
        unknown = {gpu for gpu, _ in load_aliases().values() if gpu and gpu not in load_gpus()}
        # Old, fractional or consumer GPUs that sources list and the catalog does not hold.
        assert len(unknown) < 20
        assert not {gpu for gpu in unknown if gpu.startswith(("H100-", "H200-", "A100-", "B200-", "L40", "MI3"))}

    def test_the_alias_table_speaks_of_catalog_providers(self) -> None:
        assert {provider for _, provider, _, _ in load_aliases()} - {"*"} <= set(load_providers())


class TestTraps:
    """What sources have been seen to hold; E.. are the cases of wrong public catalogs."""

    @pytest.mark.parametrize("price", [0.0, -1.0, float("inf")])
    def test_zero_price_is_no_price(self, price: float) -> None:  # E03 (capacity blocks), E07 (H100 at $0)
        assert _reason(price_usd=price) == "price zero, negative or infinite"

    @pytest.mark.parametrize("price", [None, float("nan")])
    def test_a_missing_price_is_missing(self, price: float | None) -> None:
        assert _reason(price_usd=price) == "price missing or not in USD"

    def test_bid_floors_are_refused(self) -> None:  # E08: 8 x H100 at 8.00 against 28.66
        reason = _reason(
            source="skypilot",
            provider="mithril",
            spelling="H100",
            instance_type="h100-80gb.sxm.8x",
            gpus=8,
            per="node",
            price_usd=8.0,
        )
        assert reason == "a bid floor, not a price"

    def test_a_cent_per_gpu_is_refused(self) -> None:  # E08: B200 at 0.01 against 3.45
        assert _reason(spelling="b200", price_usd=0.01).startswith("price outside 0.03 to 150")

    def test_a_whole_term_price_under_an_hour_is_refused(self) -> None:  # Azure reservations: 551,221 for an H100 node
        reason = _reason(
            source="karpenter-azure",
            provider="azure",
            spelling="Standard_ND96isr_H100_v5",
            instance_type="Standard_ND96isr_H100_v5",
            per="node",
            term="reserved-1y",
            price_usd=551221.0,
        )
        assert reason.startswith("price outside 0.03 to 150")

    @pytest.mark.parametrize(
        ("spelling", "memory_gb"),
        [("a40", 16.0), ("rtx-pro-6000", 24.0), ("rtx-pro-6000", 48.0), ("h100-nvl", 80.0)],
    )
    def test_memory_that_is_not_the_gpus_is_refused(self, spelling: str, memory_gb: float) -> None:
        assert _reason(spelling=spelling, memory_gb=memory_gb).startswith("memory does not fit the GPU name")

    @pytest.mark.parametrize(
        ("spelling", "memory_gb"),
        [("b300", 262.0), ("b300", 288.0), ("b200", 192.0), ("l4", 22.0), ("h200-nvl", 143.0)],
    )
    def test_memory_that_sources_round_differently_is_accepted(self, spelling: str, memory_gb: float) -> None:
        assert _offers(spelling=spelling, memory_gb=memory_gb)

    def test_gcp_gpu_without_its_machine_is_refused(self) -> None:
        assert _reason(provider="gcp", price_usd=9.796551).startswith("the GPU without its machine")

    def test_stale_aws_prices_of_a_tracker_are_refused(self) -> None:
        assert "before the cut of June 2025" in _reason(provider="aws", price_usd=12.29)

    def test_small_a3_machines_exist_as_spot_only(self) -> None:
        fields: dict[str, Any] = {
            "source": "karpenter-gcp",
            "provider": "gcp",
            "spelling": "a3-highgpu-1g",
            "instance_type": "a3-highgpu-1g",
            "per": "node",
            "price_usd": 6.3,
        }
        assert _reason(**fields) == "listed on-demand although it is only sold as spot"
        assert _offers(**fields, term="spot")[0].gpus_per_node == 1

    def test_machines_of_unknown_count_are_refused(self) -> None:
        reason = _reason(source="hemgo", provider="Vast.ai", spelling="H100 SXM", price_usd=1.39)
        assert reason == "how many GPUs the machine has is not stated"

    def test_part_of_a_gpu_is_refused(self) -> None:
        reason = _reason(
            source="skypilot", provider="aws", spelling="L4", instance_type="g6f.large", gpus=0, per="node"
        )
        assert reason == "a part of a GPU"

    def test_what_the_reader_refused_stays_refused(self) -> None:
        assert _reason(refused="a serverless service") == "a serverless service"

    def test_reasons_are_counted(self) -> None:
        placed = place([_raw(price_usd=0.0), _raw(price_usd=0.0), _raw(provider="nobody"), _raw()])
        assert placed.reasons == {"price zero, negative or infinite": 2, "provider not in the catalog": 1}
        assert len(placed.offers) == 4
