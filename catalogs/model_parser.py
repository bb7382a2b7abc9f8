"""parse_config: from a decoded Hugging Face config to a ModelSpec, or a refusal that says what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalogs.architectures import FAMILIES, Family, find_family
from catalogs.errors import near_matches
from catalogs.model_config import (
    BY_HAND_KEY,
    HAND_HINT,
    MAX_CONTEXT,
    MAX_HIDDEN,
    MAX_TOTAL_PARAMETERS,
    MAX_VOCAB,
    ConfigReader,
    ModelConfigError,
)
from catalogs.model_quantization import read_checkpoint
from catalogs.model_spec import ModelSpec
from catalogs.model_towers import mtp_parameters, vision_tower


def parse_config(config: Mapping[str, Any], name: str, hf_quant_config: Mapping[str, Any] | None = None) -> ModelSpec:
    """Read a Hugging Face config (already decoded JSON) into a ModelSpec. Pure.

    Multimodal wrappers are read through their text_config; the vision tower is counted apart. A config with the one key
    `shardwise_model` holds facts given by hand.

    Args:
        config: config.json, decoded.
        name: the model's name, for the spec and for messages.
        hf_quant_config: hf_quant_config.json beside it, decoded, when there is one.

    Raises:
        CatalogError: the architecture is unknown or keys are missing or absurd; names them and says how to give the
            facts by hand.
    """
    if not isinstance(config, Mapping):
        raise ModelConfigError(name, ["expected a JSON object", HAND_HINT])
    if BY_HAND_KEY in config:
        from catalogs.model_by_hand import by_hand  # noqa: PLC0415  few need it, and its schemas take 8 ms to build

        return by_hand(config[BY_HAND_KEY], name)
    reader = ConfigReader(config, name)
    found = find_family(reader)
    if found is None:
        raise ModelConfigError(name, [_unknown(reader), HAND_HINT])
    return _read(reader, *found, hf_quant_config if isinstance(hf_quant_config, Mapping) else None)


def _read(reader: ConfigReader, architecture: str, family: Family, hf_quant: Mapping[str, Any] | None) -> ModelSpec:
    hidden = reader.integer("hidden_size", high=MAX_HIDDEN)
    vocab = reader.integer("vocab_size", high=MAX_VOCAB)
    context = reader.integer("max_position_embeddings", "model_max_length", "max_sequence_length", high=MAX_CONTEXT)
    tied = reader.flag("tie_word_embeddings", default=family.tied)
    layers = family.layers(reader)
    checkpoint = read_checkpoint(reader, layers, hidden, hf_quant, architecture)
    vision, vision_heads = vision_tower(reader)
    mtp = mtp_parameters(reader, family, layers, hidden, vocab)
    reader.finish()
    spec = ModelSpec(
        name=reader.model,
        architecture=architecture,
        hidden_size=hidden,
        vocab_size=vocab,
        max_context_tokens=context,
        tied_embeddings=tied,
        embedding_parameters=vocab * hidden,
        lm_head_parameters=0 if tied else vocab * (hidden + (1 if family.head_bias else 0)),
        final_norm_parameters=family.norm_width * hidden,
        vision_parameters=vision,
        vision_heads=vision_heads,
        mtp_parameters=mtp,
        layers=layers,
        checkpoint=checkpoint,
        source=f"config of {reader.model}",
    )
    reader.check(
        spec.total_parameters <= MAX_TOTAL_PARAMETERS,
        f"{spec.total_parameters:.3g} parameters in all; at most {MAX_TOTAL_PARAMETERS:.0e} are accepted",
    )
    reader.finish()
    return spec


def _unknown(reader: ConfigReader) -> str:
    named = reader.text("model_type")
    if not named:
        return "missing keys: model_type (it names the architecture)"
    near = near_matches(named[:60], FAMILIES)
    like = f"; did you mean {' or '.join(near)}?" if near else ""
    return (
        f"model_type {named[:60]!r} is not an architecture that can be read{like} Known: {', '.join(sorted(FAMILIES))}."
    )
