"""The memory fraction to give an engine, so that it holds the requests that were counted."""

from __future__ import annotations

from math import ceil
from typing import Final

from catalogs.model_spec import ModelSpec
from optimizer.memory.footprint import DEFAULT_BATCHED_TOKENS, footprint
from optimizer.memory.policy import MemoryPolicy, demand, engine_memory
from optimizer.split import Split

HIGHEST_FRACTION: Final = 0.98
_LOWEST: Final = 0.30
_USUAL: Final = 0.90  # about what engines take by themselves


def memory_fraction(
    model: ModelSpec,
    split: Split,
    policy: MemoryPolicy,
    gpu_memory_bytes: float,
    *,
    context_tokens: int,
    concurrency: int,
    max_batched_tokens: int = DEFAULT_BATCHED_TOKENS,
) -> float:
    """Return the fraction that `policy.engine` is to be told, in hundredths.

    Under "engine" it is the policy's own. Under "framework" it is what the policy's headroom leaves, so that memory
    that is paid for holds cache, or the smallest with which the engine holds the requests where that is more.

    Args:
        model: the model.
        split: how a replica is divided.
        policy: how memory is counted, and the engine.
        gpu_memory_bytes: memory of one GPU.
        context_tokens: tokens kept for each request.
        concurrency: requests at once on the whole replica.
        max_batched_tokens: tokens one step may process.
    """
    if policy.name == "engine":
        return policy.gpu_memory_utilization
    each = max(1, ceil(concurrency / split.attention_dp))
    held = footprint(model, split, max_batched_tokens=max_batched_tokens, max_sequences=each)
    kv = each * held.kv_bytes_per_sequence(float(context_tokens))
    smallest = HIGHEST_FRACTION
    for hundredths in range(round(100 * _LOWEST), round(100 * HIGHEST_FRACTION)):
        tried = MemoryPolicy("engine", gpu_memory_utilization=hundredths / 100, engine=policy.engine)
        asked = demand(tried, gpu_memory_bytes, held.weights_bytes, kv, held.activation_bytes, ranks=held.ranks)
        if asked.need <= asked.available:
            smallest = hundredths / 100
            break
    kept = 1 - policy.headroom
    if engine_memory(policy.engine).fraction == "of_free":
        beside = float(
            demand(
                MemoryPolicy("engine", gpu_memory_utilization=1.0, engine=policy.engine),
                gpu_memory_bytes,
                held.weights_bytes,
                0.0,
                held.activation_bytes,
                ranks=held.ranks,
            ).need
        )
        kept = (gpu_memory_bytes * kept - beside) / max(gpu_memory_bytes - beside, 1.0)
    return max(smallest, min(int(100 * kept + 1e-9) / 100, _USUAL))
