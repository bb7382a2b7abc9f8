"""Predictions with their intervals, and the probability that a target holds."""

from __future__ import annotations

from math import log
from statistics import NormalDist

from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.bands import UPPER
from optimizer.performance.latency import Prediction

LATENCIES = ("ttft", "tpot", "e2e")


def latencies_ms(speed: SpeedBackend, found: Prediction, row: int) -> dict[str, float]:
    """Return the latencies of one row in ms, each with the ends of its 80% interval (`_low`, `_high`)."""
    values: dict[str, float] = {}
    for name in LATENCIES:
        low, high = speed.error_band(name, found.in_flight)
        mean = float(getattr(found, f"{name}_s")[row]) * 1e3
        values |= {f"{name}_ms": mean, f"{name}_ms_low": mean * float(low[row])}
        values[f"{name}_ms_high"] = mean * float(high[row])
    return values


def probability_below(target: float, predicted: float, high: float) -> float:
    """Return the probability that a latency is below its target, from the upper end of its 80% interval.

    Log-normal around the prediction, one in ten above `high`.
    """
    if target <= 0 or predicted <= 0 or high <= predicted:
        return float(predicted <= target)
    return NormalDist().cdf(log(target / predicted) / log(high / predicted) * NormalDist().inv_cdf(UPPER))
