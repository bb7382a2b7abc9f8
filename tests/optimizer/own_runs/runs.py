"""Runs of made-up machines: what would be measured where coefficients differ from the bundled ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from optimizer.performance.efficiency import Efficiencies, bundled_efficiencies, with_own
from optimizer.validate.speed_predict import QUANTITIES, predict_table
from optimizer.validate.speed_rows import read_runs, runs_to_predict

GPU, MODEL, ARCHITECTURE = "H100-SXM-80GB", "meta-llama/Llama-3.1-70B-Instruct", "80x8192-kv8-71B"
OWN = f"own {GPU} vllm {ARCHITECTURE}"
HEAD = (
    "engine,engine_version,model,gpu,n_gpus,tp,weight_precision,kv_precision,isl,osl,len_dist,concurrency,scenario,"
    "ttft_ms,tpot_ms,output_tok_s_total"
)
SERVER = ("--gpu", GPU, "--tp", "4", "--weights", "fp8", "--engine", "vllm@0.19.0")
Load = tuple[int, int, int]  # requests in flight, input and output tokens


def slower(times: float) -> Efficiencies:
    """A machine of that GPU whose memory is so many times as slow, and its launches too."""
    row = dict.fromkeys(("weight_bandwidth", "kv_bandwidth", "compute_8bit", "compute_attention"), 1.0 / times)
    costs = dict.fromkeys(("layer_seconds", "step_seconds", "communication", "prefill_seconds"), times)
    return with_own(bundled_efficiencies(), {f"gpu {GPU}": row | costs}, {})


def measured_on(machine: Efficiencies, loads: Sequence[Load], path: Path, model: str = MODEL, gpu: str = GPU) -> Path:
    """Write a file of runs as this machine would be measured."""
    rows = [
        f"vllm,0.19.0,{model},{gpu},4,4,fp8,bf16,{inputs},{outputs},fixed,{requests},fixed_concurrency,,,"
        for requests, inputs, outputs in loads
    ]
    path.write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")
    found = predict_table(runs_to_predict(read_runs(path)), efficiencies=machine)
    figures = [",".join(repr(float(row[f"predicted_{name}"])) for name in QUANTITIES) for _, row in found.iterrows()]
    filled = [row.removesuffix(",,") + figure for row, figure in zip(rows, figures, strict=True)]
    path.write_text("\n".join([HEAD, *filled]) + "\n", encoding="utf-8")
    return path


def off_by(path: Path, efficiencies: Efficiencies, quantity: str = "tpot_ms") -> pd.Series:
    """How far off predictions of a file's runs are, as a share of what was measured."""
    table = read_runs(path)
    found = predict_table(runs_to_predict(table), efficiencies=efficiencies)
    return (found[f"predicted_{quantity}"] / table[quantity] - 1.0).abs()


def vllm_result(tpot_ms: float, ttft_ms: float, **changes: object) -> Mapping[str, object]:
    """A result of `vllm bench serve`: 160 requests of 1,000 + 500 tokens, 16 at once."""
    stay = (ttft_ms + 499 * tpot_ms) / 1e3
    result: dict[str, object] = {
        "backend": "vllm", "model_id": MODEL, "num_prompts": 160, "completed": 160, "request_rate": "inf",
        "max_concurrency": 16, "total_input_tokens": 160_000, "total_output_tokens": 80_000,
        "request_throughput": 16 / stay, "output_throughput": 16 * 500 / stay, "mean_ttft_ms": ttft_ms,
        "mean_tpot_ms": tpot_ms,
    }  # fmt: skip
    return result | changes
