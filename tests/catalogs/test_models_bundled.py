"""The bundled models: totals, active parameters and KV bytes against figures that were not computed here."""

import json
import time

import pytest

from catalogs.errors import UnknownNameError
from catalogs.model_index import FOLDER, INDEX, build_index
from catalogs.models import bundled_models, load_model

# name, active parameters in billions, KV bytes per token at bf16 with all layers at full length.
# Recomputed from each config independently of this parser, 2026-11-30 (the project's model facts).
RECOMPUTED = [
    ("meta-llama/Llama-2-7b-hf", 6.74, 524_288),
    ("meta-llama/Llama-2-13b-hf", 13.02, 819_200),
    ("meta-llama/Llama-2-70b-hf", 68.98, 327_680),
    ("meta-llama/Meta-Llama-3-8B", 8.03, 131_072),
    ("meta-llama/Meta-Llama-3-70B", 70.55, 327_680),
    ("meta-llama/Meta-Llama-3.1-8B", 8.03, 131_072),
    ("meta-llama/Meta-Llama-3.1-70B", 70.55, 327_680),
    ("meta-llama/Meta-Llama-3.1-405B", 405.85, 516_096),
    ("meta-llama/Llama-3.2-1B-Instruct", 1.24, 32_768),
    ("meta-llama/Llama-3.2-3B-Instruct", 3.21, 114_688),
    ("meta-llama/Llama-3.3-70B-Instruct", 70.55, 327_680),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 17.17, 196_608),
    ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 17.18, 196_608),
    ("codellama/CodeLlama-34b-Instruct-hf", 33.74, 196_608),
    ("mistralai/Mistral-7B-Instruct-v0.3", 7.25, 131_072),
    ("mistralai/Mistral-Large-Instruct-2407", 122.61, 360_448),
    ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 23.57, 163_840),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", 12.88, 131_072),
    ("mistralai/Mixtral-8x22B-v0.1", 39.15, 229_376),
    ("google/gemma-2-2b-it", 2.61, 106_496),
    ("google/gemma-2-9b-it", 9.24, 344_064),
    ("google/gemma-2-27b-it", 27.23, 376_832),
    ("google/gemma-3-1b-it", 1.00, 26_624),
    ("google/gemma-3-4b-it", 3.88, 139_264),
    ("google/gemma-3-12b-it", 11.77, 393_216),
    ("google/gemma-3-27b-it", 27.01, 507_904),
    ("microsoft/Phi-3-mini-128k-instruct", 3.82, 393_216),
    ("microsoft/Phi-3-medium-128k-instruct", 13.96, 204_800),
    ("microsoft/phi-4", 14.66, 204_800),
    ("microsoft/Phi-4-mini-instruct", 3.84, 131_072),
    ("Qwen/Qwen2.5-0.5B-Instruct", 0.49, 12_288),
    ("Qwen/Qwen2.5-1.5B-Instruct", 1.54, 28_672),
    ("Qwen/Qwen2.5-3B-Instruct", 3.09, 36_864),
    ("Qwen/Qwen2.5-7B-Instruct", 7.62, 57_344),
    ("Qwen/Qwen2.5-14B-Instruct", 14.77, 196_608),
    ("Qwen/Qwen2.5-32B-Instruct", 32.76, 262_144),
    ("Qwen/Qwen2.5-72B-Instruct", 72.71, 327_680),
    ("Qwen/QwQ-32B", 32.76, 262_144),
    ("Qwen/Qwen2-57B-A14B-Instruct", 14.25, 57_344),
    ("Qwen/Qwen3-0.6B", 0.60, 114_688),
    ("Qwen/Qwen3-1.7B", 1.72, 114_688),
    ("Qwen/Qwen3-4B", 4.02, 147_456),
    ("Qwen/Qwen3-8B", 8.19, 147_456),
    ("Qwen/Qwen3-14B", 14.77, 163_840),
    ("Qwen/Qwen3-32B", 32.76, 262_144),
    ("Qwen/Qwen3-30B-A3B", 3.35, 98_304),
    ("Qwen/Qwen3-235B-A22B", 22.19, 192_512),
    ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 35.47, 253_952),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", 3.87, 24_576),
    ("deepseek-ai/DeepSeek-V2-Lite", 2.66, 31_104),
    ("deepseek-ai/DeepSeek-V2", 21.38, 69_120),
    ("deepseek-ai/DeepSeek-V3", 37.55, 70_272),
    ("deepseek-ai/DeepSeek-R1", 37.55, 70_272),
    ("deepseek-ai/DeepSeek-V3.2", 38.40, 70_272),
    ("openai/gpt-oss-20b", 4.19, 49_152),
    ("openai/gpt-oss-120b", 5.71, 73_728),
    ("zai-org/GLM-4.5", 33.63, 376_832),
    ("zai-org/GLM-4.5-Air", 13.42, 188_416),
    ("zai-org/GLM-4.6", 33.63, 376_832),
    ("zai-org/GLM-4.7-Flash", 3.90, 54_144),
    ("moonshotai/Kimi-K2-Instruct", 32.86, 70_272),
    ("MiniMaxAI/MiniMax-M2", 11.03, 253_952),
    ("CohereLabs/c4ai-command-r-v01", 34.98, 1_310_720),
    ("CohereLabs/c4ai-command-r-plus", 103.81, 262_144),
    ("CohereLabs/c4ai-command-a-03-2025", 111.06, 262_144),
]


