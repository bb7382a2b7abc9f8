"""Does it fit: the verdict, the figures beside it, and that they agree with each other."""

from __future__ import annotations

import pytest

from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.fit import Fit, fit
from optimizer.memory import MemoryPolicy
from optimizer.replica import name_replica

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
GIB = 2**30


def fit_of(
    model: str, gpu: str, *, tp: int = 1, weights: str | None = None, kv_cache: str | None = None,
    context: int = 8192, concurrency: int = 1, policy: MemoryPolicy | None = None,
) -> Fit:  # fmt: skip
    """The memory of a replica."""
    replica = name_replica(load_model(model), gpu, tp=tp, weights=weights, kv_cache=kv_cache)
    return fit(replica, context_tokens=context, concurrency=concurrency, policy=policy or MemoryPolicy())


@pytest.mark.parametrize("policy", [MemoryPolicy(), MemoryPolicy(name="engine")])
def test_need_is_the_sum_of_its_parts_and_the_verdict_follows_from_what_is_left(policy: MemoryPolicy) -> None:
    for concurrency in (1, 17, 18, 64):
        found = fit_of(LLAMA_70B, "H100-SXM-80GB", tp=2, weights="fp8", concurrency=concurrency, policy=policy)
        memory = found.memory

        assert memory is not None
        parts = memory.weights_gib + memory.kv_cache_gib + memory.activations_gib + memory.overhead_gib
        assert memory.need_gib == pytest.approx(parts)
        assert memory.headroom_left_gib == pytest.approx(memory.available_gib - memory.need_gib)
        assert found.fits == (memory.headroom_left_gib >= 0)


def test_the_framework_policy_is_the_planners_rule_of_thumb() -> None:
    memory = fit_of(LLAMA_70B, "H100-SXM-80GB", tp=2, weights="fp8", concurrency=32).memory

    assert memory is not None
    assert memory.need_gib == pytest.approx((memory.weights_gib + memory.kv_cache_gib) * 1.15)  # 15% overhead
    assert memory.available_gib == pytest.approx(memory.gpu_memory_gib * 0.80)  # 20% headroom
    # 32 requests x 8,192 tokens x 80 layers x 4 KV heads of this GPU x 128 x 2 x 2 B = 40 GiB.
    assert memory.kv_cache_gib == pytest.approx(40)


def test_the_most_requests_and_the_longest_context_are_the_last_that_fit() -> None:
    found = fit_of(LLAMA_70B, "H100-SXM-80GB", tp=2, weights="fp8", concurrency=4)

    def fits(context: int, concurrency: int) -> bool:
        return fit_of(LLAMA_70B, "H100-SXM-80GB", tp=2, weights="fp8", context=context, concurrency=concurrency).fits

    assert fits(8192, found.max_concurrency)
    assert not fits(8192, found.max_concurrency + 1)
    assert fits(found.max_context_tokens, 4)
    assert not fits(found.max_context_tokens + 1, 4)


def test_the_longest_context_stops_at_the_models_own() -> None:
    assert fit_of(LLAMA_8B, "B300-SXM-288GB").max_context_tokens == 131_072


def test_a_context_beyond_the_models_own_is_refused_whatever_memory_there_is() -> None:
    found = fit_of(LLAMA_8B, "B300-SXM-288GB", context=131_073)

    assert not found.fits
    assert found.refusals == {"context_length": "a context of at most 131,072 tokens, the model's own"}
    assert found.memory is not None
    assert found.memory.headroom_left_gib > 0


def test_a_split_that_the_model_refuses_has_reasons_and_no_memory() -> None:
    found = fit_of(LLAMA_70B, "H100-SXM-80GB", tp=3)

    assert not found.fits
    assert found.memory is None
    assert found.refusals["heads_divisible"] == "64 query heads to divide by tp 3"


def test_a_gpu_that_lacks_both_formats_is_told_both() -> None:
    found = fit_of(LLAMA_8B, "T4-16GB", weights="bf16", kv_cache="bf16")

    assert not found.fits
    assert found.refusals == {
        "dtype_supported": "a GPU that runs bf16 weights and keeps a bf16 KV cache: T4-16GB does not"
    }


