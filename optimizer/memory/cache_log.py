"""What an engine's start-up log would say of its KV cache: tokens, blocks, and how many whole requests at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from optimizer.engines import engine_version
from optimizer.memory.footprint import Footprint, KvGroup

HYBRID_SINCE = (0, 10)  # before, vLLM held sliding layers at full length, ungrouped
# Blocks that a request holds of each group of states: since prefix caching keeps a state per boundary, the running one
# and the last. 208 blocks over 84 + 3 x 2 gave the 2.31 that vLLM logged for Qwen3.8 27B
# (https://github.com/mitchross/talos-argocd-proxmox/issues/1995, 2026-08-16).
STATE_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class CacheLog:
    """The KV cache of one attention group as the engine would log it.

    Attributes:
        kv_tokens: "GPU KV cache size" of vLLM, "max_total_num_tokens" of SGLang.
        blocks: blocks of the pool; 0 for engines that count tokens.
        max_concurrency: requests of the model length that fit at once; fractional, as logged.
    """

    kv_tokens: int
    blocks: int
    max_concurrency: float


def cache_log(
    held: Footprint, budget_bytes: float, *, engine: str, max_model_len: int, max_batched_tokens: int
) -> CacheLog:
    """Return what `engine` (as "vllm@0.19") would log with this many bytes per GPU for its KV cache.

    vLLM: the pool is blocks of one page per group of layers (kv_cache_utils.py, get_max_concurrency_for_kv_cache_config
    and get_num_blocks). A sliding layer holds its window and the tokens of one step, in whole blocks and one more.

    Args:
        held: what the split puts on one GPU.
        budget_bytes: bytes per GPU for the cache (kv_budget_bytes).
        engine: name and version.
        max_model_len: longest request the engine accepts.
        max_batched_tokens: tokens one engine step may process.
    """
    name, version = engine_version(engine)
    if budget_bytes <= 0:
        return CacheLog(0, 0, 0.0)
    if name != "vllm" or not held.kv_groups:
        per_token = held.kv_bytes_per_token + sum(bytes_ for _, bytes_ in held.windowed)
        if name != "vllm" and held.kv_fixed_bytes_per_sequence == 0 and per_token > 0:
            tokens = int(budget_bytes / per_token)
            return CacheLog(tokens, 0, tokens / max_model_len)
        requests = budget_bytes / held.kv_bytes_per_sequence(float(max_model_len))
        return CacheLog(int(requests * max_model_len), 0, requests)
    if version and version < HYBRID_SINCE:
        return _ungrouped(held, budget_bytes, max_model_len)
    return _grouped(held, budget_bytes, max_model_len, max_batched_tokens)


def _ungrouped(held: Footprint, budget_bytes: float, max_model_len: int) -> CacheLog:
    per_token = held.kv_bytes_per_token + sum(bytes_ for _, bytes_ in held.windowed)
    blocks = int(budget_bytes / (per_token * held.block_tokens))
    tokens = blocks * held.block_tokens
    return CacheLog(tokens, blocks, tokens / max_model_len)


def _grouped(held: Footprint, budget_bytes: float, max_model_len: int, max_batched_tokens: int) -> CacheLog:
    tables = sum(group.groups for group in held.kv_groups)
    holding = sum(group.groups for group in held.kv_groups if group.kind != "state")
    page = held.kv_logged_bytes_per_token * held.block_tokens / holding
    blocks = int(budget_bytes / page)
    each = sum(
        group.groups * _blocks_of_request(group, held.block_tokens, max_model_len, max_batched_tokens)
        for group in held.kv_groups
    )
    concurrency = blocks / each
    tokens = int(concurrency * max_model_len) if tables > holding else blocks // tables * held.block_tokens
    return CacheLog(tokens, blocks, concurrency)


def _blocks_of_request(group: KvGroup, block: int, max_model_len: int, max_batched_tokens: int) -> int:
    if group.kind == "state":
        return STATE_BLOCKS
    if group.kind == "full":
        return ceil(max_model_len / block)
    return ceil(min(group.window_tokens - 1 + max_batched_tokens, max_model_len) / block) + 1
