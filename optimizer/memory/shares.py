"""What one GPU holds of one layer: bytes of weights, bytes of KV cache, bytes of activations per batched token.

Sources are the parallel layers of vLLM (`QKVParallelLinear`, `MergedColumnParallelLinear`, `ReplicatedLinear`,
`FusedMoE`, `VocabParallelEmbedding`), which SGLang shares; read in September 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from catalogs.model_precision import KV_BYTES, kind_bytes
from catalogs.model_records import Attention, Checkpoint, Layer, Mlp
from optimizer.split import Split

ACTIVATION_BYTES = 2.0  # engines compute in 16 bits whatever the weights are
SPARSE_FP8_SCALE_GROUP = 128  # vLLM's fp8_ds_mla cache: an FP32 scale per 128 latent elements, the rope part at 16 bits
MXFP4_HIDDEN_MULTIPLE = 256  # vLLM's MXFP4 MoE pads the hidden size to this, and a sliced width to the next
MXFP4_SLICE_MULTIPLE = 128


@dataclass(frozen=True, slots=True)
class LayerShare:
    """One GPU's part of one layer, in bytes (see Footprint for the meaning of the cache fields)."""

    weights: float
    kv_per_token: float
    window_tokens: int | None
    kv_per_windowed_token: float
    kv_fixed: float
    activations_per_token: float


def layer_share(layer: Layer, hidden_size: int, split: Split, stored: Checkpoint) -> LayerShare:
    """Return one GPU's part of `layer` under `split`, with weights stored as `stored` says."""
    kv_per_token, kv_per_windowed_token = _kv_bytes(layer.attention, split)
    return LayerShare(
        weights=_attention_weights(layer.attention, hidden_size, split.tp, stored)
        + _mlp_weights(layer.mlp, hidden_size, split, stored)
        + layer.norm_parameters * kind_bytes(stored, "norm"),
        kv_per_token=kv_per_token,
        window_tokens=layer.attention.window_tokens,
        kv_per_windowed_token=kv_per_windowed_token,
        kv_fixed=_state_bytes(layer.attention, split.tp),
        activations_per_token=_activations_per_token(layer, hidden_size, split),
    )


def kv_heads_on_gpu(kv_heads: int, tp: int) -> int:
    """Return the KV heads one GPU holds: divided over `tp`, and beyond `kv_heads` GPUs replicated, one each."""
    return max(1, ceil(kv_heads / tp))


def _attention_weights(attention: Attention, hidden_size: int, tp: int, stored: Checkpoint) -> float:
    """Sliced by heads; whole on every GPU are MLA's down-projections, the indexer, and KV heads beyond one per GPU."""
    each = kind_bytes(stored, "attention")
    if attention.kind == "mla":
        whole = min(mla_whole_elements(attention, hidden_size), attention.parameters)
        absorbed = _absorbed_bytes(attention, tp) if each < ACTIVATION_BYTES else 0.0
        return (whole + (attention.parameters - whole) / tp) * each + absorbed
    if not attention.holds_kv:
        return attention.parameters / tp * each
    head = hidden_size * (attention.head_dim + attention.value_head_dim)
    kv = min(head * attention.kv_heads, attention.parameters)
    kv_on_gpu = head * kv_heads_on_gpu(attention.kv_heads, tp) if tp > 1 else kv
    return ((attention.parameters - kv) / tp + kv_on_gpu) * each


def mla_whole_elements(attention: Attention, hidden_size: int) -> int:
    """Return the elements that every tensor parallel rank holds: projections to latents, their norms, the indexer."""
    latent = attention.kv_lora_rank + attention.rope_head_dim
    down = (hidden_size + 1) * attention.q_lora_rank + hidden_size * latent + attention.kv_lora_rank
    query_input = attention.q_lora_rank or hidden_size
    indexer = attention.indexer_heads * attention.indexer_head_dim * query_input
    indexer += hidden_size * (attention.indexer_head_dim + attention.indexer_heads)
    return down + (indexer if attention.indexer_heads else 0)


def _absorbed_bytes(attention: Attention, tp: int) -> float:
    """MLA decodes with the up-projection of keys and values absorbed; from quantized weights that is a 16-bit copy."""
    if attention.head_dim == attention.kv_lora_rank + attention.rope_head_dim:
        return 0.0  # DeepSeek-V4's heads read the latent itself: nothing is projected up
    no_rope = attention.head_dim - attention.rope_head_dim
    return attention.kv_lora_rank * attention.query_heads * (no_rope + attention.value_head_dim) / tp * ACTIVATION_BYTES


def _mlp_weights(mlp: Mlp, hidden_size: int, split: Split, stored: Checkpoint) -> float:
    if mlp.kind == "dense":
        return mlp.dense_parameters / split.tp * kind_bytes(stored, "dense_mlp")
    if mlp.kind == "none":
        return 0.0
    return (
        _expert_elements(mlp, hidden_size, split, stored) * kind_bytes(stored, "experts")
        + mlp.shared_parameters / split.tp * kind_bytes(stored, "shared_experts")
        + mlp.router_parameters * kind_bytes(stored, "router")
    )


