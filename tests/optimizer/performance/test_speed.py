from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.gpus import load_gpus
from catalogs.models import ModelSpec, load_model
from optimizer.performance.efficiency import (
    LARGEST_SHARE,
    Setting,
    architecture_key,
    calibration_group,
    load_efficiencies,
    newest_era,
    shares_of_a_peak,
)
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.speed import CHUNK_TOKENS, SpeedModel

ReplicaTable = Callable[..., pd.DataFrame]
SAMPLES = Path(__file__).parents[2] / "data" / "serving_samples.csv"
MODELS = (
    "meta-llama/Meta-Llama-3.1-70B",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "google/gemma-3-27b-it",
)


@pytest.fixture(scope="session")
def every_gpu(replicas: ReplicaTable) -> pd.DataFrame:
    """Each GPU of the catalog under plain, pipelined and attention-parallel splits."""
    splits: list[dict[str, Any]] = [
        {"tp": 1},
        {"tp": 4, "weights": "fp8"},
        {"tp": 8, "pp": 2, "weights": "int4"},
        {"tp": 16},
        {"tp": 1, "ep": 8, "attention_dp": 8, "weights": "fp8", "kv_cache": "fp8"},
        {"tp": 2, "attention_dp": 4},
    ]
    shapes = [(name, min(gpu.scale_up_gpus, 8)) for name, gpu in load_gpus().items()]
    return replicas(*({"gpu": name, "scale_up_gpus": domain} | split for name, domain in shapes for split in splits))


def speed_of(table: pd.DataFrame, model: ModelSpec) -> SpeedModel:
    return SpeedModel(model, table)


