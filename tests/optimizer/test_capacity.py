"""What one replica carries: the most at which every target still holds, and not a request more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from catalogs.models import load_model
from optimizer.candidates import Candidates, build_candidates, node_shapes
from optimizer.capacity import fill_capacity, least_memory_share, memory_concurrency, other_memory
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.operating_point import predict_open_loop
from optimizer.rules import bit
from optimizer.scenario import Memory, Scenario
from tests.optimizer.catalogs import MEDIUM, Fields, catalog, offer, question

OFFERS = (offer("H100-SXM-80GB", 8.0, 4), offer("A100-SXM-40GB", 4.0, 2), offer("L4-24GB", 0.8))
LENGTHS = (1000, 100)


def built(sections: Fields) -> tuple[Scenario, Candidates, pd.DataFrame]:
    """A question, its candidates, and those of them that carry anything."""
    scenario = question(sections, model=MEDIUM)
    shapes, _ = node_shapes(catalog(*OFFERS).frame)
    found = build_candidates(scenario, load_model(MEDIUM), shapes)
    frame = found.frame
    return scenario, found, frame[(frame["broken"] == 0) & (frame["capacity"] > 0)]


def traffic(**workload: Any) -> Fields:
    return {"workload": {"request_rate": None} | workload}


TARGETS: list[dict[str, float]] = [
    {},
    {"ttft_ms": 250.0},
    {"tpot_ms": 25.0},
    {"e2e_ms": 2000.0},
    {"ttft_ms": 400.0, "tpot_ms": 30.0, "e2e_ms": 2500.0},
]


@pytest.mark.parametrize("kind", ["output_tokens_per_second", "request_rate"])
def test_a_replica_does_not_run_more_requests_at_once_than_deliver_more(kind: str) -> None:
    # Of long prompts with short answers a step is mostly prefill: some replicas deliver less when they run more.
    lengths = {"input_tokens": 1500, "output_tokens": 6}
    scenario, found, rows = built(traffic(**{kind: 1.0}, **lengths))
    memory, at = found.frame["memory_concurrency"].to_numpy(), rows.index.to_numpy()
    fewer = [
        predict_closed_loop(found.speed.take(found.frame["replica"]), np.clip(memory, 1, most), 1500, 6)
        for most in (4, 16, 64, 128, 256, 512)
    ]
    most = np.max([one.requests_per_second for one in fewer], axis=0)[at]
    carried = rows["capacity"].to_numpy() / (6 if kind != "request_rate" else scenario.max_utilization)

    assert (most > fewer[-1].requests_per_second[at] * 1.01).any()
    # Tiles grow in steps with the batch, so that the rate has small bumps, and a search may end half a percent below.
    assert (carried >= most * (1 - 1e-2)).all()


def late(now: Any, targets: dict[str, float]) -> np.ndarray:
    """Rows where a target does not hold."""
    over = [getattr(now, name.replace("_ms", "_s")) * 1e3 > target * (1 + 1e-9) for name, target in targets.items()]
    return np.any(over, axis=0) if over else np.zeros(len(now.ttft_s), dtype=bool)


@pytest.mark.parametrize("targets", TARGETS)
def test_requests_in_flight_hold_the_targets_with_waiting_and_one_more_does_not(targets: dict[str, float]) -> None:
    _, found, rows = built(traffic(concurrency=8) | {"targets": targets})
    at = rows.index.to_numpy()
    capacity = found.frame["capacity"].to_numpy()
    now = predict_closed_loop(found.speed, np.maximum(capacity, 1.0), *LENGTHS)
    more = predict_closed_loop(found.speed, capacity + 1.0, *LENGTHS)

    assert len(at) > 3
    assert not late(now, targets)[at].any()
    full = (capacity == np.minimum(found.frame["memory_concurrency"], 512))[at]
    assert (late(more, targets)[at] | full).all()


@pytest.mark.parametrize("targets", TARGETS)
def test_a_replica_that_is_always_full_holds_the_targets_at_its_limit(targets: dict[str, float]) -> None:
    _, found, rows = built(traffic(output_tokens_per_second=100.0) | {"targets": targets})
    limit = found.frame["concurrency"].to_numpy()
    now = predict_closed_loop(found.speed, np.maximum(limit, 1), *LENGTHS)
    at = rows.index.to_numpy()

    assert not late(now, targets)[at].any()
    assert rows["capacity"].to_numpy() == pytest.approx(now.output_tokens_per_second[at])


@pytest.mark.parametrize("targets", TARGETS)
def test_requests_that_arrive_at_random_hold_the_targets_at_the_capacity(targets: dict[str, float]) -> None:
    scenario, found, rows = built({"workload": {"request_rate": 1.0}, "targets": targets})
    frame, at = found.frame, rows.index.to_numpy()
    now = predict_open_loop(found.speed, frame["capacity"].to_numpy() * (1 - 1e-6), frame["concurrency"], *LENGTHS)
    more = predict_open_loop(found.speed, frame["capacity"].to_numpy() * 1.001, frame["concurrency"], *LENGTHS)

    assert not late(now, targets)[at].any()
    assert (now.utilization[at] <= scenario.max_utilization * (1 + 1e-4)).all()
    assert (late(more, targets)[at] | (more.utilization[at] > scenario.max_utilization)).all()


def test_a_share_of_the_slots_is_counted_without_losing_one_to_rounding() -> None:
    # 100 x 0.29 is 28.999999999999996 in binary, and means 29.
    limits = {"max_utilization": 0.29, "max_concurrency_per_replica": 100, "gpus": ["H100-SXM-80GB"]}
    _, _, rows = built(traffic(concurrency=8) | {"limits": limits})

    assert rows["capacity"].max() == 29


def test_a_replica_that_cannot_hold_one_request_carries_nothing() -> None:
    _, found, _ = built({"workload": {"context_tokens": 120_000}})
    short = found.frame[(found.frame["broken"] & bit("vram_headroom")) != 0]

    # 16.06 GB of weights and 120,000 x 131,072 B = 15.7 GB of cache, of an L4's 24.1 GB.
    assert "L4-24GB" in set(short["gpu"])
    assert (short["capacity"] == 0).all()
    assert (short["memory_concurrency"] == 0).all()
    assert (least_memory_share(short, Memory()) > 1).all()


def test_a_target_below_what_an_idle_replica_takes_is_broken_by_that_name_alone() -> None:
    _, found, _ = built({"targets": {"tpot_ms": 0.01}})
    fits = (found.frame["broken"] & bit("vram_headroom", "weights_allowed")) == 0

    assert (found.frame.loc[fits, "broken"] == bit("tpot")).all()
    assert (found.frame.loc[fits, "capacity"] == 0).all()


def test_one_output_token_has_no_time_between_tokens_to_be_late() -> None:
    _, _, rows = built({"workload": {"output_tokens": 1}, "targets": {"tpot_ms": 0.01, "e2e_ms": 60_000}})

    assert len(rows) > 3


def test_the_other_policy_holds_other_numbers_of_requests() -> None:
    scenario, found, _ = built({})
    engine = other_memory(scenario.memory)

    assert engine.policy == "engine"
    assert other_memory(engine) == scenario.memory
    again = fill_capacity(found.replicas, found.speed, scenario, engine)
    assert (again["memory_concurrency"].to_numpy() == memory_concurrency(found.replicas, engine)).all()
    assert (again["memory_concurrency"] != found.frame["memory_concurrency"]).any()


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("kind", ["request_rate", "concurrency", "output_tokens_per_second"])
def test_what_carries_at_least_as_much_as_is_of_use_is_worked_out_as_without_that_floor(
    kind: str, targets: dict[str, float]
) -> None:
    scenario, found, _ = built({**traffic(**{kind: 4}), "targets": targets})
    whole = fill_capacity(found.replicas, found.speed, scenario)["capacity"].to_numpy()
    for floor in (np.zeros(len(whole)), np.full(len(whole), np.median(whole)), whole, whole * 1.05):
        some = fill_capacity(found.replicas, found.speed, scenario, at_least=floor)["capacity"].to_numpy()

        assert (some[whole >= floor] == whole[whole >= floor]).all()
        assert np.isin(some[whole < floor], [0.0, *whole]).all()
