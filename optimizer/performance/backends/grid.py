"""Positive figures of several settings on a grid of two axes: interpolated in logarithms, monotone, not extrapolated.

A figure that is not known is NaN. Between known ones the logarithm is linear in the logarithms of both axes. Elsewhere
another model's figure is used, held between the known figures that it must not be below or above, so that what is
monotone in both sources stays monotone across the border.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

EDGE = 1e-9  # relative: a point this near to the grid's end lies on it


@dataclass(frozen=True)
class Reading:
    """Figures at points, and which of the points lie inside what is known."""

    values: Array
    inside: Bools


class LogGrid:
    """Figures by setting, first axis and second axis.

    Args:
        first, second: ascending positive values of the axes, at least one each.
        values: figures (settings x first x second), positive, NaN where not known; non-decreasing along both axes.
    """

    def __init__(self, first: npt.ArrayLike, second: npt.ArrayLike, values: npt.ArrayLike) -> None:
        self.first, self.second = (np.log(np.asarray(axis, dtype=np.float64)) for axis in (first, second))
        self._values = np.log(np.asarray(values, dtype=np.float64))
        # The largest known figure up to each point, and the smallest from it on.
        self._least = np.fmax.accumulate(np.fmax.accumulate(self._values, axis=1), axis=2)
        turned = self._values[:, ::-1, ::-1]
        self._most = np.fmin.accumulate(np.fmin.accumulate(turned, axis=1), axis=2)[:, ::-1, ::-1]

    @property
    def settings(self) -> int:
        """How many settings there are."""
        return len(self._values)

    def read(self, setting: Index, first: Array, second: Array, otherwise: Array) -> Reading:
        """Return a figure for each point.

        Args:
            setting: of each point.
            first: its place on the first axis, positive.
            second: its place on the second axis, positive.
            otherwise: the other model's figure, used where the grid has none.
        """
        one, other = _Place.of(self.first, first), _Place.of(self.second, second)
        known = _between(self._values, setting, one, other)
        inside = np.isfinite(known) & (one.beyond == 0) & (other.beyond == 0)
        values = np.exp(np.where(inside, known, 0.0))
        outside = np.flatnonzero(~inside)
        if len(outside):
            values[outside] = self._held(setting[outside], one.take(outside), other.take(outside), otherwise[outside])
        return Reading(values, inside)

    def _held(self, setting: Index, one: _Place, other: _Place, otherwise: Array) -> Array:
        """Return the other model's figures, not below known ones of less work nor above those of more."""
        least = _between(self._least, setting, one, other)
        most = _between(self._most, setting, one, other)
        least = np.where((one.beyond >= 0) & (other.beyond >= 0) & np.isfinite(least), least, -np.inf)
        most = np.where((one.beyond <= 0) & (other.beyond <= 0) & np.isfinite(most), most, np.inf)
        return np.clip(otherwise, np.exp(least), np.exp(np.minimum(most, 700.0)))


@dataclass(frozen=True)
class _Place:
    """Where points lie on an axis: the step of it, how far into the step, and -1 or 1 before or behind the axis."""

    index: Index
    upper: Index
    weight: Array
    beyond: npt.NDArray[np.int64]

    @classmethod
    def of(cls, axis: Array, points: Array) -> _Place:
        at = np.log(points)
        beyond = (at > axis[-1] + EDGE).astype(np.int64) - (at < axis[0] - EDGE).astype(np.int64)
        at = np.clip(at, axis[0], axis[-1])
        index = np.clip(np.searchsorted(axis, at, side="right") - 1, 0, max(len(axis) - 2, 0))
        upper = np.minimum(index + 1, len(axis) - 1)
        width = np.where(upper > index, axis[upper] - axis[index], 1.0)
        return cls(index, upper, (at - axis[index]) / width, beyond)

    def take(self, at: Index) -> _Place:
        return _Place(self.index[at], self.upper[at], self.weight[at], self.beyond[at])


def _between(values: Array, setting: Index, one: _Place, other: _Place) -> Array:
    """Return the weighted mean of the four corners around each point; a corner of no weight need not be known."""
    total = np.zeros(len(setting))
    for row, row_weight in ((one.index, 1.0 - one.weight), (one.upper, one.weight)):
        for column, column_weight in ((other.index, 1.0 - other.weight), (other.upper, other.weight)):
            weight = row_weight * column_weight
            total += np.where(weight > 0.0, weight * np.where(weight > 0.0, values[setting, row, column], 0.0), 0.0)
    return total


def running_maximum(values: Array) -> tuple[Array, Array]:
    """Raise figures that fall along an axis to the largest before them (isotonic from below).

    Args:
        values: figures (settings x first x second), NaN where not known.

    Returns:
        The figures, and per setting the largest share by which one had to be raised.
    """
    raised = np.fmax.accumulate(np.fmax.accumulate(values, axis=1), axis=2)
    raised = np.where(np.isnan(values), np.nan, raised)
    share = np.nan_to_num(raised / values - 1.0, nan=0.0)
    return raised, share.reshape(len(values), -1).max(axis=1, initial=0.0)
