"""The figures that every version must reproduce, asked the way a user asks: most through `shardwise fit`."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from catalogs.gpus import get_gpu
from catalogs.models import load_model
from optimizer.performance.collectives import ring_traffic_seconds
from optimizer.performance.speed import SpeedModel
from optimizer.replica import name_replica, replica_columns
from tests.optimizer.command import LLAMA_70B, SPHERON, run

GB = 1e9
GIB = 2**30
LONG = "131072"  # 128K tokens


def fit(model: str, gpu: str, *flags: str) -> dict[str, Any]:
    """What `shardwise fit --json` says, with its exit code."""
    ran = run("fit", model, "--gpu", gpu, *flags, "--json")
    assert ran.code == (0 if ran.json["fits"] else 3)
    return dict(ran.json)


def weights_gb(found: dict[str, Any]) -> float:
    """All weights, in GB."""
    return float(found["weights_total_gib"]) * GIB / GB


def test_70b_in_bf16_is_140_gb_and_more_than_one_80_gb_gpu() -> None:
    found = fit(LLAMA_70B, "H100-SXM-80GB", "--context", "1")

    assert weights_gb(found) == pytest.approx(140, rel=0.01)  # 70.55e9 parameters x 2 B = 141.1 GB
    assert weights_gb(found) * GB > get_gpu("H100-SXM-80GB").memory_bytes
    assert not found["fits"]


def test_70b_in_int8_is_70_gb_and_the_parts_that_stay_in_16_bits() -> None:
    found = fit(LLAMA_70B, "H200-SXM-141GB", "--weights", "int8")

    # 70.55 GB, and a second byte for the 2 x 128,256 x 8,192 = 2.1e9 parameters of embedding and LM head: 72.7 GB.
    assert weights_gb(found) == pytest.approx(70.55 + 2.10, rel=0.005)
    assert found["fits"]


def test_70b_in_int4_is_about_46_gb_with_scales_and_overhead_and_fits_one_80_gb_gpu() -> None:
    found = fit(LLAMA_70B, "H100-SXM-80GB", "--weights", "int4", "--context", "8192")

    # 68.4e9 parameters x 0.53 B (scales of groups of 128) + 2.1e9 x 2 B = 40 GB; x 1.15 = 46 GB.
    assert weights_gb(found) * 1.15 == pytest.approx(46, rel=0.02)
    assert found["fits"]
    assert found["gpus"] == 1


def test_13b_in_int4_stays_under_10_gb() -> None:
    found = fit("meta-llama/Llama-2-13b-hf", "RTXA4000-16GB", "--weights", "int4", "--context", "1")

    assert found["memory"]["need_gib"] * GIB / GB < 10  # overhead included
    assert found["fits"]


def test_one_128k_request_of_70b_holds_40_gib_of_cache() -> None:
    found = fit(LLAMA_70B, "H200-SXM-141GB", "--tp", "2", "--context", LONG)

    # 80 layers x 8 KV heads x 128 x 2 (K and V) x 2 B x 131,072 tokens = 42.9 GB = 40 GiB.
    assert found["kv_cache_gib_per_request"] * GIB == 80 * 8 * 128 * 2 * 2 * 131_072
    assert found["kv_cache_gib_per_request"] == pytest.approx(40)


def test_weights_and_one_128k_request_are_near_180_gb_of_which_the_cache_is_under_a_quarter() -> None:
    found = fit(LLAMA_70B, "H200-SXM-141GB", "--tp", "2", "--context", LONG)

    cache = found["kv_cache_gib_per_request"] * GIB / GB
    total = weights_gb(found) + cache
    assert total == pytest.approx(180, rel=0.03)  # 141.1 + 42.9 = 184.1
    assert 0.22 <= cache / total <= 0.235  # 23.3%


def test_four_128k_requests_hold_more_cache_than_weights() -> None:
    found = fit(LLAMA_70B, "H200-SXM-141GB", "--tp", "4", "--context", LONG, "--concurrency", "4")

    assert 4 * found["kv_cache_gib_per_request"] > found["weights_total_gib"]  # 160 against 131 GiB
    assert found["memory"]["kv_cache_gib"] > found["memory"]["weights_gib"]  # and so on each GPU


def test_a_32b_model_holds_tens_of_gb_more_cache_at_128k_than_at_4k() -> None:
    long, short = (fit("Qwen/Qwen2.5-32B", "H200-SXM-141GB", "--context", tokens) for tokens in (LONG, "4096"))

    # 64 layers x 8 KV heads x 128 x 2 x 2 B = 262,144 B a token, x (131,072 - 4,096) = 33.3 GB.
    more = (long["kv_cache_gib_per_request"] - short["kv_cache_gib_per_request"]) * GIB / GB
    assert more == pytest.approx(33.3, rel=0.001)


def test_tensor_parallel_70b_reduces_160_times_a_forward_pass() -> None:
    replica = name_replica(load_model(LLAMA_70B), "H100-SXM-80GB", tp=4)
    speed = SpeedModel(replica.model, pd.DataFrame(replica_columns(replica)))

    assert speed.all_reduces_per_pass.tolist() == [160]  # 80 layers x 2


def test_the_explanation_of_an_answer_says_the_160_all_reduces() -> None:
    traffic = ("--input-tokens", "1000", "--output-tokens", "100", "--concurrency", "1", "--tp", "4")
    ran = run("solve", LLAMA_70B, *traffic, *SPHERON, "--gpu", "A100-SXM-80GB", "--explain", columns=120)

    assert ran.code == 0
    assert "160 all-reduces a forward pass (80 layers x 2)" in ran.out


@pytest.mark.parametrize(("gbit_per_s", "seconds"), [(400, 4.9), (100, 19.6)])
def test_245_gb_of_ring_traffic_take_seconds_between_nodes(gbit_per_s: float, seconds: float) -> None:
    # 245e9 B x 8 bit / 400e9 bit/s = 4.9 s; a quarter of the rate takes four times as long.
    assert ring_traffic_seconds(245 * GB, gbit_per_s) == pytest.approx(seconds)


def node_prices(gpu: str, gpus: int) -> list[float]:
    """On-demand prices of nodes of so many GPUs on 14 August 2026, USD per hour."""
    offers = run("catalog", "offers", *SPHERON, "--gpu", gpu, "--term", "on-demand", "--json").json
    return sorted(offer["price_usd_per_node_hour"] for offer in offers if offer["gpus_per_node"] == gpus)


def test_two_h200_cost_9_68_to_12_18_an_hour() -> None:
    prices = node_prices("H200-SXM-141GB", 2)

    assert prices[0] == pytest.approx(9.68)  # 2 x 4.84
    assert prices[-1] == pytest.approx(12.18)  # 2 x 6.09


def test_four_a100_80gb_cost_5_72_an_hour() -> None:
    assert node_prices("A100-SXM-80GB", 4)[0] == pytest.approx(5.72)  # 4 x 1.43
