"""How far off a prediction may be: an 80% interval from what the fit left on cells that it had not seen.

Residuals are taken by regime (closed or open loop, static batch, full load), by kind of model and by batch. Hardware,
models and engines that were never measured are wider, by as much as leaving measured ones out of the fit made them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

QUANTITIES = ("tpot", "ttft", "e2e")
INTERVAL = 0.80
SMALL_BATCH = 16.0  # requests per replica up to which a batch counts as small
# The interval's upper end is exceeded by one run in ten.
UPPER = (1.0 + INTERVAL) / 2.0


@dataclass(frozen=True)
class Bands:
    """Intervals by group, and how much wider they are for what was never measured.

    Attributes:
        logs: {"regime kind batch quantity": natural logarithms of measured over predicted, 10% and 90% quantiles}, kind
            "dense" or "moe", batch "small" or "large".
        widening: factors on those logarithms for an unmeasured "gpu", "family", "model", "engine".
    """

    logs: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    widening: Mapping[str, float] = field(default_factory=dict)

    def interval(
        self, quantity: str, batch: npt.ArrayLike, width: Array, *, moe: bool, regime: str = "loop"
    ) -> tuple[Array, Array]:
        """Return factors on predictions between which 80% of runs are measured.

        Args:
            quantity: "ttft", "tpot" or "e2e"; throughput has the reciprocals of "e2e".
            batch: requests per replica, a number or one a row.
            width: factor on the logarithms, one a row (see `width_of`).
            moe: whether the model routes tokens to experts.
            regime: how the requests come: "loop", "static" or "full" (load).
        """
        kind = "moe" if moe else "dense"
        small = self.logs[f"{regime} {kind} small {quantity}"]
        large = self.logs[f"{regime} {kind} large {quantity}"]
        is_small = np.asarray(batch, dtype=np.float64) <= SMALL_BATCH
        low, high = (np.where(is_small, small[end], large[end]) for end in (0, 1))
        return np.exp(low * width), np.exp(high * width)

    def factor_at(self, quantity: str, confidence: float, width: Array, *, moe: bool) -> Array:
        """Return the factor that a latency stays below with this probability, whatever the batch (at least 1).

        The logarithm of the interval's upper end is scaled as a normal distribution's quantile. The wider of small and
        large batches counts, so that the factor is the same at every load.
        """
        kind = "moe" if moe else "dense"
        end = max(self.logs[f"loop {kind} {size} {quantity}"][1] for size in ("small", "large"))
        scale = NormalDist().inv_cdf(confidence) / NormalDist().inv_cdf(UPPER)
        return np.exp(max(end, 0.0) * max(scale, 0.0) * width)

    def width_of(self, unmeasured: frozenset[str]) -> float:
        """Return the factor on the logarithms where these parts of a setting were never measured."""
        return float(np.sqrt(1.0 + sum(self.widening[name] ** 2 - 1.0 for name in unmeasured)))
