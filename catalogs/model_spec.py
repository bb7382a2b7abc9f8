"""ModelSpec: what a language model holds and computes, summed from its layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

from catalogs.errors import UnknownNameError
from catalogs.model_precision import KV_BYTES, kind_bytes, storage
from catalogs.model_records import AttentionKind, Checkpoint, Frozen, Layer, TensorKind


class ModelSpec(Frozen):
    """A decoder-only language model, text part; vision tower and MTP layers are counted apart.

    `layers` is in order, one entry a layer (entries are shared objects, so equal layers compare by identity cheaply).

    Attributes:
        name: as on the Hub, or as the file is called.
        architecture: the config's model_type, which chose the parser.
        hidden_size, vocab_size, max_context_tokens, tied_embeddings: as in the config.
        embedding_parameters, lm_head_parameters, final_norm_parameters: elements outside the layers; LM head 0 when
            tied.
        vision_parameters, vision_heads: the vision tower, estimated from its config; 0 without one.
        mtp_parameters: multi-token-prediction layers in the checkpoint, which serve only speculative decoding.
        layers: one entry a decoder layer.
        checkpoint: how the published weights are stored.
        published_parameters: the total to test against, text only, without MTP; None when unknown.
        source: where the facts come from.
    """

    name: str
    architecture: str
    hidden_size: int
    vocab_size: int
    max_context_tokens: int
    tied_embeddings: bool
    embedding_parameters: int
    lm_head_parameters: int
    final_norm_parameters: int
    vision_parameters: int = 0
    vision_heads: int = 0
    mtp_parameters: int = 0
    layers: tuple[Layer, ...]
    checkpoint: Checkpoint
    published_parameters: int | None = None
    source: str

    def __hash__(self) -> int:
        """Cheap hash: equal specs share it, and hashing all layers would cost more than what callers cache."""
        return hash((self.name, self.architecture, self.hidden_size, len(self.layers), self.checkpoint))

    @cached_property
    def layer_counts(self) -> tuple[tuple[Layer, int], ...]:
        """Each distinct layer object once, in order of first use, with how often it occurs."""
        counts = Counter(map(id, self.layers))
        by_id = {id(layer): layer for layer in self.layers}
        return tuple((layer, counts[key]) for key, layer in by_id.items())

    @cached_property
    def parameters_by_kind(self) -> Mapping[TensorKind, int]:
        """Elements by tensor kind, over all layers."""
        total: dict[TensorKind, int] = {
            "embedding": self.embedding_parameters,
            "lm_head": self.lm_head_parameters,
            "attention": 0,
            "dense_mlp": 0,
            "experts": 0,
            "shared_experts": 0,
            "router": 0,
            "norm": self.final_norm_parameters,
        }
        for layer, count in self.layer_counts:
            for kind, elements in layer.parameters_by_kind.items():
                total[kind] += count * elements
        return MappingProxyType(total)

    @cached_property
    def total_parameters(self) -> int:
        """All elements of the text model: embedding, layers, final norm, LM head when not tied."""
        return sum(self.parameters_by_kind.values())

    @cached_property
    def active_parameters(self) -> int:
        """Elements that one token uses: as total, with only experts_per_token of the routed experts."""
        idle = sum(
            count * (layer.mlp.experts - layer.mlp.experts_per_token) * layer.mlp.expert_parameters
            for layer, count in self.layer_counts
        )
        return self.total_parameters - idle

    def weight_bytes(self, weights: str | None = None) -> float:
        """Bytes of all text weights stored in `weights` (None: as published), scales included, by tensor kind.

        Raises:
            UnknownNameError: `weights` is not a weight format.
        """
        stored = storage(self, weights)
        return sum(elements * kind_bytes(stored, kind) for kind, elements in self.parameters_by_kind.items())

    def kv_bytes_per_token(self, kv_cache: str = "bf16") -> float:
        """Bytes that one token adds over all KV-holding layers, one copy, windows not applied (MLA: latent + rope).

        An upper bound for sliding and chunked layers; linear and mamba layers add none; indexer keys are not counted.

        Raises:
            UnknownNameError: `kv_cache` is not a KV dtype.
        """
        if kv_cache not in KV_BYTES:
            raise UnknownNameError("KV cache dtype", kv_cache, KV_BYTES)
        return self._kv_elements_per_token * KV_BYTES[kv_cache]

    @cached_property
    def _kv_elements_per_token(self) -> float:
        return sum(count * layer.attention.kv_elements_per_token for layer, count in self.layer_counts)

    @cached_property
    def attention_kinds(self) -> Mapping[AttentionKind, int]:
        """Number of layers by kind of token mixer."""
        counts: Counter[AttentionKind] = Counter()
        for layer, count in self.layer_counts:
            counts[layer.attention.kind] += count
        return MappingProxyType(dict(counts))

    @cached_property
    def query_head_counts(self) -> tuple[int, ...]:
        """The different numbers of query heads, ascending (tensor parallelism must divide each)."""
        return self._distinct(lambda layer: layer.attention.query_heads)

    @cached_property
    def kv_head_counts(self) -> tuple[int, ...]:
        """The different numbers of KV heads, ascending; empty for MLA, whose latent is not divided over heads."""
        return self._distinct(lambda layer: layer.attention.kv_heads)

    @cached_property
    def state_head_counts(self) -> tuple[int, ...]:
        """The different numbers of heads that linear or mamba states are divided over, ascending."""
        return self._distinct(lambda layer: layer.attention.state_heads)

    @cached_property
    def dense_widths(self) -> tuple[int, ...]:
        """The different dense MLP widths, ascending."""
        return self._distinct(lambda layer: layer.mlp.intermediate_size if layer.mlp.kind == "dense" else 0)

    @cached_property
    def expert_widths(self) -> tuple[int, ...]:
        """The different widths of one routed expert, ascending."""
        return self._distinct(lambda layer: layer.mlp.intermediate_size if layer.mlp.kind == "moe" else 0)

    @cached_property
    def shared_expert_widths(self) -> tuple[int, ...]:
        """The different widths of the shared experts together, ascending."""
        return self._distinct(lambda layer: layer.mlp.shared_intermediate_size)

    @cached_property
    def expert_counts(self) -> tuple[int, ...]:
        """The different numbers of routed experts, ascending."""
        return self._distinct(lambda layer: layer.mlp.experts)

    @cached_property
    def mla(self) -> bool:
        """Whether any layer uses multi-head latent attention."""
        return any(layer.attention.kind == "mla" for layer, _ in self.layer_counts)

    @cached_property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(layer.mlp.kind == "moe" for layer, _ in self.layer_counts)

    def _distinct(self, value: Callable[[Layer], int]) -> tuple[int, ...]:
        return _positive(value(layer) for layer, _ in self.layer_counts)


def _positive(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({value for value in values if value > 0}))
