"""What a report says of precisions: "FP8 block128", "INT4 AWQ", "MXFP4 (Triton)", "bf16 (int8 requested at load)"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from catalogs.model_records import KvDtype, WeightFormat

_BITS: Final[tuple[tuple[str, WeightFormat], ...]] = (
    ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("w4a16", "int4"), ("int4", "int4"), ("awq", "int4"), ("gptq", "int4"),
    ("4bit", "int4"), ("4-bit", "int4"), ("nf4", "int4"), ("autoround", "int4"), ("fp8", "fp8"), ("w8a16", "int8"),
    ("w8a8", "int8"), ("int8", "int8"), ("float32", "fp32"), ("fp32", "fp32"), ("bfloat16", "bf16"), ("bf16", "bf16"),
    ("float16", "fp16"), ("fp16", "fp16"), ("half", "fp16"), ("fp4", "nvfp4"),
)  # fmt: skip
_KV: Final[tuple[tuple[str, KvDtype], ...]] = (
    ("fp8", "fp8"), ("e4m3", "fp8"), ("e5m2", "fp8"), ("float32", "fp32"), ("fp32", "fp32"), ("bf16", "bf16"),
    ("bfloat16", "bf16"), ("fp16", "fp16"), ("float16", "fp16"), ("f16", "fp16"),
)  # fmt: skip
_BARE_GGUF = re.compile(r"gguf|bpw\b|\biq\d|\bq\d_|exl2|exl3", re.I)


@dataclass(frozen=True, slots=True)
class Precision:
    """Weights as a report has them.

    Attributes:
        weights: format; None where the report says none.
        block: FP8 in blocks of 128 x 128.
        online: quantized while loading, from 16 bits.
        group: elements per scale, where said.
        unpublished: a format whose size does not follow from its name (GGUF, EXL2).
        text: what the report says.
    """

    weights: WeightFormat | None
    block: bool = False
    online: bool = False
    group: int = 0
    unpublished: bool = False
    text: str = ""


def read_precision(text: str) -> Precision:
    """Return what a report's words on weights mean: the first format that they name."""
    lowered = text.strip().lower()
    found = [(lowered.index(word), -len(word), name) for word, name in _BITS if word in lowered]
    weights = min(found)[2] if found else None
    group = re.search(r"\bg(?:roup)?\s?(\d{2,4})\b", lowered)
    return Precision(
        weights=weights,
        block=weights == "fp8" and "block" in lowered,
        online="online" in lowered or "runtime" in lowered,
        group=int(group.group(1)) if group else 0,
        unpublished=bool(_BARE_GGUF.search(lowered)),
        text=text.strip(),
    )


def read_kv(text: str) -> KvDtype | None:
    """Return the KV cache's dtype as vLLM's and llama.cpp's spellings have it; None where the report says none."""
    lowered = text.strip().lower()
    return next((name for word, name in _KV if word in lowered), None)
