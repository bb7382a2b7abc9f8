"""Sound questions, layouts and plans, made by hand, for tests that then break one thing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Any

import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec, parse_config
from catalogs.offers import OFFER_COLUMNS
from optimizer.memory import breakdown, footprint, memory_policy
from optimizer.performance.intervals import latencies_ms
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.operating_point import predict_open_loop
from optimizer.performance.speed import SpeedModel
from optimizer.plan import (
    HOURS_PER_MONTH,
    Alternative,
    Cost,
    Layout,
    MemoryUse,
    Performance,
    Plan,
    PriceBasis,
    Saturation,
    SolverRun,
    TargetCheck,
)
from optimizer.scenario import Scenario, build_scenario
from optimizer.split import Split

SEEN = date(2026, 8, 14)
TODAY = date(2026, 8, 24)  # ten days later


SIZES_OF_AN_8B = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
}


@cache
def llama_8b() -> ModelSpec:
    """Llama 3.1 8B, from its published config."""
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    }
    return parse_config(SIZES_OF_AN_8B | config, "llama-8b")


@cache
def mixtral() -> ModelSpec:
    """Mixtral 8x7B, from its published config."""
    config = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 32000,
        "max_position_embeddings": 32768,
    }
    return parse_config(SIZES_OF_AN_8B | config, "mixtral")


def changed_model(
    model: ModelSpec, *, attention: dict[str, Any] | None = None, mlp: dict[str, Any] | None = None, **facts: Any
) -> ModelSpec:
    """The model with some facts changed, in every layer."""
    first = model.layers[0]
    layer = first.model_copy(
        update={
            "attention": first.attention.model_copy(update=attention or {}),
            "mlp": first.mlp.model_copy(update=mlp or {}),
        }
    )
    # Built anew: a copy would keep the sums that the original has worked out.
    fields = {name: getattr(model, name) for name in ModelSpec.model_fields}
    return ModelSpec(**(fields | {"layers": (layer,) * len(model.layers)} | facts))


@dataclass(frozen=True)
class Case:
    """A question with an answer to it; sound as it stands. Fields to change are given by section, or for the layout."""

    model: ModelSpec = field(default_factory=llama_8b)
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    layout: dict[str, Any] = field(default_factory=dict)

    @property
    def scenario(self) -> Scenario:
        """2 requests/s of 2,000 tokens in and 300 out."""
        workload = {"input_tokens": 2000, "output_tokens": 300, "request_rate": 2.0}
        fields = {"model": "by/hand", "workload": workload} | {name: {} for name in self.sections if name != "workload"}
        return build_scenario(
            fields | {name: {**fields.get(name, {}), **changed} for name, changed in self.sections.items()}  # type: ignore[dict-item]
        )

    @property
    def answer(self) -> Layout:
        """Four replicas over four GPUs each, on two nodes of eight H100s at $20: 16 GPUs, $40 an hour."""
        fields = {
            "provider": "spheron",
            "provider_kind": "gpu-cloud",
            "region": "us-east",
            "instance_type": "8x H100-SXM-80GB",
            "gpu": "H100-SXM-80GB",
            "gpus_per_node": 8,
            "nodes": 2,
            "term": "on-demand",
            "price_usd_per_node_hour": 20.0,
            "fabric": "nvswitch",
            "scale_up_gpus": 8,
            "network": "infiniband",
            "network_gbit_per_s": 3200.0,
            "max_nodes": None,
            "weights": "bf16",
            "kv_cache": "bf16",
            "tp": 4,
            "pp": 1,
            "ep": 1,
            "attention_dp": 1,
            "replicas": 4,
            "nodes_per_replica": 1,
            "gpus_used": 16,
            "concurrency_per_replica": 32,
            "price_seen_on": SEEN,
            "price_source": "by-hand",
        }
        return Layout(**(fields | self.layout))


def offers_for(*layouts: Layout, **changed: Any) -> pd.DataFrame:
    """A catalog that holds just the offers of these layouts, with some columns changed."""
    rows = [
        layout.model_dump() | {"source": layout.price_source, "seen_on": layout.price_seen_on} for layout in layouts
    ]
    frame = pd.DataFrame(rows)[list(OFFER_COLUMNS)].assign(**changed)
    return frame.astype({"network_gbit_per_s": float, "max_nodes": float, "seen_on": "datetime64[ns]"})


def memory_of(case: Case) -> MemoryUse:
    """The memory of one GPU, as the memory package breaks it down."""
    scenario, layout = case.scenario, case.answer
    asked, tokens = scenario.memory, scenario.workload.held_tokens
    split = Split(layout.weights, layout.kv_cache, layout.tp, layout.pp, layout.ep, layout.attention_dp)
    policy = memory_policy(asked)
    gpu = get_gpu(layout.gpu)
    held = footprint(case.model, split, max_batched_tokens=asked.max_batched_tokens)
    per_rank = -(-layout.concurrency_per_replica // layout.attention_dp)
    return breakdown(policy, gpu.memory_bytes, held, per_rank, tokens, attention_dp=layout.attention_dp)


def performance_of(case: Case) -> Performance:
    """The speed of the deployment, as the performance package predicts it for one row."""
    scenario, layout = case.scenario, case.answer
    work = scenario.workload
    row = pd.DataFrame([layout.model_dump()]).astype({"network_gbit_per_s": float})
    speed = SpeedModel(case.model, row)
    shape = (work.input_tokens, work.output_tokens)
    full = predict_closed_loop(speed, layout.concurrency_per_replica, *shape)
    now = full
    if work.kind == "request_rate":
        now = predict_open_loop(speed, work.demand / layout.replicas, layout.concurrency_per_replica, *shape)
        utilization, rate = float(now.utilization[0]), work.demand
    elif work.kind == "concurrency":
        each = -(-int(work.demand) // layout.replicas)
        now = predict_closed_loop(speed, each, *shape)
        utilization, rate = each / layout.concurrency_per_replica, work.demand / float(now.e2e_s[0])
    else:
        utilization = work.demand / (layout.replicas * float(full.output_tokens_per_second[0]))
        rate = work.demand / work.output_tokens
    step = speed.decode_breakdown(0, max(float(now.in_flight[0]), 1.0), work.input_tokens + work.output_tokens / 2)
    return Performance(
        **latencies_ms(speed, now, 0),
        output_tokens_per_second=rate * work.output_tokens,
        requests_per_second=rate,
        requests_in_flight=float(now.in_flight[0]),
        utilization=utilization,
        step_ms={cause: seconds * 1e3 for cause, seconds in step.items()},
        basis="fitted",
        error_band=None,
        saturation=Saturation(
            concurrency=layout.concurrency_per_replica,
            tpot_ms=float(full.tpot_s[0]) * 1e3,
            output_tokens_per_second=float(full.output_tokens_per_second[0]),
            requests_per_second=float(full.requests_per_second[0]),
        ),
    )


def cost_of(case: Case, performance: Performance) -> Cost:
    """What the deployment costs."""
    layout = case.answer
    hourly = layout.nodes * layout.price_usd_per_node_hour
    full = layout.replicas * performance.saturation.output_tokens_per_second
    return Cost(
        usd_per_hour=hourly,
        usd_per_month=hourly * HOURS_PER_MONTH,
        usd_per_million_output_tokens=hourly / (performance.output_tokens_per_second * 3600) * 1e6,
        usd_per_million_output_tokens_at_saturation=hourly / (full * 3600) * 1e6,
        bound_usd_per_hour=hourly,
        gap=0.0,
    )


def alternative_of(case: Case, answer_usd_per_hour: float) -> Alternative:
    """The case's answer as an alternative to another."""
    layout, performance = case.answer, performance_of(case)
    cost = cost_of(case, performance)
    return Alternative(
        gpu=layout.gpu,
        summary=f"{layout.nodes} nodes of {layout.gpus_per_node}x {layout.gpu}",
        usd_per_hour=cost.usd_per_hour,
        extra_usd_per_hour=cost.usd_per_hour - answer_usd_per_hour,
        usd_per_million_output_tokens=cost.usd_per_million_output_tokens,
        usd_per_million_output_tokens_at_saturation=cost.usd_per_million_output_tokens_at_saturation,
        ttft_ms=performance.ttft_ms,
        tpot_ms=performance.tpot_ms,
        utilization=performance.utilization,
        why="dearer",
        layout=layout,
    )


