"""Sets of replicas of each model: the bound, the lists, and the fleets that they give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from optimizer.programs.fleet import answer_of, cheapest_fleet
from optimizer.programs.fleet_blocks import Block, cheapest_cover
from optimizer.programs.fleet_columns import ColumnSearch, worth_separating
from optimizer.programs.fleet_instance import NodeLimit
from optimizer.programs.fleet_table import read_instance
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline
from tests.optimizer.programs.fleet_oracle import Oracle, broken, draw_instance


def models(seed: int, **asked: object):
    """Three models of three classes on two sites of 8 GPUs."""
    return draw_instance(seed, **{"models": 3, "classes": 3, "gpus": (8,), "kinds": 9, "load": 4, "cap": 20, **asked})


def block_of(seed: int) -> Block:
    table = read_instance(models(seed))
    return Block(
        table, 0, 0, {kind: {table.instance.kinds[kind].site: table.instance.kinds[kind].gpus} for kind in table.serves}
    )


def all_sets(block: Block, limit: float, prices) -> list[np.ndarray]:
    ranges = [range(min(int(most), int(limit / price)) + 1) for most, price in zip(block.most, prices, strict=True)]
    found = [np.array(counts, dtype=np.int64) for counts in itertools.product(*ranges)]
    return [one for one in found if one @ prices <= limit and block.carries(one)]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5])
def test_the_cheapest_set_and_all_that_cost_little_more_are_those_that_trying_all_finds(seed):
    block = block_of(seed)
    prices = np.array([1.0 + 0.37 * k for k in range(len(block.kinds))])
    priced = block.price(prices, 10)
    assert priced is not None
    cost = float(priced.replicas @ prices)
    tried = all_sets(block, cost * 1.25, prices)
    assert min(one @ prices for one in tried) == pytest.approx(cost, rel=1e-5)
    listed = [one for one in block.within(prices, cost * 1.25, Deadline(20)) if block.carries(one)]
    room = [one @ block.used for one in listed]
    for one in tried:
        assert any((there <= one @ block.used).all() for there in room), one


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5])
def test_no_set_that_has_a_kind_costs_less_than_its_floor(seed):
    block = block_of(seed)
    prices = np.array([1.0 + 0.37 * k for k in range(len(block.kinds))])
    priced = block.price(prices, 10)
    assert priced is not None
    floors = block.floors(prices)
    for one in all_sets(block, float(priced.replicas @ prices) * 1.25, prices):
        assert (floors[one > 0] <= one @ prices + 1e-9).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_cover_is_the_cheapest_that_trying_all_finds(seed):
    rng = np.random.default_rng(seed)
    prices, parts = rng.uniform(1, 4, 3), rng.uniform(0.1, 0.6, 3)
    tried = min(
        np.array(counts) @ prices
        for counts in itertools.product(range(11), repeat=3)
        if np.array(counts) @ parts >= 1 - 1e-9
    )
    found = cheapest_cover(prices, parts)
    assert found @ parts >= 1 - 1e-8
    assert found @ prices == pytest.approx(tried, rel=2e-4)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"sizes": (3, 2)},
        {"limits": (NodeLimit("quota", {0: 8}, 16),)},
        {"cap": 2},
    ],
)
def test_the_search_by_sets_ends_at_the_cost_of_the_program_as_it_stands(fields):
    proved = 0
    for seed in range(5):
        instance = models(seed, **fields)
        table = read_instance(instance)
        if not worth_separating(table):
            continue  # a class that nothing serves
        whole = cheapest_fleet(instance)
        if whole.status == "infeasible":
            continue
        clock = Deadline(20)
        search = ColumnSearch(table, Settings(), clock)
        found = search.run()
        if found is None:
            continue
        bound = float(search.relaxed.bound_micro_usd(found.bound))
        assert bound <= whole.cost_micro_usd
        if found.counts is not None:
            answer = answer_of(table, found.counts, bound, clock)
            assert broken(instance, answer) == []
            assert answer.cost_micro_usd >= whole.cost_micro_usd
            proved += answer.status == "optimal" and answer.cost_micro_usd == whole.cost_micro_usd
    assert proved >= 2


def test_the_search_by_sets_agrees_with_exhaustive_search():
    for seed in range(8):
        instance = draw_instance(seed, models=2, gpus=(8,), load=2)
        table = read_instance(instance)
        least = Oracle(instance).cheapest()
        found = ColumnSearch(table, Settings(), Deadline(20)).run() if least is not None else None
        if found is not None and found.counts is not None and least is not None:
            assert answer_of(table, found.counts, None, Deadline(1)).cost_micro_usd >= least