@pytest.mark.parametrize("name", bundled_models())
def test_total_matches_the_published_one_within_half_a_percent(name: str) -> None:
    model = load_model(name)
    assert model.published_parameters is not None
    assert model.total_parameters == pytest.approx(model.published_parameters, rel=0.005)
    assert model.name == name
    assert model.source


@pytest.mark.parametrize(("name", "active_billions", "kv_bytes"), RECOMPUTED)
def test_active_parameters_and_kv_bytes_match_the_recomputed_ones(
    name: str, active_billions: float, kv_bytes: int
) -> None:
    model = load_model(name)
    assert model.active_parameters / 1e9 == pytest.approx(active_billions, rel=0.01)
    assert model.kv_bytes_per_token() == kv_bytes
    assert model.kv_bytes_per_token("fp8") == kv_bytes / 2


def test_the_index_lists_exactly_what_the_files_hold() -> None:
    assert json.loads(INDEX.read_text(encoding="utf-8")) == build_index()


def test_at_least_sixty_models_are_bundled_each_with_a_source_and_a_dated_total() -> None:
    files = [path for path in FOLDER.glob("*.json") if path != INDEX]
    assert len(files) >= 60
    for path in files:
        entry = json.loads(path.read_text(encoding="utf-8"))
        assert set(entry) == {"name", "source", "published_parameters", "also", "config"}
        assert "2026-11-30" in entry["source"]
        assert len(entry["published_parameters"]["source"]) > 3


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-2-13b-hf",
        "meta-llama/Llama-3.1-8B-Instruct",
        "meta-llama/Meta-Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.1-405B-Instruct",
        "meta-llama/Llama-3.1-405B-Instruct-FP8",
        "deepseek-ai/DeepSeek-V3",
        "deepseek-ai/DeepSeek-V3-0324",
        "deepseek-ai/DeepSeek-R1-0528",
        "openai/gpt-oss-120b",
        "Qwen/Qwen3-235B-A22B-Instruct-2507",
        "EleutherAI/gpt-j-6b",
    ],
)
def test_names_people_ask_for_are_bundled_in_any_case(name: str) -> None:
    assert name in bundled_models()
    assert load_model(name.upper()) is load_model(name)


def test_a_twin_differs_only_where_its_checkpoint_does() -> None:
    """The FP8 twin of the 70B has the same layers, in about half the bytes."""
    plain = load_model("meta-llama/Llama-3.1-70B-Instruct")
    twin = load_model("nvidia/Llama-3.1-70B-Instruct-FP8")
    assert twin.layers == plain.layers
    assert twin.checkpoint.weights == "fp8"
    assert twin.checkpoint.kv_cache == "fp8"
    # 68.45e9 linear elements at 1 byte, 2.10e9 in embedding and head at 2.
    assert twin.weight_bytes() == pytest.approx(72.66e9, rel=1e-3)
    assert plain.weight_bytes() == pytest.approx(141.1e9, rel=1e-3)


def test_an_unknown_name_offers_near_ones_and_says_how_to_pass_a_config() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean .*Llama-3\.1-70B.*config\.json"):
        load_model("meta-llama/Llama-3.1-71B-Instruct")


def test_listing_and_loading_are_fast() -> None:
    """Listing reads only the index; a model that is loaded already costs nothing."""
    start = time.perf_counter()
    for _ in range(100):
        bundled_models()
        load_model("Qwen/Qwen3-235B-A22B")
    assert time.perf_counter() - start < 0.1
