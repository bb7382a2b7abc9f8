"""Why nothing is feasible: a conflict that is real and least, and nearest misses with their numbers."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

import pytest

from catalogs.models import load_model
from optimizer.infeasible import smallest
from optimizer.plan import Plan
from optimizer.programs.layout import COUNTING_RULES
from optimizer.rules import bit, get_rule
from optimizer.solve import Problem, pose, solve, with_targets_given_up
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, Fields, catalog, draw, offer, question

H100, L4 = "H100-SXM-80GB", "L4-24GB"
SEEDS = range(80)


@cache
def posed(seed: int) -> Problem:
    drawn = draw(seed)
    return with_targets_given_up(pose(drawn.scenario, catalog=drawn.table, today=TODAY))


def infeasible() -> list[int]:
    return [seed for seed in SEEDS if posed(seed).feasible.empty and not posed(seed).choices.frame.empty][:20]


@cache
def plan_of(seed: int) -> Plan:
    drawn = draw(seed)
    return solve(drawn.scenario, model=posed(seed).model, catalog=drawn.table, today=TODAY)


def can_hold(problem: Problem, rules: tuple[str, ...]) -> bool:
    """Whether some choice, in some number of replicas, keeps these rules: by trying them all."""
    limits = problem.scenario.limits
    fixed = bit(*(rule for rule in rules if rule not in COUNTING_RULES))
    for row in problem.choices.frame.to_dict("records"):
        if row["broken"] & fixed:
            continue
        for replicas in chain(range(1, 41), (row["fewest"], *limits.replicas)):
            nodes = replicas * row["nodes_per_replica"]
            if row["nodes_per_replica"] == 1:
                nodes = -(-replicas // row["replicas_per_node"])
            budget = limits.budget_usd_per_hour
            over = budget is not None and nodes * row["price_micro_usd"] > round(budget * 1e6)
            broken = {
                "traffic": replicas < row["fewest"],
                "quota": nodes > row["node_cap"],
                "budget": over,
                "replicas_allowed": bool(limits.replicas) and replicas not in limits.replicas,
            }
            if not any(broken[rule] for rule in rules if rule in broken):
                return True
    return False


def test_there_are_enough_infeasible_questions_to_look_at() -> None:
    assert len(infeasible()) == 20
    rules = {one.rule for seed in infeasible() for one in plan_of(seed).conflict}
    assert len(rules) >= 8


@pytest.mark.parametrize("position", range(20))
def test_the_rules_of_a_conflict_cannot_hold_together_and_each_is_needed(position: int) -> None:
    seed = infeasible()[position]
    core = tuple(one.rule for one in plan_of(seed).conflict)

    assert core
    assert not can_hold(posed(seed), core)
    for rule in core:
        assert can_hold(posed(seed), tuple(other for other in core if other != rule)), rule


@pytest.mark.parametrize("position", range(20))
def test_nearest_misses_break_few_rules_and_say_by_how_much(position: int) -> None:
    seed = infeasible()[position]
    plan = plan_of(seed)
    fewest = min(int(mask).bit_count() for mask in posed(seed).choices.frame["broken"])

    assert plan.nearest_misses
    assert len(plan.nearest_misses[0].breaks) == fewest
    for miss in plan.nearest_misses:
        assert miss.summary
        for rule, words in miss.breaks.items():
            counted = get_rule(rule).kind in ("target", "count")
            assert words
            assert not counted or any(character.isdigit() for character in words), (rule, words)


def ask(sections: Fields, *offers: dict[str, Any], model: str = SMALL) -> Plan:
    scenario = question(sections, model=model)
    return solve(scenario, model=load_model(model), catalog=catalog(*offers), today=TODAY)


def test_a_conflict_names_what_is_asked_and_the_least_there_is() -> None:
    plan = ask({"limits": {"budget_usd_per_hour": 1.0}}, offer(H100, 2.5))

    assert [one.rule for one in plan.conflict] == ["budget"]
    assert plan.conflict[0].needs == "at most $1.00/h is asked; the least that works costs $2.50/h"


def test_a_target_that_only_a_dearer_gpu_meets_conflicts_with_the_budget() -> None:
    # An L4 reads 16 GB at 0.3 TB/s: over 50 ms a token. An H100 does in a tenth, and costs more than the budget.
    fields = {"targets": {"tpot_ms": 25}, "limits": {"budget_usd_per_hour": 1.0}, "workload": {"request_rate": 0.1}}
    plan = ask(fields, offer(H100, 2.5), offer(L4, 0.8), model=MEDIUM)

    assert {one.rule for one in plan.conflict} == {"budget", "tpot"}


def test_a_number_of_replicas_that_stock_does_not_hold_is_part_of_the_conflict() -> None:
    # One replica carries it; two may be run, and one node is to be had: neither alone is wrong.
    plan = ask({"limits": {"replicas": [2]}}, offer(H100, 2.5, max_nodes=1.0))

    assert {one.rule for one in plan.conflict} == {"quota", "replicas_allowed"}


def test_memory_is_no_part_of_a_conflict_that_no_amount_of_it_would_end() -> None:
    # 8B in BF16 does not fit an A4000's 16 GB; if it did, one card would carry 5,000 requests/s no more than the H100.
    offers = (offer(H100, 2.5, max_nodes=1.0), offer("RTXA4000-16GB", 0.5, max_nodes=1.0))
    plan = ask({"workload": {"request_rate": 5000.0}}, *offers, model=MEDIUM)
    needs = {one.rule: one.needs for one in plan.conflict}

    assert set(needs) == {"quota", "traffic"}
    assert needs["quota"].endswith("where 1 can be rented")


def test_a_latency_miss_says_what_the_traffic_takes_when_the_target_is_given_up() -> None:
    plan = ask({"workload": {"request_rate": 300.0}, "targets": {"tpot_ms": 0.1}}, offer(H100, 2.5))
    free = ask({"workload": {"request_rate": 300.0}}, offer(H100, 2.5))

    assert free.cost is not None
    assert free.cost.usd_per_hour > 2.5
    assert plan.nearest_misses[0].usd_per_hour == pytest.approx(free.cost.usd_per_hour)


def test_a_size_that_the_heads_do_not_allow_is_told_by_the_heads() -> None:
    # 14 query heads: not over 3 GPUs. A V100 beside it breaks the dtype as well, which is not what to tell.
    plan = ask({"limits": {"tp": [3]}}, offer(H100, 10.0, 4), offer("V100-SXM-16GB", 4.0, 4))

    assert "attention heads divide" in plan.conflict[0].needs


def test_a_gpu_that_no_one_offers_is_told_so() -> None:
    plan = ask({"limits": {"gpus": [L4]}}, offer(H100, 2.5))

    assert [(one.rule, one.needs) for one in plan.conflict] == [
        ("gpu_allowed", f"{L4}: nothing of that kind is on offer")
    ]


def test_a_context_that_is_too_long_is_told_with_the_longest() -> None:
    plan = ask({"workload": {"input_tokens": 40_000}}, offer(H100, 2.5))

    assert plan.conflict[0].needs == "a context of 40,100 tokens is asked; the model's is 32,768"


def test_a_replica_too_slow_at_any_count_is_not_said_to_break_the_number_of_replicas() -> None:
    plan = ask({"limits": {"replicas": [2]}, "targets": {"tpot_ms": 0.1}}, offer(H100, 2.5))

    assert [set(miss.breaks) for miss in plan.nearest_misses] == [{"tpot"}]


def test_what_hardware_rules_out_altogether_is_the_conflict() -> None:
    plan = ask({"limits": {"kv_cache": ["bf16"]}}, offer("V100-SXM-16GB", 1.0))

    # A V100 has no BF16, and nothing else is on offer; nothing was near.
    assert [one.rule for one in plan.conflict] == ["dtype_supported"]
    assert plan.ruled_out["dtype_supported"] > 0
    assert plan.nearest_misses == ()


def test_sets_of_rules_that_hold_a_smaller_one_are_left_out() -> None:
    # 1 is a part of 3 and of 5; 6 is a part of 6 alone.
    assert smallest([3, 1, 5, 6, 6]) == [1, 6]


def test_the_least_of_a_target_is_that_of_the_nearest_miss_and_what_more_rules_would_give_is_named() -> None:
    # FP8 weights are half of BF16's to read, so faster; the checkpoint is in BF16, and no other format is allowed.
    plan = ask({"targets": {"tpot_ms": 0.5}}, offer(H100, 2.5), offer(L4, 0.8), model=MEDIUM)
    (conflict,), miss = plan.conflict, plan.nearest_misses[0]
    least = miss.breaks["tpot"].split(" on an idle replica")[0]

    said = conflict.needs.split("; ")
    assert said[:2] == ["at most 0.5 ms is asked", f"{least} is the least, on an idle replica"]
    assert said[2].endswith(" with weights_allowed (fp8) given up too")
    assert float(said[2].split()[0]) < float(least.split()[0])


@pytest.mark.parametrize("position", range(20))
def test_a_conflict_and_the_nearest_misses_agree_on_the_least_of_a_target(position: int) -> None:
    plan = plan_of(infeasible()[position])
    for one in plan.conflict:
        alone = [miss.breaks[one.rule] for miss in plan.nearest_misses if set(miss.breaks) == {one.rule}]
        if one.rule in ("ttft", "tpot", "e2e") and alone:
            least = alone[0].split(" on an idle replica")[0]
            assert f"; {least} is the least, on an idle replica" in one.needs
