"""How layouts and traffic are said in one line; the same words everywhere."""

from __future__ import annotations

import pandas as pd

from optimizer.plan import Layout
from optimizer.scenario import Scenario

_UNITS = {
    "request_rate": "requests/s",
    "concurrency": "requests in flight",
    "output_tokens_per_second": "output tokens/s",
}


def rate(scenario: Scenario) -> str:
    """Say how much traffic there is."""
    return f"{scenario.workload.demand:g} {_UNITS[scenario.workload.kind]}"


def rate_words(scenario: Scenario, amount: float) -> str:
    """Say an amount of traffic of the scenario's kind."""
    return f"{amount:.3g} {_UNITS[scenario.workload.kind]}"


def gpus_words(count: int) -> str:
    """Say a number of GPUs."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def split_words(weights: str, kv_cache: str, tp: int, pp: int, ep: int, attention_dp: int) -> str:
    """Say a split: precision and sizes, leaving out sizes of one."""
    sizes = [f"TP{tp}"]
    sizes += [f"PP{pp}"] if pp > 1 else []
    sizes += [f"EP{ep}"] if ep > 1 else []
    sizes += [f"attention-DP{attention_dp}"] if attention_dp > 1 else []
    cache = f", {kv_cache} KV cache" if kv_cache not in (weights, "bf16", "fp16") else ""
    return f"{weights} {' '.join(sizes)}{cache}"


def node_words(nodes: int, gpus_per_node: int, gpu: str) -> str:
    """Say what is rented: "2x H200-SXM-141GB", or "3 nodes of 8x A100-SXM-80GB"."""
    return f"{gpus_per_node}x {gpu}" if nodes == 1 else f"{nodes:,} nodes of {gpus_per_node}x {gpu}"


def place_words(provider: str, region: str, instance_type: str, term: str, gpu: str) -> str:
    """Say where it is rented; an instance type that only repeats the GPUs is left out."""
    place = f"{provider}" if region == "global" else f"{provider} {region}"
    named = "" if gpu in instance_type else f" {instance_type}"
    return f"{place}{named}, {term}"


def summarize(layout: Layout) -> str:
    """Say a layout in one line that a person can repeat to a colleague."""
    split = split_words(layout.weights, layout.kv_cache, layout.tp, layout.pp, layout.ep, layout.attention_dp)
    copies = "1 replica" if layout.replicas == 1 else f"{layout.replicas:,} replicas"
    what = node_words(layout.nodes, layout.gpus_per_node, layout.gpu)
    where = place_words(layout.provider, layout.region, layout.instance_type, layout.term, layout.gpu)
    return f"{what} ({where}): {copies} in {split}"


def summarize_row(row: pd.Series, offer: pd.Series) -> str:
    """Say a row of the table of choices in the same words."""
    split = split_words(row["weights"], row["kv_cache"], row["tp"], row["pp"], row["ep"], row["attention_dp"])
    nodes = max(int(row["nodes_per_replica"]), 1) if row["capacity"] <= 0 else int(row["nodes"])
    what = node_words(nodes, int(row["gpus_per_node"]), str(row["gpu"]))
    where = place_words(offer["provider"], offer["region"], offer["instance_type"], offer["term"], offer["gpu"])
    return f"{what} ({where}): {split}"
