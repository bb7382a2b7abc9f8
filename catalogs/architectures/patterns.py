"""Which layer is of which kind: the many ways in which configs spell it."""

from __future__ import annotations

from typing import Any, Final

from catalogs.model_config import MAX_EXPERTS, MAX_LAYERS, ConfigReader
from catalogs.model_records import AttentionKind

_SPELLINGS: Final[dict[str, AttentionKind]] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
}
_DENSE_OR_SPARSE: Final = {"dense": False, "sparse": True}


def attention_kinds(
    reader: ConfigReader, count: int, *, local: AttentionKind = "sliding", every: int = 0, key: str = "layer_types"
) -> list[AttentionKind]:
    """Kind of each layer's token mixer.

    `layer_types` decides when present (lists longer than the model, which cover MTP layers too, are cut); otherwise
    every
    `every`-th layer is full and the others `local`; with every = 0 all are full.
    """
    listed = reader.sequence(key, count, longer=True)
    if listed is not None:
        allowed: set[AttentionKind] = {"full", local}
        return [_spelled(reader, key, entry, allowed) for entry in listed]
    if every == 0:
        return ["full"] * count
    return ["full" if (index + 1) % every == 0 else local for index in range(count)]


def _spelled(reader: ConfigReader, key: str, entry: Any, allowed: set[AttentionKind]) -> AttentionKind:
    kind = _SPELLINGS.get(entry) if isinstance(entry, str) else None
    if kind in allowed:
        return kind
    shown = entry[:40] if isinstance(entry, str) else type(entry).__name__
    known = [spelling for spelling, meant in _SPELLINGS.items() if meant in allowed]
    reader.problem(f"{key} holds {shown!r}; this family has {', '.join(known)}")
    return "full"


def window_pattern(reader: ConfigReader, family_default: int) -> int:
    """How often a full layer comes between sliding ones: sliding_window_pattern, or the family's habit."""
    return reader.integer("sliding_window_pattern", "_sliding_window_pattern", high=MAX_LAYERS, default=family_default)


def zero_one(reader: ConfigReader, key: str, count: int) -> list[bool] | None:
    """A list of one 0 or 1 per layer; None when absent or wrong."""
    listed = reader.sequence(key, count, longer=True)
    if listed is None:
        return None
    return [bool(reader.bounded(key, entry, 0, 1)) for entry in listed]


def sparse_after_first(reader: ConfigReader, count: int) -> list[bool]:
    """Which layers are MoE, in the DeepSeek way: mlp_layer_types, moe_layer_freq, or dense first layers and a step."""
    named = reader.sequence("mlp_layer_types", count, longer=True)
    if named is not None:
        names = [name if isinstance(name, str) else "" for name in named]
        reader.check(all(name in _DENSE_OR_SPARSE for name in names), "mlp_layer_types: expected dense or sparse")
        return [_DENSE_OR_SPARSE.get(name, True) for name in names]
    if isinstance(reader.values.get("moe_layer_freq"), list):
        return zero_one(reader, "moe_layer_freq", count) or [True] * count
    first = reader.integer("first_k_dense_replace", low=0, high=MAX_LAYERS, default=0)
    step = reader.integer("moe_layer_freq", high=MAX_LAYERS, default=1)
    return [index >= first and index % step == 0 for index in range(count)]


def sparse_by_step(reader: ConfigReader, count: int) -> list[bool]:
    """Which layers are MoE, in the Qwen way: every decoder_sparse_step-th, except mlp_only_layers."""
    step = reader.integer("decoder_sparse_step", high=MAX_LAYERS, default=1)
    dense_only = indices(reader, "mlp_only_layers")
    return [(index + 1) % step == 0 and index not in dense_only for index in range(count)]


def indices(reader: ConfigReader, key: str, *, high: int = MAX_LAYERS) -> frozenset[int]:
    """A list of layer numbers; empty when absent."""
    return frozenset(reader.bounded(key, entry, 0, high) for entry in reader.sequence(key) or [])


def expert_counts(reader: ConfigReader) -> tuple[int, int]:
    """Routed experts and how many of them a token uses."""
    count = reader.integer("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", high=MAX_EXPERTS)
    used = reader.integer(
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "top_k_experts",
        "moe_top_k",
        high=MAX_EXPERTS,
    )
    reader.check(used <= count, f"a token uses {used} of {count} experts")
    return count, min(used, count)
