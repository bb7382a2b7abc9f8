"""Rates: what each GPU delivers per byte and per FLOP, data-sheet peaks times fitted efficiencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from catalogs.gpus import Gpu, get_gpu
from optimizer.performance.efficiency import Efficiencies, Kind, calibration_group

Array = npt.NDArray[np.float64]

_COEFFICIENT_OF_DTYPE = {"fp8": "compute_8bit", "int8": "compute_8bit", "fp4": "compute_4bit"}
_PLAIN_FORMATS = frozenset({"fp32", "bf16", "fp16"})


@dataclass(frozen=True)
class Rates:
    """Costs by GPU, one value each.

    Attributes:
        coefficients: the fitted coefficients.
        weight_read, expert_read, kv_read: seconds per byte.
        flop: {weight format: seconds per FLOP of a large matrix product}.
        attention_flop: seconds per FLOP of attention.
        kinds: "fitted" or "borrowed" by GPU.
    """

    coefficients: dict[str, Array]
    weight_read: Array
    expert_read: Array
    kv_read: Array
    flop: dict[str, Array]
    attention_flop: Array
    kinds: list[Kind]


def gpu_rates(names: Sequence[str], formats: Iterable[str], efficiencies: Efficiencies, engine: str) -> Rates:
    """Return the rates of each named GPU for each weight format."""
    gpus = [get_gpu(name) for name in names]
    groups = [calibration_group(gpu) for gpu in gpus]
    table = efficiencies.table(groups, engine)
    byte_seconds = 1.0 / np.array([gpu.bandwidth_bytes_per_second for gpu in gpus])
    peak_16bit = np.array([_peak_16bit(gpu) for gpu in gpus])
    flop = {}
    for name in formats:
        pairs = [_peak_and_coefficient(gpu, name) for gpu in gpus]
        share = np.array([table[coefficient][i] for i, (_, coefficient) in enumerate(pairs)])
        flop[name] = 1.0 / (np.array([peak for peak, _ in pairs]) * share)
    return Rates(
        coefficients=table,
        weight_read=byte_seconds / table["weight_bandwidth"],
        expert_read=byte_seconds / table["expert_bandwidth"],
        kv_read=byte_seconds / table["kv_bandwidth"],
        flop=flop,
        attention_flop=1.0 / (peak_16bit * table["compute_attention"]),
        kinds=[efficiencies.kinds[group] for group in groups],
    )


def _peak_16bit(gpu: Gpu) -> float:
    return gpu.flops_per_second("bf16" if "bf16" in gpu.dense_tflops else "fp16")


def _peak_and_coefficient(gpu: Gpu, weights: str) -> tuple[float, str]:
    """The FLOP/s peak that products with this weight format run against, and the coefficient that applies.

    A format that a GPU cannot run is priced as weight-only: the rule on precision rejects it, not its speed.
    """
    if weights in _PLAIN_FORMATS:
        return _peak_16bit(gpu), "compute_16bit"
    if gpu.weight_support(weights) != "native":
        return _peak_16bit(gpu), "compute_weight_only"
    dtype = gpu.compute_dtype(weights)
    return gpu.flops_per_second(dtype), _COEFFICIENT_OF_DTYPE[dtype]
