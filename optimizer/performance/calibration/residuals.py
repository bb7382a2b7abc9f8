"""What a fit leaves on runs that it has not seen: errors by group, intervals by regime, and what lies in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from optimizer.performance.bands import QUANTITIES, SMALL_BATCH, UPPER
from optimizer.performance.calibration.held_out import cell_names
from optimizer.performance.calibration.observations import FULL_LOAD, STATIC

Array = npt.NDArray[np.float64]
Strings = npt.NDArray[np.str_]
Interval = tuple[float, float]

REGIMES = {FULL_LOAD: "full", STATIC: "static"}
FEW = 40  # runs of a group below which it borrows from all kinds of models and batches
# The terms were chosen by what they left out of fold, which flatters them: with this factor on the logarithms 80% of
# the runs of fresh cells lie in their interval in TPOT and end-to-end time, and 86% in TTFT.
OPTIMISM = 1.2
NARROWEST = 0.02  # repeats of one run differ by about a percent


def groups_of(rows: pd.DataFrame) -> Strings:
    """Return "regime kind batch" of each run."""
    regime = rows["scenario"].map(REGIMES).fillna("loop")
    kind = np.where(rows["moe"], "moe", "dense")
    size = np.where(rows["batch"] <= SMALL_BATCH, "small", "large")
    return np.array([f"{a} {b} {c}" for a, b, c in zip(regime, kind, size, strict=True)], dtype=np.str_)


def intervals(rows: pd.DataFrame, residuals: Array) -> dict[str, Interval]:
    """Return {"regime kind batch quantity": 10% and 90% quantiles of log(measured / predicted), times OPTIMISM}.

    Cells count alike, whatever their size: runs of one cell are off together. Groups with few runs take the quantiles
    of the regime, and then of all runs.
    """
    weight = 1.0 / cell_names(rows).groupby(cell_names(rows)).transform("size").to_numpy(dtype=np.float64)
    off, group = -residuals, groups_of(rows)
    regime = np.array([name.split(" ")[0] for name in group])
    found: dict[str, Interval] = {}
    for column, quantity in enumerate(QUANTITIES):
        known = np.isfinite(off[:, column])
        for name in (f"{r} {k} {b}" for r in ("loop", "static", "full") for k in ("dense", "moe") for b in _SIZES):
            choices = (group == name, regime == name.split(" ")[0], np.ones(len(rows), dtype=np.bool_))
            used = next(mask & known for mask in choices if (mask & known).sum() >= FEW or mask.all())
            low, high = (weighted_quantile(off[used, column], weight[used], share) for share in (1.0 - UPPER, UPPER))
            found[f"{name} {quantity}"] = (min(low * OPTIMISM, -NARROWEST), max(high * OPTIMISM, NARROWEST))
    return found


def weighted_quantile(values: Array, weight: Array, share: float) -> float:
    """Return the value that this share of the weight lies below."""
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - 0.5 * weight[order]
    return float(np.interp(share * weight.sum(), below, values[order]))


_SIZES = ("small", "large")


def covered(rows: pd.DataFrame, residuals: Array, bands: Mapping[str, Interval]) -> dict[str, float]:
    """Return by quantity the share of runs that lie in their interval."""
    inside = _inside(rows, residuals, bands)
    return {name: round(float(np.nanmean(inside[:, column])), 3) for column, name in enumerate(QUANTITIES)}


def covered_by(rows: pd.DataFrame, residuals: Array, bands: Mapping[str, Interval]) -> pd.DataFrame:
    """Return the same by scenario."""
    table = pd.DataFrame(_inside(rows, residuals, bands), columns=list(QUANTITIES))
    return table.groupby(rows["scenario"].to_numpy()).mean()


def _inside(rows: pd.DataFrame, residuals: Array, bands: Mapping[str, Interval]) -> Array:
    group, inside = groups_of(rows), np.full(residuals.shape, np.nan)
    for column, quantity in enumerate(QUANTITIES):
        low, high = (np.array([bands[f"{name} {quantity}"][end] for name in group]) for end in (0, 1))
        off = -residuals[:, column]
        inside[:, column] = np.where(np.isfinite(off), (off >= low) & (off <= high), np.nan)
    return inside


def widening(seen: Array, unseen: Array) -> float:
    """Return how much farther off TPOT is where something was left out whole, on the same runs; at least 1."""
    both = np.isfinite(seen[:, 0]) & np.isfinite(unseen[:, 0])
    near, far = (np.quantile(np.abs(table[both, 0]), 0.8) for table in (seen, unseen))
    return max(1.0, float(far / near))


def errors_by(rows: pd.DataFrame, residuals: Array, keys: list[str]) -> pd.DataFrame:
    """Return mean and median absolute percentage errors by group, over the runs that have residuals."""
    known = np.flatnonzero(np.isfinite(residuals).any(axis=1))
    table = rows[keys].iloc[known].copy()
    for column, name in enumerate(QUANTITIES):
        table[name] = np.abs(np.expm1(residuals[known, column])) * 100.0
    named = {f"{name}_{how}": (name, how) for name in QUANTITIES for how in ("mean", "median")}
    return table.groupby(keys).agg(rows=("tpot", "size"), **named)
