"""The front: complete, proved by exhaustive search and by solving again, and moved only down by lower prices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.models import load_model
from optimizer.check.predict import predict
from optimizer.errors import QuestionError
from optimizer.plan import Layout
from optimizer.solve import solve
from optimizer.whatif.front import find_front, find_knee, nondominated
from optimizer.whatif.front_points import Front, FrontPoint
from tests.optimizer import oracle
from tests.optimizer.catalogs import TODAY, Draw, catalog, draw, offer, question

A10G, H100, L4 = "A10G-24GB", "H100-SXM-80GB", "L4-24GB"
UP_TO = 12.0
SEEDS = range(24)


def front(one: Draw, *objectives: str, up_to: float | None = None) -> Front:
    return find_front(
        one.scenario,
        objectives or ("cost", "tpot", "ttft"),  # type: ignore[arg-type]
        up_to_usd_per_hour=up_to,
        catalog=one.table,
        today=TODAY,
    )


def drawn(seed: int) -> Draw:
    """A drawn question that asks for interactive work, without a budget."""
    return draw(seed).with_limits(budget_usd_per_hour=None)


def triple(point: FrontPoint) -> tuple[float, float, float]:
    return point.usd_per_hour, point.tpot_ms, point.ttft_ms


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40))
@settings(max_examples=150, deadline=None)
def test_rows_that_no_other_beats_are_those_of_pairwise_comparison(rows: list[tuple[int, int, int]]) -> None:
    def beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    kept = [rows[at] for at in nondominated(np.array(rows, dtype=float))]
    expected = {row for row in rows if not any(beats(other, row) for other in rows)}
    assert len(kept) == len(set(kept))
    assert set(kept) == expected


@pytest.mark.parametrize(("price", "gpus"), [(1.0, [L4, A10G, H100]), (0.7, [A10G, H100]), (3.0, [L4, H100])])
def test_of_three_gpus_the_middle_one_is_on_the_front_while_its_price_is_between(price: float, gpus: list[str]) -> None:
    # One node of each. A decode step reads 1 GB of weights: L4 at 0.30 TB/s, A10G at 0.60, H100 at 3.35, so each has a
    # longer TPOT than the next. A10G at $1 lies between L4 at $0.80 and H100 at $2.50; at $0.70 it is cheaper than L4
    # as well, which nothing speaks for then; at $3 H100 is cheaper and faster.
    offers = [offer(gpu, usd, max_nodes=1.0) for gpu, usd in ((L4, 0.8), (A10G, price), (H100, 2.5))]
    asked = question({"workload": {"request_rate": 0.5}})
    found = find_front(asked, ("cost", "tpot"), catalog=catalog(*offers), today=TODAY)
    assert [point.layout.gpu for point in found.points] == gpus
    assert found.points[0].best_in == ("cost",)
    assert found.points[-1].best_in == ("tpot",)
    assert found.status == "complete"


def test_layouts_alike_in_everything_are_shown_once() -> None:
    twins = catalog(offer(H100, 2.5, provider="acme", max_nodes=1.0), offer(H100, 2.5, provider="bolt", max_nodes=1.0))
    found = find_front(question(), catalog=twins, today=TODAY)
    assert [point.layout.provider for point in found.points] == ["acme"]


def every_layout(one: Draw) -> Iterator[Layout]:
    """Every layout up to the cost, by the exhaustive search's own loops, at the limits that it may run with."""
    scenario, model = one.scenario, load_model(one.scenario.model)
    rentals, splits = [], []
    for row in one.table.frame.to_dict("records"):
        for split in oracle._splits_on(scenario, model, row, TODAY):
            rentals += [(len(splits), *rented) for rented in oracle._rented(scenario, split, TODAY)]
            splits.append(split)
    runs = oracle._Runs(scenario, model, splits)
    offline = scenario.workload.kind == "output_tokens_per_second"
    for number, cost, layout in rentals:
        if cost > UP_TO * 1e6 or not len(runs.number):
            continue
        runs.carried_by(layout.replicas)
        good = runs._by_replicas[layout.replicas] & (runs.number == number)
        limits = runs.limit[good]
        if len(limits):
            limit = limits.min() if offline else limits.max()
            yield layout.model_copy(update={"concurrency_per_replica": int(limit)})


def test_the_front_is_that_of_exhaustive_search() -> None:
    """Each layout that the search finds is matched or beaten by a point, and each point is one that it finds."""
    compared = 0
    for seed in range(40):
        one = drawn(seed)
        layouts = list(every_layout(one))
        seen = predict(one.scenario, load_model(one.scenario.model), layouts)
        costs = [layout.nodes * layout.price_usd_per_node_hour for layout in layouts]
        values = np.array(
            [(cost, at.tpot_s * 1e3, at.ttft_s * 1e3) for cost, at in zip(costs, seen, strict=True)]
        ).reshape(-1, 3)
        if not len(values):
            continue
        found = front(one, up_to=UP_TO)
        points = np.array([triple(point) for point in found.points]).reshape(-1, 3)
        slack = 1 + 2e-4  # the load behind a latency is bisected
        matched = (points[None, :, :] <= values[:, None, :] * slack).all(axis=2).any(axis=1)
        assert matched.all(), (seed, values[~matched])
        known = (np.abs(points[:, None, :] - values[None, :, :]) <= values[None, :, :] * 2e-4).all(axis=2).any(axis=1)
        assert known.all(), (seed, points[~known])
        compared += len(values)
    assert compared > 500, compared


