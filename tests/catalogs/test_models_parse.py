"""parse_config: families, wrappers, refusals, facts given by hand."""

import math
from typing import Any

import pytest

from catalogs.errors import CatalogError
from catalogs.models import load_model, parse_config

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
BY_HAND: dict[str, Any] = {
    "hidden_size": 4096,
    "vocab_size": 128256,
    "max_context_tokens": 131072,
    "layers": [
        {
            "count": 32,
            "attention": {"kind": "full", "query_heads": 32, "kv_heads": 8, "head_dim": 128},
            "mlp": {"kind": "dense", "intermediate_size": 14336},
        }
    ],
}


def test_a_config_with_the_usual_defaults_left_out_gives_llama_8b() -> None:
    """head_dim is hidden / heads, embeddings are not tied, weights are bf16."""
    model = parse_config(LLAMA, "mine")
    assert model.total_parameters == load_model("meta-llama/Llama-3.1-8B").total_parameters == 8_030_261_248
    assert model.checkpoint.weights == "bf16"


def test_facts_by_hand_equal_the_parsed_config() -> None:
    model = parse_config({"shardwise_model": BY_HAND}, "mine")
    assert model.total_parameters == 8_030_261_248
    assert model.kv_bytes_per_token() == 131_072
    assert model.name == "mine"


def test_facts_by_hand_cover_latent_attention_and_experts() -> None:
    facts = {
        "name": "org/small-moe",
        "hidden_size": 2048,
        "vocab_size": 102400,
        "max_context_tokens": 163840,
        "checkpoint": {"weights": "fp8", "block_size": [128, 128]},
        "layers": [
            {
                "count": 2,
                "attention": {
                    "kind": "mla",
                    "query_heads": 16,
                    "head_dim": 192,
                    "value_head_dim": 128,
                    "kv_lora_rank": 512,
                    "rope_head_dim": 64,
                },
                "mlp": {
                    "kind": "moe",
                    "intermediate_size": 1408,
                    "experts": 64,
                    "experts_per_token": 6,
                    "shared_intermediate_size": 2816,
                },
            }
        ],
    }
    model = parse_config({"shardwise_model": facts}, "file")
    lite = load_model("deepseek-ai/DeepSeek-V2-Lite")  # the same layers; its first is dense
    assert model.name == "org/small-moe"
    assert model.layers[0].attention.parameters == lite.layers[1].attention.parameters
    assert model.layers[0].mlp == lite.layers[1].mlp
    assert model.checkpoint.block_size == (128, 128)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": 10**9}, "hidden_size"),
        ({"surprise": 1}, "surprise"),
        ({"layers": []}, "layers"),
        ({"layers": [{"attention": {"kind": "full"}, "mlp": {"kind": "none"}}]}, "needs query_heads"),
        ({"layers": [{"attention": {"kind": "mamba"}, "mlp": {"kind": "none"}}]}, "needs parameters"),
        ({"layers": [{"attention": {"kind": "none"}, "mlp": {"kind": "moe", "experts": 4}}]}, "moe needs"),
        ({"layers": BY_HAND["layers"] * 40}, "more than 1000"),
    ],
)
def test_wrong_facts_by_hand_name_the_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(CatalogError, match=said):
        parse_config({"shardwise_model": BY_HAND | change}, "mine")


def test_a_multimodal_wrapper_is_read_through_its_text_config() -> None:
    """The text part is Llama 8B; the tower of 27 layers is counted apart."""
    vision = {"depth": 27, "hidden_size": 1152, "num_heads": 16, "intermediate_size": 4304, "patch_size": 16}
    wrapped = {
        "model_type": "some_vl",
        "text_config": LLAMA,
        "tie_word_embeddings": False,
        "vision_config": vision,
    }
    model = parse_config(wrapped, "wrapped")
    assert model.architecture == "llama"
    assert model.total_parameters == 8_030_261_248
    assert model.vision_heads == 16
    # A block has 4 x 1152^2 + 2 x 1152 x 4304 = 15.2e6 elements.
    assert model.vision_parameters == pytest.approx(27 * 15.2e6, rel=0.03)


def test_gemma_3_reads_class_defaults_that_its_config_leaves_out() -> None:
    """The published 4B config holds neither heads nor vocabulary beyond what differs from the class."""
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
    }
    model = parse_config({"model_type": "gemma3", "text_config": text}, "gemma")
    assert model.total_parameters == pytest.approx(3.880e9, rel=1e-3)
    assert model.attention_kinds == {"sliding": 29, "full": 5}
    assert model.tied_embeddings


