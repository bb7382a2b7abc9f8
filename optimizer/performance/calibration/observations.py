"""Measured serving runs as rows that the speed model can predict, with the reason for each row left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

# Names that data sets use, in our catalogs' words.
GPUS = {
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
}
QUANTIZED_CHECKPOINTS = {
    ("MiniMaxAI/MiniMax-M2.5", "nvfp4"): "nvidia/MiniMax-M2.5-NVFP4",
    ("Qwen/Qwen3.5-397B-A17B", "nvfp4"): "nvidia/Qwen3.5-397B-A17B-NVFP4",
}
GPUS_PER_NODE = {"GB200-NVL72": 4, "GH200-96GB": 1}
OVER_PCIE = frozenset({"L40S-48GB", "RTXPRO6000-96GB"})
BRIDGED = frozenset({"H100-NVL-94GB"})
ENGINES = {"nim_llama3_concurrency": "nim", "trtllm_0.9_static_batch": "tensorrt-llm-0.9"}
SKIPPED_MODELS = frozenset({"EleutherAI/gpt-j-6b"})
FULL_LOAD = "offline_max_throughput"
SCENARIOS = ("fixed_concurrency", "static_batch", FULL_LOAD)


@dataclass(frozen=True)
class Observations:
    """Rows to predict, in the columns of `SpeedModel` and some more, and how many were left out for which reason."""

    rows: pd.DataFrame
    left_out: dict[str, int]


def read_observations(table: pd.DataFrame) -> Observations:
    """Turn a table of measured runs into rows to predict.

    Args:
        table: one run a row: set, engine, model, gpu, n_gpus, tp, pp, ep, attn_dp, weight_precision, kv_precision, isl,
            osl, len_dist, concurrency, batch, scenario, tpot_ms, ttft_ms, output_tok_s_total. `batch` stays NaN at full
            load, where the engine picks it.
    """
    reason = _reasons(table)
    kept = table[reason == ""].copy()
    rows = pd.DataFrame(index=kept.index)
    rows["source_set"] = kept["set"]
    rows["engine"] = [ENGINES.get(s, e) for s, e in zip(kept["set"], kept["engine"], strict=True)]
    rows["gpu"] = kept["gpu"].replace(GPUS)
    rows["weights"] = [_weights(*row) for row in zip(kept["weight_precision"], kept["model"], strict=True)]
    rows["model"] = [_model(name, weights) for name, weights in zip(kept["model"], rows["weights"], strict=True)]
    rows["kv_cache"] = [
        _kv_cache(*row) for row in zip(kept["kv_precision"], rows["weights"], rows["engine"], strict=True)
    ]
    rows["tp"], rows["pp"] = kept["tp"], kept["pp"]
    rows["attention_dp"] = kept["attn_dp"].fillna(1).astype(int)
    per_replica = rows["tp"] * rows["attention_dp"]
    rows["ep"] = np.where(kept["ep"].fillna(1) > 1, per_replica, 1)
    rows["gpus_per_node"] = [GPUS_PER_NODE.get(gpu, 8) for gpu in rows["gpu"]]
    rows["gpus_per_node"] = np.maximum(rows["gpus_per_node"], per_replica * rows["pp"])
    rows["scale_up_gpus"] = np.where(rows["gpu"].isin(OVER_PCIE), 1, np.where(rows["gpu"].isin(BRIDGED), 2, 72))
    rows["fabric"], rows["network"], rows["network_gbit_per_s"] = "", "unknown", np.nan
    replicas = kept["n_gpus"] / (per_replica * rows["pp"])
    rows["batch"] = kept["concurrency"].fillna(kept["batch"]) / replicas
    share = np.where(kept["len_dist"].fillna("").str.startswith("uniform"), 0.9, 1.0)
    rows["input_tokens"], rows["output_tokens"] = kept["isl"] * share, kept["osl"] * share
    rows["scenario"] = kept["scenario"]
    rows["output_tokens_per_second"] = throughput = kept["output_tok_s_total"] / replicas
    rows["tpot_s"], rows["ttft_s"] = kept["tpot_ms"] / 1e3, kept["ttft_ms"] / 1e3
    # A closed loop without a stated TPOT still says how long a request takes: c / (rate) = TTFT + (o - 1) TPOT.
    derived = (rows["batch"] * rows["output_tokens"] / throughput - rows["ttft_s"]) / (rows["output_tokens"] - 1)
    rows["tpot_s"] = rows["tpot_s"].fillna(derived.where(rows["scenario"] == "fixed_concurrency"))
    cell = ["model", "weights", "gpu", "engine", "input_tokens", "output_tokens"]
    rows["cell"] = rows.groupby(cell, sort=True).ngroup()
    left_out = reason[reason != ""].value_counts()
    return Observations(rows.reset_index(drop=True), {str(text): int(count) for text, count in left_out.items()})


def _reasons(table: pd.DataFrame) -> pd.Series:
    """Why each row is left out; empty where it is kept."""
    reason = pd.Series("", index=table.index)
    checks = {
        "neither closed loop, static batch nor full load": ~table["scenario"].isin(SCENARIOS),
        "no model named": table["model"].isna(),
        "model without a config": table["model"].isin(SKIPPED_MODELS),
        "no TPOT and no TTFT": table["tpot_ms"].isna() & table["ttft_ms"].isna() & (table["scenario"] != FULL_LOAD),
        "no throughput": table["output_tok_s_total"].isna() & (table["scenario"] == FULL_LOAD),
        "a single output token": table["osl"] < 2,
        "requests wait for a slot longer than they decode": table["ttft_ms"] > table["osl"] * table["tpot_ms"],
        "NVFP4 rate of SM120 is not in the catalog": (table["gpu"] == "RTX-PRO-6000-BSE-96GB")
        & table["weight_precision"].eq("nvfp4"),
        "static batch of a MoE: synthetic prompts may route alike": (table["scenario"] == "static_batch")
        & table["model"].str.contains("Mixtral", na=False),
    }
    for text, broken in checks.items():
        reason = reason.where((reason != "") | ~broken, text)
    return reason


def _weights(precision: object, model: str) -> str:
    name = str(precision) if isinstance(precision, str) else "bf16"
    return {"fp4": "mxfp4" if "gpt-oss" in model else "nvfp4"}.get(name, name)


def _model(name: str, weights: str) -> str:
    return QUANTIZED_CHECKPOINTS.get((name, weights), MODELS.get(name, name))


def _kv_cache(precision: object, weights: str, engine: str) -> str:
    if isinstance(precision, str):
        return precision
    # TensorRT-LLM builds of FP8 checkpoints keep an FP8 cache unless told otherwise; other engines keep 16 bits.
    return "fp8" if weights in {"fp8", "nvfp4"} and engine == "nim" else "bf16"
