"""Parts of answers made by hand, and a name that would break whatever does not escape it."""

from __future__ import annotations

from datetime import date
from typing import Any

from optimizer.plan import Layout, MemoryUse, Performance, Saturation, TargetCheck

HOSTILE = "\"'<script>alert(1)</script>&amp;\n$(rm -rf ~)\x00\ud800"


def layout(**facts: Any) -> Layout:
    fields: dict[str, Any] = {
        "provider": "acme", "provider_kind": "gpu-cloud", "region": "east", "instance_type": "big",
        "gpu": "H100-SXM-80GB",
        "gpus_per_node": 8, "nodes": 1, "term": "on-demand", "price_usd_per_node_hour": 16.0, "fabric": "nvswitch",
        "scale_up_gpus": 8, "network": "infiniband", "network_gbit_per_s": 3200.0, "max_nodes": None, "weights": "bf16",
        "kv_cache": "bf16", "tp": 8, "pp": 1, "ep": 1, "attention_dp": 1, "replicas": 1, "nodes_per_replica": 1,
        "gpus_used": 8, "concurrency_per_replica": 32, "price_seen_on": date(2026, 8, 14), "price_source": "by-hand",
    }  # fmt: skip
    fields |= facts
    if "gpus_used" not in facts:
        fields["gpus_used"] = fields["replicas"] * fields["tp"] * fields["pp"] * fields["attention_dp"]
    return Layout(**fields)


def memory(**facts: Any) -> MemoryUse:
    fields: dict[str, Any] = {
        "policy": "framework", "weights_gib": 30.0, "kv_cache_gib": 10.0, "activations_gib": 1.0, "overhead_gib": 5.0,
        "need_gib": 46.0, "available_gib": 63.4, "headroom_left_gib": 17.4, "gpu_memory_gib": 79.2,
        "kv_tokens": 100_000, "context_tokens": 2300,
    }  # fmt: skip
    return MemoryUse(**fields | facts)


def performance(**facts: Any) -> Performance:
    fields: dict[str, Any] = {
        "ttft_ms": 200.0, "ttft_ms_low": 150.0, "ttft_ms_high": 400.0, "tpot_ms": 30.0, "tpot_ms_low": 25.0,
        "tpot_ms_high": 36.0, "e2e_ms": 9000.0, "e2e_ms_low": 8000.0, "e2e_ms_high": 10_500.0,
        "output_tokens_per_second": 900.0, "requests_per_second": 3.0, "step_ms": {"weights": 20.0}, "basis": "fitted",
        "error_band": 0.05, "requests_in_flight": 20.0, "utilization": 0.5,
        "percentiles": {name: {"p95": value} for name, value in (("ttft", 400.0), ("tpot", 45.0), ("e2e", 12_000.0))},
        "saturation": Saturation(concurrency=32, tpot_ms=40.0, output_tokens_per_second=1.5e3, requests_per_second=5.0),
    }  # fmt: skip
    return Performance(**fields | facts)


def target(name: str = "tpot", **facts: Any) -> TargetCheck:
    fields: dict[str, Any] = {
        "name": name, "unit": "ms", "target": 50.0, "predicted": 30.0, "at_confidence": 30.0, "holds": True,
        "probability": 0.999, "close_call": False,
    }  # fmt: skip
    return TargetCheck(**fields | facts)
