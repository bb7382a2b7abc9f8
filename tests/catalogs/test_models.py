"""ModelSpec: sums over layers, divisibility facts, weight formats."""

import pytest

from catalogs.errors import UnknownNameError
from catalogs.models import Checkpoint, ModelSpec, bytes_per_parameter, kind_bytes, load_model, parse_config, storage

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}


@pytest.fixture(scope="module")
def llama_70b() -> ModelSpec:
    return load_model("meta-llama/Llama-3.1-70B-Instruct")


def test_parameters_by_kind_of_a_small_model_are_the_hand_count() -> None:
    model = parse_config(TINY, "tiny")
    # Attention: q and o 64 x 64 each, k and v 64 x 16 each; MLP: 3 x 64 x 128; two norms of 64 a layer, one at the end.
    assert model.parameters_by_kind == {
        "embedding": 64_000,
        "lm_head": 64_000,
        "attention": 3 * (2 * 4096 + 2 * 1024),
        "dense_mlp": 3 * 24_576,
        "experts": 0,
        "shared_experts": 0,
        "router": 0,
        "norm": 3 * 128 + 64,
    }
    assert model.total_parameters == sum(model.parameters_by_kind.values()) == model.active_parameters


def test_equal_layers_are_one_object_and_specs_hash_by_value() -> None:
    model, again = parse_config(TINY, "tiny"), parse_config(TINY, "tiny")
    assert model.layers[0] is model.layers[2]
    assert model == again
    assert hash(model) == hash(again)
    assert model.total_parameters == again.total_parameters
    assert model == again  # cached sums take no part in equality


def test_a_spec_cannot_be_changed() -> None:
    model = parse_config(TINY, "tiny")
    with pytest.raises(ValueError, match="frozen"):
        model.hidden_size = 1  # type: ignore[misc]


def test_divisibility_facts_of_a_hybrid_moe() -> None:
    model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert model.attention_kinds == {"linear": 36, "full": 12}
    assert model.query_head_counts == (16,)
    assert model.kv_head_counts == (2,)
    assert model.state_head_counts == (16,)
    assert model.expert_counts == (512,)
    assert model.expert_widths == (512,)
    assert model.shared_expert_widths == (512,)
    assert model.dense_widths == ()
    assert model.is_moe
    assert not model.mla


def test_divisibility_facts_of_latent_attention() -> None:
    model = load_model("deepseek-ai/DeepSeek-V3")
    assert model.mla
    assert model.kv_head_counts == ()
    assert model.dense_widths == (18432,)  # the first three layers
    assert model.expert_widths == (2048,)


def test_state_bytes_follow_the_dtype_that_the_config_asks_for() -> None:
    model = load_model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    mixer = next(layer.attention for layer in model.layers if layer.attention.kind == "mamba")
    # Recurrent 64 heads x 64 x 128 in fp32; convolution 3 x (4096 + 2 x 8 x 128) in 16 bits.
    assert mixer.state_elements == 64 * 64 * 128 + 3 * 6144
    assert mixer.state_bytes == 64 * 64 * 128 * 4 + 3 * 6144 * 2


@pytest.mark.parametrize(
    ("weights", "group", "zeros", "expected"),
    [
        ("int4", 128, True, 0.5 + 2 / 128 + 0.5 / 128),  # 0.5195
        ("int4", 32, False, 0.5 + 2 / 32),
        ("nvfp4", 16, False, 0.5625),
        ("mxfp4", 32, False, 0.53125),
        ("int8", 0, False, 1.0),
        ("bf16", 0, False, 2.0),
        ("fp32", 0, False, 4.0),
    ],
)
def test_bytes_per_parameter_count_scales_and_zero_points(
    weights: str, group: int, zeros: bool, expected: float
) -> None:
    checkpoint = Checkpoint(weights=weights, dtype="bf16", group_size=group, zero_points=zeros)  # type: ignore[arg-type]
    assert bytes_per_parameter(checkpoint.weights, checkpoint) == pytest.approx(expected)


def test_fp8_block_scales_add_a_quarter_of_a_thousandth() -> None:
    blocks = Checkpoint(weights="fp8", dtype="bf16", block_size=(128, 128))
    assert bytes_per_parameter("fp8", blocks) == 1 + 4 / 16384
    assert bytes_per_parameter("fp8", Checkpoint(weights="fp8", dtype="bf16")) == 1.0


def test_weights_of_a_70b_in_every_format(llama_70b: ModelSpec) -> None:
    """68.45e9 elements in linear layers, and 2.10e9 in embedding and LM head, which stay at 16 bits."""
    linear, rest = 68.451e9, 2.1026e9
    for weights, each in {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "int4": 0.51953, "nvfp4": 0.5625}.items():
        assert llama_70b.weight_bytes(weights) == pytest.approx(linear * each + rest * 2, rel=1e-4)
    assert llama_70b.weight_bytes("fp32") == 2 * llama_70b.weight_bytes("bf16")
    # INT4 with 15% overhead: 39.8e9 x 1.15 = 45.7e9, "about 46 GB".
    assert llama_70b.weight_bytes("int4") * 1.15 / 1e9 == pytest.approx(46, abs=0.5)


def test_a_13b_at_int4_is_under_10_gb() -> None:
    assert load_model("meta-llama/Llama-2-13b-hf").weight_bytes("int4") < 10e9


def test_the_checkpoint_own_format_is_stored_as_published() -> None:
    model = load_model("openai/gpt-oss-120b")
    assert storage(model, "mxfp4") is model.checkpoint
    assert storage(model) is model.checkpoint
    # 114.66e9 expert elements at 0.53125, 2.17e9 others at 2 bytes.
    assert model.weight_bytes() == pytest.approx(65.2e9, rel=0.005)


def test_mxfp4_converts_only_the_experts_of_a_moe_and_all_linear_layers_of_a_dense_model(llama_70b: ModelSpec) -> None:
    moe = storage(load_model("Qwen/Qwen3-30B-A3B"), "mxfp4")
    assert kind_bytes(moe, "attention") == 2
    assert kind_bytes(moe, "experts") == 0.53125
    assert kind_bytes(storage(llama_70b, "mxfp4"), "attention") == 0.53125


def test_fp8_of_latent_attention_models_has_block_scales_and_of_others_none(llama_70b: ModelSpec) -> None:
    assert storage(load_model("deepseek-ai/DeepSeek-V2"), "fp8").block_size == (128, 128)
    assert storage(llama_70b, "fp8").block_size is None


@pytest.mark.parametrize("wrong", ["int3", "", "BF16"])
def test_an_unknown_format_is_refused(llama_70b: ModelSpec, wrong: str) -> None:
    with pytest.raises(UnknownNameError):
        llama_70b.weight_bytes(wrong)
    with pytest.raises(UnknownNameError):
        llama_70b.kv_bytes_per_token(wrong)


def test_pooled_entries_of_deepseek_v4_cost_their_share_of_a_token() -> None:
    model = load_model("deepseek-ai/DeepSeek-V4-Flash")
    # 2 layers keep their window only, 21 pool 4 tokens, 20 pool 128; 512 elements an entry, 2 bytes each.
    assert model.kv_bytes_per_token() == 2 * 512 * (21 / 4 + 20 / 128)
    assert model.checkpoint.other_formats == (("experts", "mxfp4"),)
