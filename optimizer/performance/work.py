"""Work of one forward pass on one GPU, by split: bytes read, FLOP done, messages sent. No hardware in it.

Everything is per GPU and summed over the pipeline's stages, since a token passes them in turn. Stages that hold one
layer more set the pace, so layer work is scaled by stages x layers of the fullest stage / layers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from catalogs.model_precision import KV_BYTES, kind_bytes, storage
from catalogs.model_records import Attention, Checkpoint, Mlp, TensorKind
from catalogs.model_spec import ModelSpec

Array = npt.NDArray[np.float64]
Part = TypeVar("Part", Attention, Mlp)

ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class Splits:
    """Unique splits as columns: `weights` and `kv_cache` are names, the rest float arrays."""

    weights: list[str]
    kv_cache: list[str]
    tp: Array
    pp: Array
    ep: Array
    attention_dp: Array


@dataclass(frozen=True)
class Experts:
    """One shape of MoE layer.

    Attributes:
        experts: routed experts of a layer.
        per_token: experts a token uses.
        bytes_held: weight bytes of all routed experts of all such layers on one GPU.
        flop_per_token: {weight format: FLOP on one GPU per token of the whole replica}.
        ranks: GPUs that hold whole experts (1 when experts are sliced).
    """

    experts: int
    per_token: int
    bytes_held: Array
    flop_per_token: dict[str, Array]
    ranks: Array


@dataclass(frozen=True)
class Scores:
    """Attention over the context, for layers that see at most `window` tokens (None: all of them).

    Attributes:
        bytes_per_token: KV bytes read per token of context, per request, on one GPU.
        decode_flop_per_token: FLOP per token of context, per request, on one GPU.
        prefill_flop_per_pair: FLOP per (query, key) pair of a prompt on one GPU.
    """

    window: int | None
    bytes_per_token: Array
    decode_flop_per_token: Array
    prefill_flop_per_pair: Array


@dataclass(frozen=True)
class Work:
    """Work of one pass by split; see the module's docstring.

    Attributes:
        dense_bytes: weight bytes that every pass reads, whatever the batch.
        rank_flop: {weight format: FLOP per token of one attention rank} (attention).
        head_flop: {weight format: FLOP per token of one attention rank} (LM head; a prompt needs it once).
        shared_flop: {weight format: FLOP per token of the whole replica} (dense and shared MLPs, router).
        state_bytes: recurrent state read and written per request.
        reductions, wide_exchanges: all-reduces over `tp`, and exchanges over tp x attention_dp, per pass.
        layers, moe_layers, state_layers, block_scaled_layers: layer counts, scaled to the pace of the fullest stage.
    """

    dense_bytes: Array
    rank_flop: dict[str, Array]
    head_flop: dict[str, Array]
    shared_flop: dict[str, Array]
    experts: list[Experts]
    scores: list[Scores]
    state_bytes: Array
    reductions: Array
    wide_exchanges: Array
    layers: Array
    moe_layers: Array
    state_layers: Array
    block_scaled_layers: Array


def stored_formats(checkpoint: Checkpoint, kind: TensorKind) -> dict[str, float]:
    """Return the formats that the elements of a kind of tensor are held in, with their shares."""
    if kind in checkpoint.unquantized:
        return {checkpoint.dtype: 1.0}
    kept = dict(checkpoint.unquantized_share).get(kind, 0.0)
    own = dict(checkpoint.other_formats).get(kind, checkpoint.weights)
    return {checkpoint.dtype: kept, own: 1.0 - kept} if kept else {own: 1.0}


def pass_work(model: ModelSpec, splits: Splits) -> Work:
    """Return the work of one pass of `model` under each split."""
    return _Builder(model, splits).build()


class _Builder:
    """Sums the work over the distinct kinds of layers."""

    def __init__(self, model: ModelSpec, splits: Splits) -> None:
        self.model, self.splits = model, splits
        self.wide = splits.tp * splits.attention_dp
        layers = float(len(model.layers))
        self.pace = splits.pp * np.ceil(layers / splits.pp) / layers
        by_format = {weights: storage(model, weights) for weights in set(splits.weights)}
        self.stored = [by_format[weights] for weights in splits.weights]
        self.dense_bytes = np.zeros_like(splits.tp)
        self.state_bytes = np.zeros_like(splits.tp)
        self.rank_flop: dict[str, Array] = {}
        self.shared_flop: dict[str, Array] = {}
        self.head_flop: dict[str, Array] = {}
        self.experts: dict[tuple[int, int], Experts] = {}
        self.scores: dict[int | None, Scores] = {}

    def build(self) -> Work:
        attentions = _counted((layer.attention, count) for layer, count in self.model.layer_counts)
        mlps = _counted((layer.mlp, count) for layer, count in self.model.layer_counts)
        for attention, count in attentions:
            self._add_attention(attention, count * self.pace)
        for mlp, count in mlps:
            self._add_mlp(mlp, count * self.pace)
        head = float(self.model.vocab_size * self.model.hidden_size)
        self._add_linear("lm_head", head / self.splits.tp, self.head_flop)
        mixers = sum(count for attention, count in attentions if attention.kind != "none")
        channel = sum(count for mlp, count in mlps if mlp.kind != "none")
        moe = sum(count for mlp, count in mlps if mlp.kind == "moe")
        recurrent = sum(count for attention, count in attentions if attention.kind in {"linear", "mamba"})
        alone = self.splits.attention_dp == 1
        block_scaled = np.array([stored.block_size is not None for stored in self.stored])
        # A layer that holds only a mixer or only an MLP is half a layer of launches.
        layers = 0.5 * (mixers + channel) * self.pace
        return Work(
            dense_bytes=self.dense_bytes,
            rank_flop=self.rank_flop,
            head_flop=self.head_flop,
            shared_flop=self.shared_flop,
            experts=list(self.experts.values()),
            scores=list(self.scores.values()),
            state_bytes=self.state_bytes,
            reductions=np.where(self.splits.tp > 1, mixers + channel * alone, 0.0),
            wide_exchanges=np.where(alone, 0.0, float(channel)),
            layers=layers,
            moe_layers=moe * self.pace,
            state_layers=recurrent * self.pace,
            block_scaled_layers=layers * block_scaled,
        )

    def _element_bytes(self, kind: TensorKind) -> Array:
        """Bytes of one element of a kind of tensor, by split."""
        sizes = {id(stored): kind_bytes(stored, kind) for stored in self.stored}
        return np.array([sizes[id(stored)] for stored in self.stored])

    def _add_flop(self, kind: TensorKind, parameters: Array, flop: dict[str, Array]) -> None:
        """Add two FLOP per element and token, under the formats that the elements are held in."""
        shares = {id(stored): stored_formats(stored, kind) for stored in self.stored}
        for name in {name for formats in shares.values() for name in formats}:
            share = np.array([shares[id(stored)].get(name, 0.0) for stored in self.stored])
            flop[name] = flop.get(name, np.zeros_like(parameters)) + 2.0 * parameters * share

    def _add_linear(self, kind: TensorKind, on_gpu: Array, flop: dict[str, Array]) -> None:
        """Add matrices of one kind by how many of their elements one GPU holds."""
        self.dense_bytes = self.dense_bytes + on_gpu * self._element_bytes(kind)
        self._add_flop(kind, on_gpu, flop)

    def _add_attention(self, attention: Attention, count: Array) -> None:
        if attention.kind == "none":
            return
        tp = self.splits.tp
        copied = _replicated_parameters(attention, self.model.hidden_size, tp)
        self._add_linear("attention", count * (attention.parameters / tp + copied), self.rank_flop)
        # The recurrent state is read and written once a step.
        self.state_bytes = self.state_bytes + 2.0 * attention.state_bytes * count / tp
        if attention.kind in {"linear", "mamba"}:
            return
        kv_bytes = np.array([KV_BYTES[name] for name in self.splits.kv_cache])
        heads = attention.query_heads / tp * count
        pair = 2.0 * (attention.head_dim + attention.value_head_dim) * heads
        if attention.kind == "mla":
            self._add_latent(attention, kv_bytes * count, heads, pair)
        else:
            held = np.maximum(1.0, attention.kv_heads / tp) * (attention.head_dim + attention.value_head_dim)
            seen = attention.window_tokens or attention.indexer_top_k or None
            self._add_scores(seen, held * kv_bytes * count, pair, pair)
        if attention.indexer_top_k and attention.tokens_per_entry:
            keys = attention.indexer_head_dim * kv_bytes * count / attention.tokens_per_entry
            score = 2.0 * attention.indexer_heads * attention.indexer_head_dim * count / attention.tokens_per_entry
            self._add_scores(None, keys, score, score)

    def _add_latent(self, attention: Attention, kv_bytes: Array, heads: Array, pair: Array) -> None:
        """Add MLA: decode reads the latent and the rope key, with the up-projections absorbed into queries."""
        latent = (attention.kv_lora_rank + attention.rope_head_dim) * kv_bytes
        absorbed = 2.0 * (2.0 * attention.kv_lora_rank + attention.rope_head_dim) * heads
        if attention.window_tokens is not None:
            self._add_scores(attention.window_tokens, latent, absorbed, pair)
        if attention.tokens_per_entry:
            pooled = 1.0 / attention.tokens_per_entry
            seen = attention.indexer_top_k * attention.tokens_per_entry or None
            self._add_scores(seen, latent * pooled, absorbed * pooled, pair * pooled)

    def _add_scores(self, window: int | None, kv: Array, decode: Array, prefill: Array) -> None:
        old = self.scores.get(window)
        if old is not None:
            kv, decode = kv + old.bytes_per_token, decode + old.decode_flop_per_token
            prefill = prefill + old.prefill_flop_per_pair
        self.scores[window] = Scores(window, kv, decode, prefill)

    def _add_mlp(self, mlp: Mlp, count: Array) -> None:
        if mlp.kind == "dense":
            self._add_linear("dense_mlp", mlp.dense_parameters * count / self.wide, self.shared_flop)
        if mlp.kind != "moe":
            return
        self._add_linear("shared_experts", mlp.shared_parameters * count / self.wide, self.shared_flop)
        self._add_linear("router", mlp.router_parameters * count, self.shared_flop)
        key = (mlp.experts, mlp.experts_per_token)
        one_each = mlp.expert_parameters * count / self.wide
        old = self.experts.get(key)
        flop = dict(old.flop_per_token) if old else {}
        self._add_flop("experts", mlp.experts_per_token * one_each, flop)
        held = mlp.experts * one_each * self._element_bytes("experts") + (old.bytes_held if old else 0.0)
        self.experts[key] = Experts(mlp.experts, mlp.experts_per_token, held, flop, self.splits.ep)


def _replicated_parameters(attention: Attention, hidden_size: int, tp: Array) -> Array:
    """Elements that tensor parallelism holds again on each GPU beyond an even share.

    KV heads are copied when there are more GPUs than heads; MLA's down-projections are held whole on every GPU.
    """
    if attention.kind == "mla":
        down = hidden_size * (attention.q_lora_rank + attention.kv_lora_rank + attention.rope_head_dim)
        return down * (1.0 - 1.0 / tp)
    projections = hidden_size * attention.kv_heads * (attention.head_dim + attention.value_head_dim)
    if attention.kv_heads == 0 or attention.kind in {"linear", "mamba"}:
        return np.zeros_like(tp)
    return projections / tp * (np.maximum(1.0, tp / attention.kv_heads) - 1.0)


def _counted(parts: Iterable[tuple[Part, int]]) -> list[tuple[Part, int]]:
    """Distinct parts with how often each occurs; layers share objects, so identity finds almost all repeats."""
    counts: dict[int, int] = {}
    first: dict[int, Part] = {}
    for part, count in parts:
        counts[id(part)] = counts.get(id(part), 0) + count
        first.setdefault(id(part), part)
    return [(first[key], count) for key, count in counts.items()]
