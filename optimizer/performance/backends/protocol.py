"""SpeedBackend: what the house asks of a speed model, whoever answers.

Latencies under load bisect over steps, so every backend promises what the roofline does: the seconds of a decode step
never fall when a request or a token of context is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Names = npt.NDArray[np.str_]

ROOFLINE = "roofline"


class Sources(NamedTuple):
    """Per row, by name, the backend that decode steps and prefills come from."""

    decode: Names
    prefill: Names


@runtime_checkable
class SpeedBackend(Protocol):
    """Times of every replica in a table, vectorized over its rows; all are seconds, one value a row."""

    @property
    def rows(self) -> int:
        """Replicas in the table."""
        ...

    @property
    def kind(self) -> Names:
        """What the roofline knows of each row's GPU family: "fitted" or "borrowed"."""
        ...

    @property
    def fixed_prefill_seconds(self) -> Array:
        """Cost of a request before its first token that does not depend on its prompt."""
        ...

    @property
    def waves(self) -> Mapping[str, Array]:
        """Coefficients of closed-loop benchmarks per row, by name."""
        ...

    def take(self, index: Index) -> SpeedBackend:
        """Return the backend of some of the rows, in the order given."""
        ...

    def decode_step_seconds(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike) -> Array:
        """Return one decode step with `batch` requests on the replica, each attending to `context_tokens`."""
        ...

    def decode_terms(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike) -> dict[str, Array]:
        """Return a decode step by cause; the causes sum to the step."""
        ...

    def decode_breakdown(self, row: int, batch: float, context_tokens: float) -> dict[str, float]:
        """Return one row's decode step by cause."""
        ...

    def prefill_seconds(self, input_tokens: npt.ArrayLike) -> Array:
        """Return the time to the first token of one request that has the replica for itself."""
        ...

    def prefill_occupancy_seconds(self, input_tokens: npt.ArrayLike) -> Array:
        """Return how long one request's prefill keeps the replica's bottleneck busy."""
        ...

    def error_band(self, quantity: str, batch: npt.ArrayLike, *, regime: str = "loop") -> tuple[Array, Array]:
        """Return factors on a "ttft", "tpot" or "e2e" between which 80% of measured runs lie."""
        ...

    def at_confidence(self, quantity: str, confidence: float) -> Array:
        """Return the factor on a latency that it stays below with this probability."""
        ...

    def sources(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike, input_tokens: npt.ArrayLike) -> Sources:
        """Return which backend gives a step of this batch and context, and a prefill of this length."""
        ...
