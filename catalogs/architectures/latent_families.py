"""Layers of the families with multi-head latent attention: DeepSeek V2 to V4, Kimi K2, GLM-4.7-Flash, GLM-5."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from catalogs.architectures.build import hidden_size, layer_count, stack, window
from catalogs.architectures.moe_families import deepseek_experts, dense_and_sparse
from catalogs.architectures.patterns import sparse_after_first
from catalogs.model_config import MAX_CONTEXT, MAX_HEAD_DIM, MAX_HEADS, MAX_HIDDEN, ConfigReader
from catalogs.model_records import Attention, Layer

Layers = tuple[Layer, ...]


class Latent(NamedTuple):
    """Shapes of multi-head latent attention (DeepSeek-V2 report, section 2.1)."""

    hidden: int
    heads: int
    query_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int


class Indexer(NamedTuple):
    """Shapes of the lightning indexer (DeepSeek-V3.2 report, section 2.1)."""

    heads: int
    width: int
    top_k: int


def latent_shape(reader: ConfigReader) -> Latent:
    """MLA's shapes; q_lora_rank may be null (V2-Lite)."""
    return Latent(
        hidden=hidden_size(reader),
        heads=reader.integer("num_attention_heads", high=MAX_HEADS),
        query_rank=reader.integer("q_lora_rank", low=0, high=MAX_HIDDEN, default=0),
        kv_rank=reader.integer("kv_lora_rank", high=MAX_HIDDEN),
        nope=reader.integer("qk_nope_head_dim", high=MAX_HEAD_DIM),
        rope=reader.integer("qk_rope_head_dim", low=0, high=MAX_HEAD_DIM),
        value=reader.integer("v_head_dim", high=MAX_HEAD_DIM),
    )


def latent_attention(shape: Latent, *, indexer: Indexer | None = None, extra: int = 0) -> Attention:
    """MLA: low-rank q (or a plain q), the shared latent with its rope part, its two up-projections, and the output."""
    head = shape.nope + shape.rope
    query = shape.heads * head
    queries = shape.query_rank * (shape.hidden + 1 + query) if shape.query_rank else shape.hidden * query
    latent = shape.hidden * (shape.kv_rank + shape.rope) + shape.kv_rank
    expanded = shape.kv_rank * shape.heads * (shape.nope + shape.value)
    out = shape.heads * shape.value * shape.hidden
    return Attention(
        kind="mla",
        query_heads=shape.heads,
        head_dim=head,
        value_head_dim=shape.value,
        kv_lora_rank=shape.kv_rank,
        q_lora_rank=shape.query_rank,
        rope_head_dim=shape.rope,
        indexer_heads=indexer.heads if indexer else 0,
        indexer_head_dim=indexer.width if indexer else 0,
        indexer_top_k=indexer.top_k if indexer else 0,
        parameters=queries + latent + expanded + out + extra + (_indexer_parameters(shape, indexer) if indexer else 0),
    )


def _indexer_parameters(shape: Latent, indexer: Indexer) -> int:
    """Query heads from the q latent, one key with a layer norm (weight and bias), a weight per head."""
    queries = (shape.query_rank or shape.hidden) * indexer.heads * indexer.width
    return queries + shape.hidden * (indexer.width + indexer.heads) + 2 * indexer.width


def _indexer(reader: ConfigReader) -> Indexer:
    return Indexer(
        heads=reader.integer("index_n_heads", high=MAX_HEADS),
        width=reader.integer("index_head_dim", high=MAX_HEAD_DIM),
        top_k=reader.integer("index_topk", high=MAX_CONTEXT),
    )


def deepseek_v2(reader: ConfigReader) -> Layers:
    """DeepSeek-V2: MLA, softmax router without a correction bias."""
    return _deepseek(reader, lambda index: False, router_bias=False)


def deepseek_v3(reader: ConfigReader) -> Layers:
    """DeepSeek-V3, Kimi K2, GLM-4.7-Flash: MLA, sigmoid router with a correction bias."""
    return _deepseek(reader, lambda index: False, router_bias=True)


def deepseek_v32(reader: ConfigReader) -> Layers:
    """DeepSeek-V3.2 and GLM-5: as V3 with an indexer; GLM-5.2's "shared" layers reuse the choice of an earlier one."""
    types = reader.sequence("indexer_types", layer_count(reader), longer=True)
    return _deepseek(reader, lambda index: types is None or types[index] != "shared", router_bias=True)


