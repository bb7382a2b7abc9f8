"""Predictions of measured runs by scenario: TTFT, TPOT and throughput of one replica, each with its 80% interval.

Closed loops and static batches run what they say; at full load the engine picks the batch that memory allows; a closed
loop of more requests than memory holds waits for slots; an open loop arrives at its rate; a burst arrives at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.models import load_model
from optimizer.performance.backends.choose import speed_backend
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.calibration.observations import FULL_LOAD, STATIC
from optimizer.performance.calibration.solver import predict_runs
from optimizer.performance.efficiency import Efficiencies
from optimizer.performance.operating_point import predict_open_loop
from optimizer.scenario import SpeedSource
from optimizer.validate.speed_rows import BURST, CLOSED, OPEN

Array = npt.NDArray[np.float64]

QUANTITIES = ("ttft_ms", "tpot_ms", "output_tok_s_total")
STARTING_AND_ENDING = 0.75  # of the rate that arrives: what runs with a slow start and a long end deliver
BURST_REQUESTS = 1000.0  # prompts that offline benchmarks send at once unless told otherwise


def predict_table(
    rows: pd.DataFrame, performance: SpeedSource | None = None, *, efficiencies: Efficiencies | None = None
) -> pd.DataFrame:
    """Return `predicted_*` of each run, with `_low` and `_high`; throughput is of the whole deployment.

    `answered_by` names the backend that decode steps at the run's requests come from.

    Args:
        rows: runs as `runs_to_predict` returns them.
        performance: where speed figures come from; our own model when not given.
        efficiencies: coefficients to use instead of those that all predictions use.
    """
    asked = performance or SpeedSource()
    names = [f"predicted_{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high")]
    found = pd.DataFrame(np.nan, index=rows.index, columns=names)
    answered = np.full(len(rows), "", dtype=object)
    for model, at in rows.groupby("model").indices.items():
        part = rows.iloc[at]
        speed = speed_backend(load_model(str(model)), part, asked, efficiencies=efficiencies)
        running = part[["batch", "slots"]].min(axis=1).to_numpy(dtype=np.float64)
        found.iloc[at] = _predict(speed, part)
        context = (part["input_tokens"] + part["output_tokens"] / 2.0).to_numpy()
        answered[at] = speed.sources(running, context, part["input_tokens"].to_numpy()).decode
    return found.assign(answered_by=answered)


def _predict(speed: SpeedBackend, part: pd.DataFrame) -> Array:
    batch, slots = (part[name].to_numpy(dtype=np.float64) for name in ("batch", "slots"))
    outputs = part["output_tokens"].to_numpy(dtype=np.float64)
    scenario = part["scenario"].to_numpy()
    running = np.minimum(batch, slots)
    tpot, ttft, e2e = predict_runs(speed, part).T
    rate = batch / e2e
    ttft = np.where(scenario == BURST, ttft + 0.5 * np.maximum(BURST_REQUESTS - running, 0.0) / rate, ttft)
    is_open = scenario == OPEN
    if is_open.any():
        arrivals = np.where(is_open, part["rate"].to_numpy(dtype=np.float64), 1e-6)
        served = predict_open_loop(
            speed, arrivals, np.where(is_open, slots, 1.0), part["input_tokens"].to_numpy(), outputs
        )
        ttft, tpot = np.where(is_open, served.ttft_s, ttft), np.where(is_open, served.tpot_s, tpot)
        rate = np.where(is_open, served.requests_per_second, rate)
        running = np.where(is_open, served.in_flight, running)
    throughput = rate * outputs * part["replicas"].to_numpy(dtype=np.float64)
    bands = {name: _band(speed, name, running, scenario) for name in ("ttft", "tpot", "e2e")}
    slow, fast = 1.0 / bands["e2e"][1], 1.0 / bands["e2e"][0]
    # What arrives at a rate that can be served is delivered at that rate, however fast a request is.
    steady = is_open & (rate >= part["rate"].fillna(np.inf).to_numpy() * (1.0 - 1e-9))
    slow, fast = np.where(steady, STARTING_AND_ENDING, slow), np.where(steady, 1.02, fast)
    columns = [
        *(ttft * 1e3 * factor for factor in (np.ones_like(ttft), *bands["ttft"])),
        *(tpot * 1e3 * factor for factor in (np.ones_like(tpot), *bands["tpot"])),
        *(throughput * factor for factor in (np.ones_like(tpot), slow, fast)),
    ]
    return np.column_stack(columns)


def _band(speed: SpeedBackend, quantity: str, batch: Array, scenario: npt.NDArray[np.object_]) -> tuple[Array, Array]:
    low, high = np.ones(speed.rows), np.ones(speed.rows)
    regimes: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("loop", (CLOSED, OPEN, BURST)),
        ("static", (STATIC,)),
        ("full", (FULL_LOAD,)),
    )
    for regime, names in regimes:
        ends = speed.error_band(quantity, batch, regime=regime)
        here = np.isin(scenario, names)
        low, high = np.where(here, ends[0], low), np.where(here, ends[1], high)
    return low, high
