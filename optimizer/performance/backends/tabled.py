"""TabledSpeed: a backend that reads steps and prefills from tables, and asks another backend for what they lack."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optimizer.performance.backends.grid import LogGrid, Reading
from optimizer.performance.backends.protocol import Array, Index, Names, Sources, SpeedBackend
from optimizer.performance.bands import Bands

NONE = -1  # the setting of a row that no table covers


@dataclass(frozen=True)
class Tables:
    """What one source knows, by setting (what of a replica its figures depend on).

    Attributes:
        name: the source's, as answers name it.
        steps: seconds of a decode step by requests per rank and tokens of context.
        prefills: seconds of a lone prompt by tokens; the first axis has one value, 1.
        fixed_included: whether those are from the client's side, with the fixed cost of a request in them.
        bands: how far off the source's latencies are, by regime, kind of model, batch and quantity; those of the other
            backend when None.
    """

    name: str
    steps: LogGrid
    prefills: LogGrid
    fixed_included: bool = False
    bands: Bands | None = None


class TabledSpeed:
    """Times of every replica in a table: from tables where they have them, else from another backend.

    Args:
        base: the other backend, of the same rows.
        tables: the figures.
        setting: of each row, or NONE.
        ranks: requests of a replica per request on the tables' axis, one a row: the ranks and stages that share them.
        moe: whether the model routes tokens to experts.
    """

    def __init__(self, base: SpeedBackend, tables: Tables, setting: Index, ranks: Array, *, moe: bool) -> None:
        self.base, self.tables, self.moe = base, tables, moe
        self._setting, self._ranks = setting, ranks
        self._covered = np.flatnonzero(setting != NONE)
        self._fixed = base.fixed_prefill_seconds
        if tables.fixed_included and len(self._covered):
            # A request measured faster than our fixed cost has less of it.
            at_once = self._prefill(1.0).values
            self._fixed = self._fixed.copy()
            self._fixed[self._covered] = np.minimum(self._fixed[self._covered], 0.5 * at_once)

    def take(self, index: Index) -> TabledSpeed:
        """Return the backend of some of the rows, in the order given, without working anything out again."""
        part = copy.copy(self)
        part.base = self.base.take(index)
        part._setting, part._ranks, part._fixed = self._setting[index], self._ranks[index], self._fixed[index]
        part._covered = np.flatnonzero(part._setting != NONE)
        return part

    @property
    def rows(self) -> int:
        """Replicas in the table."""
        return self.base.rows

    @property
    def kind(self) -> Names:
        """What the roofline knows of each row's GPU family."""
        return self.base.kind

    @property
    def fixed_prefill_seconds(self) -> Array:
        """Cost of a request before its first token that does not depend on its prompt."""
        return self._fixed

    @property
    def waves(self) -> Mapping[str, Array]:
        """Coefficients of closed-loop benchmarks per row, by name."""
        return self.base.waves

    @property
    def covered(self) -> npt.NDArray[np.bool_]:
        """Per row, whether there is a table of its setting."""
        return np.asarray(self._setting != NONE)

    def decode_step_seconds(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike) -> Array:
        """Return the seconds of one decode step."""
        seconds = self.base.decode_step_seconds(batch, context_tokens)
        if len(self._covered):
            seconds = seconds.copy()
            seconds[self._covered] = self._step(batch, context_tokens, seconds).values
        return seconds

    def decode_terms(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike) -> dict[str, Array]:
        """Return the step by cause: shares as the other backend sees them, of the seconds that the table says."""
        terms = self.base.decode_terms(batch, context_tokens)
        whole = np.sum(list(terms.values()), axis=0)
        scale = self.decode_step_seconds(batch, context_tokens) / whole
        return {cause: seconds * scale for cause, seconds in terms.items()}

    def decode_breakdown(self, row: int, batch: float, context_tokens: float) -> dict[str, float]:
        """Return the seconds of one row's decode step by cause; they sum to the step."""
        return {cause: float(value[row]) for cause, value in self.decode_terms(batch, context_tokens).items()}

    def prefill_seconds(self, input_tokens: npt.ArrayLike) -> Array:
        """Return the seconds until the first token of one request alone on the replica."""
        seconds = self.base.prefill_seconds(input_tokens)
        if len(self._covered):
            seconds = seconds.copy()
            seconds[self._covered] = self._prefill(input_tokens).values
        return seconds

    def prefill_occupancy_seconds(self, input_tokens: npt.ArrayLike) -> Array:
        """Return how long one prefill keeps the replica busy: the other backend's share of the table's prefill."""
        busy = self.base.prefill_occupancy_seconds(input_tokens)
        if not len(self._covered):
            return busy
        theirs = self.base.prefill_seconds(input_tokens) - self.base.fixed_prefill_seconds
        ours = self.prefill_seconds(input_tokens) - self._fixed
        return busy * np.where(self.covered, ours / theirs, 1.0)

    def error_band(self, quantity: str, batch: npt.ArrayLike, *, regime: str = "loop") -> tuple[Array, Array]:
        """Return factors on a prediction between which 80% of measured runs lie, per row."""
        low, high = self.base.error_band(quantity, batch, regime=regime)
        if self.tables.bands is None:
            return low, high
        mine = self.tables.bands.interval(quantity, batch, np.ones(self.rows), moe=self.moe, regime=regime)
        return np.where(self.covered, mine[0], low), np.where(self.covered, mine[1], high)

    def at_confidence(self, quantity: str, confidence: float) -> Array:
        """Return per row the factor that a latency stays below with this probability."""
        factor = self.base.at_confidence(quantity, confidence)
        if self.tables.bands is None:
            return factor
        mine = self.tables.bands.factor_at(quantity, confidence, np.ones(self.rows), moe=self.moe)
        return np.where(self.covered, mine, factor)

    def sources(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike, input_tokens: npt.ArrayLike) -> Sources:
        """Return which backend gives a step of this batch and context, and a prefill of this length."""
        decode, prefill = (names.astype(object) for names in self.base.sources(batch, context_tokens, input_tokens))
        if len(self._covered):
            any_figure = np.ones(self.rows)
            decode[self._covered[self._step(batch, context_tokens, any_figure).inside]] = self.tables.name
            prefill[self._covered[self._prefill(input_tokens).inside]] = self.tables.name
        return Sources(decode.astype(np.str_), prefill.astype(np.str_))

    def _step(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike, otherwise: Array) -> Reading:
        rows = self._covered
        requests = np.maximum(self._column(batch)[rows] / self._ranks[rows], 1.0)
        context = np.maximum(self._column(context_tokens)[rows], 1.0)
        return self.tables.steps.read(self._setting[rows], requests, context, otherwise[rows])

    def _prefill(self, input_tokens: npt.ArrayLike) -> Reading:
        """Return covered rows' seconds of a lone prompt, the fixed cost of a request included."""
        rows = self._covered
        fixed = 0.0 if self.tables.fixed_included else self.base.fixed_prefill_seconds[rows]
        tokens = np.maximum(self._column(input_tokens)[rows], 1.0)
        otherwise = self.base.prefill_seconds(input_tokens)[rows] - fixed
        found = self.tables.prefills.read(self._setting[rows], np.ones(len(rows)), tokens, otherwise)
        return Reading(found.values + fixed, found.inside)

    def _column(self, value: npt.ArrayLike) -> Array:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (self.rows,))
