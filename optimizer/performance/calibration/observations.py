"""Measured serving runs as rows that the speed model can predict, with the reason for each row left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from catalogs.gpus import get_gpu, load_gpus
from optimizer.performance.efficiency import calibration_group, engine_era

# Names that data sets use, in our catalogs' words.
GPUS = {
    "A100-80GB": "A100-SXM-80GB",
    "H100-80GB": "H100-SXM-80GB",
    "GH200": "GH200-96GB",
    "GB200-NVL72-192GB": "GB200-NVL72",
    "RTX-PRO-6000-BSE-96GB": "RTXPRO6000-96GB",
}
MODELS = {
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "nvidia/Llama-3.3-70B-Instruct-FP8": "meta-llama/Llama-3.3-70B-Instruct",
    "nvidia/Llama-3.3-70B-Instruct-FP4": "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/Meta-Llama-3-70B-Instruct": "meta-llama/Meta-Llama-3-70B",
    "meta-llama/Meta-Llama-3-8B-Instruct": "meta-llama/Meta-Llama-3-8B",
    "mistralai/Mistral-7B-v0.1": "mistralai/Mistral-7B-Instruct-v0.3",
    "deepseek-ai/DeepSeek-R1-0528": "deepseek-ai/DeepSeek-R1",
    "nvidia/DeepSeek-R1-0528-FP4-V2": "nvidia/DeepSeek-V3.1-NVFP4",
    "nvidia/DeepSeek-R1-0528-NVFP4-v2": "nvidia/DeepSeek-V3.1-NVFP4",
    "nvidia/Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B-FP8",
    "nvidia/Qwen3-235B-A22B-FP4": "nvidia/Qwen3-235B-A22B-NVFP4",
    "nvidia/Qwen3-30B-A3B-FP4": "Qwen/Qwen3-30B-A3B",
    "nvidia/Llama-4-Maverick-17B-128E-Instruct-FP8": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
    "nvidia/Llama-4-Maverick-17B-128E-Instruct-NVFP4": "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
}
QUANTIZED_CHECKPOINTS = {
    ("MiniMaxAI/MiniMax-M2.5", "nvfp4"): "nvidia/MiniMax-M2.5-NVFP4",
    ("Qwen/Qwen3.5-397B-A17B", "nvfp4"): "nvidia/Qwen3.5-397B-A17B-NVFP4",
}
QUANTIZED = frozenset({"fp8", "nvfp4", "mxfp4"})
# GH200 runs on several GPUs are of boards that NVLink joins, which the catalog's plain GH200 is not.
JOINED = frozenset({"GH200-96GB"})
GPUS_PER_NODE = {"GB200-NVL72": 4, "GH200-96GB": 1}
ENGINES = {"nim_llama3_concurrency": "nim", "trtllm_0.9_static_batch": "tensorrt-llm-0.9"}
CLOSED_LOOP = "fixed_concurrency"
FULL_LOAD = "offline_max_throughput"
STATIC = "static_batch"
OPEN_LOOP = "server_fixed_qps"
# Requests per second at which a server is about idle, and how many are then in flight: enough to fit TTFT.
LIGHT_LOAD, IN_FLIGHT_AT_LIGHT_LOAD = 4.0, 2.0
OLD_ENGINES = ("nim", "tensorrt-llm-0.9")
SCENARIOS = (CLOSED_LOOP, STATIC, FULL_LOAD)


@dataclass(frozen=True)
class Observations:
    """Rows to predict, in the columns of `SpeedModel` and some more, and how many were left out for which reason."""

    rows: pd.DataFrame
    left_out: dict[str, int]


def read_observations(table: pd.DataFrame) -> Observations:
    """Turn a table of measured runs into rows to predict, at light load with two requests in flight.

    Args:
        table: one run a row: set, engine, model, gpu, n_gpus, tp, pp, ep, attn_dp, weight_precision, kv_precision, isl,
            osl, len_dist, concurrency, batch, scenario, tpot_ms, ttft_ms, output_tok_s_total. `batch` stays NaN at full
            load, where the engine picks it.
    """
    reason = _reasons(table)
    rows = benchmark_rows(table[reason == ""])
    rows["batch"] = rows["batch"].where(rows["scenario"] != OPEN_LOOP, IN_FLIGHT_AT_LIGHT_LOAD)
    left_out = reason[reason != ""].value_counts()
    return Observations(rows.reset_index(drop=True), {str(text): int(count) for text, count in left_out.items()})


def benchmark_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Turn measured runs, each with a model and lengths, into replicas to predict; the index is kept.

    Columns of `SpeedModel`, and: model, batch (requests per replica; NaN where the engine picks it), replicas,
    input_tokens, output_tokens (means), scenario, lengths ("same" or "near"), and what was measured of one replica.
    """
    rows = pd.DataFrame(index=table.index)
    rows["source_set"] = table["set"]
    rows["engine"] = [_engine(*row) for row in zip(table["set"], table["engine"], table["engine_version"], strict=True)]
    rows["era"] = [engine_era(*row) for row in zip(rows["engine"], table["engine_version"], strict=True)]
    rows["release"] = table["engine_version"].astype("string").fillna("").str.removeprefix("v").astype(str)
    rows["gpu"] = [canonical_gpu(str(name)) for name in table["gpu"]]
    rows["weights"] = [_weights(*row) for row in zip(table["weight_precision"], table["model"], strict=True)]
    rows["model"] = [model_name(name, weights) for name, weights in zip(table["model"], rows["weights"], strict=True)]
    rows["kv_cache"] = [
        _kv_cache(*row) for row in zip(table["kv_precision"], rows["weights"], rows["engine"], rows["gpu"], strict=True)
    ]
    rows["tp"], rows["pp"] = table["tp"], table["pp"].fillna(1).astype(int)
    rows["attention_dp"] = table["attn_dp"].fillna(1).astype(int)
    per_replica = rows["tp"] * rows["attention_dp"]
    rows["ep"] = np.where(table["ep"].fillna(1) > 1, per_replica, 1)
    rows["gpus_per_node"] = [GPUS_PER_NODE.get(gpu, 8) for gpu in rows["gpu"]]
    rows["gpus_per_node"] = np.maximum(rows["gpus_per_node"], per_replica * rows["pp"])
    rows["scale_up_gpus"] = [_scale_up(gpu) for gpu in rows["gpu"]]
    rows["fabric"], rows["network"], rows["network_gbit_per_s"] = "", "unknown", np.nan
    rows["replicas"] = replicas = table["n_gpus"] / (per_replica * rows["pp"])
    rows["batch"] = table["concurrency"].fillna(table["batch"]) / replicas
    share = np.where(table["len_dist"].fillna("").str.startswith("uniform"), 0.9, 1.0)
    rows["input_tokens"], rows["output_tokens"] = table["isl"] * share, table["osl"] * share
    rows["scenario"] = table["scenario"]
    # Static batches repeat one prompt, so that all tokens of a batch choose the same experts.
    rows["alike_prompts"] = table["scenario"] == STATIC
    rows["lengths"] = np.where(table["len_dist"].fillna("").str.startswith("uniform"), "near", "same")
    rows["lengths"] = rows["lengths"].where(rows["scenario"] != OPEN_LOOP, "mixed")
    rows["output_tokens_per_second"] = throughput = table["output_tok_s_total"] / replicas
    rows["tpot_s"], rows["ttft_s"] = table["tpot_ms"] / 1e3, table["ttft_ms"] / 1e3
    # A closed loop without a stated TPOT still says how long a request takes: c / (rate) = TTFT + (o - 1) TPOT.
    derived = (rows["batch"] * rows["output_tokens"] / throughput - rows["ttft_s"]) / (rows["output_tokens"] - 1)
    rows["tpot_s"] = rows["tpot_s"].fillna(derived.where(rows["scenario"] == CLOSED_LOOP))
    return rows


