"""The fewest GPUs of each type that hold a model with its requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from catalogs.errors import CatalogError
from catalogs.gpus import Gpu, load_gpus
from catalogs.model_spec import ModelSpec
from optimizer.divisibility import check_split
from optimizer.memory.capacity import breakdown
from optimizer.memory.footprint import DEFAULT_BATCHED_TOKENS, footprint
from optimizer.memory.policy import MemoryPolicy
from optimizer.split import Split

NODE_GPUS = 8  # tensor parallelism stays inside a node; more GPUs are more pipeline stages
MOST_STAGES = 16


@dataclass(frozen=True, slots=True)
class SmallestCount:
    """The fewest GPUs of one type.

    Attributes:
        gpu: canonical name.
        gpus: how many; None where none of the layouts tried holds the model.
        split: the layout with so many GPUs, of several the one with the fewest stages; None without one.
        headroom_left_gib: what it leaves on the fullest GPU; None without one.
        reason: why there is none; "" otherwise.
    """

    gpu: str
    gpus: int | None
    split: Split | None
    headroom_left_gib: float | None
    reason: str = ""


def smallest_counts(
    model: ModelSpec,
    *,
    weights: str | None = None,
    kv_cache: str | None = None,
    context_tokens: int,
    concurrency: int,
    policy: MemoryPolicy,
    max_batched_tokens: int = DEFAULT_BATCHED_TOKENS,
    gpus: Iterable[Gpu] | None = None,
) -> tuple[SmallestCount, ...]:
    """Return the fewest GPUs of each type that hold the model with `concurrency` requests of `context_tokens` each.

    Exhaustive over TP of 1 to 8 and up to 16 pipeline stages that engines load; fewest GPUs first, no other order of
    GPU types than the catalog's. Attention data parallelism is not tried.

    Args:
        model: the model.
        weights: weight format; None for the checkpoint's own.
        kv_cache: KV cache dtype; None for the checkpoint's own.
        context_tokens: tokens kept for each request.
        concurrency: requests at once.
        policy: how memory is counted.
        max_batched_tokens: tokens one step may process.
        gpus: the GPU types to try; None for the whole catalog.

    Raises:
        UnknownNameError: a format is unknown.
    """
    own = model.checkpoint
    kv = kv_cache or own.kv_cache or ("bf16" if own.dtype == "fp32" else own.dtype)
    splits = _splits(model, weights or own.weights, kv)
    chosen = load_gpus().values() if gpus is None else gpus
    return tuple(
        _smallest(model, gpu, splits, context_tokens, concurrency, policy, max_batched_tokens) for gpu in chosen
    )


def _smallest(
    model: ModelSpec,
    gpu: Gpu,
    splits: tuple[Split, ...],
    context_tokens: int,
    concurrency: int,
    policy: MemoryPolicy,
    max_batched_tokens: int,
) -> SmallestCount:
    if not splits:
        return SmallestCount(gpu.name, None, None, None, "no tensor parallel size of 1 to 8 loads")
    refusal = _refusal(gpu, splits[0])
    if refusal:
        return SmallestCount(gpu.name, None, None, None, refusal)
    for split in splits:
        held = footprint(model, split, max_batched_tokens=max_batched_tokens)
        use = breakdown(policy, gpu.memory_bytes, held, ceil(concurrency / split.attention_dp), context_tokens)
        if use.fits:
            return SmallestCount(gpu.name, split.gpus, split, use.headroom_left_gib)
    return SmallestCount(gpu.name, None, None, None, f"more than {splits[-1].gpus} GPUs are needed")


def _refusal(gpu: Gpu, split: Split) -> str:
    try:
        if gpu.weight_support(split.weights) == "none":
            return f"{split.weights} weights do not run on it"
        return "" if gpu.kv_cache_support(split.kv_cache) else f"a {split.kv_cache} KV cache does not run on it"
    except CatalogError as error:
        return str(error)


def _splits(model: ModelSpec, weights: str, kv_cache: str) -> tuple[Split, ...]:
    """Layouts that engines load, fewest GPUs first, then fewest stages."""
    loads = [tp for tp in range(1, NODE_GPUS + 1) if not check_split(model, Split(weights, kv_cache, tp, 1, 1, 1))]
    stages = range(1, min(MOST_STAGES, len(model.layers)) + 1)
    found = [Split(weights, kv_cache, tp, pp, 1, 1) for tp in loads for pp in stages]
    return tuple(sorted(found, key=lambda split: (split.gpus, split.pp)))
