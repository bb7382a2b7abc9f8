"""optimizer.divisibility: what engines refuse, against reports of what they refused (tests/data/split_cases.csv)."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import pytest

from catalogs.models import ModelSpec, load_model, parse_config
from optimizer.divisibility import SPLIT_RULES, Refusal, check_split
from optimizer.rules import get_rule
from optimizer.split import Split

CASES = Path(__file__).parent.parent / "data" / "split_cases.csv"
INT4_GROUPS = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True},
}


def reported() -> list[dict[str, str]]:
    with CASES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def dense_model(
    *, heads: int, kv_heads: int, width: int, vocabulary: int, hidden: int, quantization: dict[str, Any] | None = None
) -> ModelSpec:
    config = {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": 4,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads,
        "intermediate_size": width,
        "vocab_size": vocabulary,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "quantization_config": quantization,
    }
    return parse_config(config, "a dense model")


def model_of(case: dict[str, str]) -> ModelSpec:
    return dense_model(
        heads=int(case["heads"]),
        kv_heads=int(case["kv_heads"]),
        width=int(case["width"]),
        vocabulary=int(case["vocabulary"]),
        hidden=int(case["hidden_size"]),
        quantization=INT4_GROUPS.get(case["quantization"]),
    )


def rules_broken(model: ModelSpec, split: Split, **options: bool) -> set[str]:
    return {refusal.rule for refusal in check_split(model, split, **options)}


def own(model: ModelSpec, tp: int, *, ep: int = 1, attention_dp: int = 1) -> Split:
    """A split in the checkpoint's own format."""
    return Split(model.checkpoint.weights, "bf16", tp, ep=ep, attention_dp=attention_dp)


@pytest.mark.parametrize("case", reported(), ids=lambda case: case["case"])
def test_splits_that_engines_loaded_and_refused(case: dict[str, str]) -> None:
    """Every TP that the report accepts passes, and every one that it refuses is refused by the rule it names."""
    model = model_of(case)
    for tp in map(int, case["accepted"].split()):
        assert check_split(model, own(model, tp)) == ()
    for refused in case["refused"].split():
        size, rule = refused.split(":")
        assert rule in rules_broken(model, own(model, int(size)))


def test_experts_as_wide_as_one_and_a_half_blocks_need_expert_parallelism() -> None:
    """Qwen3 235B FP8: experts 1,536 wide over 8 GPUs are 192, no whole block of 128; whole experts over 8 GPUs load.

    (https://github.com/vllm-project/vllm/issues/17569, https://github.com/QwenLM/Qwen3/issues/1485.)
    """
    model = load_model("Qwen/Qwen3-235B-A22B-FP8")
    assert check_split(model, own(model, 4)) == ()
    (refusal,) = check_split(model, own(model, 8))
    assert refusal.rule == "quantization_blocks"
    assert dict(refusal.has) == {"size": 1536, "slices": 8, "block": 128}
    assert "192" in refusal.needs
    assert check_split(model, own(model, 8, ep=8)) == ()


@pytest.mark.parametrize(("tp", "loads"), [(1, True), (2, True), (4, False), (8, False)])
def test_narrow_fp8_experts(tp: int, loads: bool) -> None:
    """Qwen3 30B FP8: experts 768 wide make whole blocks of 128 over 1 or 2 GPUs only (vLLM issue 25292)."""
    model = load_model("Qwen/Qwen3-30B-A3B-FP8")
    assert (check_split(model, own(model, tp)) == ()) is loads


def test_online_fp8_has_no_blocks() -> None:
    """The same model quantized while loading has a scale per channel, so TP4 loads (vLLM issue 44763)."""
    assert check_split(load_model("Qwen/Qwen3-30B-A3B"), Split("fp8", "bf16", 4)) == ()


def test_shared_expert_is_sliced_even_under_expert_parallelism() -> None:
    """Qwen3-Next FP8: a shared expert 512 wide is 64 elements over 8 GPUs, half a block (SGLang issue 10852)."""
    model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct-FP8")
    assert "quantization_blocks" in rules_broken(model, own(model, 8, ep=8))
    assert check_split(model, own(model, 4, ep=4)) == ()


def test_deepseek_r1_over_32_gpus() -> None:
    """A dense MLP 18,432 wide is 9 blocks per GPU at TP16 and 4.5 at TP32; BF16 has no blocks (SGLang issue 3345)."""
    model = load_model("deepseek-ai/DeepSeek-R1")
    assert check_split(model, Split("fp8", "bf16", 16)) == ()
    assert rules_broken(model, Split("fp8", "bf16", 32)) == {"quantization_blocks"}
    assert check_split(model, Split("bf16", "bf16", 32)) == ()


def test_moe_with_few_kv_heads() -> None:
    """28 heads, 4 KV heads, vocabulary 151,936: 8 fails on heads, 7, 14 and 28 on the vocabulary (vLLM issue 2652)."""
    model = load_model("Qwen/Qwen2-57B-A14B-Instruct")
    assert all(check_split(model, own(model, tp)) == () for tp in (1, 2, 4))
    assert "heads_divisible" in rules_broken(model, own(model, 8))
    assert all("vocabulary_divisible" in rules_broken(model, own(model, tp)) for tp in (7, 14, 28))


