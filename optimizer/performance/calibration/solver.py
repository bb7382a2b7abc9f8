"""Gauss-Newton in logarithms with a line search, bounded residuals and priors, over measured runs of all models."""

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
from optimizer.performance.efficiency import CAP_SHARPNESS, Efficiencies, Routing, below_cap
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.speed import SpeedModel

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

CAPPED = np.array([name in SHARES for name in NAMES])
ROUNDS = 15
LENGTHS = (1.0, 0.6, 0.3, 0.1)
ENOUGH = 5.0  # of the loss, which counts runs in units of their noise
SLOPE = 0.02
NOISE = 0.045  # log error that one run is expected to have, most of it the model's
LARGEST_PULL = 2.0  # residuals beyond this many times NOISE pull no harder
TARGETS = ("tpot", "ttft", "e2e")


def predict_runs(speed: SpeedBackend, part: pd.DataFrame) -> Array:
    """Return predicted (TPOT, TTFT, end-to-end) seconds of runs on the replicas of a speed model.

    Args:
        speed: one replica per run.
        part: columns batch, slots, input_tokens, output_tokens, scenario, lengths ("same", "near" or "mixed").
    """
    asked, slots = (part[name].to_numpy(dtype=np.float64) for name in ("batch", "slots"))
    batch = np.minimum(asked, slots)
    inputs, outputs = (part[name].to_numpy(dtype=np.float64) for name in ("input_tokens", "output_tokens"))
    lengths = part["lengths"].to_numpy()
    waves = np.select(
        [lengths == "same", lengths == "near"], [speed.waves["wave_same_lengths"], speed.waves["wave_near_lengths"]]
    )
    # Of lengths that vary, clients are in step only at the start, when all send their first prompts.
    together = np.where(lengths == "same", speed.waves["wave_tokens"] / inputs, np.inf)
    loop = predict_closed_loop(speed, batch, inputs, outputs, waves=waves, together=together)
    static = (part["scenario"] == STATIC).to_numpy()
    whole_batch = speed.prefill_seconds(inputs) + (batch - 1.0) * speed.prefill_occupancy_seconds(inputs)
    tpot = np.where(static, speed.decode_step_seconds(batch, inputs + outputs / 2.0), loop.tpot_s)
    ttft = np.where(static, whole_batch, loop.ttft_s)
    # Requests beyond the slots wait until as many have been served.
    ttft = ttft + (asked - batch) / batch * (ttft + (outputs - 1.0) * tpot)
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
        values = self._uncapped(parameters)
        values[:, CAPPED] = np.log(below_cap(np.exp(values[:, CAPPED])))
        return values

    def give(self, parameters: Array) -> Array:
        """Return how much each of `coefficients` moves per unit of its uncapped logarithm: 1, less near a cap."""
        moves = np.ones((len(self.rows), len(NAMES)))
        share = np.exp(self._uncapped(parameters)[:, CAPPED])
        moves[:, CAPPED] = (below_cap(share) / share) ** CAP_SHARPNESS
        return moves

    def _uncapped(self, parameters: Array) -> Array:
        return np.asarray(parameters.reshape(-1, len(NAMES))[self.design.of_row].sum(axis=1))

    def residuals(self, parameters: Array) -> Array:
        """Return the logarithms of predicted over measured (rows x targets), NaN where not measured."""
        predicted = predict_with(self.rows, self.coefficients(parameters), self.routing)
        return np.asarray(np.log(predicted / self.measured))

    def solve(self, used: Mask, weight: Array, enough: float = ENOUGH) -> Array:
        """Return the fitted parameters, from the rows in `used` only.

        Args:
            used: which rows may be seen.
            weight: of each row and target.
            enough: a round that makes the loss smaller by less than this is the last; the loss counts runs in units of
                their noise, so that a few runs need a smaller one than thousands.
        """
        part = Fit(self.rows[used].reset_index(drop=True), _only(self.design, used), self.routing)
        measured, weight = part.measured, weight[used]
        parameters = part.design.mean.copy()
        free = np.flatnonzero(part.design.spread > 0)
        seen = np.zeros(len(parameters), dtype=np.bool_)
        seen.reshape(-1, len(NAMES))[np.unique(part.design.of_row)] = True
        free = free[seen[free]]
        prior = 1.0 / part.design.spread[free] ** 2
        loss = part._loss(parameters, weight)
        for _ in range(ROUNDS):
            values = part.coefficients(parameters)
            base = np.log(predict_with(part.rows, values, self.routing) / measured)
            slopes = np.zeros((*base.shape, len(NAMES)))
            for column in range(len(NAMES)):
                moved = values.copy()
                moved[:, column] += SLOPE
                slopes[..., column] = (np.log(predict_with(part.rows, moved, self.routing) / measured) - base) / SLOPE
            slopes *= part.give(parameters)[:, None, :]
            ok = np.isfinite(base) & (weight > 0)
            pull = np.minimum(1.0, LARGEST_PULL * NOISE / np.maximum(np.abs(base), 1e-9))
            scale = np.sqrt(pull * weight) / NOISE
            jacobian = _spread_out(slopes, part.design, ok)[:, free] * scale[ok][:, None].astype(np.float32)
            target = base[ok] * scale[ok]
            curvature = (jacobian.T @ jacobian).astype(np.float64) + np.diag(prior)
            gradient = jacobian.T @ target + (parameters[free] - part.design.mean[free]) * prior
            step = np.zeros_like(parameters)
            step[free] = np.linalg.solve(curvature, gradient)
            # The model is far from linear in places: of a few lengths of the step, the best.
            tried = [parameters - length * step for length in LENGTHS]
            losses = [part._loss(one, weight) for one in tried]
            best = int(np.argmin(losses))
            if losses[best] > loss - enough:
                break
            parameters, loss = tried[best], losses[best]
        return parameters

    def _loss(self, parameters: Array, weight: Array) -> float:
        """Return what `solve` makes small: bounded squares of residuals, and squares of what departs from the prior."""
        off = np.abs(self.residuals(parameters)) / NOISE
        bounded = np.where(off < LARGEST_PULL, 0.5 * off**2, LARGEST_PULL * (off - 0.5 * LARGEST_PULL))
        free = self.design.spread > 0
        moved = (parameters - self.design.mean)[free] / self.design.spread[free]
        return float(np.nansum(weight * bounded) + 0.5 * np.sum(moved**2))


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
