"""The table behind fronts and budgets: every number of every replica, on its cheapest offer, with its latencies."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.answer import answers
from optimizer.choices import MICRO
from optimizer.solve import Problem, pose
from optimizer.whatif.operating import as_choices, layouts_up_to, operating_table
from tests.optimizer.catalogs import TODAY, catalog, draw, offer, question

H100, L4 = "H100-SXM-80GB", "L4-24GB"
SEEDS = range(30)


def drawn(seed: int, **limits: object) -> Problem:
    """A drawn question, posed without its budget."""
    one = draw(seed).with_limits(budget_usd_per_hour=None, **limits)
    return pose(one.scenario, catalog=one.table, today=TODAY)


def by_loops(problem: Problem, most_micro_usd: int) -> dict[tuple[int, int], int]:
    """(replica, replicas) -> the least cost, by trying every number on every feasible choice."""
    limits, work = problem.scenario.limits, problem.scenario.workload
    found: dict[tuple[int, int], int] = {}
    for row in problem.feasible.to_dict("records"):
        replicas = row["replicas"]
        while True:
            spans = row["nodes_per_replica"]
            nodes = replicas * spans if spans > 1 else -(-replicas // row["replicas_per_node"])
            cost = nodes * row["price_micro_usd"]
            if nodes > row["node_cap"] or cost > most_micro_usd:
                break
            idle = work.kind == "concurrency" and replicas > max(work.demand, row["replicas"])
            if not idle and (not limits.replicas or replicas in limits.replicas):
                key = (row["replica"], replicas)
                found[key] = min(found.get(key, cost), cost)
            replicas += 1
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_it_holds_every_number_of_every_replica_on_its_cheapest_offer(seed: int) -> None:
    problem = drawn(seed)
    table = operating_table(problem, 20 * MICRO)
    costs = {(row.replica, row.replicas): row.cost_micro_usd for row in table.itertuples()}
    # Where output is to be produced, or targets are on means, no layout that keeps every rule is left out.
    assert costs == by_loops(problem, 20 * MICRO)
    assert layouts_up_to(problem, 20 * MICRO) >= len(table)


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed % 3 == 0])
def test_its_latencies_are_those_of_whole_answers(seed: int) -> None:
    problem = drawn(seed)
    table = operating_table(problem, 20 * MICRO).head(20)
    rows = as_choices(problem, table)
    found = answers(problem.scenario, problem.model, rows, problem.candidates.speed, problem.offers)
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        assert table[name].tolist() == pytest.approx([getattr(one.performance, name) for one in found], rel=1e-5)
    assert (table["cost_micro_usd"] / MICRO).tolist() == pytest.approx([one.cost.usd_per_hour for one in found])


def test_latencies_are_at_the_level_and_the_confidence_of_the_targets() -> None:
    offers = catalog(offer(H100, 2.5))
    mean, p95, sure = (
        operating_table(pose(question({"targets": targets}), catalog=offers, today=TODAY), 3 * MICRO).iloc[0]
        for targets in ({}, {"at": "p95"}, {"at": "p95", "confidence": 0.9})
    )
    assert mean["ttft_ms"] < p95["ttft_ms"] < sure["ttft_ms"]
    assert mean["tpot_ms"] < p95["tpot_ms"] < sure["tpot_ms"]


def test_offline_a_replica_runs_the_fewest_requests_that_carry_the_traffic() -> None:
    asked = question({"workload": {"request_rate": None, "output_tokens_per_second": 2000.0}})
    problem = pose(asked, catalog=catalog(offer(L4, 0.8, max_nodes=3.0)), today=TODAY)
    table = operating_table(problem, 10 * MICRO)
    limits = table.set_index("replicas")["concurrency"]
    assert limits.is_monotonic_decreasing
    assert limits.max() < problem.feasible["concurrency"].max()
    for row in table.itertuples():
        assert row.traffic >= 2000.0
        fewer = as_choices(problem, table[table["replicas"] == row.replicas]).assign(concurrency=row.concurrency - 1)
        (less,) = answers(asked, problem.model, fewer, problem.candidates.speed, problem.offers)
        assert less.performance.utilization > 1.0


def test_with_a_latency_to_get_below_no_layout_that_gets_there_is_lost() -> None:
    problem = drawn(4)
    whole = operating_table(problem, 20 * MICRO)
    below = float(np.median(whole["tpot_ms"]))
    pruned = operating_table(problem, 20 * MICRO, below_ms={"tpot": below})
    keys = ["replica", "replicas", "cost_micro_usd", "tpot_ms"]
    wanted = whole[whole["tpot_ms"] < below][keys].reset_index(drop=True)
    assert pruned[pruned["tpot_ms"] < below][keys].reset_index(drop=True).equals(wanted)
    assert len(wanted)
