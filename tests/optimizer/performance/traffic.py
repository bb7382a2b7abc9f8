"""Random requests for the simulator: gamma times between arrivals, lognormal lengths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optimizer.performance.open_loop import STEADY, Variability
from optimizer.performance.simulator import Requests


def random_requests(
    count: int, rate: float, inputs: int, outputs: int, vary: Variability = STEADY, seed: int = 0
) -> Requests:
    """Draw requests whose mean rate is exactly `rate`, so that a saturation nearby is not crossed by chance."""
    draw = np.random.default_rng(seed)
    gaps = draw.gamma(1.0 / vary.burstiness, vary.burstiness, count)
    arrival = np.cumsum(gaps) * (count / rate / gaps.sum())
    return Requests(
        arrival, _lengths(draw, count, inputs, vary.input_cv), _lengths(draw, count, outputs, vary.output_cv)
    )


def _lengths(draw: np.random.Generator, count: int, mean: int, cv: float) -> npt.NDArray[np.int64]:
    if cv == 0.0:
        return np.full(count, mean, dtype=np.int64)
    sigma = np.sqrt(np.log1p(cv * cv))
    drawn = draw.lognormal(np.log(mean) - 0.5 * sigma**2, sigma, count)
    return np.maximum(np.rint(drawn), 1).astype(np.int64)