def test_70b_on_two_h200_is_bound_by_memory(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """One token reads 139 GB / 2 at 4.8 TB/s x e_w; that is most of a step at batch 1."""
    of_run = Setting("H200-SXM-141GB", "vllm", newest_era("vllm"), architecture_key(llama_70b), "bf16")
    share = load_efficiencies().coefficients(of_run)["weight_bandwidth"]
    step = speed_of(replicas(), llama_70b).decode_breakdown(0, 1, 1000)
    assert step["weights"] == pytest.approx(139.0e9 / 2 / (4.8e12 * share), rel=0.01)
    assert step["compute"] < 0.001 * step["weights"]
    assert step["weights"] > 0.6 * sum(step.values())


def test_the_breakdown_sums_to_the_step(every_gpu: pd.DataFrame) -> None:
    speed = speed_of(every_gpu, load_model("deepseek-ai/DeepSeek-V3"))
    step = speed.decode_step_seconds(48, 4000)
    for row in range(0, len(every_gpu), 7):
        assert sum(speed.decode_breakdown(row, 48, 4000).values()) == pytest.approx(step[row], rel=1e-12)


def test_twice_the_bandwidth_share_halves_the_weight_term(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """Twin models that differ in one coefficient differ in one term, by that factor."""
    fitted = load_efficiencies()

    def at(share: float) -> dict[str, float]:
        figures = replace(fitted, common=dict(fitted.common) | {"weight_bandwidth": share}, factors={})
        return SpeedModel(llama_70b, replicas(), efficiencies=figures).decode_breakdown(0, 1, 1000)

    # Far below the peak, where shares do not level off yet.
    slow, fast = at(0.1), at(0.2)
    assert slow.pop("weights") == pytest.approx(2 * fast.pop("weights"), rel=1e-5)
    # What computing adds to reading is the root of the sum of squares less reading: it shrinks as reading grows.
    assert slow.pop("compute") < fast.pop("compute")
    assert slow == pytest.approx(fast)


def test_an_fp8_cache_halves_the_cache_term(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    speed = speed_of(replicas({}, {"kv_cache": "fp8"}), llama_70b)
    full, half = (speed.decode_breakdown(row, 64, 8000)["kv_cache"] for row in (0, 1))
    assert half == pytest.approx(full / 2)


def test_more_ranks_than_kv_heads_read_no_less_cache(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """8 KV heads: TP 16 reads as much a GPU as TP 8, and TP 4 twice that."""
    speed = speed_of(replicas(*({"tp": tp, "gpus_per_node": 16} for tp in (4, 8, 16))), llama_70b)
    reads = [speed.decode_breakdown(row, 64, 8000)["kv_cache"] for row in range(3)]
    assert reads[0] == pytest.approx(2 * reads[1])
    assert reads[2] == pytest.approx(reads[1])


def test_160_all_reduces_a_pass(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    assert speed_of(replicas({"tp": 4}, {"tp": 1}), llama_70b).all_reduces_per_pass.tolist() == [160, 0]


def test_tensor_parallel_over_pcie_is_slower(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    speed = speed_of(replicas({"tp": 4}, {"tp": 4, "scale_up_gpus": 1, "fabric": "pcie"}), llama_70b)
    nvlink, pcie = speed.decode_step_seconds(32, 2000)
    assert pcie > nvlink
    prefills = speed.prefill_seconds(4000)
    assert prefills[1] > 2 * prefills[0]


def test_across_nodes_pipelining_beats_tensor_parallelism(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """16 GPUs on two nodes over 100 Gb/s: TP 16 reduces over the network 160 times, PP 2 sends once."""
    slow = {"network": "ethernet", "network_gbit_per_s": 100.0}
    speed = speed_of(replicas({"tp": 16} | slow, {"tp": 8, "pp": 2} | slow), llama_70b)
    tensor, pipeline = predict_closed_loop(speed, 64, 1000, 500).output_tokens_per_second
    assert pipeline > 1.5 * tensor


def test_a_pipeline_adds_latency_and_throughput(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """Four stages pass a lone token no faster; with many requests they gain towards 4x as weights matter less."""
    speed = speed_of(replicas({"tp": 2}, {"tp": 2, "pp": 4}), llama_70b)
    alone = speed.decode_step_seconds(1, 1000)
    assert alone[1] > alone[0]
    steps = [speed.decode_step_seconds(batch, 1000) for batch in (1, 256, 1024, 4096)]
    gains = [whole / piped for whole, piped in steps]
    assert gains == sorted(gains)
    assert gains[0] < 1
    assert 3 < gains[-1] < 4


def test_a_prompt_longer_than_a_chunk_fills_the_pipeline(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """With n chunks over 4 stages a prompt takes about (n + 3)/4n of the unpipelined time: half at n = 3."""
    speed = speed_of(replicas({"tp": 2}, {"tp": 2, "pp": 4}), llama_70b)
    whole, piped = speed.prefill_seconds(3 * CHUNK_TOKENS)
    assert piped / whole == pytest.approx(0.5, rel=0.05)


def test_prefill_grows_with_the_square_of_long_prompts(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """At 1M tokens attention's quadratic part rules: twice the prompt costs over three times as much."""
    speed = speed_of(replicas(), llama_70b)
    assert speed.prefill_seconds(1e6)[0] > 3 * speed.prefill_seconds(5e5)[0]


def test_a_moe_batch_reads_more_experts_until_all_are_hit(replicas: ReplicaTable) -> None:
    """Expert reads grow from batch 1 to 64, less than in proportion, and by almost nothing from 4096 to 8192."""
    speed = speed_of(replicas({"tp": 8, "weights": "fp8"}), load_model("deepseek-ai/DeepSeek-V3"))
    one, many, most, all_hit = (speed.decode_breakdown(0, batch, 1)["weights"] for batch in (1, 64, 4096, 8192))
    assert one < many < 64 * one
    assert all_hit == pytest.approx(most, rel=0.01)


def test_weight_only_formats_save_reads_and_no_compute(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """INT4 on an A100 reads about a quarter of BF16, yet a long prompt takes as long (both shares are fitted: 3%)."""
    speed = speed_of(replicas({"gpu": "A100-SXM-80GB"}, {"gpu": "A100-SXM-80GB", "weights": "int4"}), llama_70b)
    reads = [speed.decode_breakdown(row, 1, 1)["weights"] for row in (0, 1)]
    assert 0.25 < reads[1] / reads[0] < 0.30
    prefills = speed.prefill_seconds(8000)
    assert prefills[1] >= 0.97 * prefills[0]


def test_one_attention_rank_holds_its_share_of_requests(replicas: ReplicaTable) -> None:
    """With 8 attention ranks a GPU reads the cache of an eighth of the requests; MLA under TP 8 reads all of them."""
    table = replicas({"tp": 8, "weights": "fp8"}, {"tp": 1, "ep": 8, "attention_dp": 8, "weights": "fp8"})
    speed = speed_of(table, load_model("deepseek-ai/DeepSeek-V3"))
    reads = [speed.decode_breakdown(row, 256, 4000)["kv_cache"] for row in (0, 1)]
    assert reads[1] < reads[0]


def test_kind_says_whose_figures_a_row_uses(replicas: ReplicaTable, llama_70b: ModelSpec) -> None:
    speed = speed_of(replicas({}, {"gpu": "V100-SXM-32GB"}), llama_70b)
    assert speed.kind.tolist() == ["fitted", "borrowed"]
    assert speed.calibrated.tolist() == [True, False]


def test_every_gpu_of_the_catalog_has_coefficients() -> None:
    fitted = load_efficiencies()
    assert {calibration_group(gpu) for gpu in load_gpus().values()} <= set(fitted.kinds)
    settings = [Setting(name, engine, "", "", "bf16") for name in load_gpus() for engine in ("vllm", "new engine")]
    table = fitted.table(settings)
    shares = [value for name in shares_of_a_peak() for value in table[name]]
    assert 0.1 < min(shares) <= max(shares) <= LARGEST_SHARE
    assert min(values.min() for values in table.values()) > 0


def test_an_empty_table_is_no_error(replicas: ReplicaTable, llama_70b: ModelSpec) -> None:
    speed = speed_of(replicas().iloc[:0], llama_70b)
    assert speed.decode_step_seconds(1, 1).shape == (0,)
    assert speed.prefill_seconds(100).shape == (0,)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=15, deadline=None)
@given(
    batch=st.floats(1, 4096),
    more_batch=st.floats(0, 512),
    context=st.floats(1, 1e6),
    more_context=st.floats(0, 1e5),
)
def test_steps_grow_with_batch_and_context(
    name: str, batch: float, more_batch: float, context: float, more_context: float, every_gpu: pd.DataFrame
) -> None:
    """More requests or more context never make a step or a prefill faster, and never a token cheaper than nothing."""
    speed = speed_of(every_gpu, load_model(name))
    step = speed.decode_step_seconds(batch, context)
    assert (step > 0).all()
    assert np.isfinite(step).all()
    assert (speed.decode_step_seconds(batch + more_batch, context) >= step * (1 - 1e-12)).all()
    assert (speed.decode_step_seconds(batch, context + more_context) >= step * (1 - 1e-12)).all()
    bigger = batch + more_batch
    assert (speed.decode_step_seconds(bigger, context) / bigger <= step / batch * (1 + 1e-9)).all()
    for prefill in (speed.prefill_seconds, speed.prefill_occupancy_seconds):
        assert (prefill(context) > 0).all()
        assert (prefill(context + more_context) >= prefill(context) * (1 - 1e-12)).all()


def test_measured_runs_are_predicted_within_a_quarter(replicas: ReplicaTable) -> None:
    """Restated InferenceX runs (source and date in the file): each TPOT within 25%, their mean error within 12%."""
    with SAMPLES.open(encoding="utf-8") as stream:
        samples = list(csv.DictReader(stream))
    errors = {}
    for i, sample in enumerate(samples):
        split = {name: sample[name] for name in ("gpu", "weights", "kv_cache")} | {"tp": int(sample["tp"])}
        speed = speed_of(replicas(split), load_model(sample["model"]))
        lengths = float(sample["mean_input_tokens"]), float(sample["mean_output_tokens"])
        predicted = predict_closed_loop(speed, float(sample["concurrency"]), *lengths)
        errors[i] = abs(predicted.tpot_s[0] / float(sample["tpot_s"]) - 1)
    assert max(errors.values()) < 0.25, errors
    assert np.mean(list(errors.values())) < 0.12


def test_tokens_that_are_alike_read_the_experts_of_one(replicas: ReplicaTable) -> None:
    """A static benchmark repeats one prompt: however large the batch, all its tokens hit the experts of one token."""
    mixtral = load_model("mistralai/Mixtral-8x7B-v0.1")
    table = replicas({"alike_prompts": True}, {"alike_prompts": False})
    speed = speed_of(table, mixtral)
    one, many = (speed.decode_terms(batch, 1000)["weights"] for batch in (1, 64))
    assert many[0] == pytest.approx(one[0])
    assert many[1] > 2 * one[1]


def test_an_engine_of_the_table_counts_per_row(replicas: ReplicaTable, llama_70b: ModelSpec) -> None:
    """A row's engine picks its factors, and one never heard of has those that all share."""
    rows = [{"engine": name, "era": ""} for name in ("vllm", "sglang", "never-heard-of")]
    together = speed_of(replicas(*rows), llama_70b).decode_step_seconds(8, 1000)
    fitted = load_efficiencies()
    apart = SpeedModel(llama_70b, replicas(), engine="never-heard-of", efficiencies=fitted)
    assert together[2] == pytest.approx(apart.decode_step_seconds(8, 1000)[0])
    assert len({round(value, 9) for value in together}) == 3
