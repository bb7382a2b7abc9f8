"""Deployments made by hand: what exporters have to write down, one of each kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from optimizer.export.deployment import Deployment, EngineLaunch, Nodes, Placement, Process, ReplicaSpec

MODEL = "meta-llama/Llama-3.1-70B-Instruct"


def nodes(**changes: Any) -> Nodes:
    """8x H100 of AWS, on-demand."""
    base = Nodes(
        provider="aws",
        region="us-east-1",
        instance_type="p5.48xlarge",
        term="on-demand",
        gpu="H100-SXM-80GB",
        gpus_per_node=8,
        count=1,
        price_usd_per_node_hour=55.04,
        price_seen_on=date(2026, 8, 13),
        fabric="nvswitch",
        network="efa",
        network_gbit_per_s=3200.0,
    )
    return replace(base, **changes)


def replica(**changes: Any) -> ReplicaSpec:
    """A replica of Llama 70B over the eight GPUs of a node."""
    base = ReplicaSpec(
        model=MODEL,
        served_name=MODEL,
        weights="bf16",
        kv_cache="bf16",
        checkpoint_weights="bf16",
        tp=8,
        pp=1,
        ep=1,
        attention_dp=1,
        nodes=1,
        max_model_len_tokens=8192,
        max_sequences=64,
        max_batched_tokens=8192,
        gpu_memory_fraction=0.9,
        engine="vllm",
    )
    return replace(base, **changes)


def vllm_command(spec: ReplicaSpec, port: int = 8000) -> tuple[str, ...]:
    """`vllm serve` with flags of the usual kinds."""
    return (
        *("vllm", "serve", spec.model, "--served-model-name", spec.served_name),
        *("--host", "0.0.0.0", "--port", str(port)),
        *("--tensor-parallel-size", str(spec.tp), "--gpu-memory-utilization", str(spec.gpu_memory_fraction)),
        *("--max-model-len", str(spec.max_model_len_tokens), "--max-num-seqs", str(spec.max_sequences)),
        *("--kv-cache-dtype", "fp8_e4m3", "--enable-expert-parallel"),
    )


def across_nodes(spec: ReplicaSpec) -> tuple[Process, ...]:
    """A leader and its workers that join up."""
    joined = (*vllm_command(spec), "--nnodes", str(spec.nodes), "--master-addr", "$LEADER_ADDRESS", "--node-rank")
    return (
        Process("leader", (*joined, "0"), "/health"),
        Process("worker", (*joined, "$NODE_RANK", "--headless")),
    )


def launch(spec: ReplicaSpec, **changes: Any) -> EngineLaunch:
    """vLLM, with a secret that it needs."""
    alone = (Process("server", vllm_command(spec), "/health"),)
    base = EngineLaunch(
        engine="vllm",
        version="0.33.0",
        image="vllm/vllm-openai:v0.33.0",
        processes=alone if spec.nodes == 1 else across_nodes(spec),
        environment=(("VLLM_LOGGING_LEVEL", "INFO"),),
        secrets=("HF_TOKEN",),
        port=8000,
        ray=False,
        notes=("requests of more than 8,192 tokens are refused",),
    )
    return replace(base, **changes)


def placed_evenly(one: Deployment, replicas_per_node: int) -> tuple[Placement, ...]:
    """Nodes filled one after another: full nodes, and one that holds the rest."""
    full, rest = divmod(one.replicas, replicas_per_node)
    found = [_placement(one, one.name, full, replicas_per_node)] if full else []
    return (*found, _placement(one, f"{one.name}-rest" if full else one.name, 1, rest)) if rest else tuple(found)


def _placement(one: Deployment, group: str, units: int, seats: int) -> Placement:
    width = one.replica.gpus_on_each_node
    return Placement(
        group=group,
        units=units,
        gpu_indices=tuple(tuple(range(seat * width, (seat + 1) * width)) for seat in range(seats)),
        ports=tuple(one.launch.port + seat for seat in range(seats)),
    )


def deployment(
    name: str = "chat", spec: ReplicaSpec | None = None, *, replicas_per_node: int = 1, **changes: Any
) -> Deployment:
    """One replica on a node of its own; nodes are filled one after another where no placements are given."""
    spec = spec or replica()
    base = Deployment(
        name=name,
        replica=spec,
        launch=launch(spec),
        replicas=1,
        nodes=nodes(),
        fallbacks=(),
        context=("shardwise 0.1.0: p5.48xlarge (aws, on-demand): 1 replica in bf16 TP8", "$55.04/hour"),
        placements=(),
    )
    found = replace(base, **changes)
    return found if found.placements else replace(found, placements=placed_evenly(found, replicas_per_node))


def mixed_fleet() -> tuple[Deployment, ...]:
    """Two models that share two nodes; one of them has a node of its own as well."""
    small = replica(model="Qwen/Qwen3-32B", served_name="code", tp=4)
    shared = nodes(provider="voltagepark", region="global", instance_type="8x H100-SXM-80GB", count=3)
    return (
        deployment(
            "chat",
            replica(tp=4),
            replicas=4,
            nodes=shared,
            placements=(
                Placement("site-1-a", 2, ((0, 1, 2, 3),), (8000,)),
                Placement("site-1-b", 1, ((0, 1, 2, 3), (4, 5, 6, 7)), (8000, 8001)),
            ),
        ),
        deployment(
            "code",
            small,
            launch=launch(small, secrets=(), optional_secrets=("HF_TOKEN",)),
            replicas=2,
            nodes=shared,
            placements=(Placement("site-1-a", 2, ((4, 5, 6, 7),), (8001,)),),
        ),
    )


_TWO_NODES = replica(model="meta-llama/Llama-3.1-405B-Instruct", pp=2, nodes=2)
_FOUR_NODES = replica(model="deepseek-ai/DeepSeek-V3", tp=1, ep=32, attention_dp=32, nodes=4)

CASES: dict[str, tuple[Deployment, ...]] = {
    "one GPU": (
        deployment(
            "small",
            replica(model="meta-llama/Llama-3.1-8B-Instruct", tp=1),
            nodes=nodes(
                provider="gcp",
                region="us-central1",
                instance_type="g2-standard-8",
                gpu="L4-24GB",
                gpus_per_node=1,
                price_usd_per_node_hour=0.85,
                network="ethernet",
            ),
        ),
    ),
    "two replicas on two nodes": (
        deployment(
            replicas=2,
            nodes=nodes(count=2),
            fallbacks=(nodes(provider="lambda", region="global", instance_type="gpu_8x_h100_sxm5"),),
        ),
    ),
    "three replicas, two a node": (
        deployment(spec=replica(tp=4), replicas=3, replicas_per_node=2, nodes=nodes(count=2)),
    ),
    "a replica over two nodes": (deployment("large", _TWO_NODES, nodes=nodes(count=2)),),
    "two replicas over four nodes each": (
        deployment("experts", _FOUR_NODES, replicas=2, nodes=nodes(count=8, gpu="H200-SXM-141GB")),
    ),
    "attention data parallel": (
        deployment("dp", replica(model="deepseek-ai/DeepSeek-V3", tp=1, ep=8, attention_dp=8), nodes=nodes()),
    ),
    "spot on AWS": (deployment(nodes=nodes(term="spot", price_usd_per_node_hour=21.5)),),
    "spot on GCP": (
        deployment(nodes=nodes(provider="gcp", region="us-central1", instance_type="a3-highgpu-8g", term="spot")),
    ),
    "spot on Azure": (
        deployment(
            nodes=nodes(provider="azure", region="eastus", instance_type="Standard_ND96isr_H100_v5", term="spot")
        ),
    ),
    "a provider that nobody knows": (
        deployment(
            nodes=nodes(provider="spheron", region="global", instance_type="8x H100-SXM-80GB", network="none"),
            fallbacks=(nodes(provider="hyperstack", region="global", instance_type="8x H100-SXM-80GB"), nodes()),
        ),
    ),
    "AMD": (
        deployment(
            nodes=nodes(provider="runpod", region="global", instance_type="8x MI300X-192GB", gpu="MI300X-192GB")
        ),
    ),
    "Gaudi": (
        deployment(nodes=nodes(provider="own", region="global", instance_type="8x GAUDI3-128GB", gpu="GAUDI3-128GB")),
    ),
    "own nodes": (
        deployment(nodes=nodes(provider="ours", region="cellar", instance_type="rack 1", term="owned", count=1)),
    ),
    "a reservation": (deployment(nodes=nodes(term="reserved-1y", price_usd_per_node_hour=31.0)),),
    "a model in a folder": (deployment(spec=replica(model="/srv/models/ours", served_name="ours")),),
    "a fleet whose models share nodes": mixed_fleet(),
}
