"""Does it fit: the memory of one replica that the user names, and how much more it would hold."""

from __future__ import annotations

from itertools import groupby

from catalogs.nodes import default_fabric
from optimizer.engine_flags import EngineFlags, engine_flags
from optimizer.memory import (
    Footprint,
    MemoryPolicy,
    breakdown,
    footprint,
    kv_budget_bytes,
    max_concurrency,
    max_context_tokens,
    stage_footprints,
)
from optimizer.memory.cache_log import CacheLog, cache_log
from optimizer.memory.eras import batch_defaults
from optimizer.memory.footprint import DEFAULT_BATCHED_TOKENS, DEFAULT_SEQUENCES
from optimizer.memory.smallest import smallest_counts
from optimizer.memory.warmup import warm_up
from optimizer.plan import AnswerPart, MemoryUse
from optimizer.replica import Replica, ReplicaAnswer

GIB = 2**30


class StageMemory(AnswerPart):
    """Memory of the GPUs of equal pipeline stages that follow each other.

    Attributes:
        first, last: the stages, counted from 1.
        gpus: GPUs of all of them together; each holds `memory`.
    """

    first: int
    last: int
    gpus: int
    memory: MemoryUse


class Fit(ReplicaAnswer):
    """Memory of one replica; what `shardwise fit --json` prints.

    Attributes:
        fits: every GPU has room, and neither the model nor the GPU refuses the split.
        memory: per GPU of the fullest pipeline stage.
        stages: per GPU of each pipeline stage, equal neighbours together; they decide apart, the fullest for all.
        weights_total_gib: of the whole model in this format, one copy.
        kv_cache_gib_per_request: of one request at this context, on all GPUs together, replicated heads counted once
            each time.
        max_context_tokens: the longest context of which `concurrency` requests fit, at most the model's own; 0 when
            not one does.
        max_concurrency: the most requests of this context that fit.
        refusals: rules that refuse the split, with what they need.
        engine, engine_flags, engine_notes: the engine, the flags that make it run this replica, and what no flag does.
        engine_kv_tokens, engine_max_concurrency: what the engine's log would print (engine policy only).
        smallest: by GPU type the fewest GPUs that hold the same requests; null where no layout tried does.
    """

    fits: bool
    memory: MemoryUse | None
    stages: tuple[StageMemory, ...]
    weights_total_gib: float
    kv_cache_gib_per_request: float | None
    max_context_tokens: int
    max_concurrency: int
    refusals: dict[str, str]
    engine: str
    engine_flags: tuple[str, ...]
    engine_notes: tuple[str, ...]
    engine_kv_tokens: int | None
    engine_max_concurrency: float | None
    smallest: dict[str, int | None]


