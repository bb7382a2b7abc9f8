from __future__ import annotations

import numpy as np
import pytest

from catalogs.models import load_model
from optimizer.performance.bands import Bands
from optimizer.performance.efficiency import (
    COEFFICIENTS,
    LARGEST_SHARE,
    Efficiencies,
    Routing,
    Setting,
    architecture_key,
    engine_era,
    load_efficiencies,
    newest_era,
)

PLAIN = dict.fromkeys(COEFFICIENTS, 0.5)


def figures(**factors: dict[str, float]) -> Efficiencies:
    """Every coefficient one half, times factors by level (a double underscore is the space of a level's name)."""
    levels = {name.replace("__", " "): row for name, row in factors.items()}
    return Efficiencies(PLAIN, levels, {"hopper": "fitted"}, {"turing": "ampere"}, Routing(0.5, 1.2))


def setting(gpu: str = "H100-SXM-80GB", engine: str = "vllm") -> Setting:
    return Setting(gpu, engine, "2026", "32x4096", "fp8")


def test_factors_of_all_levels_that_apply_multiply() -> None:
    """0.5 x 1.2 (family) x 1.1 (engine) = 0.66; a level of another engine changes nothing."""
    found = figures(
        family__hopper={"kv_bandwidth": 1.2}, engine__vllm={"kv_bandwidth": 1.1}, engine__sglang={"kv_bandwidth": 3.0}
    )
    assert found.coefficients(setting())["kv_bandwidth"] == pytest.approx(0.66, rel=0.01)
    assert found.coefficients(setting(engine="other"))["kv_bandwidth"] == pytest.approx(0.6, rel=0.01)


def test_a_share_of_a_peak_stays_below_the_peak() -> None:
    found = figures(family__hopper={"kv_bandwidth": 9.0, "step_seconds": 9.0}).coefficients(setting())
    assert 0.97 < found["kv_bandwidth"] <= LARGEST_SHARE
    assert found["step_seconds"] == 4.5


def test_a_family_without_runs_takes_its_lenders_factors() -> None:
    found = figures(family__ampere={"kv_bandwidth": 0.8}).coefficients(setting("T4-16GB"))
    assert found["kv_bandwidth"] == pytest.approx(0.4, rel=0.01)


@pytest.mark.parametrize(
    ("engine", "version", "era"),
    [
        ("vllm", "0.10.2", "2025"),
        ("vllm", "0.12.0", "late-2025"),
        ("vllm", "0.19.0", "2026"),
        ("sglang", "v0.5.9-cu130", "2026"),
        ("tensorrt-llm", "1.0.0rc3", "1.0"),
        ("tensorrt-llm", "1.3.0rc14", "1.x"),
        ("vllm", "nightly-5b8c30d", ""),
        ("vllm", float("nan"), ""),
        ("another", "1.0", ""),
    ],
)
def test_a_release_belongs_to_an_era(engine: str, version: object, era: str) -> None:
    assert engine_era(engine, version) == era


def test_the_newest_era_is_the_last() -> None:
    assert newest_era("vllm") == "2026"
    assert newest_era("another") == ""


def test_models_of_one_shape_share_a_key() -> None:
    """Llama 3.1 and 3.3 70B are one architecture; Llama 2 70B has a smaller vocabulary, and Mistral 7B is another."""
    key = architecture_key(load_model("meta-llama/Meta-Llama-3.1-70B"))
    assert key == architecture_key(load_model("meta-llama/Llama-3.3-70B-Instruct")) == "80x8192-kv8-71B"
    assert key != architecture_key(load_model("mistralai/Mistral-7B-Instruct-v0.3"))


def test_what_was_never_measured_is_said() -> None:
    fitted = load_efficiencies()
    known = Setting("H100-SXM-80GB", "vllm", "", architecture_key(load_model("Qwen/Qwen3-32B")), "fp8")
    assert fitted.unmeasured(known) == frozenset()
    assert fitted.unmeasured(Setting("V100-SXM-32GB", "new", "", "9x9", "fp16")) == {"family", "model", "engine"}
    assert "gpu" in fitted.unmeasured(Setting("H100-PCIE-80GB", "vllm", "", known.architecture, "fp8"))


BANDS = Bands(
    {f"loop dense {size} tpot": ends for size, ends in {"small": (-0.1, 0.1), "large": (-0.2, 0.3)}.items()},
    {"gpu": 2.0, "model": 3.0, "family": 4.0, "engine": 1.0},
)


def test_an_interval_is_that_of_the_batch() -> None:
    """exp(0.1) at batch 4 and exp(0.3) at batch 64; twice the logarithm where a row is twice as wide."""
    low, high = BANDS.interval("tpot", np.array([4.0, 64.0, 64.0]), np.array([1.0, 1.0, 2.0]), moe=False)
    assert high == pytest.approx(np.exp([0.1, 0.3, 0.6]))
    assert low == pytest.approx(np.exp([-0.1, -0.2, -0.4]))


def test_nine_in_ten_is_the_upper_end_of_an_80_percent_interval() -> None:
    """The wider of small and large batches counts; 50% is the prediction itself; more confidence, more room."""
    at = [float(BANDS.factor_at("tpot", p, np.ones(1), moe=False)[0]) for p in (0.5, 0.9, 0.95)]
    assert at[:2] == pytest.approx([1.0, np.exp(0.3)])
    assert at[2] > at[1]


def test_unmeasured_parts_widen_together() -> None:
    """sqrt(1 + (2^2 - 1) + (3^2 - 1)) = sqrt(12)."""
    assert BANDS.width_of(frozenset()) == 1.0
    assert BANDS.width_of(frozenset({"gpu", "model"})) == pytest.approx(12**0.5)


def test_bundled_bands_hold_the_prediction_and_widen() -> None:
    bands = load_efficiencies().bands
    assert all(low < 0 < high for low, high in bands.logs.values())
    assert all(factor >= 1.0 for factor in bands.widening.values())
    assert bands.widening["family"] >= bands.widening["gpu"]