def test_kv_heads_are_replicated_beyond_their_number() -> None:
    """8 KV heads over 16 GPUs are two copies of each and load; 12 GPUs could not hold them evenly."""
    model = dense_model(heads=96, kv_heads=8, width=12288, vocabulary=49152, hidden=12288)
    assert check_split(model, own(model, 16)) == ()
    assert rules_broken(model, own(model, 12)) == {"heads_divisible"}


def test_vision_tower() -> None:
    """25 vision heads over 4 GPUs: refused where the tower is sliced, not where it is whole (vLLM issue 8097)."""
    model = dense_model(heads=48, kv_heads=8, width=16384, vocabulary=92553, hidden=6144).model_copy(
        update={"vision_heads": 25, "vision_parameters": 5_500_000_000}
    )
    assert check_split(model, own(model, 4)) == ()
    (refusal,) = check_split(model, own(model, 4), vision_sliced=True)
    assert refusal == Refusal("heads_divisible", "25 vision heads to divide by tp 4", {"vision_heads": 25, "tp": 4})
    assert check_split(model, own(model, 1), vision_sliced=True) == ()


def test_linear_state_heads_divide() -> None:
    """Qwen3-Next's linear layers have fewer key heads than TP 32 would need; TP 4 divides them."""
    model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert check_split(model, own(model, 4)) == ()
    assert "heads_divisible" in rules_broken(model, own(model, 64))


def test_attention_data_parallelism_needs_experts() -> None:
    """Eight attention ranks share DeepSeek-V3's experts; a dense model has nothing to share."""
    assert check_split(load_model("deepseek-ai/DeepSeek-V3"), Split("fp8", "bf16", 1, ep=8, attention_dp=8)) == ()
    broken = rules_broken(load_model("meta-llama/Llama-3.1-8B-Instruct"), Split("bf16", "bf16", 1, attention_dp=8))
    assert "attention_dp_divisible" in broken


@pytest.mark.parametrize(
    ("ep", "tp", "attention_dp", "loads"),
    [
        pytest.param(8, 8, 1, True, id="256 experts over 8"),
        pytest.param(8, 2, 4, True, id="over tensor and attention ranks together"),
        pytest.param(4, 8, 1, False, id="fewer than the ranks"),
        pytest.param(1, 8, 1, True, id="sliced"),
    ],
)
def test_expert_parallel_size_is_that_of_the_stage(ep: int, tp: int, attention_dp: int, loads: bool) -> None:
    """Engines deal experts over every GPU of a stage or over none."""
    split = Split("fp8", "bf16", tp, ep=ep, attention_dp=attention_dp)
    assert (check_split(load_model("deepseek-ai/DeepSeek-V3"), split) == ()) is loads


def test_experts_divide_evenly() -> None:
    """DeepSeek-V2's 160 experts deal out over 8 GPUs and not over 64; a dense model has none to deal."""
    model = load_model("deepseek-ai/DeepSeek-V2")
    assert check_split(model, own(model, 8, ep=8)) == ()
    assert "experts_divisible" in rules_broken(model, own(model, 64, ep=64))
    dense = load_model("meta-llama/Llama-3.1-8B-Instruct")
    assert rules_broken(dense, own(dense, 8, ep=8)) == {"experts_divisible"}


def test_layers_need_not_divide_over_stages() -> None:
    """32 layers go over 5 or 32 stages, and not over 33 (vLLM issue 6115)."""
    model = load_model("meta-llama/Llama-3.1-8B-Instruct")
    assert check_split(model, Split("bf16", "bf16", 1, pp=5)) == ()
    assert check_split(model, Split("bf16", "bf16", 1, pp=32)) == ()
    assert rules_broken(model, Split("bf16", "bf16", 1, pp=33)) == {"layers_over_stages"}


def test_mxfp4_slices_are_padded_not_refused() -> None:
    """gpt-oss-120b over 8 GPUs: slices 360 wide are no whole groups of 32; vLLM pads them (issue 51590)."""
    assert check_split(load_model("openai/gpt-oss-120b"), Split("mxfp4", "bf16", 8)) == ()


def test_every_refusal_is_a_known_rule() -> None:
    """Refusals carry names of optimizer.rules, one function a rule."""
    for rule in SPLIT_RULES:
        assert get_rule(rule.__name__).kind == "model"


@pytest.mark.parametrize("field", ["tp", "pp", "ep", "attention_dp"])
def test_sizes_below_one_are_an_error(field: str) -> None:
    """A size of 0 is a mistake of the caller's, not a refusal."""
    sizes = {"tp": 1, "pp": 1, "ep": 1, "attention_dp": 1, field: 0}
    with pytest.raises(ValueError, match="at least 1"):
        check_split(load_model("meta-llama/Llama-3.1-8B-Instruct"), Split("bf16", "bf16", **sizes))


def test_checking_a_split_is_cheap() -> None:
    """A warm check takes under 20 microseconds (the best of 500, so that a busy machine does not matter)."""
    model, split = load_model("deepseek-ai/DeepSeek-V3"), Split("fp8", "bf16", 8, ep=8)
    check_split(model, split)
    best = float("inf")
    for _ in range(500):
        start = time.perf_counter()
        check_split(model, split)
        best = min(best, time.perf_counter() - start)
    assert best < 20e-6
