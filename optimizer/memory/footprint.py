"""Footprint: what a split puts on the fullest GPU of a replica, whatever that GPU is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from catalogs.errors import UnknownNameError
from catalogs.model_precision import KV_BYTES, kind_bytes, storage
from catalogs.model_records import Checkpoint
from catalogs.model_spec import ModelSpec
from optimizer.kept import kept
from optimizer.memory.shares import ACTIVATION_BYTES, LayerShare, layer_share
from optimizer.memory.stages import Stage, all_stages, distinct_stages
from optimizer.split import Split

FloatArray = NDArray[np.float64]

DEFAULT_BATCHED_TOKENS = 8192
# vLLM's max_num_seqs on GPUs below 70 GiB and on A100; 1,024 on larger ones (vllm_batch_defaults).
DEFAULT_SEQUENCES = 256
# Bytes per sequence and vocabulary entry while vLLM V1 profiles its sampler. Fitted to the profiled activations of
# Llama 3.1 8B (1.89 GiB), Qwen2.5 7B (2.21), gpt-oss-20b (2.87) and Gemma 3 27B (3.99), each with 1,024 sequences, vLLM
# 0.19.0 on H100 (llm-d-planner accuracy report, 22 April 2026); these give 15.5, 15.2, 15.0 and 16.0. It does not
# shrink with TP: 1.89 GiB at TP1, 2, 4.
SAMPLER_BYTES = 15.4
VOCABULARY_MULTIPLE = 64  # vLLM pads the vocabulary to this before it divides it over TP
BLOCK_TOKENS = 16  # tokens per KV block of vLLM and, by default, most others
GROUP_SLACK = 1.25  # vLLM's hybrid KV cache makes groups of the commonest kind's size when kinds differ by less


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share one block table in vLLM's hybrid KV cache, and how many such groups a stage has.

    Attributes:
        kind: "full", "window" (sliding or chunked) or "state" (linear and mamba).
        window_tokens: the window; 0 for the other kinds.
        groups: block tables of this kind; every group has equally many layers, padding included.
    """

    kind: Literal["full", "window", "state"]
    window_tokens: int
    groups: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on one GPU, the fullest pipeline stage counted for each figure apart (so never too little).

    Attributes:
        weights_bytes: weights with scales and padding, the embedding and LM head where the stage has them.
        kv_bytes_per_token: cache that one token takes for the whole life of its request.
        windowed: (window in tokens, bytes per token) of sliding-window and chunked layers, which hold at most the
            window.
        kv_fixed_bytes_per_sequence: states of linear-attention and mamba layers.
        activation_bytes: peak of one engine step: the forward pass of the batched tokens, or the sampling of all
            sequences.
        kv_logged_bytes_per_token: bytes that vLLM's own count of "KV cache tokens" takes for one: every layer at full
            length, with the layers that pad its hybrid groups.
        kv_groups: the groups of vLLM's hybrid KV cache on the stage that kv_logged_bytes_per_token is of.
        block_tokens: tokens per KV block; larger where a block must be as long as a mamba state is big.
        ranks: GPUs that talk in collectives inside a stage (tp x attention_dp); 1 means no collectives' buffers.
    """

    weights_bytes: float
    kv_bytes_per_token: float
    windowed: tuple[tuple[int, float], ...] = ()
    kv_fixed_bytes_per_sequence: float = 0.0
    activation_bytes: float = 0.0
    kv_logged_bytes_per_token: float = 0.0
    kv_groups: tuple[KvGroup, ...] = ()
    block_tokens: int = BLOCK_TOKENS
    ranks: int = 1

    @overload
    def kv_bytes_per_sequence(self, context_tokens: float) -> float: ...
    @overload
    def kv_bytes_per_sequence(self, context_tokens: FloatArray) -> FloatArray: ...
    def kv_bytes_per_sequence(self, context_tokens: float | FloatArray) -> float | FloatArray:
        """Bytes of cache that one request with `context_tokens` tokens holds on one GPU; takes arrays too."""
        held = self.kv_fixed_bytes_per_sequence + context_tokens * self.kv_bytes_per_token
        for window, token_bytes in self.windowed:
            held = held + np.minimum(context_tokens, window) * token_bytes
        return held if isinstance(held, np.ndarray) else float(held)


@kept(size=16_384)
def footprint(
    model: ModelSpec,
    split: Split,
    *,
    max_batched_tokens: int = DEFAULT_BATCHED_TOKENS,
    max_sequences: int = DEFAULT_SEQUENCES,
) -> Footprint:
    """Return what `split` puts on the fullest GPU of one replica.

    With attention data parallelism the routed experts are divided over all ranks; attention, dense MLPs, shared
    experts, embedding and LM head are whole on each attention rank (divided over its `tp` GPUs only), as vLLM holds
    them.

    Args:
        model: the model.
        split: how a replica is divided and in which formats it is held; not checked here (see optimizer.divisibility).
        max_batched_tokens: tokens one engine step may process.
        max_sequences: requests one engine step may sample for.

    Raises:
        UnknownNameError: the split's weight format or KV cache dtype is unknown.
        ValueError: more pipeline stages than layers.
    """
    if split.kv_cache not in KV_BYTES:
        raise UnknownNameError("KV cache dtype", split.kv_cache, KV_BYTES)
    if split.pp > len(model.layers):
        raise ValueError(
            f"Expected at most {len(model.layers)} pipeline stages (layers of {model.name}), got {split.pp}."
        )
    return _footprint_of(model, split, distinct_stages(model, split.pp), max_batched_tokens, max_sequences)


def stage_footprints(
    model: ModelSpec,
    split: Split,
    *,
    max_batched_tokens: int = DEFAULT_BATCHED_TOKENS,
    max_sequences: int = DEFAULT_SEQUENCES,
) -> tuple[Footprint, ...]:
    """Return what `split` puts on a GPU of each pipeline stage, in order; the arguments are those of `footprint`."""
    stages = all_stages(model, split.pp)
    each = {stage: _footprint_of(model, split, (stage,), max_batched_tokens, max_sequences) for stage in set(stages)}
    return tuple(each[stage] for stage in stages)


def _footprint_of(
    model: ModelSpec, split: Split, stages: Sequence[Stage], max_batched_tokens: int, max_sequences: int
) -> Footprint:
    """Return what the fullest GPU of these stages holds."""
    stored = storage(model, split.weights)
    shares = [layer_share(layer, model.hidden_size, split, stored) for layer, _ in model.layer_counts]
    logged = max((_logged_stage(stage, shares) for stage in stages), key=lambda held: held[0])
    widest = max((share.activations_per_token for share in shares), default=0.0)
    return Footprint(
        weights_bytes=max(_stage_weights(model, split, stored, stage, shares) for stage in stages),
        kv_bytes_per_token=max(_total(stage, [share.kv_per_token for share in shares]) for stage in stages),
        windowed=_windowed(stages, shares),
        kv_fixed_bytes_per_sequence=max(_total(stage, [share.kv_fixed for share in shares]) for stage in stages),
        activation_bytes=max(max_batched_tokens * widest, max_sequences * model.vocab_size * SAMPLER_BYTES),
        kv_logged_bytes_per_token=logged[0],
        kv_groups=logged[1],
        block_tokens=_block_tokens(shares),
        ranks=split.tp * split.attention_dp,
    )


def _total(stage: Stage, per_layer: Sequence[float]) -> float:
    return sum(count * per_layer[index] for index, count in stage.layers)


def _stage_weights(
    model: ModelSpec, split: Split, stored: Checkpoint, stage: Stage, shares: Sequence[LayerShare]
) -> float:
    held = _total(stage, [share.weights for share in shares])
    padded = ceil(model.vocab_size / VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE / model.vocab_size
    embedding = model.embedding_parameters * padded / split.tp * kind_bytes(stored, "embedding")
    if stage.first:
        held += embedding + _vision_bytes(model, split.tp, stored)
    if stage.last:
        held += model.final_norm_parameters * kind_bytes(stored, "norm")
        head = model.lm_head_parameters * padded / split.tp * kind_bytes(stored, "lm_head")
        # Tied weights serve both ends: one copy on a stage that is both, one on each otherwise.
        held += head if not model.tied_embeddings else 0.0 if stage.first else embedding
    return held


def _vision_bytes(model: ModelSpec, tp: int, stored: Checkpoint) -> float:
    """The vision tower at 16 bits: sliced where its heads divide over TP, else whole on each GPU (vLLM issue 8097)."""
    sliced = tp if model.vision_heads and model.vision_heads % tp == 0 else 1
    return model.vision_parameters / sliced * max(ACTIVATION_BYTES, kind_bytes(stored, "norm"))


def _windowed(stages: Sequence[Stage], shares: Sequence[LayerShare]) -> tuple[tuple[int, float], ...]:
    """Windows with the bytes a token takes in all layers of that window, the largest of the stages each."""
    windows = sorted({share.window_tokens for share in shares if share.window_tokens and share.kv_per_windowed_token})
    return tuple(
        (
            window,
            max(
                _total(stage, [s.kv_per_windowed_token if s.window_tokens == window else 0.0 for s in shares])
                for stage in stages
            ),
        )
        for window in windows
    )


def _logged_stage(stage: Stage, shares: Sequence[LayerShare]) -> tuple[float, tuple[KvGroup, ...]]:
    """Bytes behind one token of the count that vLLM logs, and the groups of layers that it counts with.

    vLLM's hybrid KV cache manager makes groups of equally many layers of one kind and fills the last of each kind up
    with padding. Gemma 3 27B, 10 full and 52 sliding layers: 7 groups of 10, 70 layers' worth (vLLM 0.19.0 log,
    llm-d-planner, 22 April 2026: 36,560 tokens from 19.53 GiB); gpt-oss-20b, 12 and 12: 24 layers' worth. A group of
    linear or mamba layers shares the blocks of the others and adds nothing to a token.
    """
    kinds: dict[tuple[int, bool], tuple[int, float]] = {}
    states = 0
    for index, count in stage.layers:
        share = shares[index]
        per_token = share.kv_per_token + share.kv_per_windowed_token
        states += count if share.kv_fixed else 0
        if per_token:
            key = (share.window_tokens or 0, share.kv_per_token > 0)
            layers, total = kinds.get(key, (0, 0.0))
            kinds[key] = (layers + count, total + count * per_token)
    if not kinds:
        return 0.0, ()
    size = _group_size([layers for layers, _ in kinds.values()])
    groups = [
        KvGroup("full" if whole else "window", 0 if whole else window, ceil(layers / size))
        for (window, whole), (layers, _) in kinds.items()
    ]
    if states:
        groups.append(KvGroup("state", 0, ceil(states / size)))
    return sum(ceil(layers / size) * size * total / layers for layers, total in kinds.values()), tuple(groups)


def _group_size(counts: Sequence[int]) -> int:
    return max(counts) if max(counts) < GROUP_SLACK * min(counts) else min(counts)


def _block_tokens(shares: Sequence[LayerShare]) -> int:
    """Tokens per block: as many as make one layer's block at least as large as one layer's state, in whole 16s.

    vLLM's hybrid models share one page size between attention and mamba layers; 672 tokens for Nemotron Nano 9B v2
    (issue 24280).
    """
    state = max((share.kv_fixed for share in shares), default=0.0)
    token = max((share.kv_per_token for share in shares), default=0.0)
    if not state or not token:
        return BLOCK_TOKENS
    return max(1, ceil(state / token / BLOCK_TOKENS)) * BLOCK_TOKENS
