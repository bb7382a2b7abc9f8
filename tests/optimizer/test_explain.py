"""Reasons in words: every other GPU on offer is answered for, and every layout that was ruled out is counted once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from catalogs.models import load_model
from optimizer.explain import ruled_out
from optimizer.plan import Alternative, Plan
from optimizer.rules import RULE_NAMES
from optimizer.solve import pose, solve
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, Fields, catalog, draw, offer, question

H100, L4, V100 = "H100-SXM-80GB", "L4-24GB", "V100-SXM-16GB"


def ask(sections: Fields, *offers: dict[str, Any], model: str = SMALL) -> Plan:
    return solve(question(sections, model=model), model=load_model(model), catalog=catalog(*offers), today=TODAY)


def on(plan: Plan, gpu: str) -> Alternative:
    return next(one for one in plan.alternatives if one.gpu == gpu)


@pytest.mark.parametrize("seed", range(30))
def test_each_candidate_is_feasible_or_counted_under_one_rule(seed: int) -> None:
    drawn = draw(seed)
    problem = pose(drawn.scenario, catalog=drawn.table, today=TODAY)
    counted = ruled_out(problem)
    feasible = problem.feasible["candidate"].nunique()
    candidates = len(problem.candidates.frame) + int(problem.candidates.dead["count"].sum())

    assert sum(counted.values()) + feasible == candidates
    assert list(counted) == [name for name in RULE_NAMES if name in counted]


@pytest.mark.parametrize("seed", range(0, 30, 2))
def test_every_allowed_gpu_on_offer_is_the_answer_or_has_a_reason(seed: int) -> None:
    drawn = draw(seed)
    plan = solve(drawn.scenario, catalog=drawn.table, today=TODAY)
    if plan.layout is None:
        assert plan.alternatives == ()
        return
    offered = {one["gpu"] for one in drawn.offers} - set(drawn.scenario.limits.exclude_gpus)

    assert {plan.layout.gpu, *(one.gpu for one in plan.alternatives)} == offered
    assert len(plan.alternatives) == len(offered) - 1
    assert all(one.why for one in plan.alternatives)
    costs = [one.usd_per_hour for one in plan.alternatives if one.usd_per_hour is not None]
    assert costs == sorted(costs)


def test_a_gpu_without_bf16_keeps_its_cache_in_fp16_unless_told_otherwise() -> None:
    plan = ask({"limits": {"weights": ["int4"]}}, offer("T4-16GB", 0.5), model=MEDIUM)
    told = ask({"limits": {"weights": ["int4"], "kv_cache": ["bf16"]}}, offer("T4-16GB", 0.5), model=MEDIUM)

    assert plan.layout is not None
    assert (plan.layout.weights, plan.layout.kv_cache) == ("int4", "fp16")
    assert told.status == "infeasible"


def test_a_split_that_was_hardly_measured_is_warned_of_and_one_that_was_is_not() -> None:
    staged = ask({"limits": {"pp": [2]}}, offer(H100, 2.5, 2))
    plain = ask({"limits": {"pp": [1]}}, offer(H100, 2.5, 2))

    assert any("pipeline stages" in warning for warning in staged.warnings)
    assert not any("measured" in warning for warning in plain.warnings)


def test_a_dearer_gpu_lost_by_its_price() -> None:
    assert on(ask({}, offer(H100, 2.5), offer(L4, 3.0)), L4).why == "$3.00 per GPU-hour against $2.50, 1 GPU against 1"


def test_a_gpu_of_the_same_cost_lost_by_the_tie_break() -> None:
    plan = ask({}, offer(H100, 2.5), offer(L4, 2.5))

    assert plan.layout is not None
    assert plan.alternatives[0].why.startswith("costs the same; the answer ")


def test_a_cheaper_gpu_of_which_more_are_needed_says_what_one_carries() -> None:
    fields = {"workload": {"request_rate": 300.0}}
    plan = ask(fields, offer(H100, 2.5), offer(L4, 2.0))
    why = on(plan, L4).why

    assert "at $2.00 against" in why
    assert "a replica carries" in why
    assert "are needed" in why


def test_a_gpu_that_is_sold_by_more_than_the_traffic_takes_says_so_and_not_that_fewer_carry_too_little() -> None:
    # Two L4s carry 4 requests/s of 8B in BF16; they come eight to a node, at more than four H100s.
    why = on(ask({}, offer(H100, 2.5, 4), offer(L4, 4.0, 8), model=MEDIUM), L4).why

    assert why.endswith("2 GPUs would carry the traffic, but no smaller node that may be rented costs less")


@pytest.mark.parametrize(
    ("term", "words"),
    [("spot", "taken back at any time"), ("reserved-3y", "commit to 3 years: $65,700 in all"), ("on-demand", None)],
)
def test_terms_say_what_they_take_upon_themselves(term: str, words: str | None) -> None:
    # $2.50 x 730 hours x 36 months.
    plan = ask({"limits": {"terms": [term]}}, offer(H100, 2.5, term=term))

    assert any(words in warning for warning in plan.warnings) if words else not plan.warnings


def test_a_gpu_that_does_not_run_the_format_says_so() -> None:
    assert on(ask({}, offer(H100, 2.5), offer(V100, 0.5)), V100).why == "it does not run bf16 weights"


def test_a_gpu_too_small_says_what_one_request_needs() -> None:
    # 18.5 GB with overhead, of 60% of an L4's 24.1 GB.
    fields = {"memory": {"headroom": 0.4}, "limits": {"pp": [1]}}
    why = on(ask(fields, offer(H100, 2.5), offer(L4, 0.2), model=MEDIUM), L4).why

    assert why.startswith("one request needs 1")
    assert why.endswith("% of the memory that the framework policy allows")


def test_a_gpu_too_slow_says_its_best_and_the_target() -> None:
    # 16 GB over an L4's 0.3 TB/s takes over 50 ms a token.
    plan = ask(
        {"targets": {"tpot_ms": 20}, "workload": {"request_rate": 0.1}}, offer(H100, 2.5), offer(L4, 0.5), model=MEDIUM
    )

    assert "TPOT is " in on(plan, L4).why
    assert "over 20 ms" in on(plan, L4).why


def test_a_gpu_whose_offers_are_not_allowed_names_the_rule() -> None:
    plan = ask({}, offer(H100, 2.5), offer(L4, 0.5, term="spot"))

    assert on(plan, L4).why == "no offer within the limits: term_allowed"


def test_the_ladder_has_its_four_steps_with_numbers() -> None:
    plan = ask({"limits": {"tp": [2]}}, offer(H100, 4.0, 2), model=MEDIUM)

    assert [step.title[:2] for step in plan.explanation] == ["1.", "2.", "3.", "4."]
    # 32 layers, two all-reduces each.
    assert any("64 all-reduces" in line for line in plan.explanation[1].lines)
    assert any("$4.00 per node-hour x 1 = $4.00/h" in line for line in plan.explanation[3].lines)


def test_a_replica_over_nodes_says_what_tensor_parallel_would_have_taken() -> None:
    nodes = {"network": "infiniband", "network_gbit_per_s": 400.0}
    plan = ask({"limits": {"pp": [2], "tp": [1]}}, offer(H100, 2.5, **nodes), model=MEDIUM)
    (spans, instead) = plan.explanation[2].lines

    assert "spans 2 nodes over infiniband at 400 Gbit/s" in spans
    assert "Tensor parallel over all 2 GPUs instead would take" in instead


def test_large_amounts_of_traffic_are_written_the_way_people_do_and_without_targets_none_are_spoken_of() -> None:
    work = {"request_rate": None, "output_tokens_per_second": 1_234_567.5}
    plan = ask({"workload": work}, offer(H100, 2.5), offer(L4, 2.0))

    assert re.search(r"a replica carries \d{1,3},\d{3} output tokens/s \(", on(plan, L4).why)
    assert any("for 1,234,567.5 output tokens/s: " in line for line in plan.explanation[3].lines)
