"""Models that nothing is known of but their name: "75B-A9B" in NVFP4 on four cards of 24 GB, at the most careful."""

from __future__ import annotations

import re

from catalogs.model_precision import bytes_per_parameter
from catalogs.model_records import Checkpoint
from optimizer.validate.cases import Row, number, whole
from optimizer.validate.engines import Engine
from optimizer.validate.formats import Precision
from optimizer.validate.gpus import Card

GIB = 2.0**30
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)B(?:-A(\d+(?:\.\d+)?)B)?\b", re.I)
_MIXED = re.compile(r"mixed|/", re.I)
LAYERS_PER_HIDDEN = 1 / 64  # decoders are about hidden/64 layers deep
ELEMENTS_PER_LAYER = 12  # times hidden squared
LONG_CONTEXT = 131_072


def nominal_problem(text: str, precision: Precision, engine: Engine, cards: tuple[Card, ...], row: Row) -> str:
    """Return why a model of this nominal size does not start on these GPUs; "" where nothing says that it does not.

    Counts the weights by the name's size and, for long contexts, one profiled step of the whole length: what an engine
    runs where prefills are not cut into chunks, which for an architecture that is not known is not known either.
    """
    size, gpus = _SIZE.search(text), whole(row, "n_gpus") or whole(row, "tp")
    if size is None or not cards or cards[0].memory_bytes is None or not gpus or precision.weights is None:
        return ""
    each = bytes_per_parameter(precision.weights, Checkpoint(weights=precision.weights, dtype="bf16"))
    if _MIXED.search(precision.text) and precision.weights in ("nvfp4", "mxfp4", "int4"):
        each = (each + 1) / 2
    weights = float(size.group(1)) * 1e9 * each / gpus
    fraction = min(number(row, "mem_util") or 0.9, 1.0)
    available = cards[0].memory_bytes * fraction
    if weights > available:
        return f"{weights / GIB:.1f} GiB of weights per GPU by the name's size, {available / GIB:.1f} available"
    longest = whole(row, "max_model_len") or 0
    if engine.name != "vllm" or longest < LONG_CONTEXT:
        return ""
    active = float(size.group(2) or size.group(1)) * 1e9
    hidden = (active / ELEMENTS_PER_LAYER / LAYERS_PER_HIDDEN) ** (1 / 3)
    step = longest * 2 * (3 + 12 / gpus) * hidden
    if weights + step <= available:
        return ""
    return (
        f"without chunked prefill the profile runs {longest:,} tokens at once, about {step / GIB:.0f} GiB of "
        f"activations beside {weights / GIB:.1f} GiB of weights in {available / GIB:.1f}; enable chunked prefill and "
        "shorten the context"
    )
