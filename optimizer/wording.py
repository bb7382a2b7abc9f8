"""How layouts and traffic are said in one line; the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def milliseconds(amount: float) -> str:
    """Say a time of so many ms with three significant digits, or in s from 10 s on."""
    if amount >= 10_000:
        return f"{amount / 1000:,.1f} s"
    return f"{amount:,.0f} ms" if amount >= 100 else f"{amount:.3g} ms"


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


def place_words(offer: Mapping[Any, Any]) -> str:
    """Say where an offer is rented; of an instance type, only what does not repeat the GPUs."""
    place = [str(offer["provider"])]
    place += [str(offer["region"])] if offer["region"] != "global" else []
    place += [str(offer["instance_type"]).removeprefix(f"{offer['gpus_per_node']}x {offer['gpu']}").strip(" ()")]
    return f"{' '.join(part for part in place if part)}, {offer['term']}"


def summarize(layout: Layout) -> str:
    """Say a layout in one line that a person can repeat to a colleague."""
    split = split_words(layout.weights, layout.kv_cache, layout.tp, layout.pp, layout.ep, layout.attention_dp)
    copies = "1 replica" if layout.replicas == 1 else f"{layout.replicas:,} replicas"
    what = node_words(layout.nodes, layout.gpus_per_node, layout.gpu)
    return f"{what} ({place_words(layout.model_dump())}): {copies} in {split}"


def summarize_row(row: pd.Series, offer: pd.Series) -> str:
    """Say a row of the table of choices in the same words."""
    split = split_words(row["weights"], row["kv_cache"], row["tp"], row["pp"], row["ep"], row["attention_dp"])
    nodes = max(int(row["nodes_per_replica"]), 1) if row["capacity"] <= 0 else int(row["nodes"])
    what = node_words(nodes, int(row["gpus_per_node"]), str(row["gpu"]))
    return f"{what} ({place_words(offer.to_dict())}): {split}"
