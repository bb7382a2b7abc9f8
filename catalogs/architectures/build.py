"""Parameter counts of the building blocks: grouped attention, latent attention, dense and expert MLPs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from catalogs.model_config import MAX_CONTEXT, MAX_HEAD_DIM, MAX_HEADS, MAX_HIDDEN, MAX_LAYERS, ConfigReader
from catalogs.model_records import Attention, AttentionKind, Layer, Mlp

NO_MLP = Mlp(kind="none")
NO_ATTENTION = Attention(kind="none", parameters=0)


class Heads(NamedTuple):
    """Head counts and widths of grouped-query attention."""

    query: int
    kv: int
    width: int
    value_width: int


def hidden_size(reader: ConfigReader) -> int:
    """Width of the residual stream."""
    return reader.integer("hidden_size", high=MAX_HIDDEN)


def layer_count(reader: ConfigReader) -> int:
    """Number of decoder layers."""
    return reader.integer("num_hidden_layers", high=MAX_LAYERS)


def window(reader: ConfigReader, *keys: str) -> int:
    """Tokens that a sliding or chunked layer attends to."""
    return reader.integer(*(keys or ("sliding_window",)), high=MAX_CONTEXT)


def heads(reader: ConfigReader, prefix: str = "") -> Heads:
    """Head counts and widths; KV heads default to the query heads, the width to hidden_size / query heads."""
    query = reader.integer(f"{prefix}num_attention_heads", high=MAX_HEADS)
    kv = reader.integer(f"{prefix}num_key_value_heads", "num_attention_groups", high=MAX_HEADS, default=query)
    reader.check(
        query % kv == 0,
        f"{prefix}num_attention_heads ({query}) is not a multiple of {prefix}num_key_value_heads ({kv})",
    )
    width = head_width(reader, query, f"{prefix}head_dim", "attention_head_dim")
    value = reader.integer(f"{prefix}v_head_dim", high=MAX_HEAD_DIM, default=width)
    return Heads(query, kv, width, value)


def head_width(reader: ConfigReader, query_heads: int, *keys: str) -> int:
    """Width of one head: the first of `keys`, else hidden_size / query heads, which must then divide."""
    if any(reader.has(key) for key in keys):
        return reader.integer(*keys, high=MAX_HEAD_DIM)
    hidden = hidden_size(reader)
    reader.check(
        hidden % query_heads == 0,
        f"hidden_size ({hidden}) is not a multiple of num_attention_heads ({query_heads}), and there is no {keys[0]}",
    )
    return max(1, hidden // query_heads)


def grouped(
    hidden: int,
    shape: Heads,
    *,
    kind: AttentionKind = "full",
    window_tokens: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    head_norm: bool = False,
    gated: bool = False,
    value_projection: bool = True,
    extra: int = 0,
    indexer: tuple[int, int, int] = (0, 0, 0),
    shares_kv: bool = False,
) -> Attention:
    """Grouped-query attention: q, k, v and o projections, with what the family adds.

    Args:
        hidden: width of the residual stream.
        shape: head counts and widths.
        kind: "full", "sliding" or "chunked".
        window_tokens: the window of a sliding or chunked layer.
        qkv_bias: whether q, k and v have biases.
        out_bias: whether the output projection has one.
        head_norm: RMS norms of head width on q and k.
        gated: the q projection also yields an output gate of the same width.
        value_projection: False where values reuse the key projection (Gemma 4).
        extra: further elements (sinks, gates, norms over the whole width, an indexer).
        indexer: heads, width and chosen tokens of a sparse indexer.
        shares_kv: whether the layer reads another's cache (it then has no k and v projections).
    """
    query, keys, values = shape.query * shape.width, shape.kv * shape.width, shape.kv * shape.value_width
    if shares_kv:
        keys = values = 0
    projected = query * (2 if gated else 1) + keys + (values if value_projection else 0)
    out = shape.query * shape.value_width
    parameters = hidden * (projected + out) + extra
    parameters += projected if qkv_bias else 0
    parameters += hidden if out_bias else 0
    parameters += 2 * shape.width if head_norm else 0
    return Attention(
        kind=kind,
        query_heads=shape.query,
        kv_heads=shape.kv,
        head_dim=shape.width,
        value_head_dim=shape.value_width,
        window_tokens=window_tokens,
        indexer_heads=indexer[0],
        indexer_head_dim=indexer[1],
        indexer_top_k=indexer[2],
        parameters=parameters,
        shares_kv=shares_kv,
    )


def dense(hidden: int, width: int, *, matrices: int = 3, bias: bool = False) -> Mlp:
    """A dense MLP: gate, up and down (3 matrices), or up and down (2)."""
    biases = (matrices - 1) * width + hidden if bias else 0
    return Mlp(kind="dense", intermediate_size=width, dense_parameters=matrices * hidden * width + biases)


def experts(
    hidden: int,
    count: int,
    used: int,
    width: int,
    *,
    matrices: int = 3,
    latent: int = 0,
    latent_norm: bool = False,
    expert_bias: bool = False,
    shared_width: int = 0,
    shared_gate: bool = False,
    router_extra: int = 0,
    beside: int = 0,
) -> Mlp:
    """A mixture of experts.

    Args:
        hidden: width of the residual stream.
        count: routed experts.
        used: routed experts that a token uses.
        width: intermediate width of one routed expert.
        matrices: 3 (gate, up, down) or 2 (up, down).
        latent: width the experts work in, when tokens are projected down before and up after them; 0 when not.
        latent_norm: a norm of the latent width.
        expert_bias: whether each expert matrix has a bias.
        shared_width: width of the shared experts together.
        shared_gate: a sigmoid gate of `hidden` elements on the shared expert (counted with the router).
        router_extra: router elements beyond hidden x count (biases, scales).
        beside: elements that every token passes beside the routed experts.
    """
    inner = latent or hidden
    bias = (matrices - 1) * width + inner if expert_bias else 0
    projections = 2 * hidden * latent + (latent if latent_norm else 0)
    return Mlp(
        kind="moe",
        intermediate_size=width,
        experts=count,
        experts_per_token=used,
        expert_parameters=matrices * inner * width + bias,
        shared_intermediate_size=shared_width,
        shared_parameters=matrices * hidden * shared_width + projections + beside,
        router_parameters=hidden * count + (hidden if shared_gate else 0) + router_extra,
    )


def stack(mixers: Sequence[Attention], mlps: Sequence[Mlp], norm_parameters: int) -> tuple[Layer, ...]:
    """Layers from their mixers and MLPs in order; equal pairs share one Layer object."""
    made: dict[tuple[int, int], Layer] = {}
    layers = []
    for mixer, mlp in zip(mixers, mlps, strict=True):
        key = (id(mixer), id(mlp))
        if key not in made:
            made[key] = Layer(attention=mixer, mlp=mlp, norm_parameters=norm_parameters)
        layers.append(made[key])
    return tuple(layers)
