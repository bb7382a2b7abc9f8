"""The records that describe one layer of a model and how its checkpoint stores weights."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

WeightFormat = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4"]
KvDtype = Literal["fp32", "bf16", "fp16", "fp8"]
AttentionKind = Literal["full", "sliding", "chunked", "mla", "linear", "mamba", "none"]
TensorKind = Literal["embedding", "lm_head", "attention", "dense_mlp", "experts", "shared_experts", "router", "norm"]


class Frozen(BaseModel):
    """A record that cannot change and refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Attention(Frozen):
    """The token mixer of one layer.

    Attributes:
        kind: "full" (MHA, GQA, MQA), "sliding", "chunked", "mla", "linear" (gated delta net and the like), "mamba",
            "none".
        query_heads, kv_heads, head_dim, value_head_dim: shapes; 0 where the kind has none. For MLA head_dim is
            qk_nope + qk_rope and value_head_dim is v_head_dim.
        window_tokens: the most tokens a sliding or chunked layer attends to; None otherwise. For an MLA layer: the
            recent
            tokens it keeps uncompressed (DeepSeek-V4), which with tokens_per_entry = 0 are all that it keeps.
        kv_lora_rank, rope_head_dim: MLA's latent width and its decoupled rope width; 0 otherwise.
        q_lora_rank: MLA's query compression; 0 otherwise.
        tokens_per_entry: tokens that share one KV entry: 1 for almost all models; DeepSeek-V4 pools 4 or 128 tokens,
            and 0 says
            that a layer keeps its window only.
        indexer_heads, indexer_head_dim, indexer_top_k: the indexer of sparse attention (DeepSeek-V3.2, GLM-5,
            MiniMax-M3);
            0 otherwise. Its key cache (indexer_head_dim elements per entry) is extra KV, on every rank.
        state_elements: elements of the fixed state a sequence holds in a linear or mamba layer (recurrent plus
            convolution).
        state_bytes: bytes of that state in the dtypes the config asks for (recurrent part often fp32).
        state_heads: heads the state is divided over by tensor parallelism; 0 where there is none.
        parameters: elements in this layer's mixer weights (projections, biases, q/k norms, indexer).
        shares_kv: the layer reads another layer's KV cache and holds none of its own.
    """

    kind: AttentionKind
    query_heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    value_head_dim: int = 0
    window_tokens: int | None = None
    kv_lora_rank: int = 0
    q_lora_rank: int = 0
    rope_head_dim: int = 0
    tokens_per_entry: int = 1
    indexer_heads: int = 0
    indexer_head_dim: int = 0
    indexer_top_k: int = 0
    state_elements: int = 0
    state_bytes: int = 0
    state_heads: int = 0
    parameters: int
    shares_kv: bool = False

    @property
    def holds_kv(self) -> bool:
        """Whether the layer has a KV cache of its own."""
        return self.kind in {"full", "sliding", "chunked", "mla"} and not self.shares_kv

    @property
    def kv_elements_per_token(self) -> float:
        """Elements one token adds to this layer's KV cache, one copy, window not applied, indexer keys not counted."""
        if not self.holds_kv:
            return 0.0
        if self.kind == "mla":
            return (self.kv_lora_rank + self.rope_head_dim) / self.tokens_per_entry if self.tokens_per_entry else 0.0
        return float(self.kv_heads * (self.head_dim + self.value_head_dim))


class Mlp(Frozen):
    """The channel mixer of one layer.

    Attributes:
        kind: "dense", "moe" or "none".
        intermediate_size: width of the dense MLP, or of ONE routed expert for a MoE layer.
        dense_parameters: elements of the dense MLP; 0 for a MoE layer.
        experts, experts_per_token: routed experts and how many a token uses.
        expert_parameters: elements of ONE routed expert.
        shared_intermediate_size, shared_parameters: shared experts together (used by every token), with whatever else
            every
            token passes beside the routed experts (a latent projection, Gemma 4's parallel dense MLP).
        router_parameters: elements of the router.
    """

    kind: Literal["dense", "moe", "none"]
    intermediate_size: int = 0
    dense_parameters: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_parameters: int = 0
    shared_intermediate_size: int = 0
    shared_parameters: int = 0
    router_parameters: int = 0


class Layer(Frozen):
    """One decoder layer."""

    attention: Attention
    mlp: Mlp
    norm_parameters: int

    @property
    def parameters_by_kind(self) -> dict[TensorKind, int]:
        """Elements of this layer by tensor kind (kinds that it lacks are 0)."""
        return {
            "attention": self.attention.parameters,
            "dense_mlp": self.mlp.dense_parameters,
            "experts": self.mlp.experts * self.mlp.expert_parameters,
            "shared_experts": self.mlp.shared_parameters,
            "router": self.mlp.router_parameters,
            "norm": self.norm_parameters,
        }


class Checkpoint(Frozen):
    """How the published checkpoint stores its weights.

    Attributes:
        weights: the format of the bulk of the linear layers.
        dtype: the 16-bit (or 32-bit) dtype of everything left unquantized.
        group_size: elements per scale for int4/nvfp4/mxfp4 (128, 16, 32); 0 when not grouped.
        block_size: (rows, columns) of FP8 block scales; None when per tensor or channel.
        zero_points: whether group zero points are stored too.
        unquantized: tensor kinds that stay in `dtype`.
        unquantized_share: kinds of which only some layers stay in `dtype`, with their share of the kind's elements (0
            to 1).
        other_formats: kinds that are quantized to another format than `weights` (DeepSeek-V4: FP8, but experts in
            MXFP4).
        kv_cache: KV dtype that the checkpoint asks for, when it does.
        method: the quantization method as the config names it ("" when none).
    """

    weights: WeightFormat
    dtype: KvDtype
    group_size: int = 0
    block_size: tuple[int, int] | None = None
    zero_points: bool = False
    unquantized: frozenset[TensorKind] = frozenset()
    unquantized_share: tuple[tuple[TensorKind, float], ...] = ()
    other_formats: tuple[tuple[TensorKind, WeightFormat], ...] = ()
    kv_cache: KvDtype | None = None
    method: str = ""

    @property
    def own_kv_cache(self) -> KvDtype:
        """KV cache dtype that engines choose by themselves: what the checkpoint asks for, else its 16-bit dtype."""
        return self.kv_cache or ("bf16" if self.dtype == "fp32" else self.dtype)
