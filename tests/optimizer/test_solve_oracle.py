"""The program's answer is the cheapest there is: an exhaustive search over everything that could be rented agrees.

The catalogs are drawn from seeds (see catalogs.draw). Costs are compared, not plans: several layouts may cost the same.
"""

from __future__ import annotations

from functools import cache

import pytest

from catalogs.models import load_model
from catalogs.offer_files import KEY
from optimizer.check import check_layout, check_plan
from optimizer.plan import Plan
from optimizer.solve import solve
from tests.optimizer.catalogs import EXPERTS, TODAY, Draw, draw, offer
from tests.optimizer.oracle import Found, cheapest_layout

SEEDS = range(80)


@cache
def both(seed: int) -> tuple[Plan, Found | None]:
    drawn = draw(seed)
    model = load_model(drawn.scenario.model)
    plan = solve(drawn.scenario, model=model, catalog=drawn.table, today=TODAY)
    return plan, cheapest_layout(drawn.scenario, model, drawn.table, today=TODAY)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_answer_costs_what_an_exhaustive_search_finds(seed: int) -> None:
    plan, found = both(seed)

    assert (plan.status == "infeasible") == (found is None)
    if found is not None and plan.cost is not None:
        assert plan.status == "optimal"
        assert round(plan.cost.usd_per_hour * 1e6) == found.cost_micro_usd
        assert plan.cost.bound_usd_per_hour == plan.cost.usd_per_hour


@pytest.mark.parametrize("seed", SEEDS)
def test_the_checker_finds_nothing_wrong_with_either(seed: int) -> None:
    drawn = draw(seed)
    model = load_model(drawn.scenario.model)
    plan, found = both(seed)

    assert check_plan(plan, model, drawn.table.frame) == ()
    if found is not None:
        assert check_layout(drawn.scenario, model, found.layout, offers=drawn.table.frame, today=TODAY) == ()


def test_the_drawn_questions_are_neither_all_feasible_nor_all_infeasible() -> None:
    found = [both(seed)[1] for seed in SEEDS]

    assert sum(one is not None for one in found) >= 40
    assert sum(one is None for one in found) >= 15
    layouts = [one.layout for one in found if one is not None]
    # The search had something to choose: more replicas, more GPUs, more nodes, other formats.
    assert sum(layout.replicas > 1 for layout in layouts) >= 10
    assert sum(layout.tp * layout.pp > 1 for layout in layouts) >= 4
    assert sum(layout.nodes > 1 for layout in layouts) >= 4
    assert len({layout.weights for layout in layouts}) >= 3
    assert {"request_rate", "concurrency", "output_tokens_per_second"} == {
        draw(s).scenario.workload.kind for s in SEEDS
    }


def test_attention_ranks_that_slice_their_experts_are_among_the_layouts() -> None:
    # Two GPUs, both attention ranks, every expert cut in two: what SGLang does unless it is told to deal experts out.
    question = Draw(
        (offer("H100-SXM-80GB", 4.0, 2, max_nodes=1.0),),
        {
            "model": EXPERTS,
            "workload": {"input_tokens": 1000, "output_tokens": 100, "request_rate": 0.5},
            "limits": {"attention_dp": [2], "ep": [1], "max_nodes_per_replica": 1, "max_concurrency_per_replica": 8},
        },
    )
    plan = solve(question.scenario, catalog=question.table, today=TODAY)
    found = cheapest_layout(question.scenario, load_model(EXPERTS), question.table, today=TODAY)

    assert plan.layout is not None
    assert found is not None
    assert (plan.layout.attention_dp, plan.layout.ep) == (2, 1) == (found.layout.attention_dp, found.layout.ep)


def test_a_search_that_knows_a_cheaper_layout_would_be_noticed() -> None:
    # The oracle itself: with the answer's offer taken away, what it finds costs at least as much.
    compared = 0
    for seed in SEEDS[:30]:
        drawn, (_, found) = draw(seed), both(seed)
        if found is None:
            continue
        if "prices" in drawn.fields or "quotas" in drawn.fields["limits"]:
            continue  # they may name a provider that is then gone
        mine = [getattr(found.layout, name) for name in KEY]
        kept = tuple(one for one in drawn.offers if [one[name] for name in KEY] != mine)
        rest = Draw(kept, drawn.fields)
        worse = cheapest_layout(rest.scenario, load_model(rest.scenario.model), rest.table, today=TODAY)
        compared += 1
        assert worse is None or worse.cost_micro_usd >= found.cost_micro_usd
    assert compared >= 8
