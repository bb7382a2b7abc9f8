"""Answers without reasons, and what is kept between questions: neither changes what is answered."""

from __future__ import annotations

import pytest

from catalogs.models import load_model
from optimizer.candidates import build_candidates, node_shapes
from optimizer.plan import Plan
from optimizer.solve import solve
from tests.optimizer.catalogs import TODAY, catalog, draw, offer, question

H100, A100 = "H100-SXM-80GB", "A100-SXM-80GB"
SAME = ("status", "summary", "layout", "cost", "memory", "performance", "targets", "conflict", "warnings", "ruled_out")


def same(one: Plan, other: Plan) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in SAME)


def test_leaving_reasons_out_leaves_the_answer_or_the_conflict_as_it_is() -> None:
    statuses = set()
    for seed in range(14):
        drawn = draw(seed)
        whole = solve(drawn.scenario, catalog=drawn.table, today=TODAY)
        light = solve(drawn.scenario, catalog=drawn.table, today=TODAY, reasons=False)
        assert same(whole, light)
        worked_out = (
            light.alternatives,
            light.cheaper_if,
            light.explanation,
            light.nearest_misses,
            light.least_changes,
        )
        assert worked_out == ((),) * 5
        statuses.add(light.status)
    assert statuses == {"optimal", "infeasible"}


@pytest.mark.parametrize(
    "sections",
    [
        {"workload": {"request_rate": 400.0}},
        {"workload": {"request_rate": None, "concurrency": 64}},
        {"workload": {"burstiness": 8.0}},
        {"targets": {"tpot_ms": 4.0}},
        {"targets": {"ttft_ms": 200.0, "at": "p95"}},
        {"limits": {"max_utilization": 0.4}},
        {"limits": {"max_concurrency_per_replica": 4}},
        {"limits": {"budget_usd_per_hour": 3.0}},
        {"memory": {"policy": "engine"}},
        {"memory": {"headroom": 0.5}},
        {"prices": {"discounts": [{"gpu": A100, "percent": 60}]}},
    ],
    ids=str,
)
def test_what_is_kept_from_another_question_is_what_this_one_would_have_found(sections: dict[str, dict]) -> None:  # type: ignore[type-arg]
    table = catalog(offer(H100, 2.5), offer(A100, 1.6), offer(H100, 9.0, 4))
    kept, fresh = load_model(question().model), load_model(question().model).model_copy()
    solve(question(), model=kept, catalog=table, today=TODAY)
    after_another = solve(question(sections), model=kept, catalog=table, today=TODAY)
    assert same(after_another, solve(question(sections), model=fresh, catalog=table, today=TODAY))


def test_candidates_are_shared_by_questions_that_differ_in_traffic_or_prices_alone() -> None:
    model = load_model(question().model)
    cheap_h100, cheap_a100 = (
        node_shapes(catalog(offer(H100, price), offer(A100, 2.0)).frame)[0] for price in (1.0, 3.0)
    )
    assert cheap_h100 is cheap_a100
    first = build_candidates(question(), model, cheap_h100)
    assert build_candidates(question({"workload": {"request_rate": 99.0}}), model, cheap_a100) is first
    assert build_candidates(question({"limits": {"budget_usd_per_hour": 9.0}}), model, cheap_a100) is first
    assert build_candidates(question({"targets": {"tpot_ms": 9.0}}), model, cheap_a100) is not first


def test_the_shape_of_each_offer_is_its_own_whatever_the_order_of_prices() -> None:
    for price in (1.0, 3.0):
        frame = catalog(offer(H100, price), offer(A100, 2.0), offer(H100, 9.0, 4)).frame
        shapes, of = node_shapes(frame)
        for position in range(len(frame)):
            assert shapes["gpu"].iloc[of[position]] == frame["gpu"].iloc[position]
            assert shapes["gpus_per_node"].iloc[of[position]] == frame["gpus_per_node"].iloc[position]
