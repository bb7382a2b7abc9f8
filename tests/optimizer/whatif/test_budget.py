"""What budgets buy: the most, proved by solving just there and just beyond, and what holds it back."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from catalogs.models import load_model
from optimizer.choices import MICRO
from optimizer.flags import MAXIMIZED as FLAG_VALUES
from optimizer.plan import Plan
from optimizer.scenario import Scenario
from optimizer.solve import pose, solve
from optimizer.whatif.budget import what_budgets_buy
from optimizer.whatif.budget_report import MAXIMIZED, Bought, BudgetReport
from optimizer.whatif.ground import Ground
from optimizer.whatif.levers.context import Context
from optimizer.whatif.levers.latency import Latency
from optimizer.whatif.levers.precision import Precision
from optimizer.whatif.levers.traffic import Traffic
from optimizer.whatif.operating import operating_table
from tests.optimizer.catalogs import MEDIUM, TODAY, Draw, catalog, draw, offer, question

H100, L4 = "H100-SXM-80GB", "L4-24GB"
SEEDS = (0, 1, 2)
ONE_GPU = (offer(H100, 2.5),)


def buy(scenario: Scenario, offers: Any, *usd: float, maximize: Any = MAXIMIZED) -> BudgetReport:
    return what_budgets_buy(scenario, usd, maximize, catalog=catalog(*offers), today=TODAY)


def only(report: BudgetReport, what: str, at: int = 0) -> Bought:
    (found,) = (one for one in report.budgets[at].bought if one.what == what)
    return found


def rules(bought: Bought) -> set[str]:
    return {binding.rule for binding in bought.binds}


@cache
def drawn(seed: int) -> tuple[Draw, BudgetReport]:
    """A drawn question, with what $1, $3 and $8 buy."""
    one = draw(seed).with_limits(budget_usd_per_hour=None)
    return one, what_budgets_buy(one.scenario, (1.0, 3.0, 8.0), catalog=one.table, today=TODAY)


def solved(one: Draw, usd: float, section: str, **fields: Any) -> Plan:
    changed = one.scenario.changed("limits", budget_usd_per_hour=usd).changed(section, **fields)
    return solve(changed, catalog=one.table, today=TODAY)


def test_the_most_traffic_is_what_the_nodes_carry_that_the_budget_pays_for() -> None:
    # $10 pay for four nodes at $2.50, $11 for no more. Each holds one replica, so four carry four times as much.
    capacity = pose(question(), catalog=catalog(*ONE_GPU), today=TODAY).feasible["capacity"].max()
    report = buy(question(), ONE_GPU, 10.0, 11.0, maximize=["traffic"])
    ten, eleven = only(report, "traffic"), only(report, "traffic", 1)
    assert ten.value == pytest.approx(4 * capacity, rel=1e-5)
    assert ten.layout is not None
    assert (ten.layout.nodes, ten.usd_per_hour) == (4, 10.0)
    assert eleven.same_as_usd_per_hour == 10.0
    # The fifth node costs $2.50 more than $10 and carries one capacity more: 0.4 of it a dollar.
    assert ten.next is not None
    assert ten.next.usd_per_hour == 12.5
    assert ten.next.gain_per_usd == pytest.approx(capacity / 2.5, rel=1e-4)
    assert ten.next.tokens_per_usd == pytest.approx(100 * 3600 * capacity / 2.5, rel=1e-3)
    assert ten.tokens_per_usd == pytest.approx(100 * 3600 * 4 * capacity / 10, rel=1e-3)
    assert "budget" in rules(ten)


def test_what_holds_the_traffic_back_is_the_quota_where_money_is_left() -> None:
    # Two nodes may be rented; $10 would pay for four.
    limited = question({"limits": {"max_nodes": 2}})
    found = only(buy(limited, ONE_GPU, 10.0, maximize=["traffic"]), "traffic")
    assert found.usd_per_hour == 5.0
    assert found.next is None
    assert "budget" not in rules(found)
    free = next(binding for binding in found.binds if binding.rule == "quota")
    assert free.value == pytest.approx(2 * found.value, rel=1e-4)  # type: ignore[operator]


def test_stock_and_targets_hold_back_as_well_and_are_named_with_what_they_cost() -> None:
    tight = question({"targets": {"ttft_ms": 30.0}})
    found = only(buy(tight, (offer(H100, 2.5, max_nodes=1.0),), 10.0, maximize=["traffic"]), "traffic")
    assert {"quota", "ttft"} <= rules(found)
    without = question()
    more = only(buy(without, (offer(H100, 2.5, max_nodes=1.0),), 10.0, maximize=["traffic"]), "traffic")
    given_up = next(binding for binding in found.binds if binding.rule == "ttft")
    assert given_up.value == pytest.approx(more.value)


def test_a_wider_precision_has_its_price() -> None:
    # At 30% headroom an L4 holds 16.9 GB: 8.6 GB of 8-bit weights with overhead, and not 18.5 GB of BF16.
    asked = question({"memory": {"headroom": 0.3}, "workload": {"request_rate": 0.2}}, model=MEDIUM)
    report = buy(asked, (offer(L4, 0.8, max_nodes=1.0), offer(H100, 4.0)), 0.5, 1.0, 5.0, maximize=["precision"])
    none, narrow, wide = (only(report, "precision", at) for at in range(3))
    assert (none.value, none.least_usd_per_hour) == (None, 0.8)
    assert narrow.value == 8
    assert narrow.next is not None
    assert (narrow.next.usd_per_hour, narrow.next.value) == (4.0, 16)
    assert "vram_headroom" in rules(narrow)
    assert wide.value == 16
    assert wide.next is None
    assert not wide.binds


def test_the_longest_context_ends_at_the_models_own() -> None:
    found = only(buy(question(), ONE_GPU, 100.0, maximize=["context"]), "context")
    assert found.value == 32_768
    assert rules(found) == {"context_length"}


def test_a_larger_budget_never_buys_less() -> None:
    compared = 0
    for seed in SEEDS:
        _, report = drawn(seed)
        for what in ("traffic", "context", "tpot", "ttft", "precision"):
            values = [only(report, what, at).value for at in range(3)]
            known = [value for value in values if value is not None]
            assert values[len(values) - len(known) :] == known  # what one budget buys, each larger one does
            assert known == sorted(known, reverse=what in ("tpot", "ttft"))
            compared += len(known)
    assert compared > 15


@pytest.mark.parametrize("seed", SEEDS)
def test_solve_agrees_just_there_and_just_beyond(seed: int) -> None:
    one, report = drawn(seed)
    kind = one.scenario.workload.kind
    for at, answer in enumerate(report.budgets):
        budget = answer.usd_per_hour
        traffic, context = only(report, "traffic", at), only(report, "context", at)
        if traffic.value is not None:
            beyond = traffic.value + 1 if kind == "concurrency" else traffic.value * 1.001
            assert solved(one, budget, "workload", **{kind: traffic.value}).status == "optimal"
            assert solved(one, budget, "workload", **{kind: beyond}).status == "infeasible"
        if context.value is not None:
            tokens = int(context.value)
            assert solved(one, budget, "workload", context_tokens=tokens).status == "optimal"
            assert solved(one, budget, "workload", context_tokens=tokens + 1).status == "infeasible"
        ttft = only(report, "ttft", at)
        if ttft.value is not None and kind == "request_rate":
            assert solved(one, budget, "targets", ttft_ms=ttft.value * 1.0002).status == "optimal"
            assert solved(one, budget, "targets", ttft_ms=ttft.value * 0.998).status == "infeasible"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_step_is_the_first_at_which_more_is_bought(seed: int) -> None:
    one, report = drawn(seed)
    ground = Ground(one.scenario, load_model(one.scenario.model), one.table, TODAY)
    levers = {"traffic": Traffic(), "context": Context(), "precision": Precision()}
    for bought in report.budgets[1].bought:
        if bought.next is None:
            continue
        there = round(bought.next.usd_per_hour * MICRO)
        lever = levers.get(bought.what) or Latency(bought.what, there)
        assert lever.best(ground, there - 1) == pytest.approx(bought.value, rel=1.1e-3)  # 0.1% less counts as no step
        assert lever.best(ground, there) == pytest.approx(bought.next.value, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_latency_is_that_of_the_whole_table(seed: int) -> None:
    one, report = drawn(seed)
    table = operating_table(pose(one.scenario, catalog=one.table, today=TODAY), 3 * MICRO)
    for name in ("tpot", "ttft"):
        found = only(report, name, 1)
        assert found.value == (table[f"{name}_ms"].min() if len(table) else None)
        assert found.confirmed_by in (("solve", "audit") if len(table) else (None,))


def test_a_budget_that_is_too_small_is_answered_with_the_least_that_works() -> None:
    report = buy(question({"workload": {"request_rate": 40.0}}), ONE_GPU, 1.0)
    assert report.least_usd_per_hour is not None
    assert not report.budgets[0].enough
    for bought in report.budgets[0].bought:
        assert bought.value is None
        assert bought.least_usd_per_hour is not None
    assert only(report, "traffic").least_usd_per_hour == 2.5
    assert only(report, "tpot").least_usd_per_hour == report.least_usd_per_hour


def test_at_a_percentile_the_most_traffic_is_one_that_solve_accepts() -> None:
    asked = question({"targets": {"at": "p95", "ttft_ms": 60.0}, "workload": {"input_cv": 1.0, "output_cv": 1.0}})
    found = only(buy(asked, ONE_GPU, 5.0, maximize=["traffic"]), "traffic")
    assert found.value is not None
    assert found.confirmed_by == "solve"
    assert found.usd_per_hour == 5.0


def test_flags_and_levers_have_the_same_names() -> None:
    assert FLAG_VALUES == MAXIMIZED
