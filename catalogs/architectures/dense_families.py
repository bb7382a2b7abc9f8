"""Layers of the dense families: Llama, Mistral, Qwen2 and 3, Phi, Cohere, Gemma 2 and 3, GPT-J, Llama-Nemotron."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalogs.architectures.build import (
    NO_ATTENTION,
    NO_MLP,
    Heads,
    dense,
    grouped,
    heads,
    hidden_size,
    layer_count,
    stack,
    window,
)
from catalogs.architectures.patterns import attention_kinds, window_pattern
from catalogs.model_config import MAX_CONTEXT, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, ConfigReader
from catalogs.model_records import Attention, AttentionKind, Layer, Mlp

Layers = tuple[Layer, ...]
_LLAMA_WIDTH_MULTIPLE = 256


def llama(reader: ConfigReader) -> Layers:
    """Llama and everything built like it: optional biases on all four projections and on the MLP."""
    hidden, count = hidden_size(reader), layer_count(reader)
    bias = reader.flag("attention_bias", default=False)
    mixer = grouped(hidden, heads(reader), qkv_bias=bias, out_bias=bias)
    mlp = dense(hidden, _width(reader), bias=reader.flag("mlp_bias", default=False))
    return stack([mixer] * count, [mlp] * count, 2 * hidden)


def mistral(reader: ConfigReader) -> Layers:
    """Mistral and Phi-3: no biases; all layers slide when sliding_window is set below the context length."""
    hidden, count = hidden_size(reader), layer_count(reader)
    context = reader.integer("max_position_embeddings", high=MAX_CONTEXT)
    slides = reader.has("sliding_window") and window(reader) < context
    mixer = grouped(
        hidden,
        heads(reader),
        kind="sliding" if slides else "full",
        window_tokens=window(reader) if slides else None,
    )
    return stack([mixer] * count, [dense(hidden, _width(reader))] * count, 2 * hidden)


def qwen2(reader: ConfigReader) -> Layers:
    """Qwen2, Qwen2.5 and MiMo-7B: biases on q, k and v only."""
    return _windowed_qwen(reader, qkv_bias=True, head_norm=False)


def qwen3(reader: ConfigReader) -> Layers:
    """Qwen3 and Qwen3-VL: norms on each head's q and k, biases only when attention_bias says so."""
    return _windowed_qwen(reader, qkv_bias=reader.flag("attention_bias", default=False), head_norm=True)


def _windowed_qwen(reader: ConfigReader, *, qkv_bias: bool, head_norm: bool) -> Layers:
    hidden, count = hidden_size(reader), layer_count(reader)
    kinds = _qwen_kinds(reader, count)
    mixers = _by_kind(reader, hidden, heads(reader), kinds, qkv_bias=qkv_bias, head_norm=head_norm)
    return stack(mixers, [dense(hidden, _width(reader))] * count, 2 * hidden)


def _qwen_kinds(reader: ConfigReader, count: int) -> list[AttentionKind]:
    """use_sliding_window turns the window on, for the layers from max_window_layers on."""
    if reader.has("layer_types") or not reader.flag("use_sliding_window", default=False):
        return attention_kinds(reader, count)
    first = reader.integer("max_window_layers", low=0, high=MAX_LAYERS)
    return ["sliding" if index >= first else "full" for index in range(count)]


def _by_kind(
    reader: ConfigReader,
    hidden: int,
    shape: Heads,
    kinds: list[AttentionKind],
    *,
    qkv_bias: bool = False,
    out_bias: bool = False,
    head_norm: bool = False,
    extra: int = 0,
) -> list[Attention]:
    """One attention record per kind that occurs, in the layers' order."""
    records: dict[AttentionKind, Attention] = {
        kind: grouped(
            hidden,
            shape,
            kind=kind,
            window_tokens=None if kind == "full" else window(reader),
            qkv_bias=qkv_bias,
            out_bias=out_bias,
            head_norm=head_norm,
            extra=extra,
        )
        for kind in set(kinds)
    }
    return [records[kind] for kind in kinds]


def cohere(reader: ConfigReader) -> Layers:
    """Command R, R+ and A: one norm a layer (attention and MLP in parallel); Cohere2 slides in three of four layers."""
    hidden, count, shape = hidden_size(reader), layer_count(reader), heads(reader)
    every = window_pattern(reader, 4) if reader.has("sliding_window") else 0
    bias = reader.flag("attention_bias", default=False)
    norms = (shape.query + shape.kv) * shape.width if reader.flag("use_qk_norm", default=False) else 0
    kinds = attention_kinds(reader, count, every=every)
    mixers = _by_kind(reader, hidden, shape, kinds, qkv_bias=bias, out_bias=bias, extra=norms)
    return stack(mixers, [dense(hidden, _width(reader))] * count, hidden)


