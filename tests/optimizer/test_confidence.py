"""Targets that have to hold with a probability: less is carried, more is paid, and the answer passes its audit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from catalogs.models import load_model
from optimizer.candidates import build_candidates, node_shapes
from optimizer.performance.intervals import probability_below
from optimizer.performance.latency import predict_closed_loop
from tests.optimizer.catalogs import MEDIUM, catalog, offer, question
from tests.optimizer.command import SPHERON, TRAFFIC, run

OFFERS = (offer("H100-SXM-80GB", 8.0, 4), offer("A100-SXM-40GB", 4.0, 2), offer("L4-24GB", 0.8))
LENGTHS = (1000, 100)


def carried(confidence: float | None) -> Any:
    """What replicas carry at a TPOT of 25 ms, with the probability asked for."""
    asked: dict[str, Any] = {"tpot_ms": 25.0, "confidence": confidence}
    scenario = question({"workload": {"request_rate": None, "concurrency": 8}, "targets": asked}, model=MEDIUM)
    shapes, _ = node_shapes(catalog(*OFFERS).frame)
    return build_candidates(scenario, load_model(MEDIUM), shapes)


def test_a_surer_target_leaves_room_for_fewer_requests() -> None:
    plain, even, sure = (carried(confidence).frame["capacity"].to_numpy() for confidence in (None, 0.5, 0.95))
    assert even.tolist() == plain.tolist()
    assert (sure <= plain).all()
    assert sure.sum() < plain.sum()


def test_the_capacity_holds_the_target_times_its_factor() -> None:
    """At the capacity TPOT times the factor of 90% is within 25 ms; a request more, and it is not."""
    found = carried(0.9)
    able = np.flatnonzero((found.frame["capacity"] > 0) & (found.frame["capacity"] < 512))
    capacity = np.maximum(found.frame["capacity"].to_numpy(), 1.0)
    factor = found.speed.at_confidence("tpot", 0.9)
    now = predict_closed_loop(found.speed, capacity, *LENGTHS).tpot_s * factor
    assert (now[able] <= 0.025 * (1 + 1e-9)).all()
    more = predict_closed_loop(found.speed, capacity + 1.0, *LENGTHS).tpot_s * factor
    full = capacity >= found.frame["memory_concurrency"].to_numpy()
    assert ((more > 0.025) | full)[able].all()


def test_an_answer_says_how_sure_its_targets_are() -> None:
    """The plan of a sure target passes the audit, and its TPOT at that confidence is above the prediction."""
    asked = ("solve", "meta-llama/Llama-3.1-70B-Instruct", *TRAFFIC, *SPHERON, "--tpot-ms", "60", "--json")
    plan = json.loads(run(*asked, "--confidence", "0.9").out)
    target = plan["targets"][0]
    assert target["holds"]
    assert target["predicted"] < target["at_confidence"] <= 60
    assert target["probability"] > 0.89
    speed = plan["performance"]
    assert speed["tpot_ms_low"] < speed["tpot_ms"] < speed["tpot_ms_high"]
    assert json.loads(run(*asked).out)["cost"]["usd_per_hour"] <= plan["cost"]["usd_per_hour"]


@pytest.mark.parametrize("value", ["0.3", "1", "sure"])
def test_a_confidence_that_is_none_is_refused(value: str) -> None:
    ran = run("solve", "meta-llama/Llama-3.1-70B-Instruct", *TRAFFIC, "--tpot-ms", "60", "--confidence", value)
    assert ran.code == 2
    assert "--confidence" in ran.err
    assert "a probability from 0.5 to 0.99" in ran.err


def test_a_target_at_the_upper_end_holds_nine_times_in_ten() -> None:
    assert probability_below(120.0, 100.0, 120.0) == pytest.approx(0.9)
    assert probability_below(100.0, 100.0, 120.0) == pytest.approx(0.5)
    assert probability_below(90.0, 100.0, 100.0) == 0.0
