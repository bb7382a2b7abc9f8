"""Bytes per GPU: weights, KV cache, activations, engine overhead.

footprint     what a split puts on the fullest GPU of a replica, whatever that GPU is
policy        how much of a GPU may be used: the planner's rule of thumb, or what a serving engine would do
capacity      both together: a breakdown, and the most requests or the longest context that fit
eras          what an engine does by default, by version and class of GPU
warmup        what it needs outside its budget before it serves
cache_log     what its start-up log would say of the cache
fraction      the memory fraction to give an engine (not imported here: only launching needs it)
smallest      the fewest GPUs of each type that hold a model (not imported here: it needs optimizer.divisibility)
"""

from optimizer.memory.capacity import (
    breakdown,
    concurrent_requests,
    max_concurrency,
    max_context_tokens,
)
from optimizer.memory.footprint import Footprint, footprint, stage_footprints
from optimizer.memory.policy import MemoryPolicy, kv_budget_bytes, memory_policy, vllm_batch_defaults
from optimizer.memory.stages import stage_layer_counts

__all__ = [
    "Footprint",
    "MemoryPolicy",
    "breakdown",
    "concurrent_requests",
    "footprint",
    "kv_budget_bytes",
    "max_concurrency",
    "max_context_tokens",
    "memory_policy",
    "stage_footprints",
    "stage_layer_counts",
    "vllm_batch_defaults",
]
