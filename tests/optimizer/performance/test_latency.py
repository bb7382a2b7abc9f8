from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.models import ModelSpec
from optimizer.performance.latency import max_concurrency, predict_closed_loop
from optimizer.performance.operating_point import max_arrival_rate, predict_open_loop
from optimizer.performance.speed import SpeedModel

ReplicaTable = Callable[..., pd.DataFrame]


@pytest.fixture(scope="session")
def speed(llama_70b: ModelSpec, replicas: ReplicaTable) -> SpeedModel:
    """Four unlike replicas of the 70B model."""
    return SpeedModel(
        llama_70b,
        replicas(
            {},
            {"gpu": "A100-SXM-80GB", "tp": 4},
            {"gpu": "L40S-48GB", "tp": 4, "weights": "fp8", "scale_up_gpus": 1},
            {"tp": 4, "pp": 2},
        ),
    )


def test_a_lone_request_waits_for_nobody(speed: SpeedModel) -> None:
    """TTFT is its own prefill, TPOT one decode step, and the rate one request per end-to-end time."""
    alone = predict_closed_loop(speed, 1, 1000, 200)
    assert alone.ttft_s == pytest.approx(speed.prefill_seconds(1000))
    assert alone.tpot_s == pytest.approx(speed.decode_step_seconds(1, 1100))
    assert alone.e2e_s == pytest.approx(alone.ttft_s + 199 * alone.tpot_s)
    assert alone.output_tokens_per_second == pytest.approx(200 / alone.e2e_s)


def test_tpot_carries_the_prefills_of_others(speed: SpeedModel) -> None:
    """With long outputs 64 requests add 63 prefills per 1000 tokens to each step: t + 63 s / (999 + s/t)."""
    loop = predict_closed_loop(speed, 64, 1000, 1000)
    step, prefill = speed.decode_step_seconds(64, 1500), speed.prefill_occupancy_seconds(1000)
    assert loop.tpot_s == pytest.approx(step + 63 * prefill / (999 + prefill / step))


def test_a_replica_never_prefills_more_than_all_the_time(speed: SpeedModel) -> None:
    """With one output token a replica does nothing but prefill: at most one request per occupancy."""
    loop = predict_closed_loop(speed, 4096, 2000, 1)
    assert (loop.tpot_s == 0).all()
    assert (loop.requests_per_second <= 2.0 / speed.prefill_occupancy_seconds(2000)).all()
    assert loop.e2e_s == pytest.approx(loop.ttft_s)


def test_open_loop_obeys_littles_law(speed: SpeedModel) -> None:
    """Requests in flight are the arrival rate times the time in service; hardly any wait for one of many slots."""
    loop = predict_open_loop(speed, 0.3, 256, 1000, 300)
    assert loop.in_flight == pytest.approx(0.3 * loop.e2e_s, rel=0.02)
    assert (loop.requests_per_second == 0.3).all()
    assert loop.output_tokens_per_second == pytest.approx(90)


def test_saturation_is_an_answer_and_not_a_large_number(speed: SpeedModel) -> None:
    """Ten times the most a replica serves: infinite waits, the full rate delivered, utilization 10."""
    most = max_arrival_rate(speed, 64, 1000, 300)
    loop = predict_open_loop(speed, 10 * most, 64, 1000, 300)
    assert np.isinf(loop.ttft_s).all()
    assert np.isinf(loop.e2e_s).all()
    assert loop.requests_per_second == pytest.approx(most, rel=1e-4)
    assert loop.utilization == pytest.approx(10, rel=1e-4)
    assert np.isfinite(loop.tpot_s).all()


def test_no_slots_serve_nothing(speed: SpeedModel) -> None:
    loop = predict_open_loop(speed, 1.0, 0, 1000, 300)
    assert np.isinf(loop.ttft_s).all()
    assert (loop.requests_per_second == 0).all()
    assert (max_arrival_rate(speed, 0, 1000, 300) == 0).all()
    assert (max_concurrency(speed, 0, 1000, 300) == 0).all()


