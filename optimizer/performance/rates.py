"""Rates: what each GPU delivers per byte and per FLOP, data-sheet peaks times fitted efficiencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from catalogs.gpus import Gpu, get_gpu

Array = npt.NDArray[np.float64]

_COEFFICIENT_OF_DTYPE = {"fp8": "compute_8bit", "int8": "compute_8bit", "fp4": "compute_4bit"}
_PLAIN_FORMATS = frozenset({"fp32", "bf16", "fp16"})


@dataclass(frozen=True)
class Rates:
    """Costs by setting (a GPU with an engine and so on), one value each.

    Attributes:
        coefficients: the fitted coefficients.
        weight_read, expert_read, kv_read: seconds per byte.
        flop: {weight format: seconds per FLOP of a large matrix product}.
        attention_flop: seconds per FLOP of attention.
    """

    coefficients: Mapping[str, Array]
    weight_read: Array
    expert_read: Array
    kv_read: Array
    flop: dict[str, Array]
    attention_flop: Array


def gpu_rates(names: Sequence[str], formats: Iterable[str], coefficients: Mapping[str, Array]) -> Rates:
    """Return the rates of each named GPU for each weight format, under the coefficients beside it."""
    distinct = {name: at for at, name in enumerate(dict.fromkeys(names))}
    of_name = np.array([distinct[name] for name in names], dtype=np.intp)
    gpus = [get_gpu(name) for name in distinct]
    byte_seconds = 1.0 / np.array([gpu.bandwidth_bytes_per_second for gpu in gpus])[of_name]
    peak_16bit = np.array([_peak_16bit(gpu) for gpu in gpus])[of_name]
    flop = {}
    for name in formats:
        pairs = [_peak_and_coefficient(gpu, name) for gpu in gpus]
        peak = np.array([peak for peak, _ in pairs])[of_name]
        share = np.zeros(len(names))
        for coefficient in {coefficient for _, coefficient in pairs}:
            uses = np.array([used == coefficient for _, used in pairs])[of_name]
            share = np.where(uses, coefficients[coefficient], share)
        flop[name] = 1.0 / (peak * share)
    return Rates(
        coefficients=coefficients,
        weight_read=byte_seconds / coefficients["weight_bandwidth"],
        expert_read=byte_seconds / coefficients["expert_bandwidth"],
        kv_read=byte_seconds / coefficients["kv_bandwidth"],
        flop=flop,
        attention_flop=1.0 / (peak_16bit * coefficients["compute_attention"]),
    )


def _peak_16bit(gpu: Gpu) -> float:
    return gpu.flops_per_second("bf16" if "bf16" in gpu.dense_tflops else "fp16")


def _peak_and_coefficient(gpu: Gpu, weights: str) -> tuple[float, str]:
    """The FLOP/s peak that products with this weight format run against, and the coefficient that applies.

    A format that a GPU cannot run is priced as weight-only: the rule on precision rejects it, not its speed.
    """
    if weights in _PLAIN_FORMATS:
        return _peak_16bit(gpu), "compute_16bit"
    # Engines differ on cards of compute capability 12: TensorRT-LLM reaches 1.7 PFLOP/s of FP4 where others unpack.
    if weights == "nvfp4" and "fp4" in gpu.dense_tflops:
        return gpu.flops_per_second("fp4"), "compute_4bit"
    if gpu.weight_support(weights) != "native":
        return _peak_16bit(gpu), "compute_weight_only"
    dtype = gpu.compute_dtype(weights)
    return gpu.flops_per_second(dtype), _COEFFICIENT_OF_DTYPE[dtype]
