"""The replica that a layout of a plan, or a pool of a fleet, asks an engine to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil
from typing import Final

from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec, load_model
from optimizer.engines import engine_version
from optimizer.export.deployment import ReplicaSpec
from optimizer.export.options import LABEL_LENGTH, ExportOptions
from optimizer.memory.fraction import memory_fraction
from optimizer.memory.policy import MemoryPolicy, memory_policy
from optimizer.scenario import Memory
from optimizer.split import Split

# Families whose checkpoints engines do not read without code of the checkpoint's own (their model cards, 2026-11).
_OWN_CODE: Final = ("moonshotai/", "nvidia/llama-3_3-nemotron", "xiaomimimo/")


@dataclass(frozen=True, slots=True)
class Held:
    """How one replica lies on hardware, and what it holds.

    Attributes:
        split: how the model is divided.
        gpu: type of its GPUs.
        nodes: that it spans.
        concurrency: requests at once.
        context_tokens: tokens that memory is counted for, per request.
        longest_tokens: the longest request it has to take.
        kv_tokens: that its KV cache holds.
    """

    split: Split
    gpu: str
    nodes: int
    concurrency: int
    context_tokens: int
    longest_tokens: int
    kv_tokens: int


def replica_spec(name: str, held: Held, memory: Memory, options: ExportOptions) -> ReplicaSpec:
    """Return what an engine has to be told of a replica.

    Args:
        name: the model as the plan names it.
        held: how it lies.
        memory: how the plan counted memory, with its engine.
        options: what the user says.

    Raises:
        CatalogError: the model is not there.
    """
    model, split = load_model(name), held.split
    engine, version = engine_of(memory, options)
    policy = _policy(memory, engine, version)
    gpu_bytes = float(get_gpu(held.gpu).memory_bytes)
    fraction = memory_fraction(
        model,
        split,
        policy,
        gpu_bytes,
        context_tokens=held.context_tokens,
        concurrency=held.concurrency,
        max_batched_tokens=memory.max_batched_tokens,
    )
    return ReplicaSpec(
        model=options.model or checkpoint_of(name),
        served_name=name,
        weights=split.weights,
        kv_cache=split.kv_cache,
        checkpoint_weights=str(split.weights if options.model else model.checkpoint.weights),
        checkpoint_kv_cache=str(model.checkpoint.own_kv_cache),
        tp=split.tp,
        pp=split.pp,
        ep=split.ep,
        attention_dp=split.attention_dp,
        nodes=held.nodes,
        max_model_len_tokens=_longest(model, held),
        max_sequences=held.concurrency,
        max_batched_tokens=memory.max_batched_tokens,
        gpu_memory_fraction=fraction,
        engine=engine,
        engine_version=version,
        trust_remote_code=options.trust_remote_code or name.lower().startswith(_OWN_CODE),
    )


def engine_of(memory: Memory, options: ExportOptions) -> tuple[str, str]:
    """Return the engine and its release: the user's word, else the plan's; an empty release is the newest."""
    name, _ = engine_version(memory.engine)
    engine = options.engine or name
    asked = memory.engine.partition("@")[2] if engine == name else ""
    return engine, options.engine_version or asked


def checkpoint_of(name: str) -> str:
    """Return what an engine loads: the Hub name, or the folder of a config.json."""
    return (name.removesuffix("config.json").rstrip("/") or ".") if name.endswith("config.json") else name


def label_of(name: str) -> str:
    """Return a DNS label for a model's name or path."""
    last = checkpoint_of(name).rstrip("/").split("/")[-1].lower()
    label = re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:LABEL_LENGTH].strip("-")
    return label if label[:1].isalpha() else f"model-{label}".strip("-")[:LABEL_LENGTH].strip("-")


def _policy(memory: Memory, engine: str, version: str) -> MemoryPolicy:
    """Return the policy for the engine that will run it: another engine's fraction means something else."""
    name = f"{engine}@{version}" if version else engine
    policy = memory_policy(memory)
    if memory.policy == "engine" and engine_version(memory.engine)[0] != engine:
        return MemoryPolicy("framework", overhead=memory.overhead, headroom=memory.headroom, engine=name)
    return MemoryPolicy(policy.name, policy.overhead, policy.headroom, policy.gpu_memory_utilization, name)


def _longest(model: ModelSpec, held: Held) -> int:
    """Return the longest request to take: at most the model's own, and what the cache of one attention rank holds."""
    rank_tokens = held.kv_tokens // held.split.attention_dp
    return min(held.longest_tokens, model.max_context_tokens, max(rank_tokens, held.context_tokens))


def longest_request(input_tokens: float, output_tokens: float, input_cv: float, output_cv: float) -> int:
    """Return a length that next to no request exceeds: the means, or four standard deviations more where they vary."""
    return ceil(input_tokens * (1 + 4 * input_cv) + output_tokens * (1 + 4 * output_cv))