def test_the_largest_rate_just_meets_its_target(speed: SpeedModel) -> None:
    """At the rate found the tighter of the targets holds, and 1% above it one of them breaks."""
    targets = {"ttft_target_s": 2.0, "tpot_target_s": 0.06, "e2e_target_s": 20.0}
    rate = max_arrival_rate(speed, 128, 1500, 300, **targets)
    assert (rate > 0).any()
    inside, outside = (predict_open_loop(speed, rate * f, 128, 1500, 300) for f in (0.999, 1.01))
    for loop, holds in ((inside, True), (outside, False)):
        met = (loop.ttft_s <= 2.0) & (loop.tpot_s <= 0.06) & (loop.e2e_s <= 20.0)
        assert (met[rate > 0] == holds).all()


def test_utilization_caps_the_rate(speed: SpeedModel) -> None:
    assert max_arrival_rate(speed, 64, 1000, 300, max_utilization=0.7) == pytest.approx(
        0.7 * max_arrival_rate(speed, 64, 1000, 300), rel=1e-4
    )


def test_an_impossible_target_gives_zero(speed: SpeedModel) -> None:
    assert (max_arrival_rate(speed, 64, 1000, 300, tpot_target_s=1e-4) == 0).all()
    assert (max_concurrency(speed, 64, 1000, 300, tpot_target_s=1e-4) == 0).all()


def test_integer_bisection_equals_counting(speed: SpeedModel) -> None:
    """The largest batch within the target is the one that trying 1, 2, 3, ... finds."""
    target = 0.05
    found = max_concurrency(speed, 300, 1000, 300, tpot_target_s=target)
    tried = np.array([predict_closed_loop(speed, b, 1000, 300).tpot_s <= target for b in range(1, 301)])
    assert found.tolist() == tried.sum(axis=0).tolist()


def test_without_targets_the_cap_decides(speed: SpeedModel) -> None:
    assert max_concurrency(speed, [7, 4096, 1, 0], 1000, 300).tolist() == [7, 4096, 1, 0]


def test_lengths_below_one_token_are_refused(speed: SpeedModel) -> None:
    with pytest.raises(ValueError, match="at least 1 input and 1 output token, got 0 and 5"):
        predict_closed_loop(speed, 1, 0, 5)


@settings(max_examples=30, deadline=None)
@given(
    rate=st.floats(1e-4, 5),
    more=st.floats(0, 5),
    slots=st.integers(1, 512),
    inputs=st.integers(1, 200_000),
    outputs=st.integers(20, 4000),
)
def test_load_never_helps(rate: float, more: float, slots: int, inputs: int, outputs: int, speed: SpeedModel) -> None:
    """A higher rate never lowers TTFT, TPOT or end-to-end time; a higher concurrency neither, nor throughput (by 2%).

    From 20 output tokens on: on shorter answers the steps that a request lands in weigh more than they cost.
    """
    calm, busy = (predict_open_loop(speed, r, slots, inputs, outputs) for r in (rate, rate + more))
    few, many = (predict_closed_loop(speed, b, inputs, outputs) for b in (slots, slots + 10))
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        for low, high in ((calm, busy), (few, many)):
            assert (getattr(high, name) >= getattr(low, name) * (1 - 1e-4)).all(), name
            assert (getattr(low, name) >= 0).all()
    assert (many.requests_per_second >= few.requests_per_second * 0.97).all()


@settings(max_examples=10, deadline=None)
@given(target=st.floats(0.005, 1), looser=st.floats(0, 1), slots=st.integers(0, 4096))
def test_looser_targets_never_serve_less(target: float, looser: float, slots: int, speed: SpeedModel) -> None:
    tight, loose = (
        max_arrival_rate(speed, slots, 1000, 200, tpot_target_s=seconds) for seconds in (target, target + looser)
    )
    assert (loose >= tight * (1 - 1e-6)).all()
