"""quantization_config and hf_quant_config in their dialects."""

from typing import Any

import pytest

from catalogs.errors import CatalogError
from catalogs.models import Checkpoint, kind_bytes, load_model, parse_config

DENSE = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "intermediate_size": 4096,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
MOE = DENSE | {
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
    "head_dim": 128,
}
ALWAYS = frozenset({"embedding", "lm_head", "norm", "router"})


def stored(quantization: dict[str, Any] | None, base: dict[str, Any] = DENSE, **more: Any) -> Checkpoint:
    return parse_config(base | {"quantization_config": quantization}, "q", **more).checkpoint


def group(bits: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"group_0": {"weights": {"num_bits": bits, "type": kind, **more}, "targets": ["Linear"]}}


@pytest.mark.parametrize(
    ("quantization", "weights", "group_size", "zero_points", "block"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 0, False, (128, 128)),
        ({"quant_method": "fbgemm_fp8"}, "fp8", 0, False, None),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4", 128, True, None),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": False}, "int4", 64, False, None),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, "int4", 128, True, None),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", 0, False, None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", 64, False, None),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 0, False, None),
        ({"quant_method": "compressed-tensors", "config_groups": group(8, "int")}, "int8", 0, False, None),
        ({"quant_method": "compressed-tensors", "config_groups": group(8, "float")}, "fp8", 0, False, None),
        (
            {"quant_method": "compressed-tensors", "config_groups": group(4, "int", group_size=32, symmetric=True)},
            "int4",
            32,
            False,
            None,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": group(4, "int", group_size=128, symmetric=False)},
            "int4",
            128,
            True,
            None,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": group(4, "float", group_size=32)},
            "mxfp4",
            32,
            False,
            None,
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 16, False, None),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, "fp8", 0, False, None),
    ],
)
def test_each_dialect_gives_format_group_zero_points_and_blocks(
    quantization: dict[str, Any], weights: str, group_size: int, zero_points: bool, block: tuple[int, int] | None
) -> None:
    checkpoint = stored(quantization)
    assert (checkpoint.weights, checkpoint.group_size) == (weights, group_size)
    assert (checkpoint.zero_points, checkpoint.block_size) == (zero_points, block)
    assert checkpoint.unquantized == ALWAYS


def test_without_quantization_the_weights_have_the_dtype_of_the_config() -> None:
    assert stored(None) == Checkpoint(weights="bf16", dtype="bf16")
    assert parse_config(DENSE | {"torch_dtype": "float16"}, "q").checkpoint.weights == "fp16"


def test_ignored_attention_stays_at_16_bits_and_its_twin_is_quantized() -> None:
    ignoring = stored({"quant_algo": "NVFP4", "ignore": ["lm_head", "re:.*self_attn.*"]})
    assert kind_bytes(ignoring, "attention") == 2
    assert kind_bytes(ignoring, "dense_mlp") == 0.5625
    assert kind_bytes(stored({"quant_algo": "NVFP4", "ignore": ["lm_head"]}), "attention") == 0.5625


def test_layers_ignored_one_by_one_are_weighed() -> None:
    """One of four equal layers, whole: a quarter of attention and MLP stays at 16 bits."""
    checkpoint = stored({"quant_algo": "FP8", "ignore": ["model.layers.2*", "lm_head"]})
    assert checkpoint.unquantized_share == (("attention", 0.25), ("dense_mlp", 0.25))
    assert kind_bytes(checkpoint, "attention") == 0.25 * 2 + 0.75


def test_an_ignored_output_projection_is_its_share_of_the_attention() -> None:
    """q, k, v and o are equally large here, so o alone is a quarter."""
    names = [f"model.layers.{index}.self_attn.o_proj" for index in range(4)]
    assert stored({"quant_algo": "FP8", "ignore": names}).unquantized_share == (("attention", 0.25),)


def test_names_of_norms_routers_towers_and_prediction_layers_change_nothing() -> None:
    names = [
        "lm_head",
        "model.layers.0.input_layernorm",
        "model.layers.0.mlp.gate",
        "model.visual*",
        "mtp*",
        "model.layers.9.mlp.experts",
        "model.layers.1.self_attn.indexer.k_norm",
    ]
    assert stored({"quant_method": "fp8", "modules_to_not_convert": names}, MOE).unquantized == ALWAYS


def test_mxfp4_of_gpt_oss_covers_the_experts_only() -> None:
    checkpoint = load_model("openai/gpt-oss-20b").checkpoint
    assert checkpoint.group_size == 32
    assert kind_bytes(checkpoint, "attention") == 2
    assert kind_bytes(checkpoint, "experts") == 0.53125


def test_a_quantization_file_beside_the_config_counts() -> None:
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    checkpoint = parse_config(MOE, "q", beside).checkpoint
    assert checkpoint.weights == "nvfp4"
    assert checkpoint.kv_cache == "fp8"


def test_a_mixed_checkpoint_gives_each_kind_its_format() -> None:
    layers = {f"model.layers.{index}.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16} for index in range(4)}
    for index in range(4):
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            layers[f"model.layers.{index}.self_attn.{part}"] = {"quant_algo": "FP8"}
    checkpoint = stored({"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}, MOE)
    assert checkpoint.weights == "nvfp4"
    assert kind_bytes(checkpoint, "experts") == 0.5625
    assert kind_bytes(checkpoint, "attention") == 1
    assert kind_bytes(checkpoint, "lm_head") == 2


def test_nvfp4_deepseek_keeps_all_attention_but_the_output_projection() -> None:
    shares = dict(load_model("nvidia/DeepSeek-V3.1-NVFP4").checkpoint.unquantized_share)
    # o_proj is 128 x 128 x 7168 of 187.1e6 attention elements: 63% is quantized.
    assert shares["attention"] == pytest.approx(1 - 128 * 128 * 7168 / 187.1e6, abs=1e-3)


@pytest.mark.parametrize(
    ("quantization", "said"),
    [
        ({"quant_method": "aqlm"}, "quant_method is 'aqlm'"),
        ({"quant_method": 3}, "quant_method is 3"),
        ({"quant_method": "gptq", "bits": 3}, "bits are 3"),
        ({"quant_method": "compressed-tensors"}, "config_groups"),
        ({"quant_method": "compressed-tensors", "config_groups": group(2, "int")}, "with 2 bits"),
        ({"quant_algo": "W2"}, "quant_algo is 'W2'"),
        ({"quant_algo": "MIXED_PRECISION"}, "without quantized_layers"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "two numbers"),
        ({"quant_method": "awq", "group_size": "many"}, "group_size"),
    ],
)
def test_a_scheme_that_is_not_understood_is_refused(quantization: dict[str, Any], said: str) -> None:
    with pytest.raises(CatalogError, match=said):
        stored(quantization)
