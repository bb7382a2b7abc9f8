"""Does the format run on this GPU under this engine of this time: what its kernels were, not what silicon can do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from catalogs.gpus import FormatSupport, load_format_support
from catalogs.models import ModelSpec
from optimizer.validate.engines import Engine
from optimizer.validate.formats import Precision
from optimizer.validate.gpus import Card

RULE: Final = "dtype_supported"
LEAST_CAPABILITY: Final = {"vllm": 7.0, "sglang": 7.5, "trtllm": 7.0}
# vLLM: weight-only FP8 on Ampere for dense layers since 0.5, for experts since 0.9 (issue 18182, 2025-05-15: not yet).
FP8_EXPERTS_ON_AMPERE_SINCE: Final = (0, 9)
FP8_DENSE_ON_AMPERE_SINCE: Final = (0, 5)
# SGLang's own block FP8 kernels are Triton's fp8e4nv, which needs 8.9 (issue 7715, 2025-07-02); Marlin came later.
SGLANG_FP8_ON_AMPERE_SINCE: Final = date(2025, 10, 1)
# NVFP4 without FP4 units, as weight-only Marlin: vLLM 0.9; SGLang issue 19652, 2026-02.
VLLM_NVFP4_MARLIN_SINCE: Final = (0, 9)
SGLANG_NVFP4_MARLIN_SINCE: Final = date(2026, 2, 1)
# W4A16 experts of compressed-tensors went through gptq_marlin_repack, CUDA only (vLLM issue 19727, 2025-06-17).
W4A16_EXPERTS_ON_ROCM_SINCE: Final = (0, 11)
SPARSE_LATENT_LEAST: Final = 8.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """One finding: what runs how, or why it does not."""

    refused: bool
    said: str


def check_formats(
    engine: Engine,
    card: Card,
    precision: Precision,
    weights: str | None,
    kv: str | None,
    model: ModelSpec | None,
    text: str,
    day: date | None,
) -> list[Verdict]:
    """Return what this engine makes of these formats on this GPU.

    Args:
        engine: engine and version.
        card: the GPU.
        precision: what the report says of the weights.
        weights: the format they are held in; None where unknown.
        kv: dtype of the KV cache; None where unknown.
        model: the model, where it is known.
        text: the report's words for the model, which may say that it has experts.
        day: the report's day.
    """
    least = LEAST_CAPABILITY.get(engine.name, 0.0)
    if card.generation and card.generation < least:
        return [
            Verdict(
                True,
                f"compute capability {card.capability} of {card.name} is below {least}, the least for {engine.name}",
            )
        ]
    found = _weights(engine, card, precision, weights, _has_experts(model, text), text, day)
    if kv == "fp8" and (support := _support(card)) is not None:
        stored = "fp8" in support.kv_cache
        how = (
            "stored as FP8 and converted on read (E5M2 everywhere, E4M3 by backend)"
            if card.generation < 8.9
            else "native"
        )
        found.append(Verdict(not stored, f"FP8 KV cache on {card.name}: {how if stored else 'no kernel'}"))
    if model is not None and _is_sparse(model) and 0 < card.generation < SPARSE_LATENT_LEAST:
        found.append(
            Verdict(True, f"sparse latent attention has no kernel below compute capability {SPARSE_LATENT_LEAST}")
        )
    return found


def _weights(
    engine: Engine, card: Card, precision: Precision, weights: str | None, experts: bool, text: str, day: date | None
) -> list[Verdict]:
    support = _support(card)
    if weights is None or support is None:
        return []
    if weights == "bf16" and precision.weights is None and "bf16" not in support.native:
        return [Verdict(False, f"16-bit weights on {card.name} ({card.capability}): as FP16, there is no BF16")]
    if weights == "nvfp4" and card.capability.startswith("gfx") and "nvfp4" not in f"{precision.text} {text}".lower():
        weights = "mxfp4"  # AMD's FP4 is MXFP4
    how = support.weights(weights)
    name = f"{weights} weights on {card.name} ({card.capability})"
    if how == "none":
        return [Verdict(True, f"{name}: no kernel")]
    refusal = _not_yet(engine, card, weights, experts, f"{precision.text} {text}".lower(), day)
    if refusal:
        return [Verdict(True, f"{name}: {refusal}")]
    if how == "native":
        return [Verdict(False, f"{name}: native")]
    runs = "unpacked to 16 bits in the kernel, weight-only: saves memory, adds no FLOP/s"
    return [Verdict(False, f"{name}: emulated, {runs}")]


def _not_yet(engine: Engine, card: Card, weights: str, experts: bool, words: str, day: date | None) -> str:
    """Why an engine of that time refused what a later one runs; "" when it did not."""
    old, version = card.generation, engine.version
    if weights == "fp8" and 0 < old < 8.9:
        if engine.name == "sglang" and (day is None or day < SGLANG_FP8_ON_AMPERE_SINCE):
            return "SGLang's FP8 kernels (fp8e4nv) needed 8.9 then; use BF16 or INT4 weights, or vLLM"
        since = FP8_EXPERTS_ON_AMPERE_SINCE if experts else FP8_DENSE_ON_AMPERE_SINCE
        if engine.name == "vllm" and version and version < since:
            return f"weight-only FP8 {'experts ' if experts else ''}came with vLLM {'.'.join(map(str, since))}"
    if weights == "nvfp4" and 0 < old < 10.0:
        if engine.name == "sglang" and (day is None or day < SGLANG_NVFP4_MARLIN_SINCE):
            return "SGLang ran NVFP4 on compute capability 10.0 and up only"
        if engine.name == "vllm" and version and version < VLLM_NVFP4_MARLIN_SINCE:
            return "weight-only NVFP4 came with vLLM 0.9"
    rocm = card.capability.startswith("gfx")
    packed = weights == "int4" and ("w4a16" in words or "compressed" in words)
    if rocm and packed and experts and engine.name == "vllm" and version and version < W4A16_EXPERTS_ON_ROCM_SINCE:
        return "W4A16 experts of compressed-tensors needed gptq_marlin_repack, which is CUDA only"
    return ""


def _support(card: Card) -> FormatSupport | None:
    table = load_format_support()
    if card.capability in table:
        return table[card.capability]
    lower = [key for key in table if re.fullmatch(r"\d+\.\d", key) and float(key) <= card.generation]
    return table[max(lower, key=float)] if card.generation >= 7.0 and lower else None


def _has_experts(model: ModelSpec | None, text: str) -> bool:
    return model.is_moe if model is not None else bool(re.search(r"\bmoe\b|-a\d+(?:\.\d+)?b|\d+x\d+b", text, re.I))


def _is_sparse(model: ModelSpec) -> bool:
    return any(layer.attention.indexer_heads for layer, _ in model.layer_counts)