def memory_use(
    replica: Replica,
    context_tokens: int,
    concurrency: int,
    policy: MemoryPolicy,
    max_batched_tokens: int,
    max_sequences: int = DEFAULT_SEQUENCES,
) -> MemoryUse:
    """Return the memory of the fullest GPU of a replica.

    Args:
        replica: model, GPU and split.
        context_tokens: tokens kept for each request.
        concurrency: requests at once on the whole replica.
        policy: how memory is counted.
        max_batched_tokens: tokens one engine step may process.
        max_sequences: requests one step may sample for.
    """
    split = replica.split
    held = footprint(replica.model, split, max_batched_tokens=max_batched_tokens, max_sequences=max_sequences)
    return _memory_of(replica, held, context_tokens, -(-concurrency // split.attention_dp), policy)


def _memory_of(
    replica: Replica, held: Footprint, context_tokens: int, per_rank: int, policy: MemoryPolicy
) -> MemoryUse:
    gpu_bytes, ranks = float(replica.gpu.memory_bytes), replica.split.attention_dp
    return breakdown(policy, gpu_bytes, held, per_rank, context_tokens, attention_dp=ranks)


def _stages(
    replica: Replica, context_tokens: int, per_rank: int, policy: MemoryPolicy, step_size: tuple[int, int]
) -> tuple[StageMemory, ...]:
    split, (batched, sequences) = replica.split, step_size
    each = stage_footprints(replica.model, split, max_batched_tokens=batched, max_sequences=sequences)
    numbered = list(enumerate(each, start=1))
    runs = [list(run) for _, run in groupby(numbered, key=lambda stage: stage[1])]
    return tuple(
        StageMemory(
            first=run[0][0],
            last=run[-1][0],
            gpus=len(run) * split.tp * split.attention_dp,
            memory=_memory_of(replica, run[0][1], context_tokens, per_rank, policy),
        )
        for run in runs
    )


def fit(
    replica: Replica,
    *,
    context_tokens: int,
    concurrency: int,
    policy: MemoryPolicy,
) -> Fit:
    """Work out the memory of a replica that holds `concurrency` requests of `context_tokens` tokens each.

    Under the engine policy a step has the size that the engine takes by default on this GPU.

    Args:
        replica: model, GPU and split.
        context_tokens: tokens kept for each request.
        concurrency: requests at once on the whole replica.
        policy: how memory is counted.
    """
    split, model = replica.split, replica.model
    gpu_bytes, per_rank = float(replica.gpu.memory_bytes), -(-concurrency // split.attention_dp)
    batched, sequences = _step_size(replica, policy, context_tokens, per_rank)
    refusals = dict(replica.refusals)
    if context_tokens > model.max_context_tokens:
        refusals["context_length"] = f"a context of at most {model.max_context_tokens:,} tokens, the model's own"
    if set(refusals) - {"dtype_supported", "context_length"}:
        memory, longest, most, per_request, log, flags = None, 0, 0, None, None, EngineFlags(policy.engine, ())
    else:
        held = footprint(model, split, max_batched_tokens=batched, max_sequences=sequences)
        memory = memory_use(replica, context_tokens, concurrency, policy, batched, sequences)
        longest = min(max_context_tokens(policy, gpu_bytes, held, per_rank), model.max_context_tokens)
        most = max_concurrency(policy, gpu_bytes, held, float(context_tokens), split.attention_dp)
        per_request = held.kv_bytes_per_sequence(float(context_tokens)) * split.tp * split.pp / GIB
        at_once = concurrency if policy.name == "framework" else sequences * split.attention_dp
        flags = engine_flags(
            model,
            split,
            policy,
            gpu_bytes,
            context_tokens=context_tokens,
            concurrency=at_once,
            max_batched_tokens=batched,
        )
        log = _logged(replica, policy, held, context_tokens, batched) if policy.name == "engine" else None
        refusals |= _warm_up_refusal(replica, policy, batched, sequences) if policy.name == "engine" else {}
    smallest = smallest_counts(
        model,
        weights=split.weights,
        kv_cache=split.kv_cache,
        context_tokens=context_tokens,
        concurrency=concurrency,
        policy=policy,
        max_batched_tokens=batched,
    )
    return Fit(
        **replica.said(concurrency),
        fits=not refusals and memory is not None and memory.headroom_left_gib >= 0,
        memory=memory,
        stages=() if memory is None else _stages(replica, context_tokens, per_rank, policy, (batched, sequences)),
        weights_total_gib=model.weight_bytes(split.weights) / GIB,
        kv_cache_gib_per_request=per_request,
        max_context_tokens=longest,
        max_concurrency=most,
        refusals=refusals,
        engine=policy.engine,
        engine_flags=flags.flags,
        engine_notes=flags.notes,
        engine_kv_tokens=None if log is None else log.kv_tokens * split.attention_dp,
        engine_max_concurrency=None if log is None else log.max_concurrency * split.attention_dp,
        smallest={one.gpu: one.gpus for one in smallest},
    )


def _step_size(replica: Replica, policy: MemoryPolicy, context_tokens: int, per_rank: int) -> tuple[int, int]:
    """Return the tokens that one step may process, and the requests that it may sample for."""
    if policy.name == "framework":
        return DEFAULT_BATCHED_TOKENS, DEFAULT_SEQUENCES
    gpu = replica.gpu
    batched, sequences = batch_defaults(policy.engine, gpu.name, float(gpu.memory_bytes), context_tokens)
    return batched, max(sequences, per_rank)


def _logged(
    replica: Replica, policy: MemoryPolicy, held: Footprint, context_tokens: int, max_batched_tokens: int
) -> CacheLog:
    memory = float(replica.gpu.memory_bytes)
    budget = kv_budget_bytes(policy, memory, held.weights_bytes, held.activation_bytes, ranks=held.ranks)
    return cache_log(
        held,
        float(budget),
        engine=policy.engine,
        max_model_len=context_tokens,
        max_batched_tokens=max_batched_tokens,
    )


def _warm_up_refusal(
    replica: Replica, policy: MemoryPolicy, max_batched_tokens: int, max_sequences: int
) -> dict[str, str]:
    """Return why the engine would die after it has taken its cache, where its fraction leaves too little beside it."""
    split, gpu = replica.split, replica.gpu
    needs = warm_up(
        policy.engine,
        replica.model,
        split,
        linked=default_fabric(gpu, split.gpus)[1] >= split.tp * split.attention_dp,
        rocm=gpu.vendor == "amd",
        max_batched_tokens=max_batched_tokens,
        max_sequences=max_sequences,
    )
    beside = float(gpu.memory_bytes) * (1 - policy.gpu_memory_utilization)
    if needs.need_bytes <= beside:
        return {}
    causes = ", ".join(f"{size / GIB:.2f} for {cause}" for cause, size in needs.causes.items())
    needed, left = needs.need_bytes / GIB, beside / GIB
    return {"warm_up": f"{needed:.2f} GiB beside the memory fraction ({causes}); {left:.2f} GiB are left"}
