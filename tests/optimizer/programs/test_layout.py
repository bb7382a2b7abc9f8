"""The layout program: each rule alone can make the smallest instance infeasible; answers are exact and stable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.programs.layout import COUNTING_RULES, Choice, Demand, LayoutProgram, Settings, cheapest, new_solver
from optimizer.programs.outcome import read_outcome

# One replica that fills one node of $2.
ONE = Choice(replicas=1, replicas_per_node=1, nodes_per_replica=1, node_cap=1, price_micro_usd=2_000_000, rank=0)
QUICK = Settings(time_limit_s=10, workers=2)
NOTHING_ASKED = Demand()


def choice(**changed: Any) -> Choice:
    return replace(ONE, **changed)


# Rule -> the smallest feasible instance with its (replicas, nodes, micro-dollars), and one that breaks only that rule.
TWINS: dict[str, tuple[list[Choice], Demand, tuple[int, int, int], list[Choice], Demand]] = {
    # Two replicas on a node that holds two: one node; where it holds one they would take two, and one is to be had.
    "packing": (
        [choice(replicas=2, replicas_per_node=2)],
        NOTHING_ASKED,
        (2, 1, 2_000_000),
        [choice(replicas=2, replicas_per_node=1)],
        NOTHING_ASKED,
    ),
    # A replica over two nodes takes both.
    "spanning": (
        [choice(nodes_per_replica=2, node_cap=2)],
        NOTHING_ASKED,
        (1, 2, 4_000_000),
        [choice(nodes_per_replica=2, node_cap=1)],
        NOTHING_ASKED,
    ),
    "quota": ([choice(node_cap=1)], NOTHING_ASKED, (1, 1, 2_000_000), [choice(node_cap=0)], NOTHING_ASKED),
    # The one node costs 2,000,000 micro-dollars: a budget of one less does not buy it.
    "budget": (
        [ONE],
        Demand(budget_micro_usd=2_000_000),
        (1, 1, 2_000_000),
        [ONE],
        Demand(budget_micro_usd=1_999_999),
    ),
    # Two are needed: three may be run, one may not.
    "replicas_allowed": (
        [choice(replicas=2, replicas_per_node=4)],
        Demand(replicas_allowed=(1, 3)),
        (3, 1, 2_000_000),
        [choice(replicas=2, replicas_per_node=4)],
        Demand(replicas_allowed=(1,)),
    ),
    # Traffic for two replicas, of which one node is to be had for each.
    "traffic": (
        [choice(replicas=2, node_cap=2)],
        Demand(budget_micro_usd=4_000_000),
        (2, 2, 4_000_000),
        [choice(replicas=3, node_cap=2)],
        Demand(budget_micro_usd=4_000_000),
    ),
    "a rule of the choice": (
        [ONE],
        NOTHING_ASKED,
        (1, 1, 2_000_000),
        [choice(broken=frozenset({"tpot"}))],
        NOTHING_ASKED,
    ),
}


@pytest.mark.parametrize("rule", TWINS)
def test_the_smallest_instance_that_keeps_the_rule_is_solved(rule: str) -> None:
    choices, demand, expected, _, _ = TWINS[rule]
    answer = cheapest(choices, demand, QUICK)

    assert answer.outcome.status == "optimal"
    assert (answer.choice, answer.replicas, answer.nodes, answer.cost_micro_usd) == (0, *expected)
    assert answer.bound_micro_usd == answer.cost_micro_usd


@pytest.mark.parametrize("rule", TWINS)
def test_the_same_instance_that_breaks_the_rule_is_infeasible_and_has_no_values(rule: str) -> None:
    _, _, _, choices, demand = TWINS[rule]
    answer = cheapest(choices, demand, QUICK)

    assert answer.outcome.status == "infeasible"
    assert not answer.outcome.has_solution
    assert (answer.outcome.objective, answer.outcome.bound) == (None, None)
    values = (answer.choice, answer.replicas, answer.nodes, answer.cost_micro_usd, answer.bound_micro_usd)
    assert values == (None,) * 5


@pytest.mark.parametrize("rule", COUNTING_RULES)
def test_a_counting_rule_that_is_given_up_no_longer_binds(rule: str) -> None:
    _, _, _, choices, demand = TWINS[rule]
    program = LayoutProgram(choices, demand)
    for name, literal in program.rules.items():
        program.model.add(literal == (name != rule))
    solver = new_solver(QUICK)

    assert read_outcome(solver, solver.solve(program.model)).has_solution


def test_exactly_one_choice_is_taken_and_it_is_the_cheapest() -> None:
    dear, cheap = choice(price_micro_usd=5_000_000), choice(price_micro_usd=3_000_000, rank=1)

    assert cheapest([dear, cheap], NOTHING_ASKED, QUICK).choice == 1


def test_two_nodes_at_a_lower_price_win_over_one_at_more_than_twice_it() -> None:
    # 2 x $2 = $4 against $4.000001.
    one, two = choice(price_micro_usd=4_000_001), choice(replicas=2, node_cap=2, rank=1)
    answer = cheapest([one, two], NOTHING_ASKED, QUICK)

    assert (answer.choice, answer.cost_micro_usd) == (1, 4_000_000)


def test_a_difference_of_a_micro_dollar_outweighs_every_rank() -> None:
    ranked = [choice(price_micro_usd=2_000_001, rank=0), choice(price_micro_usd=2_000_000, rank=9_999)]

    assert cheapest(ranked, NOTHING_ASKED, QUICK).choice == 1


def test_no_spare_replicas_run_on_a_node_that_has_room() -> None:
    # Three of eight places are needed; nothing is cheaper with more, and nothing is gained by them.
    assert cheapest([choice(replicas=3, replicas_per_node=8)], NOTHING_ASKED, QUICK).replicas == 3


def test_money_is_whole_micro_dollars_at_any_price() -> None:
    # 7 nodes at $98.765432: 7 x 98,765,432 = 691,358,024.
    answer = cheapest([choice(replicas=7, node_cap=7, price_micro_usd=98_765_432)], NOTHING_ASKED, QUICK)

    assert answer.cost_micro_usd == 691_358_024
    assert isinstance(answer.cost_micro_usd, int)


def test_equal_costs_give_the_lowest_rank_in_every_run_with_several_workers() -> None:
    # Thirty choices that all cost 12 x $1; the list is in no order of rank.
    tied = [
        Choice(12, per_node, 1, 12, 1_000_000 * per_node, rank)
        for rank, per_node in zip([17, 4, 29, 11, 8, 23], [1, 2, 3, 4, 6, 12], strict=True)
    ] * 5
    tied = [replace(one, rank=one.rank + 30 * (index // 6)) for index, one in enumerate(tied)]
    found = {cheapest(tied, NOTHING_ASKED, Settings(workers=4, seed=seed)).choice for seed in range(20)}

    # Rank 4 is the least, at position 1.
    assert found == {1}


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[Choice], Demand]:
    small = st.integers(1, 5)
    choices = [
        Choice(
            replicas=draw(small),
            replicas_per_node=1 if spans > 1 else draw(small),
            nodes_per_replica=spans,
            node_cap=draw(st.integers(0, 8)),
            price_micro_usd=draw(st.integers(1, 9)),
            rank=rank,
            broken=draw(st.sampled_from([frozenset(), frozenset(), frozenset({"tpot"})])),
        )
        for rank, spans in enumerate(draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=4)))
    ]
    budget = draw(st.none() | st.integers(1, 30))
    allowed = draw(st.none() | st.lists(small, min_size=1, max_size=3, unique=True).map(sorted).map(tuple))
    return choices, Demand(budget, allowed)


def counted_out(choices: list[Choice], demand: Demand) -> tuple[int, int] | None:
    """The least (cost, rank) by trying every choice with every number of replicas."""
    found = []
    for one in choices:
        for replicas in range(one.replicas, 20):
            nodes = -(-replicas // one.replicas_per_node) * one.nodes_per_replica
            cost = nodes * one.price_micro_usd
            if one.broken or nodes > one.node_cap:
                continue
            if demand.budget_micro_usd is not None and cost > demand.budget_micro_usd:
                continue
            if demand.replicas_allowed and replicas not in demand.replicas_allowed:
                continue
            found.append((cost, one.rank))
    return min(found, default=None)


def test_the_program_agrees_with_counting_everything_out() -> None:
    seen = {"optimal": 0, "infeasible": 0}

    @settings(max_examples=120, deadline=None, derandomize=True)
    @given(instances())
    def agrees(instance: tuple[list[Choice], Demand]) -> None:
        answer, expected = cheapest(*instance, QUICK), counted_out(*instance)
        seen[answer.outcome.status] += 1
        assert (expected is None) == (answer.outcome.status == "infeasible")
        if expected is not None and answer.choice is not None:
            assert (answer.cost_micro_usd, instance[0][answer.choice].rank) == expected

    agrees()
    assert min(seen.values()) >= 20, seen