def gemma2(reader: ConfigReader) -> Layers:
    """Gemma 2: every second layer slides; four norms a layer."""
    return _gemma(reader, every=2, head_norm=False)


def gemma3(reader: ConfigReader) -> Layers:
    """Gemma 3: five sliding layers to one full; four norms a layer, norms on q and k.

    Configs of the multimodal sizes leave out what equals the class defaults of transformers' Gemma3TextConfig.
    """
    for key, value in (
        ("num_attention_heads", 8),
        ("num_key_value_heads", 4),
        ("head_dim", 256),
        ("sliding_window", 4096),
    ):
        if not reader.has(key):
            reader.values[key] = value
    return _gemma(reader, every=6, head_norm=True)


def _gemma(reader: ConfigReader, *, every: int, head_norm: bool) -> Layers:
    hidden, count = hidden_size(reader), layer_count(reader)
    kinds = attention_kinds(reader, count, every=window_pattern(reader, every))
    mixers = _by_kind(reader, hidden, heads(reader), kinds, head_norm=head_norm)
    return stack(mixers, [dense(hidden, _width(reader))] * count, 4 * hidden)


def gptj(reader: ConfigReader) -> Layers:
    """GPT-J: multi-head attention without biases, a two-matrix MLP with them, one layer norm (weight and bias)."""
    hidden, count = hidden_size(reader), layer_count(reader)
    reader.values["num_key_value_heads"] = reader.values.get("num_attention_heads")
    width = reader.integer("intermediate_size", high=MAX_WIDTH, default=4 * hidden)
    mlp = dense(hidden, width, matrices=2, bias=True)
    return stack([grouped(hidden, heads(reader))] * count, [mlp] * count, 2 * hidden)


def nemotron_nas(reader: ConfigReader) -> Layers:
    """Llama-Nemotron found by architecture search: each layer has its own KV heads and MLP width, or lacks a part."""
    hidden, count = hidden_size(reader), layer_count(reader)
    blocks = reader.sequence("block_configs", count)
    reader.check(blocks is not None, "block_configs is missing; expected one entry a layer")
    mixers: dict[Attention, Attention] = {}
    mlps: dict[Mlp, Mlp] = {}
    pairs = [(_nas_attention(reader, hidden, block), _nas_mlp(reader, hidden, block)) for block in blocks or []]
    shared = [(mixers.setdefault(mixer, mixer), mlps.setdefault(mlp, mlp)) for mixer, mlp in pairs]
    return stack([mixer for mixer, _ in shared], [mlp for _, mlp in shared], 2 * hidden)


def _part(reader: ConfigReader, block: Any, name: str) -> Mapping[str, Any]:
    part = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(part, Mapping):
        reader.problem(f"an entry of block_configs has no object {name!r}")
        return {"no_op": True}
    return part


def _nas_attention(reader: ConfigReader, hidden: int, block: Any) -> Attention:
    part = _part(reader, block, "attention")
    if part.get("no_op"):
        return NO_ATTENTION
    if part.get("replace_with_linear"):
        return Attention(kind="none", parameters=hidden * hidden)
    query = reader.integer("num_attention_heads", high=MAX_HEADS)
    group = reader.bounded("block_configs.attention.n_heads_in_group", part.get("n_heads_in_group"), 1, query)
    reader.check(query % group == 0 and hidden % query == 0, "block_configs: heads do not divide")
    width = max(1, hidden // query)
    length = part.get("window_length")
    tokens = None if length is None else reader.bounded("block_configs.attention.window_length", length, 1, MAX_CONTEXT)
    shape = Heads(query, max(1, query // group), width, width)
    return grouped(hidden, shape, kind="full" if tokens is None else "sliding", window_tokens=tokens)


def _nas_mlp(reader: ConfigReader, hidden: int, block: Any) -> Mlp:
    part = _part(reader, block, "ffn")
    if part.get("no_op"):
        return NO_MLP
    if part.get("replace_with_linear"):
        return Mlp(kind="dense", intermediate_size=hidden, dense_parameters=hidden * hidden)
    times = reader.number("block_configs.ffn.ffn_mult", part.get("ffn_mult"), 1 / hidden, 64)
    raw = int(2 * times * hidden / 3)
    return dense(hidden, -(-raw // _LLAMA_WIDTH_MULTIPLE) * _LLAMA_WIDTH_MULTIPLE)


def _width(reader: ConfigReader) -> int:
    return reader.integer("intermediate_size", high=MAX_WIDTH)
