"""Gauss-Newton in logarithms with bounded residuals and Gaussian priors, over measured runs of all models at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.models import load_model
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.calibration.levels import NAMES, SHARES, Design
from optimizer.performance.calibration.observations import FULL_LOAD, STATIC
from optimizer.performance.efficiency import Efficiencies, Routing
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.speed import SpeedModel

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

LARGEST_SHARE = float(np.log(0.98))
ROUNDS = 7
STEP = 0.8
SLOPE = 0.02
NOISE = 0.06  # log error that one run is expected to have
LARGEST_PULL = 1.5  # residuals beyond this many times NOISE pull no harder
NEAR = 0.1  # lengths of 0.8 to 1 times the nominal one end within about a tenth of each other
TARGETS = ("tpot", "ttft", "e2e")


def predict_runs(speed: SpeedBackend, part: pd.DataFrame) -> Array:
    """Return predicted (TPOT, TTFT, end-to-end) seconds of runs on the replicas of a speed model.

    Args:
        speed: one replica per run.
        part: columns batch, input_tokens, output_tokens, scenario, lengths ("same", "near" or "mixed").
    """
    batch = part["batch"].to_numpy(dtype=np.float64)
    inputs, outputs = (part[name].to_numpy(dtype=np.float64) for name in ("input_tokens", "output_tokens"))
    lengths = part["lengths"].to_numpy()
    waves = np.select(
        [lengths == "same", lengths == "near"], [speed.waves["wave_same_lengths"], speed.waves["wave_near_lengths"]]
    )
    loop = predict_closed_loop(
        speed, batch, inputs, outputs, waves=waves, spread=np.where(lengths == "near", NEAR, np.inf)
    )
    static = (part["scenario"] == STATIC).to_numpy()
    whole_batch = speed.prefill_seconds(inputs) + (batch - 1.0) * speed.prefill_occupancy_seconds(inputs)
    tpot = np.where(static, speed.decode_step_seconds(batch, inputs + outputs / 2.0), loop.tpot_s)
    ttft = np.where(static, whole_batch, loop.ttft_s)
    return np.column_stack([tpot, ttft, ttft + (outputs - 1.0) * tpot])


def predict_with(rows: pd.DataFrame, log_values: Array, routing: Routing) -> Array:
    """Return `predict_runs` of rows of many models, for the logarithms of every row's coefficients."""
    values = np.exp(log_values)
    unused = Efficiencies({}, {}, {}, {}, routing)
    out = np.zeros((len(rows), len(TARGETS)))
    for model, at in rows.groupby("model").indices.items():
        coefficients = {name: values[at, column] for column, name in enumerate(NAMES)}
        part = rows.iloc[at]
        speed = SpeedModel(load_model(str(model)), part, efficiencies=unused, coefficients=coefficients)
        out[at] = predict_runs(speed, part)
    return out


@dataclass(frozen=True)
class Fit:
    """Runs, what was measured of each, and the parameters to fit."""

    rows: pd.DataFrame
    design: Design
    routing: Routing

    @property
    def measured(self) -> Array:
        """Measured (TPOT, TTFT, end-to-end) seconds, NaN where not measured."""
        rows = self.rows
        times = rows[["tpot_s", "ttft_s"]].to_numpy(dtype=np.float64)
        # At full load the throughput says how long a request stays (Little's law).
        stay = rows["batch"] * rows["output_tokens"] / rows["output_tokens_per_second"]
        full = (rows["scenario"] == FULL_LOAD).to_numpy()
        e2e = np.where(full, stay, times[:, 1] + (rows["output_tokens"].to_numpy() - 1.0) * times[:, 0])
        found = np.column_stack([times, e2e])
        return np.where(found > 0, found, np.nan)

    def coefficients(self, parameters: Array) -> Array:
        """Return the logarithms of each row's coefficients; shares of a peak stay below one."""
        values: Array = parameters.reshape(-1, len(NAMES))[self.design.of_row].sum(axis=1)
        for column, name in enumerate(NAMES):
            if name in SHARES:
                values[:, column] = np.minimum(values[:, column], LARGEST_SHARE)
        return values

    def residuals(self, parameters: Array) -> Array:
        """Return the logarithms of predicted over measured (rows x targets), NaN where not measured."""
        predicted = predict_with(self.rows, self.coefficients(parameters), self.routing)
        return np.asarray(np.log(predicted / self.measured))

    def solve(self, used: Mask, weight: Array) -> Array:
        """Return the fitted parameters, from the rows in `used` only.

        Args:
            used: which rows may be seen.
            weight: of each row and target.
        """
        part = Fit(self.rows[used].reset_index(drop=True), _only(self.design, used), self.routing)
        measured, weight = part.measured, weight[used]
        parameters = part.design.mean.copy()
        free = np.flatnonzero(part.design.spread > 0)
        seen = np.zeros(len(parameters), dtype=np.bool_)
        seen.reshape(-1, len(NAMES))[np.unique(part.design.of_row)] = True
        free = free[seen[free]]
        prior = 1.0 / part.design.spread[free] ** 2
        for _ in range(ROUNDS):
            values = part.coefficients(parameters)
            base = np.log(predict_with(part.rows, values, self.routing) / measured)
            slopes = np.zeros((*base.shape, len(NAMES)))
            for column in range(len(NAMES)):
                moved = values.copy()
                moved[:, column] += SLOPE
                slopes[..., column] = (np.log(predict_with(part.rows, moved, self.routing) / measured) - base) / SLOPE
            ok = np.isfinite(base) & (weight > 0)
            pull = np.minimum(1.0, LARGEST_PULL * NOISE / np.maximum(np.abs(base), 1e-9))
            scale = np.sqrt(pull * weight) / NOISE
            jacobian = _spread_out(slopes, part.design, ok)[:, free] * scale[ok][:, None].astype(np.float32)
            target = base[ok] * scale[ok]
            curvature = (jacobian.T @ jacobian).astype(np.float64) + np.diag(prior)
            gradient = jacobian.T @ target + (parameters[free] - part.design.mean[free]) * prior
            parameters[free] -= STEP * np.linalg.solve(curvature, gradient)
        return parameters


def _only(design: Design, used: Mask) -> Design:
    return Design(design.levels, design.of_row[used], design.mean, design.spread)


def _spread_out(slopes: Array, design: Design, ok: Mask) -> npt.NDArray[Any]:
    """Slopes by coefficient as slopes by parameter: a coefficient's slope is that of each of its levels."""
    row, target = np.nonzero(ok)
    wide = np.zeros((len(row), len(design.levels) * len(NAMES)), dtype=np.float32)
    for level in design.of_row.T:
        columns = level[row][:, None] * len(NAMES) + np.arange(len(NAMES))
        wide[np.arange(len(row))[:, None], columns] = slopes[row, target]
    return wide


def factors(parameters: Array, design: Design) -> dict[str, Mapping[str, float]]:
    """Return {level: {coefficient: factor}} of fitted parameters, "" for the common values; factors near 1 left out."""
    table = parameters.reshape(-1, len(NAMES))
    found: dict[str, Mapping[str, float]] = {}
    for level, row in zip(design.levels, table, strict=True):
        kept = {name: float(np.exp(value)) for name, value in zip(NAMES, row, strict=True)}
        found[level] = kept if not level else {name: value for name, value in kept.items() if abs(value - 1.0) > 0.01}
    return {level: row for level, row in found.items() if row}
