"""Layers of the MoE families with grouped attention: Mixtral, Qwen, Llama 4, gpt-oss, GLM-4, MiniMax and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalogs.architectures.build import Heads, dense, experts, grouped, heads, hidden_size, layer_count, stack, window
from catalogs.architectures.patterns import (
    attention_kinds,
    expert_counts,
    indices,
    sparse_after_first,
    sparse_by_step,
    zero_one,
)
from catalogs.model_config import MAX_EXPERTS, MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, ConfigReader
from catalogs.model_records import Attention, AttentionKind, Layer, Mlp

Layers = tuple[Layer, ...]


def width_of(reader: ConfigReader, *keys: str) -> int:
    """An MLP width from the first of `keys` that is present."""
    return reader.integer(*keys, high=MAX_WIDTH)


def dense_and_sparse(reader: ConfigReader, sparse: list[bool], moe: Mlp, *dense_keys: str) -> list[Mlp]:
    """The MoE where `sparse`, elsewhere a dense MLP of the width under `dense_keys` (read only when needed)."""
    if all(sparse):
        return [moe] * len(sparse)
    plain = dense(hidden_size(reader), width_of(reader, *dense_keys))
    return [moe if flag else plain for flag in sparse]


def mixtral(reader: ConfigReader) -> Layers:
    """Mixtral: every layer MoE, experts of intermediate_size."""
    hidden, count = hidden_size(reader), layer_count(reader)
    moe = experts(hidden, *expert_counts(reader), width_of(reader, "intermediate_size"))
    return stack([grouped(hidden, heads(reader))] * count, [moe] * count, 2 * hidden)


def qwen2_moe(reader: ConfigReader) -> Layers:
    """Qwen2-MoE: q, k, v biases and a gated shared expert."""
    return _qwen_moe(reader, qkv_bias=True, head_norm=False)


def qwen3_moe(reader: ConfigReader) -> Layers:
    """Qwen3-MoE and Qwen3-VL-MoE: norms on q and k, no shared expert."""
    return _qwen_moe(reader, qkv_bias=reader.flag("attention_bias", default=False), head_norm=True)


def qwen_experts(reader: ConfigReader) -> Mlp:
    """Qwen's mixture: a shared expert, where there is one, behind a sigmoid gate."""
    shared = reader.integer("shared_expert_intermediate_size", low=0, high=MAX_WIDTH, default=0)
    return experts(
        hidden_size(reader),
        *expert_counts(reader),
        width_of(reader, "moe_intermediate_size"),
        shared_width=shared,
        shared_gate=shared > 0,
    )


def _qwen_moe(reader: ConfigReader, *, qkv_bias: bool, head_norm: bool) -> Layers:
    hidden, count = hidden_size(reader), layer_count(reader)
    mixer = grouped(hidden, heads(reader), qkv_bias=qkv_bias, head_norm=head_norm)
    mlps = dense_and_sparse(reader, sparse_by_step(reader, count), qwen_experts(reader), "intermediate_size")
    return stack([mixer] * count, mlps, 2 * hidden)


def llama4(reader: ConfigReader) -> Layers:
    """Llama 4: three chunked layers to one full, MoE every interleave_moe_layer_step-th layer with a shared expert."""
    hidden, count, shape = hidden_size(reader), layer_count(reader), heads(reader)
    kinds = _llama4_kinds(reader, count)
    records = {
        kind: grouped(
            hidden, shape, kind=kind, window_tokens=None if kind == "full" else window(reader, "attention_chunk_size")
        )
        for kind in set(kinds)
    }
    width = width_of(reader, "intermediate_size")
    moe = experts(hidden, *expert_counts(reader), width, shared_width=width)
    step = reader.integer("interleave_moe_layer_step", high=MAX_LAYERS, default=1)
    listed = indices(reader, "moe_layers")
    sparse = [index in listed if listed else (index + 1) % step == 0 for index in range(count)]
    mlps = dense_and_sparse(reader, sparse, moe, "intermediate_size_mlp")
    return stack([records[kind] for kind in kinds], mlps, 2 * hidden)


def _llama4_kinds(reader: ConfigReader, count: int) -> list[AttentionKind]:
    rotary = zero_one(reader, "no_rope_layers", count) if reader.values.get("no_rope_layers") else None
    if reader.has("layer_types") or rotary is None:
        every = reader.integer("no_rope_layer_interval", high=MAX_LAYERS, default=4)
        return attention_kinds(reader, count, local="chunked", every=every)
    return ["chunked" if uses_rope else "full" for uses_rope in rotary]


def gpt_oss(reader: ConfigReader) -> Layers:
    """gpt-oss: every second layer slides; biases everywhere, one sink logit per query head."""
    hidden, count, shape = hidden_size(reader), layer_count(reader), heads(reader)
    kinds = attention_kinds(reader, count, every=2)
    records = {
        kind: grouped(
            hidden,
            shape,
            kind=kind,
            window_tokens=None if kind == "full" else window(reader),
            qkv_bias=True,
            out_bias=True,
            extra=shape.query,
        )
        for kind in set(kinds)
    }
    number, used = expert_counts(reader)
    moe = experts(hidden, number, used, width_of(reader, "intermediate_size"), expert_bias=True, router_extra=number)
    return stack([records[kind] for kind in kinds], [moe] * count, 2 * hidden)


