"""optimizer.memory.policy: how much of a GPU may be used, engine by engine."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.memory import Footprint, MemoryPolicy, breakdown, kv_budget_bytes, vllm_batch_defaults

GIB = 2.0**30
HELD = Footprint(
    weights_bytes=20 * GIB, kv_bytes_per_token=2.0**17, activation_bytes=2 * GIB, kv_logged_bytes_per_token=2.0**17
)


def budget_gib(policy: MemoryPolicy, memory_gib: float, ranks: int = 1, activations_gib: float = 2) -> float:
    return float(kv_budget_bytes(policy, memory_gib * GIB, 20 * GIB, activations_gib * GIB, ranks=ranks)) / GIB


def engine(name: str, fraction: float = 0.9) -> MemoryPolicy:
    return MemoryPolicy("engine", gpu_memory_utilization=fraction, engine=name)


def test_framework_budget() -> None:
    """80 GiB x 0.8 / 1.15 - 20 = 35.65 GiB; activations are part of the overhead."""
    assert budget_gib(MemoryPolicy(), 80) == pytest.approx(35.652, abs=1e-3)
    assert budget_gib(MemoryPolicy(overhead=0, headroom=0), 80) == pytest.approx(60)


def test_vllm_budget() -> None:
    """80 x 0.9 - 20 - 2 of activations - 0.25 of context = 49.75 GiB; half a GiB less since graphs count (0.21)."""
    assert budget_gib(engine("vllm@0.19"), 80) == pytest.approx(49.75)
    assert budget_gib(engine("vllm@0.21"), 80) == pytest.approx(49.25)
    assert budget_gib(engine("vllm"), 80) == budget_gib(engine("vllm@0.28.1"), 80)


def test_collectives_take_memory() -> None:
    """Two ranks take 2.1 GiB rather than 0.25 on a card of 60 GiB and more, and no more than one on a small card."""
    assert budget_gib(engine("vllm@0.19"), 80) - budget_gib(engine("vllm@0.19"), 80, ranks=2) == pytest.approx(1.85)
    assert budget_gib(engine("vllm@0.19"), 48) == pytest.approx(budget_gib(engine("vllm@0.19"), 48, ranks=2))


def test_sglang_budget() -> None:
    """(139.8 - 2) x 0.82 - 20 = 92.996 GiB: activations live outside the fraction, unless they do not fit there."""
    assert budget_gib(engine("sglang", 0.82), 139.8, ranks=8) == pytest.approx(92.996)
    outside = (139.8 - 2) * 0.18
    assert budget_gib(engine("sglang", 0.82), 139.8, ranks=8, activations_gib=outside + 3) == pytest.approx(89.996)


@pytest.mark.parametrize(("fraction", "fits"), [(0.88, False), (0.92, True)])
def test_sglang_refuses_weights_beyond_its_fraction(fraction: float, fits: bool) -> None:
    """125.65 GiB of weights on an H200 at TP8 need a fraction of 0.9113 (InferenceX issue 2128)."""
    left = kv_budget_bytes(engine("sglang", fraction), 139.8 * GIB, 125.65 * GIB, 2 * GIB, ranks=8)
    assert (float(left) > 0) is fits


def test_tensorrt_llm_budget() -> None:
    """0.9 of what 80 - 20 - 2 - 0.5 leaves: 51.75 GiB."""
    assert budget_gib(engine("trtllm"), 80) == pytest.approx(51.75)


@pytest.mark.parametrize("policy", [MemoryPolicy(), *map(engine, ("vllm", "sglang", "trtllm"))], ids=str)
def test_weights_that_do_not_fit_leave_a_negative_budget(policy: MemoryPolicy) -> None:
    assert budget_gib(policy, 16) < 0


def test_budget_takes_arrays() -> None:
    """A row each, equal to the scalar answers."""
    memory = np.array([24.0, 48.0, 80.0]) * GIB
    ranks = np.array([1, 2, 4])
    for policy in (MemoryPolicy(), engine("vllm"), engine("sglang"), engine("trtllm")):
        rows = kv_budget_bytes(policy, memory, 10 * GIB, 1 * GIB, ranks=ranks)
        alone = [
            float(kv_budget_bytes(policy, one, 10 * GIB, 1 * GIB, ranks=rank))
            for one, rank in zip(memory, ranks, strict=True)
        ]
        assert rows.tolist() == alone


def test_framework_shows_activations_inside_the_overhead() -> None:
    """15% of 20 + 1 GiB is 3.15 GiB: 2 of activations and 1.15 of the rest; with 8 GiB of activations, 3.15 and 0."""
    shown = breakdown(MemoryPolicy(), 80 * GIB, HELD, 1, 8192)
    assert (shown.activations_gib, shown.overhead_gib) == pytest.approx((2, 1.15))
    wide = Footprint(20 * GIB, 2.0**17, activation_bytes=8 * GIB)
    shown = breakdown(MemoryPolicy(), 80 * GIB, wide, 1, 8192)
    assert (shown.activations_gib, shown.overhead_gib) == pytest.approx((3.15, 0))


def test_engine_counts_tokens_in_whole_blocks() -> None:
    """49.75 GiB at 128 KiB a token are 407,552 tokens, 25,472 blocks of 16."""
    assert breakdown(engine("vllm@0.19"), 80 * GIB, HELD, 1, 8192).kv_tokens == 407_552


def test_no_tokens_where_weights_do_not_fit() -> None:
    assert breakdown(engine("vllm"), 16 * GIB, HELD, 1, 8192).kv_tokens == 0


@pytest.mark.parametrize(
    ("gpu", "memory_gib", "defaults"),
    [
        ("H100-SXM-80GB", 79.2, (8192, 1024)),
        ("A100-SXM-80GB", 79.2, (2048, 256)),
        ("L40S-48GB", 44.4, (2048, 256)),
    ],
)
def test_vllm_batch_defaults(gpu: str, memory_gib: float, defaults: tuple[int, int]) -> None:
    """Large GPUs batch more, A100 excepted."""
    assert vllm_batch_defaults(gpu, memory_gib * GIB) == defaults


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "guess", "'framework' or 'engine'"),
        ("overhead", -0.1, "overhead >= 0"),
        ("overhead", float("nan"), "overhead >= 0"),
        ("headroom", 1.0, "headroom < 1"),
        ("gpu_memory_utilization", 0.0, "gpu_memory_utilization <= 1"),
        ("gpu_memory_utilization", 1.01, "gpu_memory_utilization <= 1"),
        ("engine", "tgi", "vllm, sglang, trtllm"),
        ("engine", "vllm@new", "numbers and dots"),
    ],
)
def test_bad_policies(field: str, value: object, message: str) -> None:
    """Each value out of range is named with what would be accepted."""
    with pytest.raises(ValueError, match=message):
        MemoryPolicy(**{field: value})  # type: ignore[arg-type]
