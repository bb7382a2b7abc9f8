"""From the module names in a quantization config to tensor kinds, and how much of each kind they cover."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from catalogs.model_records import Layer, TensorKind

_LAYER_INDEX: Final = re.compile(r"layers\.(\d{1,6})(?:[.*]|$)(.*)")
_ANY_LAYER: Final = re.compile(r"layers\.(?:\*|\\d\+|\[0-9\]\+)")
_ELSEWHERE: Final = ("visual", "vision", "mm_projector", "multi_modal", "audio", "mtp", "nextn")
_OUTPUT_LEAF: Final = re.compile(r"(o_proj|out_proj|wo_[ab])")
_INPUT_LEAF: Final = re.compile(r"(q_proj|q_b_proj|qkv_proj|wq_b|in_proj)\b|in_proj_qkv")
_NOT_ATTENTION: Final = (
    "norm",
    "indexer",
    "conv1d",
    "kv_a_proj",
    "kv_b_proj",
    "q_a_proj",
    "k_proj",
    "v_proj",
    "in_proj_",
)
_STATE_OUTPUT_SHARE: Final = 1 / 3


class Placed(NamedTuple):
    """What one module name stands for."""

    layer: int | None
    kind: TensorKind | None
    leaf: str


def place(name: str) -> Placed | None:
    """Layer (None: all), kind (None: everything in the layer) and rest of a name; None for other towers."""
    text = name.removeprefix("re:").replace("\\.", ".").lower()
    if any(word in text for word in _ELSEWHERE):
        return None
    found = _LAYER_INDEX.search(text)
    layer = int(found.group(1)) if found else None
    rest = found.group(2) if found else _ANY_LAYER.sub("", text)
    bare = rest.strip(".*^$ ")
    if found and not bare:
        return Placed(layer, None, "")
    kind = _kind(bare)
    return Placed(layer, kind, bare) if kind else None


def _kind(bare: str) -> TensorKind | None:
    rules: tuple[tuple[TensorKind, bool], ...] = (
        ("lm_head", "lm_head" in bare or bare in {"head", "model.head"}),
        ("embedding", "embed" in bare),
        ("router", bare.endswith("gate") or "router" in bare or "e_score" in bare),
        ("shared_experts", "shared_expert" in bare or "share_expert" in bare),
        ("experts", "experts" in bare),
        ("norm", "norm" in bare),
        ("attention", "attn" in bare or "attention" in bare or _is_mixer_part(bare)),
        ("dense_mlp", any(word in bare for word in ("mlp", "ffn", "feed_forward", "mixer", "_proj"))),
    )
    return next((kind for kind, holds in rules if holds), None)


def _is_mixer_part(bare: str) -> bool:
    return "mixer." in bare and any(
        word in bare for word in ("in_proj", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj", "conv1d")
    )


def kept_share(
    names: Iterable[str], layers: Sequence[Layer], hidden: int, *, mlp_is_shared: bool = False
) -> dict[TensorKind, float]:
    """Share of each layer-wise kind's elements that `names` cover (0 to 1), and 1.0 for a named embedding or LM head.

    Args:
        names: module names or patterns, as an ignore list holds them.
        layers: the model's layers in order.
        hidden: width of the residual stream, to weigh an output projection against the rest of an attention.
        mlp_is_shared: a plain "mlp" of a MoE layer means the dense MLP beside its experts (Gemma 4).
    """
    shares, outside = _shares_per_layer(names, layers, hidden, mlp_is_shared=mlp_is_shared)
    covered: dict[TensorKind, float] = defaultdict(float)
    total: dict[TensorKind, int] = defaultdict(int)
    for layer, share in zip(layers, shares, strict=True):
        for kind, elements in layer.parameters_by_kind.items():
            total[kind] += elements
            covered[kind] += elements * min(1.0, share.get(kind, 0.0))
    result = {kind: covered[kind] / total[kind] for kind in total if total[kind]}
    return result | dict.fromkeys(outside, 1.0)


def _shares_per_layer(
    names: Iterable[str], layers: Sequence[Layer], hidden: int, *, mlp_is_shared: bool
) -> tuple[list[dict[TensorKind, float]], set[TensorKind]]:
    shares: list[dict[TensorKind, float]] = [{} for _ in layers]
    outside: set[TensorKind] = set()
    for placed in {place(name) for name in names} - {None}:
        if placed is None:
            continue
        if placed.kind in {"embedding", "lm_head"}:
            outside.add(placed.kind)
            continue
        chosen = range(len(layers)) if placed.layer is None else [placed.layer] * (placed.layer < len(layers))
        for index in chosen:
            _cover(shares[index], layers[index], placed, hidden, mlp_is_shared=mlp_is_shared)
    return shares, outside


def _cover(share: dict[TensorKind, float], layer: Layer, placed: Placed, hidden: int, *, mlp_is_shared: bool) -> None:
    whole_mlp = placed.kind == "dense_mlp" and placed.leaf.endswith(("mlp", "ffn", "moe", "feed_forward", "mixer"))
    if placed.kind is None:
        share.update(dict.fromkeys(layer.parameters_by_kind, 1.0))
    elif whole_mlp and layer.mlp.kind == "moe":
        kinds: tuple[TensorKind, ...] = (
            ("shared_experts",) if mlp_is_shared else ("experts", "shared_experts", "router")
        )
        share.update(dict.fromkeys(kinds, 1.0))
    elif placed.kind == "attention":
        share["attention"] = share.get("attention", 0.0) + _attention_part(layer, placed.leaf, hidden)
    else:
        share[placed.kind] = 1.0


def _attention_part(layer: Layer, leaf: str, hidden: int) -> float:
    """Share of a mixer that one of its modules stands for: the output projection, or all the others at once."""
    attention = layer.attention
    if attention.query_heads and attention.parameters:
        output = min(1.0, attention.query_heads * attention.value_head_dim * hidden / attention.parameters)
    else:
        output = _STATE_OUTPUT_SHARE
    if _OUTPUT_LEAF.search(leaf):
        return output
    if _INPUT_LEAF.search(leaf):
        return 1 - output
    return 0.0 if any(word in leaf for word in _NOT_ATTENTION) else 1.0
