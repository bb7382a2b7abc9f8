"""The flags that make an engine run a layout."""

from __future__ import annotations

import pytest

from catalogs.model_files import load_model
from optimizer.engine_flags import EngineFlags, engine_flags
from optimizer.memory import MemoryPolicy, breakdown, footprint
from optimizer.split import Split

GIB = 2**30
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def flags_of(
    model: str, split: Split, policy: MemoryPolicy, *, gib: float = 79.2, context_tokens: int = 8192, concurrency: int
) -> EngineFlags:
    """The flags of a bundled model on GPUs of so much memory."""
    return engine_flags(
        load_model(model), split, policy, gib * GIB, context_tokens=context_tokens, concurrency=concurrency
    )


def test_the_fraction_is_what_the_headroom_leaves() -> None:
    """Memory that is paid for holds cache: 20% headroom is a fraction of 0.80, however few requests there are."""
    found = flags_of(LLAMA_8B, Split("bf16", "bf16", 1), MemoryPolicy(), context_tokens=4096, concurrency=1)
    assert "--gpu-memory-utilization 0.80" in found.flags


def test_vllm() -> None:
    """The engine's fraction, the context and the requests are typed as they are; FP8 is made while loading."""
    policy = MemoryPolicy("engine", engine="vllm@0.19", gpu_memory_utilization=0.93)
    found = flags_of(LLAMA_70B, Split("fp8", "fp8", 4), policy, concurrency=32)
    assert found.flags == (
        "--tensor-parallel-size 4",
        "--gpu-memory-utilization 0.93",
        "--max-model-len 8192",
        "--max-num-seqs 32",
        "--max-num-batched-tokens 8192",
        "--kv-cache-dtype fp8",
        "--quantization fp8",
    )
    assert "outside the memory fraction" in found.notes[0]


def test_sixteen_bit_weights_name_their_dtype() -> None:
    """BF16 weights are asked for by --dtype."""
    found = flags_of(LLAMA_8B, Split("bf16", "bf16", 1, pp=2), MemoryPolicy(), context_tokens=4096, concurrency=8)
    assert "--dtype bfloat16" in found.flags
    assert "--pipeline-parallel-size 2" in found.flags
    assert found.notes == ()


def test_the_smallest_fraction_holds_the_requests() -> None:
    """Where the headroom leaves less, the fraction is the first hundredth with which the engine holds what is asked."""
    model, split = load_model(LLAMA_8B), Split("bf16", "bf16", 1)
    policy = MemoryPolicy(headroom=0.7)
    found = flags_of(LLAMA_8B, split, policy, concurrency=16)
    fraction = float(found.flags[1].split()[1])
    held = footprint(model, split, max_sequences=16)

    def fits(share: float) -> bool:
        policy = MemoryPolicy("engine", gpu_memory_utilization=share)
        return breakdown(policy, 79.2 * GIB, held, 16, 8192).fits

    assert fits(fraction)
    assert not fits(fraction - 0.01)


def test_requests_beyond_the_gpu_are_said() -> None:
    """More requests than any fraction holds leave a note."""
    found = flags_of(LLAMA_8B, Split("bf16", "bf16", 1), MemoryPolicy(), gib=22, context_tokens=131_072, concurrency=64)
    assert "any memory fraction" in found.notes[0]


def test_formats_that_need_another_checkpoint_are_said() -> None:
    """INT4 is not made while loading."""
    policy = MemoryPolicy("engine", engine="sglang@0.5")
    found = flags_of(LLAMA_70B, Split("int4", "fp8", 2), policy, concurrency=4)
    assert "needs a checkpoint" in found.notes[0]
    assert "--kv-cache-dtype fp8_e4m3" in found.flags


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("vllm", {"--data-parallel-size 4", "--enable-expert-parallel", "--max-num-seqs 16"}),
        ("sglang", {"--tp-size 8", "--attn-dp-size 4", "--ep-size 8", "--max-running-requests 64"}),
        ("sglang@0.5.21", {"--dp-size 4", "--enable-dp-attention", "--chunked-prefill-size 32768"}),
        ("trtllm@1.0", {"--tp_size 8", "--ep_size 8", "--max_batch_size 16", "--pp_size 2"}),
    ],
)
def test_attention_ranks_and_experts(engine: str, expected: set[str]) -> None:
    """Two-way TP in each of four attention ranks with experts over eight GPUs, in each engine's words."""
    found = flags_of(
        "deepseek-ai/DeepSeek-V3",
        Split("fp8", "bf16", 2, pp=2, ep=8, attention_dp=4),
        MemoryPolicy("engine", engine=engine),
        gib=139.8,
        concurrency=64,
    )
    assert expected <= set(found.flags)


def test_what_tensorrt_llm_takes_from_a_file_only_is_said() -> None:
    """An FP8 cache and data-parallel attention are settings, and repeat the memory fraction that they replace."""
    found = flags_of(
        "deepseek-ai/DeepSeek-V3",
        Split("fp8", "fp8", 1, attention_dp=8),
        MemoryPolicy("engine", engine="trtllm"),
        gib=139.8,
        concurrency=64,
    )
    (note,) = found.notes
    assert "enable_attention_dp: true" in note
    assert "{dtype: fp8, free_gpu_memory_fraction: 0.9}" in note
    assert not [flag for flag in found.flags if "dtype" in flag]


def test_sixteen_bit_weights_of_an_fp8_checkpoint_need_another() -> None:
    """An FP8 checkpoint is not made wider while loading."""
    found = flags_of(
        "deepseek-ai/DeepSeek-V3", Split("bf16", "bf16", 8, pp=2), MemoryPolicy("engine"), gib=139.8, concurrency=8
    )
    assert "needs a checkpoint of deepseek-ai/DeepSeek-V3 in bf16" in found.notes[0]


def test_tensorrt_llm_splits_prompts_that_are_longer_than_a_step() -> None:
    """Without chunks it refuses a prompt of more than --max_num_tokens."""
    found = flags_of(
        LLAMA_8B,
        Split("bf16", "bf16", 1),
        MemoryPolicy("engine", engine="trtllm"),
        context_tokens=32_768,
        concurrency=4,
    )
    assert "enable_chunked_prefill: true" in found.notes[0]


def test_a_series_is_its_last_release() -> None:
    """sglang@0.5 is 0.5.23, whose attention ranks have one flag."""
    found = flags_of(
        "deepseek-ai/DeepSeek-V3",
        Split("fp8", "bf16", 1, attention_dp=8),
        MemoryPolicy("engine", engine="sglang@0.5"),
        gib=139.8,
        concurrency=64,
    )
    assert "--attn-dp-size 8" in found.flags