def glm4_moe(reader: ConfigReader) -> Layers:
    """GLM-4.5 to 4.7: q, k, v biases, norms on q and k in the large one, dense first layers, shared experts."""
    hidden, count = hidden_size(reader), layer_count(reader)
    qkv_bias = reader.flag("attention_bias", default=False) or reader.flag("attention_bias_qkv", default=False)
    head_norm = reader.flag("use_qk_norm", default=False) or reader.flag("qk_norm", default=False)
    mixer = grouped(hidden, heads(reader), qkv_bias=qkv_bias, head_norm=head_norm)
    mlps = dense_and_sparse(
        reader, sparse_after_first(reader, count), deepseek_experts(reader, router_bias=True), "intermediate_size"
    )
    return stack([mixer] * count, mlps, 2 * hidden)


def deepseek_experts(reader: ConfigReader, *, router_bias: bool) -> Mlp:
    """DeepSeek's mixture: shared experts as wide as the routed ones, a correction bias per expert in the router."""
    count, used = expert_counts(reader)
    width = width_of(reader, "moe_intermediate_size")
    shared = reader.integer("n_shared_experts", "num_shared_experts", low=0, high=MAX_EXPERTS, default=0)
    return experts(
        hidden_size(reader), count, used, width, shared_width=shared * width, router_extra=count if router_bias else 0
    )


def minimax_m2(reader: ConfigReader) -> Layers:
    """MiniMax-M2: full attention, norms over the whole q and k widths, every layer MoE."""
    hidden, count, shape = hidden_size(reader), layer_count(reader), heads(reader)
    types = reader.sequence("attn_type_list", count)
    reader.check(
        types is None or all(entry == 1 for entry in types), "attn_type_list: only full attention (1) is known"
    )
    norms = (shape.query + shape.kv) * shape.width if reader.flag("use_qk_norm", default=True) else 0
    number, used = expert_counts(reader)
    bias = number if reader.flag("use_routing_bias", default=True) else 0
    moe = experts(
        hidden,
        number,
        used,
        width_of(reader, "intermediate_size"),
        shared_width=reader.integer("shared_intermediate_size", low=0, high=MAX_WIDTH, default=0),
        router_extra=bias,
    )
    return stack([grouped(hidden, shape, extra=norms)] * count, [moe] * count, 2 * hidden)


def minimax_m3(reader: ConfigReader) -> Layers:
    """MiniMax-M3: after dense first layers, MoE layers whose attention picks blocks with an indexer."""
    hidden, count, shape = hidden_size(reader), layer_count(reader), heads(reader)
    number, used = expert_counts(reader)
    shared = reader.integer("n_shared_experts", low=0, high=MAX_EXPERTS, default=0)
    moe = experts(
        hidden,
        number,
        used,
        width_of(reader, "moe_intermediate_size", "intermediate_size"),
        shared_width=shared * reader.integer("shared_intermediate_size", low=0, high=MAX_WIDTH, default=0),
        router_extra=number if reader.flag("use_routing_bias", default=True) else 0,
    )
    mlps = dense_and_sparse(reader, sparse_after_first(reader, count), moe, "dense_intermediate_size")
    settings = reader.mapping("sparse_attention_config")
    plain = grouped(hidden, shape, head_norm=True)
    sparse = _minimax_sparse(reader, hidden, shape, settings) if settings else plain
    flags = settings.get("sparse_attention_freq")
    chosen = flags if isinstance(flags, list) and len(flags) >= count else [1] * count
    mixers = [sparse if flag else plain for flag in chosen[:count]]
    return stack(mixers, mlps, 2 * hidden)


def _minimax_sparse(reader: ConfigReader, hidden: int, shape: Heads, settings: Mapping[str, Any]) -> Attention:
    number = reader.bounded("sparse_num_index_heads", settings.get("sparse_num_index_heads"), 1, MAX_HEADS)
    width = reader.bounded("sparse_index_dim", settings.get("sparse_index_dim"), 1, MAX_HEAD_DIM)
    blocks = reader.bounded("sparse_topk_blocks", settings.get("sparse_topk_blocks"), 1, MAX_WIDTH)
    size = reader.bounded("sparse_block_size", settings.get("sparse_block_size"), 1, MAX_WIDTH)
    extra = hidden * (number + 1) * width + 2 * width
    return grouped(hidden, shape, head_norm=True, extra=extra, indexer=(number, width, blocks * size))


