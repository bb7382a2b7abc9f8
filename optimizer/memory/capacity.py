"""How many requests, or how long ones, fit; and where one GPU's memory goes."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizer.memory.footprint import Footprint
from optimizer.memory.policy import GIB, MemoryPolicy, demand, kv_budget_bytes
from optimizer.plan import MemoryUse

IntArray = NDArray[np.int64]

MOST_REQUESTS = 10**9  # where a request holds no cache at all
MOST_CONTEXT_TOKENS = 2**31  # where the cache does not grow with the context


def breakdown(
    policy: MemoryPolicy,
    gpu_memory_bytes: float,
    held: Footprint,
    concurrency_per_gpu_group: int,
    context_tokens: int,
    *,
    attention_dp: int = 1,
) -> MemoryUse:
    """Return where the memory of one GPU goes with so many requests of `context_tokens` tokens each.

    Args:
        policy: how memory is counted.
        gpu_memory_bytes: memory of one GPU as its driver reports it.
        held: what the split puts on one GPU.
        concurrency_per_gpu_group: requests whose cache one GPU holds: of b requests on a replica, ceil(b /
            attention_dp).
        context_tokens: tokens that memory is kept for, per request.
        attention_dp: groups of a replica that each hold the cache of their own requests.
    """
    kv = float(concurrency_per_gpu_group * held.kv_bytes_per_sequence(float(context_tokens)))
    asked = demand(policy, gpu_memory_bytes, held.weights_bytes, kv, held.activation_bytes, ranks=held.ranks)
    need, available = float(asked.need), float(asked.available)
    return MemoryUse(
        policy=policy.name,
        weights_gib=held.weights_bytes / GIB,
        kv_cache_gib=kv / GIB,
        activations_gib=float(asked.activations) / GIB,
        overhead_gib=float(asked.overhead) / GIB,
        need_gib=need / GIB,
        available_gib=available / GIB,
        headroom_left_gib=(available - need) / GIB,
        gpu_memory_gib=gpu_memory_bytes / GIB,
        kv_tokens=_kv_tokens(policy, gpu_memory_bytes, held, context_tokens) * attention_dp,
        context_tokens=context_tokens,
    )


def max_context_tokens(policy: MemoryPolicy, gpu_memory_bytes: float, held: Footprint, concurrency: int) -> int:
    """Return the longest context of which `concurrency` requests per GPU group fit; 0 where not even one token does.

    Exact: breakdown() fits at this length and not at one token more. The model's own limit is not applied.
    """
    if not _fits(policy, gpu_memory_bytes, held, concurrency, 1):
        return 0
    low, high = 1, 2
    while high <= MOST_CONTEXT_TOKENS and _fits(policy, gpu_memory_bytes, held, concurrency, high):
        low, high = high, high * 2
    if high > MOST_CONTEXT_TOKENS:
        return MOST_CONTEXT_TOKENS
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(policy, gpu_memory_bytes, held, concurrency, middle):
            low = middle
        else:
            high = middle
    return low


@overload
def max_concurrency(
    policy: MemoryPolicy, gpu_memory_bytes: float, held: Footprint, context_tokens: float, attention_dp: int = 1
) -> int: ...
@overload
def max_concurrency(
    policy: MemoryPolicy,
    gpu_memory_bytes: NDArray[np.float64],
    held: Footprint,
    context_tokens: float | NDArray[np.float64],
    attention_dp: int = 1,
) -> IntArray: ...
def max_concurrency(
    policy: MemoryPolicy,
    gpu_memory_bytes: float | NDArray[np.float64],
    held: Footprint,
    context_tokens: float | NDArray[np.float64],
    attention_dp: int = 1,
) -> int | IntArray:
    """Return the most requests of `context_tokens` tokens that one replica holds at once; 0 where weights do not fit.

    Takes arrays of GPU memories (and of contexts of the same shape); then the answer is an array.
    """
    if isinstance(context_tokens, np.ndarray):
        per_request: float | NDArray[np.float64] = held.kv_bytes_per_sequence(context_tokens)
    else:
        per_request = held.kv_bytes_per_sequence(float(context_tokens))
    requests = concurrent_requests(
        policy,
        gpu_memory_bytes,
        held.weights_bytes,
        per_request,
        held.activation_bytes,
        attention_dp=attention_dp,
        ranks=held.ranks,
    )
    return requests if isinstance(gpu_memory_bytes, np.ndarray) else int(requests)


def concurrent_requests(
    policy: MemoryPolicy,
    gpu_memory_bytes: ArrayLike,
    weights_bytes: ArrayLike,
    kv_bytes_per_sequence: ArrayLike,
    activation_bytes: ArrayLike,
    *,
    attention_dp: ArrayLike = 1,
    ranks: ArrayLike = 1,
) -> IntArray:
    """Return the most requests each candidate replica can hold at once: one entry a row, no loop over rows.

    Exact against breakdown(): the answer fits, and one request more per attention group does not. 0 where the weights
    alone do not fit; at most 10^9 per group, for models whose requests hold no cache.

    Args:
        policy: how memory is counted.
        gpu_memory_bytes: memory of one GPU.
        weights_bytes: weights of one GPU (Footprint.weights_bytes).
        kv_bytes_per_sequence: cache of one request on one GPU (Footprint.kv_bytes_per_sequence).
        activation_bytes: activations of one GPU (Footprint.activation_bytes).
        attention_dp: groups of a replica that each hold the cache of their own requests.
        ranks: GPUs that talk in collectives inside a stage (Footprint.ranks).
    """
    per_request = np.asarray(kv_bytes_per_sequence, dtype=np.float64)
    budget = kv_budget_bytes(policy, gpu_memory_bytes, weights_bytes, activation_bytes, ranks=ranks)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(per_request > 0, budget / per_request, float(MOST_REQUESTS))
    requests = np.floor(np.clip(ratio, 0, MOST_REQUESTS))

    def fits(count: NDArray[np.float64]) -> NDArray[np.bool_]:
        asked = demand(policy, gpu_memory_bytes, weights_bytes, count * per_request, activation_bytes, ranks=ranks)
        return np.asarray(asked.need <= asked.available)

    # The quotient and the sum round differently; the sum decides, and they differ by one request at most.
    requests = np.where(fits(requests + 1), np.minimum(requests + 1, MOST_REQUESTS), requests)
    requests = np.where(fits(requests), requests, np.maximum(requests - 1, 0))
    requests = np.where(fits(requests), requests, 0)
    return np.asarray(requests.astype(np.int64) * np.asarray(attention_dp, dtype=np.int64))


def _fits(policy: MemoryPolicy, gpu_memory_bytes: float, held: Footprint, requests: int, context_tokens: int) -> bool:
    kv = requests * held.kv_bytes_per_sequence(float(context_tokens))
    asked = demand(policy, gpu_memory_bytes, held.weights_bytes, kv, held.activation_bytes, ranks=held.ranks)
    return bool(asked.need <= asked.available)


def _kv_tokens(policy: MemoryPolicy, gpu_memory_bytes: float, held: Footprint, context_tokens: float) -> int:
    budget = float(
        kv_budget_bytes(policy, gpu_memory_bytes, held.weights_bytes, held.activation_bytes, ranks=held.ranks)
    )
    logged = policy.name == "engine" and not held.kv_fixed_bytes_per_sequence
    per_token = (
        held.kv_logged_bytes_per_token
        if logged
        else held.kv_bytes_per_sequence(float(context_tokens)) / max(context_tokens, 1.0)
    )
    if budget <= 0 or per_token <= 0:
        return 0
    block = held.block_tokens if logged else 1
    return int(budget / per_token // block * block)
