"""Layers of the hybrids that mix attention with a fixed state: Qwen3-Next and 3.5, Kimi Linear and K3, Nemotron-H."""

from __future__ import annotations

from catalogs.architectures.build import (
    NO_ATTENTION,
    NO_MLP,
    dense,
    experts,
    grouped,
    heads,
    hidden_size,
    layer_count,
    stack,
)
from catalogs.architectures.latent_families import latent_attention, latent_shape
from catalogs.architectures.moe_families import deepseek_experts, dense_and_sparse, qwen_experts, width_of
from catalogs.architectures.patterns import attention_kinds, expert_counts, indices, sparse_after_first, sparse_by_step
from catalogs.model_config import (
    MAX_EXPERTS,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_HIDDEN,
    MAX_LAYERS,
    MAX_WIDTH,
    ConfigReader,
)
from catalogs.model_records import Attention, Layer, Mlp

Layers = tuple[Layer, ...]

_MAX_KERNEL = 64
_BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def qwen3_next(reader: ConfigReader) -> Layers:
    """Qwen3-Next, Qwen3.5 and 3.6: three gated-delta-net layers to one gated full layer; MoE or dense."""
    hidden, count = hidden_size(reader), layer_count(reader)
    every = reader.integer("full_attention_interval", high=MAX_LAYERS, default=4)
    kinds = attention_kinds(reader, count, local="linear", every=every)
    full = grouped(
        hidden,
        heads(reader),
        qkv_bias=reader.flag("attention_bias", default=False),
        head_norm=True,
        gated=reader.flag("attn_output_gate", default=True),
    )
    linear = _gated_delta_net(reader, hidden)
    mixers = [linear if kind == "linear" else full for kind in kinds]
    if not (reader.has("num_experts") or reader.has("moe_intermediate_size")):
        return stack(mixers, [dense(hidden, width_of(reader, "intermediate_size"))] * count, 2 * hidden)
    mlps = dense_and_sparse(reader, sparse_by_step(reader, count), qwen_experts(reader), "intermediate_size")
    return stack(mixers, mlps, 2 * hidden)


def _gated_delta_net(reader: ConfigReader, hidden: int) -> Attention:
    """In: q, k, v, z, two gates; a convolution over q, k, v; decay and step bias per value head; norm; out."""
    key_heads = reader.integer("linear_num_key_heads", high=MAX_HEADS)
    value_heads = reader.integer("linear_num_value_heads", high=MAX_HEADS)
    key_width = reader.integer("linear_key_head_dim", high=MAX_HEAD_DIM)
    value_width = reader.integer("linear_value_head_dim", high=MAX_HEAD_DIM)
    kernel = reader.integer("linear_conv_kernel_dim", high=_MAX_KERNEL)
    keys, values = key_heads * key_width, value_heads * value_width
    convolved = 2 * keys + values
    parameters = hidden * (convolved + values + 2 * value_heads) + convolved * kernel
    parameters += 2 * value_heads + value_width + values * hidden
    return _with_state(
        reader,
        parameters,
        recurrent=value_heads * key_width * value_width,
        convolution=convolved * (kernel - 1),
        heads=key_heads,
    )


def _with_state(
    reader: ConfigReader, parameters: int, *, recurrent: int, convolution: int, heads: int, mamba: bool = False
) -> Attention:
    """A mixer with a recurrent state (in fp32 where the config says so) and a 16-bit convolution state."""
    wide = "float32" in {reader.text("mamba_ssm_dtype"), reader.text("mamba_ssm_cache_dtype")}
    return Attention(
        kind="mamba" if mamba else "linear",
        state_elements=recurrent + convolution,
        state_bytes=recurrent * (4 if wide else 2) + convolution * 2,
        state_heads=heads,
        parameters=parameters,
    )


def kimi_linear(reader: ConfigReader) -> Layers:
    """Kimi Linear and K3: three delta-attention layers to one latent-attention layer; K3 has latent experts."""
    hidden, count = hidden_size(reader), layer_count(reader)
    settings = reader.mapping("linear_attn_config")
    reader.check(bool(settings), "linear_attn_config is missing; expected its head counts and layer lists")
    nested = ConfigReader(settings, reader.model)
    full_layers = indices(nested, "full_attn_layers")
    shape = latent_shape(reader)
    gate = hidden * shape.heads * shape.value if reader.flag("mla_use_output_gate", default=False) else 0
    full = latent_attention(shape, extra=gate)
    linear = _delta_attention(reader, nested, hidden)
    nested.finish()
    mixers = [full if index + 1 in full_layers else linear for index in range(count)]
    mlps = dense_and_sparse(reader, sparse_after_first(reader, count), _kimi_experts(reader), "intermediate_size")
    residual = 4 * hidden if reader.has("attn_res_block_size") else 0
    return stack(mixers, mlps, 2 * hidden + residual)