@lru_cache(maxsize=256)
def canonical_gpu(name: str) -> str:
    """Return the catalog's name of a GPU as benchmarks write it: exact, by our table, or but for dashes.

    Raises:
        UnknownNameError: no GPU is called so.
    """
    plain = {known.replace("-", ""): known for known in load_gpus()}
    return get_gpu(GPUS.get(name) or plain.get(name.replace("-", ""), name)).name


def _scale_up(gpu: str) -> int:
    """GPUs that one NVLink (or like) domain joins in benchmark machines."""
    kind = get_gpu(gpu).scale_up_kind
    if gpu in JOINED:
        return 72
    return 1 if kind == "pcie" else 2 if kind == "nvlink_bridge" else 72


def _engine(source_set: str, engine: object, version: object) -> str:
    """The name that factors are kept under: TensorRT-LLM 0.9 and NIM's closed loops are engines of their own."""
    if source_set in ENGINES:
        return ENGINES[source_set]
    if str(engine).startswith("nim"):
        return "nim"
    old = str(engine) == "tensorrt-llm" and str(version).startswith("0.9")
    return "tensorrt-llm-0.9" if old else str(engine)


def _reasons(table: pd.DataFrame) -> pd.Series:
    """Why each row is left out; empty where it is kept."""
    reason = pd.Series("", index=table.index)
    light = (table["scenario"] == OPEN_LOOP) & (table["request_rate"] <= LIGHT_LOAD)
    checks = {
        "neither closed loop, static batch, full load nor light load": ~table["scenario"].isin(SCENARIOS) & ~light,
        "no model named": table["model"].isna(),
        "no TPOT and no TTFT": table["tpot_ms"].isna() & table["ttft_ms"].isna() & (table["scenario"] != FULL_LOAD),
        "no throughput": table["output_tok_s_total"].isna() & (table["scenario"] == FULL_LOAD),
        "a single output token": table["osl"] < 2,
    }
    for text, broken in checks.items():
        reason = reason.where((reason != "") | ~broken, text)
    return reason


def _weights(precision: object, model: str) -> str:
    name = str(precision) if isinstance(precision, str) else "bf16"
    return {"fp4": "mxfp4" if "gpt-oss" in model else "nvfp4"}.get(name, name)


def model_name(name: str, weights: str) -> str:
    """Return the catalog's name of a model as benchmarks write it, with a quantized checkpoint where there is one."""
    return QUANTIZED_CHECKPOINTS.get((name, weights), MODELS.get(name, name))


def _kv_cache(precision: object, weights: str, engine: str, gpu: str) -> str:
    """The KV cache's format where a run does not say it, by how many requests such runs hold at once.

    NIM and TensorRT-LLM follow the quantized checkpoint, which asks for 8 bits; on Blackwell benchmarks of other
    engines ask for it too. NVIDIA's static batches of 2024 kept 16 bits.
    """
    if isinstance(precision, str):
        return precision
    asks = engine in {"nim", "tensorrt-llm"} or calibration_group(get_gpu(gpu)) == "blackwell"
    return "fp8" if weights in QUANTIZED and asks else "bf16"
