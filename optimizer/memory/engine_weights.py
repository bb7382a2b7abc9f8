"""What one engine's kernels hold beyond the weights that Footprint counts."""

from __future__ import annotations

from math import ceil

from catalogs.model_precision import kind_bytes, storage
from catalogs.model_spec import ModelSpec
from optimizer.engines import engine_version
from optimizer.memory.shares import mla_whole_elements
from optimizer.split import Split

# SGLang on Hopper (its deepseek-v4-hopper image) logged 125.65 GiB per GPU for DeepSeek-V4-Pro over eight H200, where
# slices of everything are 101.2 GiB (https://github.com/SemiAnalysisAI/InferenceX/issues/2128, 2026-07-09). Attention
# whole on every rank and down projections padded from 384 to 512 are 125.5 GiB; inferred from this one figure.
DOWN_PROJECTION_MULTIPLE = 256
NATIVE_FP4_SINCE = 10.0


def engine_weights_extra_bytes(engine: str, model: ModelSpec, split: Split, compute_capability: float) -> float:
    """Return bytes per GPU beyond Footprint.weights_bytes: DeepSeek-V4's compressed attention under SGLang before FP4.

    Args:
        engine: name and version, as "sglang@0.5".
        model: the model.
        split: the layout; pipeline stages are taken as equal.
        compute_capability: of the GPU, 0 for other than NVIDIA's.
    """
    pooled = any(
        layer.attention.kind == "mla" and layer.attention.tokens_per_entry != 1 for layer, _ in model.layer_counts
    )
    experts_fp4 = dict(model.checkpoint.other_formats).get("experts") == "mxfp4"
    if engine_version(engine)[0] != "sglang" or not pooled or not experts_fp4 or compute_capability >= NATIVE_FP4_SINCE:
        return 0.0
    stored = storage(model, split.weights)
    attention = sum(
        count * max(0, layer.attention.parameters - mla_whole_elements(layer.attention, model.hidden_size))
        for layer, count in model.layer_counts
    )
    whole = attention * kind_bytes(stored, "attention") * (1 - 1 / split.tp)
    padding = 0.0
    for layer, count in model.layer_counts:
        if split.ep > 1 or layer.mlp.kind != "moe":
            continue
        width = layer.mlp.intermediate_size / split.tp
        grown = ceil(width / DOWN_PROJECTION_MULTIPLE) * DOWN_PROJECTION_MULTIPLE / width - 1
        down = layer.mlp.experts * layer.mlp.expert_parameters / 3 / split.tp
        padding += count * down * grown * kind_bytes(stored, "experts")
    return (whole + padding) / split.pp