def mimo_v2(reader: ConfigReader) -> Layers:
    """MiMo-V2: between full layers, windowed ones with their own head counts and sinks; values narrower than keys."""
    hidden, count = hidden_size(reader), layer_count(reader)
    full, local = heads(reader), heads(reader, "swa_")
    slides = zero_one(reader, "hybrid_layer_pattern", count)
    reader.check(slides is not None, "hybrid_layer_pattern is missing; expected 0 or 1 for each layer")
    sink = local.query if reader.flag("add_swa_attention_sink_bias", default=False) else 0
    wide_sink = full.query if reader.flag("add_full_attention_sink_bias", default=False) else 0
    wide = grouped(hidden, full, extra=wide_sink)
    narrow = grouped(hidden, local, kind="sliding", window_tokens=window(reader), extra=sink)
    mixers = [narrow if flag else wide for flag in slides or [False] * count]
    mlps = dense_and_sparse(
        reader, sparse_after_first(reader, count), deepseek_experts(reader, router_bias=True), "intermediate_size"
    )
    return stack(mixers, mlps, 2 * hidden)


def step3(reader: ConfigReader) -> Layers:
    """Step-3.5 and 3.7 Flash: sliding layers may have their own head counts; norms on q and k."""
    hidden, count, full = hidden_size(reader), layer_count(reader), heads(reader)
    kinds = attention_kinds(reader, count)
    gate = hidden * full.query if reader.flag("use_head_wise_attn_gate", default=False) else 0
    records: dict[AttentionKind, Attention] = {"full": grouped(hidden, full, head_norm=True, extra=gate)}
    if "sliding" in kinds:
        local = _step3_local(reader, full)
        records["sliding"] = grouped(
            hidden,
            local,
            kind="sliding",
            window_tokens=window(reader),
            head_norm=True,
            extra=hidden * local.query if gate else 0,
        )
    number, used = expert_counts(reader)
    shared = reader.integer("share_expert_dim", "share_expert_dims", low=0, high=MAX_WIDTH, default=0)
    bias = number if reader.flag("use_moe_router_bias", default=False) else 0
    moe = experts(
        hidden, number, used, width_of(reader, "moe_intermediate_size"), shared_width=shared, router_extra=bias
    )
    mlps = dense_and_sparse(reader, sparse_after_first(reader, count), moe, "intermediate_size")
    return stack([records.get(kind, records["full"]) for kind in kinds], mlps, 2 * hidden)


def _step3_local(reader: ConfigReader, full: Heads) -> Heads:
    other = reader.mapping("attention_other_setting")
    query = reader.bounded("num_attention_heads", other.get("num_attention_heads", full.query), 1, MAX_HEADS)
    kv = reader.bounded("num_attention_groups", other.get("num_attention_groups", full.kv), 1, MAX_HEADS)
    reader.check(query % kv == 0, f"attention_other_setting: {query} heads are not a multiple of {kv} KV heads")
    return Heads(query, kv, full.width, full.value_width)


def gemma4(reader: ConfigReader) -> Layers:
    """Gemma 4: five sliding layers to one full, whose wider heads may use keys as values; MoE beside a dense MLP."""
    hidden, count, local = hidden_size(reader), layer_count(reader), heads(reader)
    per_layer = reader.integer("hidden_size_per_layer_input", low=0, high=MAX_WIDTH, default=0)
    reader.check(
        per_layer == 0, "hidden_size_per_layer_input: per-layer embeddings (Gemma 4 E-models) are not supported"
    )
    width = reader.integer("global_head_dim", high=MAX_HEAD_DIM, default=local.width)
    wide = Heads(
        local.query, reader.integer("num_global_key_value_heads", high=MAX_HEADS, default=local.kv), width, width
    )
    reader.check(
        wide.query % wide.kv == 0, f"num_global_key_value_heads ({wide.kv}) does not divide {wide.query} heads"
    )
    projects = not reader.flag("attention_k_eq_v", default=False)
    kinds = attention_kinds(reader, count, every=6)
    shared = count - min(count, reader.integer("num_kv_shared_layers", low=0, high=MAX_LAYERS, default=0))
    records: dict[tuple[AttentionKind, bool], Attention] = {}
    for reuses in (False, True):
        records["full", reuses] = grouped(
            hidden, wide, head_norm=True, value_projection=projects, shares_kv=reuses, extra=1
        )
        records["sliding", reuses] = grouped(
            hidden,
            local,
            kind="sliding",
            window_tokens=window(reader),
            head_norm=True,
            shares_kv=reuses,
            extra=1,
        )
    mixers = [records.get((kind, index >= shared), records["full", False]) for index, kind in enumerate(kinds)]
    mlp, norms = _gemma4_mlp(reader, hidden)
    return stack(mixers, [mlp] * count, norms)


def _gemma4_mlp(reader: ConfigReader, hidden: int) -> tuple[Mlp, int]:
    width = width_of(reader, "intermediate_size")
    if not reader.flag("enable_moe_block", default=False):
        return dense(hidden, width), 4 * hidden
    number, used = expert_counts(reader)
    moe = experts(
        hidden,
        number,
        used,
        width_of(reader, "moe_intermediate_size", "expert_intermediate_size"),
        shared_width=width,
        router_extra=hidden + number,
    )
    return moe, 7 * hidden