def _deepseek(reader: ConfigReader, indexes: Callable[[int], bool], *, router_bias: bool) -> Layers:
    count, shape = layer_count(reader), latent_shape(reader)
    chosen = [indexes(index) for index in range(count)]
    plain = latent_attention(shape)
    sparse = latent_attention(shape, indexer=_indexer(reader)) if any(chosen) else plain
    mlps = dense_and_sparse(
        reader,
        sparse_after_first(reader, count),
        deepseek_experts(reader, router_bias=router_bias),
        "intermediate_size",
    )
    return stack([sparse if flag else plain for flag in chosen], mlps, 2 * shape.hidden)


class Compressed(NamedTuple):
    """Shapes of DeepSeek-V4's attention: one shared key-value head, low-rank q, grouped low-rank output."""

    hidden: int
    heads: int
    width: int
    rope: int
    query_rank: int
    out_rank: int
    out_groups: int
    window: int


def deepseek_v4(reader: ConfigReader) -> Layers:
    """DeepSeek-V4: per layer a window alone, or a window with entries that pool 4 tokens (indexed) or 128.

    Shapes as in the published inference code: key and value are one vector of head_dim; pooling by 4 overlaps, so its
    projections are twice as wide. Hyper-connections are counted with the norms.
    """
    count, shape = layer_count(reader), _compressed_shape(reader)
    ratios = [
        reader.bounded("compress_ratios", entry, 0, 4096)
        for entry in reader.sequence("compress_ratios", count, longer=True) or []
    ]
    reader.check(len(ratios) == count, "compress_ratios is missing or short; expected one for each layer")
    indexer = _indexer(reader)
    made = {ratio: _compressed(shape, ratio, indexer) for ratio in set(ratios)}
    streams = reader.integer("hc_mult", high=64, default=1)
    mixing = 2 * (streams + 2) * streams * (streams * shape.hidden + 1) + 6 if streams > 1 else 0
    mlp = deepseek_experts(reader, router_bias=True)
    return stack([made[ratio] for ratio in ratios], [mlp] * len(ratios), 2 * shape.hidden + mixing)


def _compressed_shape(reader: ConfigReader) -> Compressed:
    return Compressed(
        hidden=hidden_size(reader),
        heads=reader.integer("num_attention_heads", high=MAX_HEADS),
        width=reader.integer("head_dim", high=MAX_HEAD_DIM),
        rope=reader.integer("qk_rope_head_dim", low=0, high=MAX_HEAD_DIM),
        query_rank=reader.integer("q_lora_rank", high=MAX_HIDDEN),
        out_rank=reader.integer("o_lora_rank", high=MAX_HIDDEN),
        out_groups=reader.integer("o_groups", high=MAX_HEADS),
        window=window(reader),
    )


def _compressed(shape: Compressed, ratio: int, indexer: Indexer) -> Attention:
    queries = shape.query_rank * (shape.hidden + 1 + shape.heads * shape.width)
    out = shape.out_rank * (shape.heads * shape.width + shape.out_groups * shape.hidden)
    parameters = queries + out + shape.hidden * shape.width + shape.width + shape.heads
    indexed = ratio == 4
    if ratio:
        parameters += _pooling(shape.hidden, shape.width, ratio)
    if indexed:
        parameters += shape.query_rank * indexer.heads * indexer.width + shape.hidden * indexer.heads
        parameters += _pooling(shape.hidden, indexer.width, ratio)
    return Attention(
        kind="mla",
        query_heads=shape.heads,
        head_dim=shape.width,
        value_head_dim=shape.width,
        window_tokens=shape.window,
        kv_lora_rank=max(0, shape.width - shape.rope),
        q_lora_rank=shape.query_rank,
        rope_head_dim=min(shape.rope, shape.width),
        tokens_per_entry=ratio,
        indexer_heads=indexer.heads if indexed else 0,
        indexer_head_dim=indexer.width if indexed else 0,
        indexer_top_k=indexer.top_k if indexed else 0,
        parameters=parameters,
    )


def _pooling(hidden: int, width: int, ratio: int) -> int:
    """Value and gate projections, a bias per position in the pool, and a norm; twice as wide where pools overlap."""
    wide = 2 * width if ratio == 4 else width
    return wide * (2 * hidden + ratio) + width
