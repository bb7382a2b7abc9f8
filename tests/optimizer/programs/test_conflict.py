"""Cores: rules that cannot hold together, from which none can be left out."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.programs.conflict import conflicting_rules
from optimizer.programs.layout import Choice, Demand, Settings, cheapest

QUICK = Settings(time_limit_s=10, workers=2)


def breaking(*rules: str, price: int = 1, replicas: int = 1, cap: int = 9) -> Choice:
    return Choice(replicas, 1, 1, cap, price, 0, frozenset(rules))


@pytest.mark.parametrize(
    ("choices", "demand", "core"),
    [
        # Every choice breaks TPOT, whatever else some of them break.
        ([breaking("tpot"), breaking("tpot", "gpu_allowed")], Demand(), {"tpot"}),
        # One breaks the one, the other the other: both are needed for a conflict.
        ([breaking("tpot"), breaking("gpu_allowed")], Demand(), {"tpot", "gpu_allowed"}),
        # Three replicas at $1 each for $2: the traffic or the budget would have to give.
        ([breaking(replicas=3)], Demand(budget_micro_usd=2), {"budget", "traffic"}),
        # One node costs more than the budget, so the traffic has no part in it.
        ([breaking(replicas=3, price=5)], Demand(budget_micro_usd=2), {"budget"}),
        ([breaking(replicas=3, cap=2)], Demand(), {"quota", "traffic"}),
        ([breaking(replicas=3)], Demand(replicas_allowed=(1, 2)), {"replicas_allowed", "traffic"}),
        # A cheap one that is too slow, and a fast one over the budget.
        ([breaking("tpot"), breaking(price=5)], Demand(budget_micro_usd=2), {"budget", "tpot"}),
        ([breaking(cap=0), breaking("region_allowed")], Demand(), {"quota", "region_allowed"}),
    ],
)
def test_the_core_is_just_the_rules_that_conflict(choices: list[Choice], demand: Demand, core: set[str]) -> None:
    assert set(conflicting_rules(choices, demand, QUICK)) == core


def test_there_is_no_core_where_everything_holds() -> None:
    assert conflicting_rules([breaking(), breaking("tpot")], Demand(budget_micro_usd=1), QUICK) == ()


def test_a_rule_that_every_choice_keeps_is_in_no_core() -> None:
    assert "budget" not in conflicting_rules([breaking("tpot")], Demand(budget_micro_usd=1), QUICK)


RULES = ("tpot", "ttft", "gpu_allowed", "budget", "quota", "traffic", "replicas_allowed")


def can_hold(choices: list[Choice], demand: Demand, kept: set[str]) -> bool:
    """Whether some choice in some number of replicas keeps these rules, by trying all."""
    for one, replicas in product(choices, range(1, 12)):
        broken = set(one.broken)
        broken |= {"traffic"} if replicas < one.replicas else set()
        broken |= {"quota"} if replicas > one.node_cap else set()
        cost = replicas * one.price_micro_usd
        broken |= {"budget"} if demand.budget_micro_usd is not None and cost > demand.budget_micro_usd else set()
        allowed = demand.replicas_allowed
        broken |= {"replicas_allowed"} if allowed and replicas not in allowed else set()
        if not broken & kept:
            return True
    return False


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[Choice], Demand]:
    rules = st.sets(st.sampled_from(RULES[:3]), max_size=2)
    one = st.builds(
        lambda broken, price, replicas, cap: breaking(*broken, price=price, replicas=replicas, cap=cap),
        rules,
        st.integers(1, 4),
        st.integers(1, 4),
        st.integers(0, 4),
    )
    choices = draw(st.lists(one, min_size=1, max_size=5))
    allowed = draw(st.none() | st.sampled_from([(1,), (1, 3), (4,), (6,)]))
    return choices, Demand(draw(st.none() | st.integers(1, 8)), allowed)


def test_a_core_conflicts_and_every_part_of_it_can_hold() -> None:
    seen = {True: 0, False: 0}

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(instances())
    def least(instance: tuple[list[Choice], Demand]) -> None:
        core = conflicting_rules(*instance, QUICK)
        feasible = can_hold(*instance, set(RULES))
        seen[feasible] += 1
        assert (core == ()) == feasible == cheapest(*instance, QUICK).outcome.has_solution
        if core:
            assert not can_hold(*instance, set(core))
            assert all(can_hold(*instance, set(part)) for part in combinations(core, len(core) - 1))

    least()
    assert min(seen.values()) >= 10, seen
