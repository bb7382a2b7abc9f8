"""The least bytes per GPU that a split can need, by a few lines of arithmetic that share nothing with optimizer.memory.

No stage can be fuller than the fullest, so the mean over stages bounds it from below. What is left out (index keys,
padding, whole copies that tensor parallelism makes) only adds.
"""

from __future__ import annotations

from catalogs.model_precision import KV_BYTES
from catalogs.models import Attention, ModelSpec
from optimizer.split import Split


def least_weight_bytes(model: ModelSpec, split: Split) -> float:
    """Return the mean bytes of weights per GPU of a replica: no split makes them fewer in all."""
    return model.weight_bytes(split.weights) / split.gpus


def least_kv_bytes(model: ModelSpec, split: Split, context_tokens: int) -> float:
    """Return the mean bytes of cache that one request holds per GPU of its attention rank, over the stages."""
    element = KV_BYTES[split.kv_cache]
    total = 0.0
    for layer, count in model.layer_counts:
        attention = layer.attention
        total += count * _tokens_kept(attention, context_tokens) * _elements_per_token(attention, split.tp) * element
        if attention.state_bytes:
            total += count * attention.state_bytes / min(split.tp, max(1, attention.state_heads))
    return total / split.pp


def _tokens_kept(attention: Attention, context_tokens: int) -> int:
    """Tokens of a request that a layer keeps: a window at most."""
    return context_tokens if attention.window_tokens is None else min(context_tokens, attention.window_tokens)


def _elements_per_token(attention: Attention, tp: int) -> float:
    """Elements one token adds on one GPU: heads divide until each GPU has one; a latent lies whole on every GPU."""
    if attention.shares_kv or attention.kind not in {"full", "sliding", "chunked", "mla"}:
        return 0.0
    if attention.kind == "mla":
        latent = attention.kv_lora_rank + attention.rope_head_dim
        return latent / attention.tokens_per_entry if attention.tokens_per_entry else float(latent)
    heads_here = -(-attention.kv_heads // tp)
    return float(heads_here * (attention.head_dim + attention.value_head_dim))
