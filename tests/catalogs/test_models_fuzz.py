"""Mutated configs: a plausible model or a CatalogError, never another exception, a hang or an absurd number."""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalogs.errors import CatalogError
from catalogs.model_index import FOLDER
from catalogs.models import ModelSpec, parse_config

# One file of each family, so that every parser function is reached.
FILES = [
    "meta-llama--Meta-Llama-3.1-8B",
    "mistralai--Mixtral-8x7B-Instruct-v0.1",
    "mistralai--Mistral-Small-3.1-24B-Instruct-2503",
    "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    "google--gemma-3-27b-it",
    "google--gemma-4-26B-A4B",
    "Qwen--Qwen2-57B-A14B-Instruct",
    "Qwen--Qwen3.5-397B-A17B",
    "Qwen--Qwen3-VL-8B-Instruct",
    "deepseek-ai--DeepSeek-V3.2",
    "deepseek-ai--DeepSeek-V4-Flash",
    "openai--gpt-oss-20b",
    "zai-org--GLM-4.5",
    "moonshotai--Kimi-K2.5",
    "moonshotai--Kimi-K3",
    "MiniMaxAI--MiniMax-M2",
    "CohereLabs--c4ai-command-a-03-2025",
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1",
    "XiaomiMiMo--MiMo-V2-Flash",
    "EleutherAI--gpt-j-6b",
]
ENTRIES = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in FILES}

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 3, 7, 64, 1000, 10**6, 10**9, 10**40, 10**5000, -(10**9)]),
    st.integers(min_value=-(10**12), max_value=10**12),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=12),
    st.sampled_from(["full_attention", "linear_attention", "mamba", "*", "M", "fp8", "NVFP4", "float16", "sparse"]),
    st.recursive(
        st.one_of(st.integers(-5, 200), st.text(max_size=5), st.none()),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
        max_leaves=8,
    ),
)


def assert_plausible(model: ModelSpec) -> None:
    assert 0 < model.total_parameters <= 20e12
    assert 0 < model.active_parameters <= model.total_parameters
    assert 0 < len(model.layers) <= 1000
    assert 0 < model.hidden_size <= 131_072
    assert 0 < model.vocab_size <= 5_000_000
    assert model.mtp_parameters >= 0
    assert model.vision_parameters >= 0
    assert 0 < model.weight_bytes() <= 4.01 * model.total_parameters
    assert 0 <= model.kv_bytes_per_token() < 1e12
    assert all(count <= 8192 for count in model.expert_counts)
    json.dumps(model.checkpoint.model_dump(mode="json"))


def parse_or_refuse(config: Mapping[str, Any], quant: Any = None) -> None:
    with contextlib.suppress(CatalogError):
        assert_plausible(parse_config(config, "fuzzed", quant))


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=40, deadline=2000, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(data=st.data())
def test_mutated_configs_never_break_the_parser(name: str, data: st.DataObject) -> None:
    config = dict(ENTRIES[name]["config"])
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            config[key] = data.draw(JUNK)
        else:
            config.pop(key, None)
    parse_or_refuse(config)


@pytest.mark.parametrize(
    "name", ["moonshotai--Kimi-K3", "nvidia--Llama-3_3-Nemotron-Super-49B-v1", "moonshotai--Kimi-K2.5"]
)
@settings(max_examples=60, deadline=2000, derandomize=True)
@given(data=st.data())
def test_mutations_inside_nested_parts_never_break_the_parser(name: str, data: st.DataObject) -> None:
    config = json.loads(json.dumps(ENTRIES[name]["config"]))
    nested = [value for value in config.values() if isinstance(value, dict)]
    nested += [part for block in config.get("block_configs", [])[:3] for part in (block, *block.values())]
    nested += [inner for value in nested for inner in value.values() if isinstance(inner, dict)]
    target = data.draw(st.sampled_from(nested))
    if target:
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(JUNK)
    parse_or_refuse(config)


@settings(max_examples=150, deadline=2000, derandomize=True)
@given(
    quantization=JUNK,
    method=st.sampled_from(["fp8", "awq", "gptq", "compressed-tensors", "modelopt", "mxfp4"]),
    key=JUNK,
)
def test_junk_quantization_never_breaks_the_parser(quantization: Any, method: str, key: Any) -> None:
    config = ENTRIES["meta-llama--Meta-Llama-3.1-8B"]["config"]
    parse_or_refuse(config | {"quantization_config": quantization}, {"quantization": quantization})
    for name in ("config_groups", "ignore", "bits", "group_size", "quantized_layers", "weight_block_size"):
        parse_or_refuse(config | {"quantization_config": {"quant_method": method, name: key}})
        parse_or_refuse(config, {"quantization": {"quant_algo": "MIXED_PRECISION", name: key}})


@settings(max_examples=100, deadline=2000, derandomize=True)
@given(facts=JUNK, key=st.sampled_from(["hidden_size", "layers", "checkpoint", "vocab_size", "name"]))
def test_junk_facts_by_hand_never_break_the_parser(facts: Any, key: str) -> None:
    parse_or_refuse({"shardwise_model": facts})
    good = {
        "hidden_size": 64,
        "vocab_size": 100,
        "max_context_tokens": 128,
        "layers": [{"attention": {"kind": "none"}, "mlp": {"kind": "dense", "intermediate_size": 128}}],
    }
    parse_or_refuse({"shardwise_model": {"name": "fuzzed"} | good | {key: facts}})


@settings(max_examples=60, deadline=2000, derandomize=True)
@given(config=st.dictionaries(st.text(max_size=10), JUNK, max_size=6))
def test_arbitrary_objects_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(CatalogError):
        parse_config(config, "fuzzed")
