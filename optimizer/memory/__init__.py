"""Bytes per GPU: weights, KV cache, activations, engine overhead.

footprint     what a split puts on the fullest GPU of a replica, whatever that GPU is
policy        how much of a GPU may be used: the planner's rule of thumb, or what a serving engine would do
capacity      both together: a breakdown, and the most requests or the longest context that fit
"""

from optimizer.memory.capacity import (
    MemoryBreakdown,
    breakdown,
    concurrent_requests,
    max_concurrency,
    max_context_tokens,
)
from optimizer.memory.footprint import Footprint, footprint
from optimizer.memory.policy import MemoryPolicy, kv_budget_bytes, vllm_batch_defaults
from optimizer.memory.stages import stage_layer_counts

__all__ = [
    "Footprint",
    "MemoryBreakdown",
    "MemoryPolicy",
    "breakdown",
    "concurrent_requests",
    "footprint",
    "kv_budget_bytes",
    "max_concurrency",
    "max_context_tokens",
    "stage_layer_counts",
    "vllm_batch_defaults",
]
