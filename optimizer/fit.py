"""Does it fit: the memory of one replica that the user names, and how much more it would hold."""

from __future__ import annotations

from dataclasses import fields

from optimizer.memory import MemoryPolicy, breakdown, footprint, max_concurrency, max_context_tokens
from optimizer.plan import MemoryUse
from optimizer.replica import Replica, ReplicaAnswer

GIB = 2**30


class Fit(ReplicaAnswer):
    """Memory of one replica; what `shardwise fit --json` prints.

    Attributes:
        fits: every GPU has room, and neither the model nor the GPU refuses the split.
        memory: per GPU of the fullest pipeline stage.
        weights_total_gib: of the whole model in this format, one copy.
        kv_cache_gib_per_request: of one request at this context, on all GPUs together, replicated heads counted once
            each time.
        max_context_tokens: the longest context of which `concurrency` requests fit, at most the model's own; 0 when
            not one does.
        max_concurrency: the most requests of this context that fit.
        refusals: rules that refuse the split, with what they need.
    """

    fits: bool
    memory: MemoryUse | None
    weights_total_gib: float
    kv_cache_gib_per_request: float | None
    max_context_tokens: int
    max_concurrency: int
    refusals: dict[str, str]


def memory_use(
    replica: Replica, context_tokens: int, concurrency: int, policy: MemoryPolicy, max_batched_tokens: int
) -> MemoryUse:
    """Return the memory of the fullest GPU of a replica; the arguments are those of `fit`."""
    split = replica.split
    held = footprint(replica.model, split, max_batched_tokens=max_batched_tokens)
    gpu_bytes = float(replica.gpu.memory_bytes)
    use = breakdown(policy, gpu_bytes, held, -(-concurrency // split.attention_dp), context_tokens)
    return MemoryUse(
        **{field.name: getattr(use, field.name) for field in fields(use)}
        | {"kv_tokens": use.kv_tokens * split.attention_dp},
        gpu_memory_gib=gpu_bytes / GIB,
        context_tokens=context_tokens,
    )


def fit(
    replica: Replica, *, context_tokens: int, concurrency: int, policy: MemoryPolicy, max_batched_tokens: int = 8192
) -> Fit:
    """Work out the memory of a replica that holds `concurrency` requests of `context_tokens` tokens each.

    Args:
        replica: model, GPU and split.
        context_tokens: tokens kept for each request.
        concurrency: requests at once on the whole replica.
        policy: how memory is counted.
        max_batched_tokens: tokens one engine step may process; sizes the activations.
    """
    split, model = replica.split, replica.model
    refusals = dict(replica.refusals)
    if context_tokens > model.max_context_tokens:
        refusals["context_length"] = f"a context of at most {model.max_context_tokens:,} tokens, the model's own"
    by_model = set(refusals) - {"dtype_supported", "context_length"}
    memory, longest, most, per_request = None, 0, 0, None
    if not by_model:
        memory = memory_use(replica, context_tokens, concurrency, policy, max_batched_tokens)
        held = footprint(model, split, max_batched_tokens=max_batched_tokens)
        gpu_bytes = float(replica.gpu.memory_bytes)
        per_rank = -(-concurrency // split.attention_dp)
        longest = min(max_context_tokens(policy, gpu_bytes, held, per_rank), model.max_context_tokens)
        most = max_concurrency(policy, gpu_bytes, held, float(context_tokens), split.attention_dp)
        per_request = held.kv_bytes_per_sequence(float(context_tokens)) * split.tp * split.pp / GIB
    return Fit(
        **replica.said(concurrency),
        fits=not refusals and memory is not None and memory.headroom_left_gib >= 0,
        memory=memory,
        weights_total_gib=model.weight_bytes(split.weights) / GIB,
        kv_cache_gib_per_request=per_request,
        max_context_tokens=longest,
        max_concurrency=most,
        refusals=refusals,
    )
