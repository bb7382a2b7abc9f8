"""Weights in another format than the checkpoint's: quantized while loading, or a note of which checkpoint is needed."""

from __future__ import annotations

from typing import Final

from catalogs.model_precision import WEIGHT_FORMATS
from optimizer.engine_flags.serving import Flag, Serving

DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
# Formats that engines make from a 16-bit checkpoint while loading (--quantization).
_ONLINE: Final = {"vllm": {"fp8": "fp8"}, "sglang": {"fp8": "fp8"}, "trtllm": {}}
_CHECKPOINTS: Final = {
    "fp8": "FP8 (compressed-tensors or ModelOpt)",
    "int8": "INT8 (compressed-tensors W8A8)",
    "int4": "INT4 in groups of 128 (AWQ, GPTQ, or compressed-tensors W4A16)",
    "nvfp4": "NVFP4 (ModelOpt or compressed-tensors)",
    "mxfp4": "MXFP4 (OpenAI's or Quark's layout)",
}


def weight_flags(serving: Serving) -> tuple[Flag, ...]:
    """Return the flag that quantizes while loading; none where the checkpoint is in the format, or has to be."""
    online = _ONLINE[serving.engine].get(serving.weights)
    if online is None or not _is_other(serving) or serving.checkpoint_weights not in DTYPES:
        return ()
    return (Flag("--quantization", online),)


def weight_notes(serving: Serving) -> tuple[str, ...]:
    """Say which checkpoint is needed, where the one that is named is in another format and no flag helps."""
    if not _is_other(serving) or weight_flags(serving):
        return ()
    if {serving.weights, serving.checkpoint_weights} <= DTYPES.keys():
        return ()  # any 16-bit or 32-bit checkpoint is cast while loading
    kind = _CHECKPOINTS.get(serving.weights, DTYPES.get(serving.weights, serving.weights))
    return (
        f"needs a checkpoint of {serving.model_name} in {serving.weights}, which is {kind}: this one is "
        f"{serving.checkpoint_weights}; give its name or folder as --model",
    )


def _is_other(serving: Serving) -> bool:
    """Say whether the layout is counted in another format than the checkpoint's; formats are the catalog's."""
    return serving.weights != serving.checkpoint_weights and serving.weights in {*DTYPES, *WEIGHT_FORMATS}
