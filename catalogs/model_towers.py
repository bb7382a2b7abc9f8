"""What a checkpoint holds beside the text layers: the vision tower and the multi-token-prediction layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from catalogs.architectures import Family
from catalogs.architectures.hybrid_families import nemotron_blocks
from catalogs.model_config import MAX_HEADS, MAX_HIDDEN, MAX_LAYERS, MAX_WIDTH, ConfigReader
from catalogs.model_records import Layer

_KIMI_PREFIX: Final = "vt_"
_MAX_MTP_LAYERS: Final = 16


def vision_tower(reader: ConfigReader) -> tuple[int, int]:
    """Parameters and heads of the vision tower; (0, 0) without one.

    A transformer of `vision_config`'s shape with biases, its patch embedding, position table and projection to the text
    width: within a few percent of the real tower, which is small beside the text model.
    """
    raw = reader.outer.get("vision_config")
    if not isinstance(raw, Mapping) or not raw:
        return 0, 0
    tower = ConfigReader(
        {key.removeprefix(_KIMI_PREFIX): value for key, value in raw.items() if isinstance(key, str)}, reader.model
    )
    hidden = tower.integer("hidden_size", high=MAX_HIDDEN, default=0)
    depth = tower.integer("depth", "num_hidden_layers", high=MAX_LAYERS, default=0)
    number = tower.integer("num_heads", "num_attention_heads", high=MAX_HEADS, default=0)
    if not hidden or not depth:
        tower.finish()
        return 0, number
    width = tower.integer("intermediate_size", high=MAX_WIDTH, default=4 * hidden)
    matrices = 3 if tower.text("model_type") == "pixtral" else 2
    block = 4 * hidden * hidden + matrices * hidden * width + 9 * hidden + width
    parameters = depth * block + _patches(tower, hidden) + _projector(tower, reader, hidden)
    tower.finish()
    return parameters, number


def _patches(tower: ConfigReader, hidden: int) -> int:
    patch = tower.integer("patch_size", high=MAX_WIDTH, default=14)
    channels = 3 * tower.integer("temporal_patch_size", high=64, default=1)
    image = tower.integer("image_size", high=MAX_WIDTH, default=0)
    default = (image // patch) ** 2 if image else 0
    positions = tower.integer("num_position_embeddings", low=0, high=10**9, default=default)
    return channels * patch * patch * hidden + positions * hidden


def _projector(tower: ConfigReader, reader: ConfigReader, hidden: int) -> int:
    text = reader.integer("hidden_size", high=MAX_HIDDEN)
    out = tower.integer("out_hidden_size", "text_hidden_size", high=MAX_HIDDEN, default=text)
    merged = hidden * tower.integer("spatial_merge_size", high=64, default=1) ** 2
    if merged == hidden:
        return hidden * out
    deep = tower.sequence("deepstack_visual_indexes") or []
    return (1 + min(len(deep), MAX_LAYERS)) * (merged * merged + merged * out)


def mtp_parameters(reader: ConfigReader, family: Family, layers: tuple[Layer, ...], hidden: int, vocab: int) -> int:
    """Parameters of the multi-token-prediction layers: each one more layer like the last, with its input projection.

    DeepSeek-V3 report, section 2.2; its checkpoint repeats embedding and LM head for each.
    """
    if family.mtp_keys:
        count = reader.integer(*family.mtp_keys, low=0, high=_MAX_MTP_LAYERS, default=0)
        per_layer = _parameters(layers[-1]) + 2 * hidden * hidden + 3 * hidden if layers else 0
        return count * (per_layer + (2 * vocab * hidden if family.mtp_copies_embedding else 0))
    return _nemotron_mtp(reader, layers, hidden)


def _nemotron_mtp(reader: ConfigReader, layers: tuple[Layer, ...], hidden: int) -> int:
    count = reader.integer("num_nextn_predict_layers", low=0, high=_MAX_MTP_LAYERS, default=0)
    if not count or not (reader.has("mtp_hybrid_override_pattern") or reader.has("mtp_layers_block_type")):
        return 0
    first = {block: layers[index] for index, block in reversed(list(enumerate(nemotron_blocks(reader))))}
    used = sum(_parameters(first[block]) for block in ("attention", "moe") if block in first)
    return count * (used + 2 * hidden * hidden + 3 * hidden)


def _parameters(layer: Layer) -> int:
    return sum(layer.parameters_by_kind.values())
