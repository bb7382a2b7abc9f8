"""Bytes per weight: what a number format costs with its scales, and which tensors a checkpoint quantizes at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from catalogs.errors import UnknownNameError
from catalogs.model_records import Checkpoint, KvDtype, TensorKind, WeightFormat

if TYPE_CHECKING:
    from catalogs.model_spec import ModelSpec

WEIGHT_FORMATS: tuple[WeightFormat, ...] = get_args(WeightFormat)
KV_BYTES: dict[str, float] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
ALWAYS_16_BIT: frozenset[TensorKind] = frozenset({"embedding", "lm_head", "norm", "router"})

_PLAIN_BYTES: dict[WeightFormat, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "nvfp4": 0.5,
    "mxfp4": 0.5,
}
_CONVENTIONAL_GROUP: dict[WeightFormat, int] = {"int4": 128, "nvfp4": 16, "mxfp4": 32}
_ALL_BUT_EXPERTS: frozenset[TensorKind] = frozenset(get_args(TensorKind)) - {"experts"}


def weight_format(name: str) -> WeightFormat:
    """Return `name` as a weight format.

    Raises:
        UnknownNameError: no such format; near matches.
    """
    for known in WEIGHT_FORMATS:
        if name == known:
            return known
    raise UnknownNameError("weight format", name, WEIGHT_FORMATS, f"Known: {', '.join(WEIGHT_FORMATS)}.")


def bytes_per_parameter(weights: WeightFormat, checkpoint: Checkpoint) -> float:
    """Bytes that one quantized element takes with its share of scales and zero points.

    fp8     1 byte, and with block scales one FP32 scale per block: 1 + 4/(128 x 128) (DeepSeek-V3 technical report,
        section
            3.3.2; `weight_scale_inv` in its checkpoint). Scales per tensor or channel are below 0.1% and not counted.
    int8    1 byte (W8A8, a scale per channel, not counted), with groups 2 bytes of scale per group.
    int4    half a byte, a 16-bit scale per group and, in AWQ and GPTQ files, a packed 4-bit zero point per group:
            0.5 + 2/128 + 0.5/128 = 0.5195 for group 128 (Lin et al. 2023, AWQ; its qweight, scales and qzeros tensors).
    nvfp4   half a byte and one FP8 scale per 16 elements: 0.5 + 1/16 (NVIDIA, "Introducing NVFP4", 2025).
    mxfp4   half a byte and one power-of-two scale byte per 32 elements: 0.5 + 1/32 (OCP Microscaling Formats 1.0,
    2023).

    Group and block sizes come from `checkpoint` when it stores this format; otherwise they are the conventional ones.
    """
    plain = _PLAIN_BYTES[weights]
    own = weights == checkpoint.weights
    group = checkpoint.group_size if own else _CONVENTIONAL_GROUP.get(weights, 0)
    if weights == "fp8" and checkpoint.block_size:
        return plain + 4 / (checkpoint.block_size[0] * checkpoint.block_size[1])
    if weights in {"nvfp4", "mxfp4"}:
        return plain + 1 / (group or _CONVENTIONAL_GROUP[weights])
    if weights in {"int4", "int8"} and group:
        return plain + 2 / group + (plain / group if checkpoint.zero_points else 0.0)
    return plain


def kind_bytes(checkpoint: Checkpoint, kind: TensorKind) -> float:
    """Mean bytes of one element of `kind`: its own dtype where left unquantized, scales included elsewhere."""
    plain = _PLAIN_BYTES[checkpoint.dtype]
    if kind in checkpoint.unquantized:
        return plain
    stored = dict(checkpoint.other_formats).get(kind, checkpoint.weights)
    kept = dict(checkpoint.unquantized_share).get(kind, 0.0)
    return kept * plain + (1 - kept) * bytes_per_parameter(stored, checkpoint)


def storage(spec: ModelSpec, weights: str | None = None) -> Checkpoint:
    """How the model's weights are stored when served in `weights`.

    None or the checkpoint's own format gives the checkpoint itself. Anything else is the usual checkpoint that a
    quantization
    tool makes: all linear layers converted, embedding, LM head, norms and router left at 16 bits.

    fp8     block scales 128 x 128 for MLA models (DeepSeek and its kin publish so), per channel for others (llm-
    compressor FP8_DYNAMIC).
    int8    W8A8 with a scale per channel.
    int4    group 128 with zero points (AWQ and GPTQ defaults).
    nvfp4   group 16, all linear layers (ModelOpt NVFP4_DEFAULT_CFG).
    mxfp4   group 32; only the experts of a MoE model, as gpt-oss is published (arXiv 2508.10925, section 2.1).

    Raises:
        UnknownNameError: `weights` is not a format.
    """
    own = spec.checkpoint
    if weights is None or weights == own.weights:
        return own
    wanted = weight_format(weights)
    if wanted in {"fp32", "bf16", "fp16"}:
        return Checkpoint(weights=wanted, dtype=_plain_dtype(wanted))
    return Checkpoint(
        weights=wanted,
        dtype="bf16" if own.dtype in {"fp32", "fp8"} else own.dtype,
        group_size=_CONVENTIONAL_GROUP.get(wanted, 0),
        block_size=(128, 128) if wanted == "fp8" and spec.mla else None,
        zero_points=wanted == "int4",
        unquantized=_ALL_BUT_EXPERTS if wanted == "mxfp4" and spec.is_moe else ALWAYS_16_BIT,
    )


def _plain_dtype(weights: WeightFormat) -> KvDtype:
    if weights == "fp32":
        return "fp32"
    return "fp16" if weights == "fp16" else "bf16"
