"""Predictions of optimizer.memory against what engines logged (tests/data/memory_cases.csv)."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from statistics import median

import pytest

from catalogs.models import load_model
from optimizer.memory import Footprint, MemoryPolicy, breakdown, footprint, kv_budget_bytes
from optimizer.split import Split

GIB = 2.0**30
CASES = Path(__file__).parent.parent / "data" / "memory_cases.csv"

Case = dict[str, str]


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    with CASES.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def held_of(case: Case) -> Footprint:
    split = Split(case["weights"], case["kv_cache"], int(case["tp"]), int(case["pp"]))
    return footprint(
        load_model(case["model"]),
        split,
        max_batched_tokens=int(case["max_batched_tokens"]),
        max_sequences=int(case["max_sequences"]),
    )


def policy_of(case: Case) -> MemoryPolicy:
    return MemoryPolicy("engine", gpu_memory_utilization=float(case["memory_fraction"]), engine=case["engine"])


def errors(column: str) -> dict[str, float]:
    """Relative error of a prediction by case, of the cases that give the figure and are not outside the model."""
    predict = {"weights_gib": weights_gib, "kv_gib": kv_gib, "kv_tokens": kv_tokens}[column]
    judged = [case for case in cases() if case[column] and not case["outside"]]
    return {case["case"]: predict(case) / float(case[column]) - 1 for case in judged}


def weights_gib(case: Case) -> float:
    return held_of(case).weights_bytes / GIB


def kv_gib(case: Case) -> float:
    held, memory = held_of(case), float(case["gpu_memory_gib"]) * GIB
    left = kv_budget_bytes(policy_of(case), memory, held.weights_bytes, held.activation_bytes, ranks=held.ranks)
    return float(left) / GIB


def kv_tokens(case: Case) -> float:
    memory = float(case["gpu_memory_gib"]) * GIB
    return breakdown(policy_of(case), memory, held_of(case), 1, 8192).kv_tokens


def test_weights_per_gpu_agree_with_engine_logs() -> None:
    """Weights are within 2% in at least 90% of the judged logs, and never 3% off."""
    off = errors("weights_gib")
    assert len(off) >= 18
    assert sum(abs(error) <= 0.02 for error in off.values()) >= 0.9 * len(off), off
    assert max(map(abs, off.values())) <= 0.03, off


def test_kv_tokens_agree_with_engine_logs() -> None:
    """The KV tokens an engine logs are within 5% at the median and within 12% in every judged log."""
    off = errors("kv_tokens")
    assert len(off) >= 11
    assert median(map(abs, off.values())) <= 0.05, off
    assert max(map(abs, off.values())) <= 0.12, off


def test_kv_pool_agrees_with_engine_logs() -> None:
    """The GiB left for the KV pool are within 12% in every judged log."""
    off = errors("kv_gib")
    assert len(off) >= 15
    assert max(map(abs, off.values())) <= 0.12, off


def test_cases_left_out_are_few_and_say_why() -> None:
    """At most one case in eight is outside the model, and each says what the report does not explain."""
    outside = [case for case in cases() if case["outside"]]
    assert len(outside) <= len(cases()) / 8
    assert all(len(case["outside"].split()) >= 8 for case in outside)


@pytest.mark.parametrize("case", [case for case in cases() if case["fits"] == "no"], ids=lambda case: case["case"])
def test_context_that_an_engine_refused_does_not_fit(case: Case) -> None:
    """Where the log says that the model length exceeds the cache, the prediction says so too."""
    assert kv_tokens(case) < int(case["max_batched_tokens"])


def test_hybrid_pages_are_as_long_as_a_state() -> None:
    """Qwen3.5 27B's shapes at TP2 with FP8 cache: vLLM logged blocks of 1,568 tokens.

    State of one layer: 48 heads x 128 x 128 x 4 B + (2 x 2,048 + 6,144) x 3 x 2 B of convolution = 3,207,168 B, half of
    it per GPU; one token of one attention layer: 2 heads x 256 x 2 x 1 B = 1,024 B; 1,603,584 / 1,024 = 1,566, in whole
    16s 1,568.
    (https://github.com/mitchross/talos-argocd-proxmox/issues/1995, 16 August 2026, a model of the same shapes.)
    """
    held = footprint(load_model("Qwen/Qwen3.5-27B"), Split("bf16", "fp8", 2))
    assert held.block_tokens == 1568
    assert held.kv_bytes_per_token == 16 * 1024


def test_sliding_layers_hold_only_their_window() -> None:
    """gpt-oss-120b: one request of 131,072 tokens takes 4.54 GiB, half of what all layers at full length would.

    llama.cpp logged 9,216 MiB for two such requests in the 18 full layers and 90 MiB in the 18 sliding ones
    (https://github.com/ollama/ollama/issues/16480, 4 June 2026).
    """
    held = footprint(load_model("openai/gpt-oss-120b"), Split("mxfp4", "bf16", 1))
    assert held.kv_bytes_per_token == 36_864
    assert held.kv_bytes_per_sequence(131_072) / GIB == pytest.approx((9216 + 90) / 2 / 1024, rel=0.01)
