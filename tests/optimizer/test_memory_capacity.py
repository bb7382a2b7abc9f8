"""optimizer.memory.capacity: capacities agree with the breakdown to the byte, and move the way they must."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catalogs.models import load_model
from optimizer.divisibility import check_split
from optimizer.memory import (
    Footprint,
    MemoryPolicy,
    breakdown,
    concurrent_requests,
    footprint,
    max_concurrency,
    max_context_tokens,
)
from optimizer.split import Split

GIB = 2.0**30
MODELS = (
    "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
    "Qwen/Qwen3-235B-A22B-FP8",
    "deepseek-ai/DeepSeek-V3",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
)
POLICIES = (
    MemoryPolicy(),
    MemoryPolicy(overhead=0.2, headroom=0.3),
    MemoryPolicy("engine"),
    MemoryPolicy("engine", engine="vllm@0.19", gpu_memory_utilization=0.95),
    MemoryPolicy("engine", engine="sglang", gpu_memory_utilization=0.88),
    MemoryPolicy("engine", engine="trtllm"),
)

memories = st.floats(8, 400).map(lambda gib: gib * GIB)
contexts = st.integers(1, 300_000)
policies = st.sampled_from(POLICIES)


@st.composite
def splits(draw: st.DrawFn) -> tuple[str, Split]:
    """A model and a split that engines load."""
    model = draw(st.sampled_from(MODELS))
    split = Split(
        draw(st.sampled_from(("bf16", "fp8", "int4"))),
        draw(st.sampled_from(("bf16", "fp8"))),
        draw(st.sampled_from((1, 2, 4, 8))),
        pp=draw(st.integers(1, 5)),
    )
    assume(not check_split(load_model(model), split))
    return model, split


def held_of(chosen: tuple[str, Split]) -> Footprint:
    model, split = chosen
    return footprint(load_model(model), split)


@given(splits(), policies, memories, contexts)
@settings(max_examples=150, deadline=None)
def test_max_concurrency_is_the_last_that_fits(
    chosen: tuple[str, Split], policy: MemoryPolicy, memory: float, context: int
) -> None:
    """The breakdown fits at the answer and not at one more; 0 means that one request does not fit."""
    held = held_of(chosen)
    most = max_concurrency(policy, memory, held, context)
    assert not breakdown(policy, memory, held, most + 1, context).fits
    assert most == 0 or breakdown(policy, memory, held, most, context).fits


@given(splits(), policies, memories, st.integers(1, 300))
@settings(max_examples=100, deadline=None)
def test_max_context_is_the_last_that_fits(
    chosen: tuple[str, Split], policy: MemoryPolicy, memory: float, concurrency: int
) -> None:
    """The breakdown fits at the answer and not at one token more."""
    held = held_of(chosen)
    longest = max_context_tokens(policy, memory, held, concurrency)
    assert not breakdown(policy, memory, held, concurrency, longest + 1).fits
    assert longest == 0 or breakdown(policy, memory, held, concurrency, longest).fits


@given(splits(), policies, memories, st.integers(0, 200), contexts)
@settings(max_examples=100, deadline=None)
def test_need_is_its_parts_and_grows(
    chosen: tuple[str, Split], policy: MemoryPolicy, memory: float, concurrency: int, context: int
) -> None:
    """Need is the sum of its four causes, and never falls with one more request or one more token."""
    held = held_of(chosen)
    shown = breakdown(policy, memory, held, concurrency, context)
    assert shown.need_gib == shown.weights_gib + shown.kv_cache_gib + shown.activations_gib + shown.overhead_gib
    assert shown.need_gib <= breakdown(policy, memory, held, concurrency + 1, context).need_gib * (1 + 1e-12)
    assert shown.need_gib <= breakdown(policy, memory, held, concurrency, context + 1).need_gib * (1 + 1e-12)


@given(splits())
@settings(max_examples=100, deadline=None)
def test_more_tensor_parallelism_never_raises_weights(chosen: tuple[str, Split]) -> None:
    """Twice the TP leaves no GPU with more weights or more cache per request."""
    model, split = chosen
    wider = Split(split.weights, split.kv_cache, 2 * split.tp, pp=split.pp)
    now, then = held_of(chosen), footprint(load_model(model), wider)
    assert then.weights_bytes <= now.weights_bytes
    assert then.kv_bytes_per_sequence(8192.0) <= now.kv_bytes_per_sequence(8192.0)


@given(splits())
@settings(max_examples=100, deadline=None)
def test_gpus_together_hold_the_whole_model(chosen: tuple[str, Split]) -> None:
    """GPUs x the fullest GPU's weights are at least the model's weights."""
    model, split = chosen
    whole = load_model(model).weight_bytes(split.weights)
    assert held_of(chosen).weights_bytes * split.gpus >= whole * (1 - 1e-12)


@given(st.data(), policies)
@settings(max_examples=40, deadline=None)
def test_rows_answer_as_each_would_alone(data: st.DataObject, policy: MemoryPolicy) -> None:
    """The vectorized capacity over a table of candidates equals the scalar one, row by row."""
    rows = data.draw(st.lists(st.tuples(splits(), memories, contexts), min_size=1, max_size=8))
    held = [held_of(chosen) for chosen, _, _ in rows]
    together = concurrent_requests(
        policy,
        np.array([memory for _, memory, _ in rows]),
        np.array([one.weights_bytes for one in held]),
        np.array([one.kv_bytes_per_sequence(float(row[2])) for one, row in zip(held, rows, strict=True)]),
        np.array([one.activation_bytes for one in held]),
        ranks=np.array([one.ranks for one in held]),
    )
    alone = [
        max_concurrency(policy, memory, one, context) for one, (_, memory, context) in zip(held, rows, strict=True)
    ]
    assert together.tolist() == alone


def test_attention_ranks_each_hold_their_own_requests() -> None:
    """Eight attention ranks of DeepSeek-V3 on H200 hold eight times what one of them can."""
    held = footprint(load_model("deepseek-ai/DeepSeek-V3"), Split("fp8", "bf16", 1, ep=8, attention_dp=8))
    one = max_concurrency(MemoryPolicy("engine"), 139.8 * GIB, held, 4096)
    assert one > 0
    assert max_concurrency(MemoryPolicy("engine"), 139.8 * GIB, held, 4096, attention_dp=8) == 8 * one


def test_latent_cache_is_shared_out_by_attention_ranks_and_not_by_tensor_ranks() -> None:
    """On 8 H200, DeepSeek-V3 holds over three times as many requests with 8 attention ranks as with TP8."""
    model, policy, memory = load_model("deepseek-ai/DeepSeek-V3"), MemoryPolicy("engine"), 139.8 * GIB
    tensor = footprint(model, Split("fp8", "bf16", 8))
    attention = footprint(model, Split("fp8", "bf16", 1, ep=8, attention_dp=8))
    requests = max_concurrency(policy, memory, attention, 8192, attention_dp=8)
    assert requests > 3 * max_concurrency(policy, memory, tensor, 8192)


def test_capacity_takes_arrays_of_memories_and_contexts() -> None:
    held = footprint(load_model(MODELS[0]), Split("fp8", "bf16", 2))
    memory, context = np.array([44.0, 79.2, 139.8]) * GIB, np.array([8192.0, 8192.0, 131_072.0])
    expected = [
        max_concurrency(MemoryPolicy(), m, held, c) for m, c in zip(memory.tolist(), context.tolist(), strict=True)
    ]
    assert max_concurrency(MemoryPolicy(), memory, held, context).tolist() == expected


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_exact_at_the_boundary(policy: MemoryPolicy) -> None:
    """Where exactly n requests fill the budget, rounding neither loses the last nor adds one."""
    held = Footprint(weights_bytes=10e9 / 3, kv_bytes_per_token=1e6 / 7)
    for memory in np.linspace(20e9, 21e9, 400):
        most = max_concurrency(policy, float(memory), held, 1000)
        assert breakdown(policy, float(memory), held, most, 1000).fits
        assert not breakdown(policy, float(memory), held, most + 1, 1000).fits


def test_model_without_cache_is_capped() -> None:
    """A request that holds nothing is limited by 10^9 and by 2^31 tokens, not by a division by zero."""
    held = Footprint(weights_bytes=1e9, kv_bytes_per_token=0.0)
    assert max_concurrency(MemoryPolicy(), 80e9, held, 8192) == 10**9
    assert max_context_tokens(MemoryPolicy(), 80e9, held, 4) == 2**31
    assert max_concurrency(MemoryPolicy(), 1e9, held, 8192) == 0


def test_gpt_oss_120b_on_one_h100_is_a_matter_of_policy() -> None:
    """64.5 GiB of weights: refused with 15% overhead and 20% headroom, served when the engine may fill the GPU."""
    held = footprint(load_model("openai/gpt-oss-120b"), Split("mxfp4", "bf16", 1))
    assert max_concurrency(MemoryPolicy(), 79.2 * GIB, held, 8192) == 0
    assert max_concurrency(MemoryPolicy("engine"), 79.2 * GIB, held, 8192) > 8