def _expert_elements(mlp: Mlp, hidden_size: int, split: Split, stored: Checkpoint) -> float:
    """Routed experts: whole ones over `ep`, or every one sliced over all tensor and attention-data-parallel ranks."""
    if split.ep > 1:
        experts, slices = ceil(mlp.experts / split.ep), 1
    else:
        experts, slices = mlp.experts, split.tp * split.attention_dp
    padding = _mxfp4_padding(mlp.intermediate_size, hidden_size, slices) if _experts_in_mxfp4(stored) else 1.0
    return experts * mlp.expert_parameters / slices * padding


def _experts_in_mxfp4(stored: Checkpoint) -> bool:
    return dict(stored.other_formats).get("experts", stored.weights) == "mxfp4"


def _mxfp4_padding(width: int, hidden_size: int, slices: int) -> float:
    """Growth of an MXFP4 expert by padding: hidden size to 256, a sliced width to 128.

    vLLM `Mxfp4MoEMethod.create_weights`, Marlin backend. gpt-oss-20b at TP2 loads 7.01 GiB per GPU (llm-d-planner
    accuracy logs, vLLM 0.19.0, 22 April 2026) where its checkpoint is 12.8 GiB; gpt-oss-120b at TP1 64.38 GiB (vLLM
    issue 33155).
    """
    hidden = _round_up(hidden_size, MXFP4_HIDDEN_MULTIPLE) / hidden_size
    sliced = width / slices
    return hidden * (_round_up(ceil(sliced), MXFP4_SLICE_MULTIPLE) / sliced if slices > 1 else 1.0)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _kv_bytes(attention: Attention, split: Split) -> tuple[float, float]:
    """Bytes of cache of one token on one GPU: for as long as the request lives, and while it is inside the window."""
    each = KV_BYTES[split.kv_cache]
    if not attention.holds_kv:
        return 0.0, 0.0
    if attention.kind == "mla":
        entry = _latent_entry_bytes(attention, split.kv_cache)
        kept = (
            (entry + _indexer_entry_bytes(attention)) / attention.tokens_per_entry
            if attention.tokens_per_entry
            else 0.0
        )
        return kept, entry if attention.window_tokens else 0.0
    heads = kv_heads_on_gpu(attention.kv_heads, split.tp)
    token = heads * (attention.head_dim + attention.value_head_dim) * each + _indexer_entry_bytes(attention)
    return (0.0, token) if attention.window_tokens else (token, 0.0)


def _latent_entry_bytes(attention: Attention, kv_cache: str) -> float:
    """One latent with its rope part, on every rank. Sparse MLA in FP8 adds scales and keeps rope at 16 bits."""
    if kv_cache == "fp8" and attention.indexer_heads:
        scales = 4.0 * ceil(attention.kv_lora_rank / SPARSE_FP8_SCALE_GROUP)
        return attention.kv_lora_rank + scales + attention.rope_head_dim * ACTIVATION_BYTES
    return (attention.kv_lora_rank + attention.rope_head_dim) * KV_BYTES[kv_cache]


def _indexer_entry_bytes(attention: Attention) -> float:
    """Sparse attention's index keys: FP8 with an FP32 scale per 128 elements, whatever the KV cache is."""
    if not attention.indexer_head_dim:
        return 0.0
    return attention.indexer_head_dim + 4.0 * ceil(attention.indexer_head_dim / SPARSE_FP8_SCALE_GROUP)


def _state_bytes(attention: Attention, tp: int) -> float:
    """The fixed state of one sequence in a linear or mamba layer, divided over its heads."""
    return attention.state_bytes / min(tp, max(1, attention.state_heads))


def _activations_per_token(layer: Layer, hidden_size: int, split: Split) -> float:
    """Bytes alive per token at the widest point: hidden state, residual and input, and the wider of both mixers.

    A dense MLP keeps its gate, up and product. 2 x (3 x hidden + 3 x width) is 110.6 kB for Llama 3.1 8B; vLLM profiled
    2.07 GiB for 20,000 tokens and 2.99 GiB for 29,000 (issue 10517, derived): 111.1 and 110.7 kB.
    """
    attention = _attention_width(layer.attention, hidden_size) / split.tp
    return ACTIVATION_BYTES * (3 * hidden_size + max(attention, _mlp_width(layer.mlp, hidden_size, split)))


def _attention_width(attention: Attention, hidden_size: int) -> float:
    if attention.kind in {"linear", "mamba"}:
        return attention.parameters / hidden_size
    per_head = attention.head_dim + attention.value_head_dim
    if attention.kind == "mla":
        return 2.0 * attention.query_heads * per_head
    return float((attention.query_heads + attention.kv_heads) * per_head)


def _mlp_width(mlp: Mlp, hidden_size: int, split: Split) -> float:
    """Routed tokens are copied once per expert chosen; vLLM's fused MoE reuses one buffer for gate, up and output."""
    if mlp.kind == "dense":
        return 3 * mlp.intermediate_size / split.tp
    if mlp.kind == "none":
        return 0.0
    width = mlp.intermediate_size / (split.tp * split.attention_dp if split.ep == 1 else 1)
    routed = mlp.experts_per_token * (max(2 * width, hidden_size) + width)
    return routed + 3 * mlp.shared_intermediate_size / split.tp