def _delta_attention(reader: ConfigReader, nested: ConfigReader, hidden: int) -> Attention:
    number = nested.integer("num_heads", high=MAX_HEADS)
    width = nested.integer("head_dim", high=MAX_HEAD_DIM)
    kernel = nested.integer("short_conv_kernel_size", high=_MAX_KERNEL)
    inner = number * width
    gate = hidden * inner if nested.flag("use_full_rank_gate", default=False) else width * (hidden + inner)
    decay = width * (hidden + inner) + inner + number
    parameters = 4 * hidden * inner + 3 * inner * kernel + decay + hidden * number + gate + width
    return _with_state(reader, parameters, recurrent=inner * width, convolution=3 * inner * (kernel - 1), heads=number)


def _kimi_experts(reader: ConfigReader) -> Mlp:
    if not reader.has("routed_expert_hidden_size"):
        return deepseek_experts(reader, router_bias=True)
    count, used = expert_counts(reader)
    width = width_of(reader, "moe_intermediate_size")
    return experts(
        hidden_size(reader),
        count,
        used,
        width,
        latent=reader.integer("routed_expert_hidden_size", high=MAX_HIDDEN),
        latent_norm=reader.flag("latent_moe_use_norm", default=False),
        shared_width=width * reader.integer("num_shared_experts", low=0, high=MAX_EXPERTS, default=0),
        router_extra=count,
    )


def nemotron_h(reader: ConfigReader) -> Layers:
    """Nemotron-H, Nano, Super, Ultra: a layer is one block: Mamba-2, attention, an MLP, or a mixture of experts."""
    hidden, blocks = hidden_size(reader), nemotron_blocks(reader)
    parts: dict[str, tuple[Attention, Mlp]] = {}
    for block in set(blocks):
        if block == "mamba":
            parts[block] = (_mamba2(reader, hidden), NO_MLP)
        elif block == "attention":
            bias = reader.flag("attention_bias", default=False)
            parts[block] = (grouped(hidden, heads(reader), qkv_bias=bias, out_bias=bias), NO_MLP)
        elif block == "moe":
            parts[block] = (NO_ATTENTION, _nemotron_experts(reader, hidden))
        else:
            bias = reader.flag("mlp_bias", default=False)
            parts[block] = (NO_ATTENTION, dense(hidden, width_of(reader, "intermediate_size"), matrices=2, bias=bias))
    return stack([parts[block][0] for block in blocks], [parts[block][1] for block in blocks], hidden)


def nemotron_blocks(reader: ConfigReader) -> list[str]:
    """The blocks in order, from layers_block_type or hybrid_override_pattern."""
    listed = reader.sequence("layers_block_type")
    blocks = (
        [entry if isinstance(entry, str) else "" for entry in listed]
        if listed
        else [_BLOCKS.get(mark, mark) for mark in _pattern(reader)]
    )
    reader.check(
        0 < len(blocks) <= MAX_LAYERS, "hybrid_override_pattern or layers_block_type: expected 1 to 1000 blocks"
    )
    unknown = sorted({block for block in blocks if block not in _BLOCKS.values()})
    reader.check(
        not unknown, f"unknown blocks {unknown[:5]} in the layer pattern; known: {', '.join(_BLOCKS.values())}"
    )
    return [block for block in blocks[:MAX_LAYERS] if block in _BLOCKS.values()]


def _pattern(reader: ConfigReader) -> str:
    return reader.text("hybrid_override_pattern").replace("|", "")


def _mamba2(reader: ConfigReader, hidden: int) -> Attention:
    """Mamba-2 (Dao and Gu 2024): z, x, B, C and dt in; a convolution; A, D and dt biases; a norm; out."""
    number = reader.integer("mamba_num_heads", high=MAX_HEADS)
    inner = number * reader.integer("mamba_head_dim", high=MAX_HEAD_DIM)
    state = reader.integer("ssm_state_size", high=MAX_HEAD_DIM)
    convolved = inner + 2 * reader.integer("n_groups", high=MAX_HEADS) * state
    kernel = reader.integer("conv_kernel", high=_MAX_KERNEL)
    parameters = hidden * (inner + convolved + number) + convolved * kernel + 3 * number + inner + inner * hidden
    parameters += convolved if reader.flag("use_conv_bias", default=True) else 0
    parameters += hidden + inner + convolved + number if reader.flag("use_bias", default=False) else 0
    return _with_state(
        reader, parameters, recurrent=inner * state, convolution=convolved * (kernel - 1), heads=number, mamba=True
    )


def _nemotron_experts(reader: ConfigReader, hidden: int) -> Mlp:
    count, used = expert_counts(reader)
    shared = reader.integer("moe_shared_expert_intermediate_size", low=0, high=MAX_WIDTH, default=0)
    return experts(
        hidden,
        count,
        used,
        width_of(reader, "moe_intermediate_size"),
        matrices=2,
        latent=reader.integer("moe_latent_size", low=0, high=MAX_HIDDEN, default=0),
        shared_width=shared * reader.integer("n_shared_experts", low=0, high=MAX_EXPERTS, default=1),
        router_extra=count,
    )
