"""The fit: how many requests were in flight, shares that level off, and coefficients found again in made-up runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.models import load_model
from optimizer.performance.calibration.levels import NAMES, design
from optimizer.performance.calibration.observations import CLOSED_LOOP, FULL_LOAD, STATIC
from optimizer.performance.calibration.slots import MARGIN, is_uncertain, requests_held, with_slots
from optimizer.performance.calibration.solver import Fit, factors, predict_runs, predict_with
from optimizer.performance.efficiency import LARGEST_SHARE, Routing, Setting, below_cap, load_efficiencies
from optimizer.performance.speed import SpeedModel

MODEL = "meta-llama/Meta-Llama-3.1-70B"
ROUTING = Routing(0.6, 1.3)


def runs(*changes: dict[str, Any]) -> pd.DataFrame:
    """Runs of one replica of 2 H200 with an FP8 cache, by what differs."""
    base = {
        "model": MODEL,
        "engine": "vllm",
        "gpu": "H200-SXM-141GB",
        "weights": "fp8",
        "kv_cache": "fp8",
        "tp": 2,
        "pp": 1,
        "ep": 1,
        "attention_dp": 1,
        "gpus_per_node": 8,
        "fabric": "nvswitch",
        "scale_up_gpus": 8,
        "network": "unknown",
        "network_gbit_per_s": np.nan,
        "scenario": CLOSED_LOOP,
        "lengths": "mixed",
        "batch": 16.0,
        "input_tokens": 1000.0,
        "output_tokens": 500.0,
        "tpot_s": np.nan,
        "ttft_s": np.nan,
        "output_tokens_per_second": np.nan,
    }
    return pd.DataFrame([base | change for change in changes or ({},)])


def test_tensorrt_llm_keeps_memory_for_whole_answers() -> None:
    """10,000 more tokens of answer cost it 10,000, and others 6,000; it shares out what weights leave."""
    lengths = ({"output_tokens": 10e3}, {"output_tokens": 20e3})
    whole = requests_held(runs(*({"engine": "tensorrt-llm"} | length for length in lengths)))
    partly = requests_held(runs(*lengths))
    assert whole[0] / whole[1] == pytest.approx(21e3 / 11e3)
    assert partly[0] / partly[1] == pytest.approx(13e3 / 7e3)
    tight = {"gpu": "H100-SXM-80GB", "tp": 1}
    rest, all_of_it = requests_held(runs({"engine": "tensorrt-llm"} | tight, tight))
    assert rest > 2 * all_of_it


def test_an_engine_that_picks_its_batch_runs_what_memory_holds() -> None:
    held = requests_held(runs())[0]
    full = with_slots(runs({"batch": np.nan, "scenario": FULL_LOAD}))
    assert full["batch"].tolist() == full["slots"].tolist() == [held]
    assert with_slots(runs())["slots"].tolist() == [MARGIN * held]


def test_static_batches_run_as_stated_and_tight_memory_says_nothing() -> None:
    """70 GB of weights on one 80 GB GPU leave an estimate that is mostly error."""
    tight = {"gpu": "H100-SXM-80GB", "tp": 1}
    assert with_slots(runs({"scenario": STATIC}, tight))["slots"].tolist() == [np.inf, np.inf]
    full = {"batch": np.nan, "scenario": FULL_LOAD}
    assert is_uncertain(with_slots(runs(full, full | tight))).tolist() == [False, True]


def test_a_loop_that_waits_without_need_is_left_out() -> None:
    """40 s before the first of 500 tokens at 20 ms each: most of 16 requests wait although memory holds hundreds."""
    assert is_uncertain(with_slots(runs({"ttft_s": 0.2, "tpot_s": 0.02}))).tolist() == [False]
    assert is_uncertain(with_slots(runs({"ttft_s": 40.0, "tpot_s": 0.02}))).tolist() == [True]


def test_requests_beyond_the_slots_wait_for_them() -> None:
    """Twice as many requests as slots decode at the same pace, at the same throughput, and stay twice as long."""
    part = runs({"batch": 64.0}, {"batch": 128.0}, {"batch": 128.0}).assign(slots=[64.0, 64.0, np.inf])
    tpot, ttft, e2e = predict_runs(SpeedModel(load_model(MODEL), part), part).T
    assert tpot[0] == tpot[1] < tpot[2]
    assert e2e[1] == pytest.approx(2 * e2e[0])
    assert ttft[1] - ttft[0] == pytest.approx(e2e[0])
    assert 128 / e2e[2] > 128 / e2e[1]


@given(st.floats(1e-3, 50), st.floats(1.0, 2.0))
def test_shares_level_off_below_the_peak(share: float, more: float) -> None:
    low, high = below_cap(share), below_cap(share * more)
    assert low <= high <= LARGEST_SHARE * (1 + 1e-12)
    assert low <= share


def test_shares_far_from_the_peak_stay_as_they_are() -> None:
    assert below_cap(0.5) == pytest.approx(0.5, rel=1e-3)


def test_a_fit_finds_coefficients_again() -> None:
    """Runs made with a quarter less bandwidth and twice the cost a layer, on 96 batches, lengths and TP."""
    grid = [
        {"batch": b, "input_tokens": i, "output_tokens": o, "tp": tp}
        for b in (1.0, 4.0, 16.0, 64.0)
        for i in (128.0, 1000.0, 4000.0, 12000.0)
        for o in (100.0, 1000.0)
        for tp in (1, 2, 4)
    ]
    rows = with_slots(runs(*grid)).assign(slots=np.inf)
    setting = Setting("H200-SXM-141GB", "vllm", "", "", "fp8")
    plan = design([setting] * len(rows), ROUTING)
    truth = plan.mean.copy()
    column = {name: at for at, name in enumerate(NAMES)}
    truth[column["weight_bandwidth"]] += np.log(0.75)
    truth[column["layer_seconds"]] += np.log(2.0)
    made = Fit(rows, plan, ROUTING)
    tpot, ttft, _ = predict_with(rows, made.coefficients(truth), ROUTING).T
    fit = Fit(rows.assign(tpot_s=tpot, ttft_s=ttft), plan, ROUTING)
    every = np.ones(len(rows), dtype=np.bool_)
    found = fit.solve(every, np.ones((len(rows), 3)))
    assert np.abs(fit.residuals(plan.mean)[:, 0]).mean() > 0.1
    assert np.abs(fit.residuals(found)).max() < 0.02
    reached = np.exp(fit.coefficients(found)[0] - fit.coefficients(truth)[0])
    assert reached[column["weight_bandwidth"]] == pytest.approx(1.0, abs=0.03)
    assert reached[column["layer_seconds"]] == pytest.approx(1.0, abs=0.10)
    assert set(factors(found, plan)) <= {"", *setting.levels()}


def test_the_data_file_reads_back_as_written() -> None:
    """Every coefficient has a common value, and every fitted share is one that the rules allow."""
    found = load_efficiencies()
    assert set(found.common) == set(NAMES)
    assert {name for row in found.factors.values() for name in row} <= set(NAMES)