def plan_of(case: Case, **changed: Any) -> Plan:
    """The optimal answer to the case, with an alternative on H200 nodes at $31, $62 an hour; some fields changed."""
    performance = performance_of(case)
    cost = cost_of(case, performance)
    targets = case.scenario.targets
    other = Case(
        case.model,
        case.sections,
        case.layout | {"gpu": "H200-SXM-141GB", "instance_type": "8x H200-SXM-141GB", "price_usd_per_node_hour": 31.0},
    )
    fields = {
        "shardwise_version": "0",
        "status": "optimal",
        "summary": "by hand",
        "scenario": case.scenario.model_dump(mode="json"),
        "layout": case.answer,
        "cost": cost,
        "memory": memory_of(case),
        "performance": performance,
        "targets": tuple(
            TargetCheck(
                name=name,
                unit="ms",
                target=target,
                predicted=predicted,
                at_confidence=predicted,
                holds=predicted <= target,
                probability=0.9,
                close_call=False,
            )
            for name in ("ttft", "tpot", "e2e")
            if (target := getattr(targets, f"{name}_ms")) is not None
            for predicted in [getattr(performance, f"{name}_ms")]
        ),
        "alternatives": (alternative_of(other, cost.usd_per_hour),),
        "prices": PriceBasis(
            as_of=TODAY,
            seen_on=SEEN,
            age_days=10,
            stale=True,
            sources={"by-hand": "made for this test"},
            offers_considered=2,
            offers_set_aside={},
        ),
        "solver": SolverRun(name="none", status="optimal", seconds=0.0, candidates=2, choices=2),
    }
    return Plan(**(fields | changed))