def test_precisions_not_named_are_the_checkpoints_own() -> None:
    found = fit_of("meta-llama/Llama-3.1-405B-Instruct-FP8", "H200-SXM-141GB", tp=8)

    assert (found.weights, found.kv_cache) == ("fp8", "bf16")


def test_expert_parallelism_takes_one_gpu_or_all_of_a_stage() -> None:
    with pytest.raises(QuestionError, match=r"--ep 3: expected 1, or tp x attention_dp = 4"):
        name_replica(load_model(LLAMA_70B), "H100-SXM-80GB", tp=4, ep=3)


ENGINE = MemoryPolicy(name="engine", engine="vllm@0.19", gpu_memory_utilization=0.95)


def test_what_the_engine_logs_is_said() -> None:
    """vLLM 0.19 logged 476,000 tokens and 58.11x for Llama 3.1 8B on one H100 at 0.95 and 8,192 tokens.

    Source: https://github.com/llm-d-incubation/llm-d-planner, accuracy report, 2026-04-22.
    """
    found = fit_of(LLAMA_8B, "H100-SXM-80GB", policy=ENGINE)

    assert found.engine_kv_tokens == pytest.approx(476_000, rel=0.01)
    assert found.engine_max_concurrency == pytest.approx(58.11, rel=0.01)
    assert fit_of(LLAMA_8B, "H100-SXM-80GB").engine_kv_tokens is None  # a rule of thumb logs nothing


@pytest.mark.parametrize(("fraction", "dies"), [(0.90, False), (0.95, True)])
def test_an_engine_without_room_to_warm_up_does_not_fit(fraction: float, dies: bool) -> None:
    """gpt-oss-20b on one H100 ran at 0.90 and died in the sampler's warm-up at 0.95, with 46 GiB of cache to spare.

    Source: https://github.com/llm-d-incubation/llm-d-planner, accuracy report, 2026-04-22.
    """
    policy = MemoryPolicy(name="engine", engine="vllm@0.19", gpu_memory_utilization=fraction)
    found = fit_of("openai/gpt-oss-20b", "H100-SXM-80GB", policy=policy)

    assert ("warm_up" in found.refusals) == dies
    assert found.fits != dies


def test_flags_say_the_layout_to_the_engine() -> None:
    policy = MemoryPolicy(name="engine", engine="vllm", gpu_memory_utilization=0.9)
    flags = fit_of(LLAMA_70B, "H100-SXM-80GB", tp=4, kv_cache="fp8", policy=policy).engine_flags

    for said in (
        "--tensor-parallel-size 4",
        "--gpu-memory-utilization 0.90",
        "--max-model-len 8192",
        "--kv-cache-dtype fp8",
    ):
        assert said in flags


def test_the_fewest_gpus_hold_the_requests_and_one_less_does_not() -> None:
    """70B in BF16 needs 162 GB with overhead: 3 x 64% of 85 GB, in whole tensor parallel sizes 4 x 80 GB GPUs."""
    smallest = fit_of(LLAMA_70B, "H100-SXM-80GB", tp=4).smallest

    assert smallest["H100-SXM-80GB"] is not None
    assert smallest["H100-SXM-80GB"] <= 4
    assert fit_of(LLAMA_70B, "H100-SXM-80GB", tp=4).fits
    assert not fit_of(LLAMA_70B, "H100-SXM-80GB", tp=2).fits
    assert smallest["T4-16GB"] is None  # it runs no BF16


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_every_stage_is_shown_and_the_fullest_decides(stages: int) -> None:
    """80 layers over 3 stages are 27 and 27 and 26, with the embedding on the first and the LM head on the last."""
    replica = name_replica(load_model(LLAMA_70B), "H100-SXM-80GB", tp=4, pp=stages)
    found = fit(replica, context_tokens=8192, concurrency=4, policy=MemoryPolicy())

    assert found.memory is not None
    assert [one.first for one in found.stages] == [1, *(one.last + 1 for one in found.stages[:-1])]
    assert found.stages[-1].last == stages
    assert sum(one.gpus for one in found.stages) == found.gpus
    assert max(one.memory.weights_gib for one in found.stages) == found.memory.weights_gib
    whole = sum(one.memory.weights_gib * one.gpus for one in found.stages)
    assert whole == pytest.approx(found.weights_total_gib, rel=0.02)  # norms and KV projections are on every rank
