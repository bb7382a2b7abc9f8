"""Fitting a user's own runs: factors on top of the bundled coefficients, which are the prior.

Only levels that are the user's own are free: their GPU, their engine's release, and their engine with that model on
that family of GPUs; and what no bundled run had. Each is held near its bundled value by the spread that the bundled fit
held it near 1 with, so that one run moves predictions part of the way, and many runs all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.gpus import get_gpu
from optimizer.performance.calibration.fit_efficiency import row_weights, settings_of
from optimizer.performance.calibration.levels import NAMES, SPREADS, Design, design, kind_of
from optimizer.performance.calibration.observations import OPEN_LOOP
from optimizer.performance.calibration.solver import Fit
from optimizer.performance.efficiency import (
    Efficiencies,
    Setting,
    bundled_efficiencies,
    calibration_group,
    newest_era,
    with_own,
)

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FREE = ("gpu", "release", "engine-model-family")
ENOUGH = 1e-2  # of the loss of a few runs
LEAST = 1e-4  # logarithms of factors below this are left out
MOST_FITS, FEW_FITS = 20, 5  # runs left out one by one; of more, as few groups
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class OwnFit:
    """What a user's runs add to the bundled coefficients.

    Attributes:
        factors: {level: {coefficient: factor on the bundled one}}.
        own: {"own GPU ENGINE ARCHITECTURE": (era, release) of the newest such runs}.
    """

    factors: Mapping[str, Mapping[str, float]]
    own: Mapping[str, tuple[str, str]]

    def efficiencies(self) -> Efficiencies:
        """Return the bundled coefficients with these on top."""
        return with_own(bundled_efficiencies(), self.factors, self.own)


def with_eras(rows: pd.DataFrame) -> pd.DataFrame:
    """Take runs whose release is not said to be of the engine's era of today, as predictions do."""
    newest = [newest_era(engine) for engine in rows["engine"]]
    return rows.assign(era=np.where(rows["release"] == "", newest, rows["era"]))


def fit_own(rows: pd.DataFrame, used: Mask | None = None) -> OwnFit:
    """Fit factors to some of a user's runs.

    Args:
        rows: runs as `runs_to_predict` and `with_eras` return them; `batch` is what was in flight, in open loops too.
        used: which rows may be seen; None for all.
    """
    settings = settings_of(rows)
    at_rest, used = _centred(settings), np.ones(len(rows), dtype=np.bool_) if used is None else used
    # Where requests come at a rate, nobody is in step; how long they wait depends on how they bunch.
    weight = row_weights(rows)
    weight[(rows["scenario"] == OPEN_LOOP).to_numpy(), 1:] = 0.0
    fit = Fit(rows, at_rest, bundled_efficiencies().routing)
    moved = (fit.solve(used, weight, ENOUGH) - at_rest.mean).reshape(-1, len(NAMES))
    factors = {
        level: {name: round(float(np.exp(log)), 6) for name, log in zip(NAMES, row, strict=True) if abs(log) > LEAST}
        for level, row in zip(at_rest.levels, moved, strict=True)
    }
    seen = [setting for setting, one in zip(settings, used, strict=True) if one]
    return OwnFit({level: row for level, row in factors.items() if row}, _own(seen))


def left_out_groups(count: int) -> list[Mask]:
    """Return which rows to leave out at a time: each alone, or of more than MOST_FITS every FEW_FITS-th together."""
    groups = count if count <= MOST_FITS else FEW_FITS
    return [np.arange(count) % groups == group for group in range(groups)]


def _centred(settings: Sequence[Setting]) -> Design:
    """Return the design of a fit that starts at the bundled coefficients and frees the user's own levels."""
    bundled = bundled_efficiencies()
    plain = design(settings, bundled.routing)
    mean = np.zeros((len(plain.levels), len(NAMES)))
    spread = plain.spread.reshape(mean.shape).copy()
    families = {f"gpu {setting.gpu}": calibration_group(get_gpu(setting.gpu)) for setting in settings}
    for row, level in enumerate(plain.levels):
        known = bundled.factors_of(level) if level else bundled.common
        mean[row] = [np.log(known.get(name, 1.0)) for name in NAMES]
        if not _is_free(level, bundled):
            spread[row] = 0.0
        elif level in families and bundled.kinds.get(families[level]) != "fitted":
            # What the family's own runs would say, the GPU has to: its factors are borrowed from another.
            of_family = np.array([SPREADS["family"][kind_of(name)] for name in NAMES])
            spread[row] = np.hypot(spread[row], of_family)
    return replace(plain, mean=mean.ravel(), spread=spread.ravel())


def _is_free(level: str, bundled: Efficiencies) -> bool:
    kind, _, name = level.partition(" ")
    if kind == "release":
        return bool(name.partition(" ")[2])  # of an unknown release all predictions are
    return kind in FREE or (kind in ("model", "engine") and level not in bundled.measured)


def _own(settings: Sequence[Setting]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for setting in sorted(settings, key=lambda one: [int(part) for part in _NUMBERS.findall(one.release)]):
        found[setting.own_level()] = (setting.era, setting.release)
    return found