@pytest.mark.parametrize("seed", SEEDS)
def test_points_are_mutually_unbeaten_and_the_answer_of_solve_is_matched(seed: int) -> None:
    one = drawn(seed)
    plan = solve(one.scenario, catalog=one.table, today=TODAY)
    if plan.cost is None or plan.performance is None:
        found = front(one)
        assert found.status == "infeasible"
        assert not found.points
        return
    found = front(one)
    values = [triple(point) for point in found.points]
    assert all(
        any(b < a for a, b in zip(other, mine, strict=True)) for mine in values for other in values if mine != other
    )
    assert found.points[0].usd_per_hour == plan.cost.usd_per_hour
    own = (plan.cost.usd_per_hour, plan.performance.tpot_ms, plan.performance.ttft_ms)
    assert any(all(a <= b * (1 + 1e-5) for a, b in zip(mine, own, strict=True)) for mine in values)


def test_each_point_of_cost_and_ttft_is_what_solve_says_under_that_target() -> None:
    """The epsilon constraint: a point's TTFT as a target costs what the point does, a lower one what the next does."""
    solved = 0
    for seed in (1, 3, 8, 11):
        one = drawn(seed)
        points = front(one, "cost", "ttft", up_to=UP_TO).points
        for point, following in pairwise(points[:6]):
            for target, expected in ((point.ttft_ms * (1 + 1e-4), point), (point.ttft_ms * (1 - 1e-3), following)):
                if target < following.ttft_ms * (1 + 1e-4):
                    continue
                plan = solve(one.scenario.changed("targets", ttft_ms=target), catalog=one.table, today=TODAY)
                assert plan.cost is not None, seed
                assert plan.cost.usd_per_hour == pytest.approx(expected.usd_per_hour), seed
                solved += 1
    assert solved > 8


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed % 4 == 0])
def test_a_lower_price_only_moves_the_front_down(seed: int) -> None:
    one = drawn(seed)
    before = front(one, up_to=None) if solve(one.scenario, catalog=one.table, today=TODAY).layout else None
    if before is None or not before.points:
        return
    cheap = Draw(
        tuple(row | {"price_usd_per_node_hour": row["price_usd_per_node_hour"] * 0.7} for row in one.offers), one.fields
    )
    after = [triple(point) for point in front(cheap, up_to=before.up_to_usd_per_hour).points]
    for point in before.points:
        assert any(all(a <= b for a, b in zip(mine, triple(point), strict=True)) for mine in after)


def test_at_a_percentile_every_target_holds_at_every_point() -> None:
    asked = question({"targets": {"at": "p95", "ttft_ms": 120.0}, "workload": {"input_cv": 1.0, "output_cv": 1.0}})
    offers = [offer(gpu, usd, max_nodes=3.0) for gpu, usd in ((L4, 0.8), (A10G, 1.0), (H100, 2.5))]
    found = find_front(asked, catalog=catalog(*offers), today=TODAY)
    assert found.at == "p95"
    assert found.points
    assert all(point.ttft_ms <= 120.0 * (1 + 1e-5) for point in found.points)


def test_the_most_traffic_that_a_layout_carries_is_an_objective_too() -> None:
    # One H100 node, or two: the second carries twice as much, and is faster. With three objectives both are there, and
    # on cost and throughput alone.
    found = find_front(
        question(), ("cost", "throughput"), catalog=catalog(offer(H100, 2.5, max_nodes=2.0)), today=TODAY
    )
    one, two = found.points
    assert two.most_traffic == pytest.approx(2 * one.most_traffic)
    assert two.best_in == ("throughput",)


def test_a_front_ends_at_the_budget_or_where_the_user_says() -> None:
    table = catalog(offer(H100, 2.5))
    assert find_front(question(), catalog=table, today=TODAY).up_to_usd_per_hour == 25.0
    assert find_front(question(), catalog=table, today=TODAY, up_to_usd_per_hour=6.0).points[-1].usd_per_hour == 5.0
    within = question({"limits": {"budget_usd_per_hour": 5.0}})
    assert find_front(within, catalog=table, today=TODAY, up_to_usd_per_hour=9.0).up_to_usd_per_hour == 5.0
    with pytest.raises(QuestionError, match=r"2: the cheapest layout costs \$2.50 an hour"):
        find_front(question(), catalog=table, today=TODAY, up_to_usd_per_hour=2.0)


def test_the_knee_is_the_best_step_up_that_is_worth_a_step() -> None:
    # Twice the cost for half the latency: log 2 / log 2 = 1. Four times the cost for 11.5 of 40: 0.9. The first step up
    # gains 5% for next to nothing, which is no tenth.
    rows = pd.DataFrame({"cost_micro_usd": [100, 101, 200, 400], "tpot_ms": [40.0, 38.0, 20.0, 11.5]})
    assert find_knee(rows, ("cost", "tpot")) == 2
    assert find_knee(rows.head(2), ("cost", "tpot")) == 0
