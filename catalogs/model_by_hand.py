"""Model facts given by hand, for architectures that the parser does not know.

A JSON or YAML file with one key, `shardwise_model`:

    {"shardwise_model": {
        "name": "my-org/my-model",
        "hidden_size": 4096, "vocab_size": 128256, "max_context_tokens": 131072, "tied_embeddings": false,
        "layers": [
            {"count": 24, "attention": {"kind": "sliding", "query_heads": 32, "kv_heads": 8, "head_dim": 128,
            "window_tokens": 4096},
                          "mlp": {"kind": "dense", "intermediate_size": 14336}},
            {"count": 8,  "attention": {"kind": "full", "query_heads": 32, "kv_heads": 8, "head_dim": 128},
                          "mlp": {"kind": "moe", "intermediate_size": 2048, "experts": 64, "experts_per_token": 4}}],
        "checkpoint": {"weights": "fp8", "dtype": "bf16", "block_size": [128, 128]},
        "source": "where the facts come from"}}

`layers` are runs in order. The fields are those of Attention, Mlp, Checkpoint and ModelSpec. Parameter counts may be
left out
where they follow from the shapes: grouped and latent attention without biases, gated MLPs (three matrices), a router of
hidden_size x experts, two norms a layer. Linear and mamba mixers need `parameters` and `state_elements`. Kinds that the
checkpoint leaves at 16 bits default to embedding, LM head, norms and router.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from catalogs.architectures.build import Heads, dense, experts, grouped
from catalogs.architectures.latent_families import Indexer, Latent, latent_attention
from catalogs.model_config import (
    BY_HAND_KEY,
    HAND_HINT,
    MAX_CONTEXT,
    MAX_EXPERTS,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_HIDDEN,
    MAX_LAYERS,
    MAX_TOTAL_PARAMETERS,
    MAX_VOCAB,
    MAX_WIDTH,
    ModelConfigError,
)
from catalogs.model_precision import ALWAYS_16_BIT
from catalogs.model_records import (
    Attention,
    AttentionKind,
    Checkpoint,
    Frozen,
    KvDtype,
    Layer,
    Mlp,
    TensorKind,
    WeightFormat,
)
from catalogs.model_spec import ModelSpec

_Count = Annotated[int, Field(strict=True, ge=0, le=MAX_TOTAL_PARAMETERS)]
_Width = Annotated[int, Field(strict=True, ge=0, le=MAX_WIDTH)]
_HeadCount = Annotated[int, Field(strict=True, ge=0, le=MAX_HEADS)]
_HeadDim = Annotated[int, Field(strict=True, ge=0, le=MAX_HEAD_DIM)]
_Name = Annotated[str, Field(min_length=1, max_length=300)]


class _HandAttention(Frozen):
    kind: AttentionKind
    query_heads: _HeadCount = 0
    kv_heads: _HeadCount = 0
    head_dim: _HeadDim = 0
    value_head_dim: _HeadDim = 0
    window_tokens: Annotated[int, Field(strict=True, ge=1, le=MAX_CONTEXT)] | None = None
    kv_lora_rank: _Width = 0
    q_lora_rank: _Width = 0
    rope_head_dim: _HeadDim = 0
    tokens_per_entry: Annotated[int, Field(ge=0, le=4096)] = 1
    indexer_heads: _HeadCount = 0
    indexer_head_dim: _HeadDim = 0
    indexer_top_k: Annotated[int, Field(ge=0, le=MAX_CONTEXT)] = 0
    state_elements: _Count = 0
    state_bytes: _Count | None = None
    state_heads: _HeadCount = 0
    parameters: _Count | None = None
    shares_kv: bool = False


class _HandMlp(Frozen):
    kind: Literal["dense", "moe", "none"]
    intermediate_size: _Width = 0
    dense_parameters: _Count | None = None
    experts: Annotated[int, Field(strict=True, ge=0, le=MAX_EXPERTS)] = 0
    experts_per_token: Annotated[int, Field(strict=True, ge=0, le=MAX_EXPERTS)] = 0
    expert_parameters: _Count | None = None
    shared_intermediate_size: _Width = 0
    shared_parameters: _Count | None = None
    router_parameters: _Count | None = None


class _Run(Frozen):
    count: Annotated[int, Field(strict=True, ge=1, le=MAX_LAYERS)] = 1
    attention: _HandAttention
    mlp: _HandMlp
    norm_parameters: _Count | None = None


class _HandCheckpoint(Frozen):
    weights: WeightFormat = "bf16"
    dtype: KvDtype = "bf16"
    group_size: _Width = 0
    block_size: tuple[Annotated[int, Field(ge=1, le=MAX_WIDTH)], Annotated[int, Field(ge=1, le=MAX_WIDTH)]] | None = (
        None
    )
    zero_points: bool = False
    unquantized: frozenset[TensorKind] = ALWAYS_16_BIT
    kv_cache: KvDtype | None = None
    method: str = ""


class _HandModel(Frozen):
    name: _Name | None = None
    architecture: _Name = "by hand"
    hidden_size: Annotated[int, Field(strict=True, ge=1, le=MAX_HIDDEN)]
    vocab_size: Annotated[int, Field(strict=True, ge=1, le=MAX_VOCAB)]
    max_context_tokens: Annotated[int, Field(strict=True, ge=1, le=MAX_CONTEXT)]
    tied_embeddings: bool = False
    embedding_parameters: _Count | None = None
    lm_head_parameters: _Count | None = None
    final_norm_parameters: _Count | None = None
    vision_parameters: _Count = 0
    vision_heads: _HeadCount = 0
    mtp_parameters: _Count = 0
    layers: Annotated[tuple[_Run, ...], Field(min_length=1, max_length=MAX_LAYERS)]
    checkpoint: _HandCheckpoint = _HandCheckpoint()
    published_parameters: _Count | None = None
    source: _Name = "given by hand"


def by_hand(facts: Any, name: str) -> ModelSpec:
    """Build a ModelSpec from the value of `shardwise_model`.

    Raises:
        ModelConfigError: names every field that is missing, unknown or out of bounds.
    """
    if not isinstance(facts, Mapping):
        raise ModelConfigError(name, [f"{BY_HAND_KEY}: expected a mapping of model facts", HAND_HINT])
    try:
        hand = _HandModel.model_validate(facts)
    except ValidationError as error:
        raise ModelConfigError(name, [*_described(error), HAND_HINT]) from None
    problems = [problem for index, run in enumerate(hand.layers) for problem in _run_problems(index, run)]
    if sum(run.count for run in hand.layers) > MAX_LAYERS:
        problems.append(f"layers: more than {MAX_LAYERS} in all")
    if problems:
        raise ModelConfigError(name, problems)
    return _bounded(_spec(hand, name), name)


def _described(error: ValidationError) -> list[str]:
    return [f"{BY_HAND_KEY}.{'.'.join(map(str, item['loc']))}: {item['msg'].lower()}" for item in error.errors()]


def _bounded(spec: ModelSpec, name: str) -> ModelSpec:
    if spec.total_parameters > MAX_TOTAL_PARAMETERS:
        raise ModelConfigError(
            name, [f"{spec.total_parameters:.3g} parameters; at most {MAX_TOTAL_PARAMETERS:.0e} are accepted"]
        )
    return spec


def _run_problems(index: int, run: _Run) -> list[str]:
    attention, mlp, where = run.attention, run.mlp, f"{BY_HAND_KEY}.layers.{index}"
    problems = []
    if attention.kind in {"full", "sliding", "chunked"}:
        if not (attention.query_heads and attention.kv_heads and attention.head_dim):
            problems.append(f"{where}.attention: {attention.kind} needs query_heads, kv_heads and head_dim")
        elif attention.query_heads % attention.kv_heads:
            problems.append(f"{where}.attention: query_heads is not a multiple of kv_heads")
        if attention.kind != "full" and attention.window_tokens is None:
            problems.append(f"{where}.attention: {attention.kind} needs window_tokens")
    if attention.kind == "mla" and not (
        attention.query_heads and attention.kv_lora_rank and attention.head_dim and attention.value_head_dim
    ):
        problems.append(f"{where}.attention: mla needs query_heads, kv_lora_rank, head_dim and value_head_dim")
    if attention.kind == "mla" and attention.rope_head_dim > attention.head_dim:
        problems.append(f"{where}.attention: rope_head_dim is a part of head_dim, and cannot exceed it")
    if attention.kind in {"linear", "mamba"} and (attention.parameters is None or not attention.state_elements):
        problems.append(f"{where}.attention: {attention.kind} needs parameters and state_elements")
    if mlp.kind == "dense" and not mlp.intermediate_size:
        problems.append(f"{where}.mlp: dense needs intermediate_size")
    if mlp.kind == "moe" and not (mlp.intermediate_size and 0 < mlp.experts_per_token <= mlp.experts):
        problems.append(f"{where}.mlp: moe needs intermediate_size, experts, and 0 < experts_per_token <= experts")
    return problems


def _spec(hand: _HandModel, name: str) -> ModelSpec:
    matrix = hand.vocab_size * hand.hidden_size
    head = 0 if hand.tied_embeddings else _known(hand.lm_head_parameters, matrix)
    layers: list[Layer] = []
    for run in hand.layers:
        layers += [_layer(run, hand.hidden_size)] * run.count
    return ModelSpec(
        name=hand.name or name,
        architecture=hand.architecture,
        hidden_size=hand.hidden_size,
        vocab_size=hand.vocab_size,
        max_context_tokens=hand.max_context_tokens,
        tied_embeddings=hand.tied_embeddings,
        embedding_parameters=_known(hand.embedding_parameters, matrix),
        lm_head_parameters=head,
        final_norm_parameters=_known(hand.final_norm_parameters, hand.hidden_size),
        vision_parameters=hand.vision_parameters,
        vision_heads=hand.vision_heads,
        mtp_parameters=hand.mtp_parameters,
        layers=tuple(layers),
        checkpoint=Checkpoint(**hand.checkpoint.model_dump()),
        published_parameters=hand.published_parameters,
        source=hand.source,
    )


def _known(value: int | None, derived: int) -> int:
    return derived if value is None else value


def _layer(run: _Run, hidden: int) -> Layer:
    norms = 2 * hidden if run.attention.kind != "none" and run.mlp.kind != "none" else hidden
    return Layer(
        attention=_attention(run.attention, hidden),
        mlp=_mlp(run.mlp, hidden),
        norm_parameters=_known(run.norm_parameters, norms),
    )


def _attention(hand: _HandAttention, hidden: int) -> Attention:
    value = hand.value_head_dim or hand.head_dim
    derived = 0
    if hand.kind == "mla":
        shape = Latent(
            hidden,
            hand.query_heads,
            hand.q_lora_rank,
            hand.kv_lora_rank,
            hand.head_dim - hand.rope_head_dim,
            hand.rope_head_dim,
            hand.value_head_dim,
        )
        indexed = Indexer(hand.indexer_heads, hand.indexer_head_dim, hand.indexer_top_k) if hand.indexer_heads else None
        derived = latent_attention(shape, indexer=indexed).parameters
    elif hand.kind in {"full", "sliding", "chunked"}:
        heads = Heads(hand.query_heads, hand.kv_heads, hand.head_dim, value)
        derived = grouped(hidden, heads, shares_kv=hand.shares_kv).parameters
    given = hand.model_dump()
    given["parameters"] = _known(hand.parameters, derived)
    given["value_head_dim"] = value
    given["state_bytes"] = _known(hand.state_bytes, 2 * hand.state_elements)
    return Attention(**given)


def _mlp(hand: _HandMlp, hidden: int) -> Mlp:
    derived = Mlp(kind=hand.kind)
    if hand.kind == "dense":
        derived = dense(hidden, hand.intermediate_size)
    elif hand.kind == "moe":
        derived = experts(
            hidden,
            hand.experts,
            hand.experts_per_token,
            hand.intermediate_size,
            shared_width=hand.shared_intermediate_size,
        )
    given = {key: value for key, value in hand.model_dump().items() if value is not None}
    return Mlp(**{**derived.model_dump(), **given})