def test_qwen2_windows_apply_from_max_window_layers_on_and_only_when_used() -> None:
    base = LLAMA | {"model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 24}
    assert parse_config(base | {"use_sliding_window": False}, "q").attention_kinds == {"full": 32}
    assert parse_config(base | {"use_sliding_window": True}, "q").attention_kinds == {"full": 24, "sliding": 8}


def test_mistral_slides_only_below_its_context() -> None:
    base = LLAMA | {"model_type": "mistral"}
    sliding = parse_config(base | {"sliding_window": 4096}, "m")
    assert sliding.attention_kinds == {"sliding": 32}
    assert sliding.layers[0].attention.window_tokens == 4096
    assert parse_config(base | {"sliding_window": 131072}, "m").attention_kinds == {"full": 32}
    assert parse_config(base | {"sliding_window": None}, "m").attention_kinds == {"full": 32}


def test_layers_that_share_another_cache_hold_none() -> None:
    text = LLAMA | {"model_type": "gemma4_text", "head_dim": 128, "sliding_window": 1024, "num_kv_shared_layers": 12}
    model = parse_config(text, "g")
    assert sum(layer.attention.shares_kv for layer in model.layers) == 12
    assert model.kv_bytes_per_token() == 20 * 2 * 8 * 128 * 2


def test_multi_token_prediction_layers_are_counted_apart() -> None:
    model = load_model("deepseek-ai/DeepSeek-V3")
    # One MoE layer (11.5e9) and its copies of embedding and head (1.85e9); the card says 14B beside 671B.
    assert model.mtp_parameters == pytest.approx(13.5e9, rel=0.02)
    assert model.total_parameters == pytest.approx(671.0e9, rel=0.001)


def test_layers_of_a_searched_architecture_vary() -> None:
    model = load_model("nvidia/Llama-3_3-Nemotron-Super-49B-v1")
    assert model.attention_kinds == {"full": 49, "none": 31}
    assert len(model.dense_widths) > 3


def test_a_shared_indexer_is_counted_only_where_it_lives() -> None:
    """GLM-5.2 style: of four layers, three reuse the first one's choice and cache no index keys."""
    base = {
        "model_type": "glm_moe_dsa",
        "hidden_size": 1024,
        "intermediate_size": 2048,
        "moe_intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "q_lora_rank": 256,
        "kv_lora_rank": 128,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
        "v_head_dim": 64,
        "index_n_heads": 4,
        "index_head_dim": 64,
        "index_topk": 512,
        "n_routed_experts": 16,
        "num_experts_per_tok": 2,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
    }
    model = parse_config(base | {"indexer_types": ["full", "shared", "shared", "shared"]}, "glm")
    everywhere = parse_config(base, "glm")
    indexer = 256 * 4 * 64 + 1024 * (64 + 4) + 2 * 64
    assert [layer.attention.indexer_head_dim for layer in model.layers] == [64, 0, 0, 0]
    assert everywhere.total_parameters - model.total_parameters == 3 * indexer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": None}, "missing keys: hidden_size"),
        ({"num_attention_heads": None, "vocab_size": None}, "vocab_size, num_attention_heads"),
        ({"model_type": "lama"}, "did you mean llama"),
        ({"model_type": None}, "missing keys: model_type"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; expected 1 to 1000"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"hidden_size": math.nan}, "hidden_size is nan"),
        ({"hidden_size": 10**5000}, "more than 30 digits"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"hidden_size": 4097}, "not a multiple of num_attention_heads"),
        ({"num_key_value_heads": 5}, "not a multiple of num_key_value_heads"),
        ({"torch_dtype": "int9"}, "torch_dtype"),
        ({"tie_word_embeddings": "yes"}, "expected true or false"),
        ({"hidden_size": 131072, "intermediate_size": 10**6, "num_hidden_layers": 1000}, "at most 2e"),
    ],
)
def test_a_bad_config_is_refused_by_name_with_the_reason_and_the_way_out(change: dict[str, Any], said: str) -> None:
    with pytest.raises(CatalogError, match=said) as caught:
        parse_config(LLAMA | change, "org/broken")
    assert "org/broken" in str(caught.value)
    if "at most 2e" not in said:
        assert "shardwise_model" in str(caught.value)


def test_a_token_cannot_use_more_experts_than_there_are() -> None:
    moe = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9}
    with pytest.raises(CatalogError, match="uses 9 of 8 experts"):
        parse_config(moe, "m")
    assert parse_config(moe | {"num_experts_per_tok": 8}, "m").is_moe


def test_a_layer_kind_that_the_family_lacks_is_refused() -> None:
    gemma = LLAMA | {"model_type": "gemma2", "head_dim": 128, "layer_types": ["linear_attention"] * 32}
    with pytest.raises(CatalogError, match="layer_types holds 'linear_attention'"):
        parse_config(gemma, "g")


def test_per_layer_embeddings_are_refused_with_the_reason() -> None:
    small = LLAMA | {"model_type": "gemma4_text", "sliding_window": 512, "hidden_size_per_layer_input": 256}
    with pytest.raises(CatalogError, match="per-layer embeddings"):
        parse_config(small, "g")
