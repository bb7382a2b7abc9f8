"""Models that share nothing, solved by sets of replicas: the same cost as the program, and whole classes dealt out."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from ortools.linear_solver import pywraplp

from optimizer.programs import fleet_solve
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_apart import apart, deal_whole
from optimizer.programs.fleet_blocks import Block, weigh
from optimizer.programs.fleet_instance import FleetInstance, Kind, Option, Site
from optimizer.programs.fleet_table import read_instance
from optimizer.programs.mathopt_outcome import Deadline
from tests.optimizer.programs.fleet_oracle import broken, draw_instance


def solo(seed: int, **asked: object) -> FleetInstance:
    """Kinds that each have a site of one GPU of their own."""
    return draw_instance(
        seed, **{"gpus": (1,), "sizes": (1,), "sites": 6, "kinds": 6, "cap": 100_000, "load": 9, "classes": 8, **asked}
    )


@pytest.mark.parametrize("fields", [{}, {"whole_classes": True}, {"models": 2}, {"models": 2, "whole_classes": True}])
def test_sets_of_replicas_cost_what_the_program_finds(fields):
    compared = 0
    for seed in range(8):
        instance = solo(seed, **fields)
        if not apart(read_instance(instance)):
            continue  # a class that nothing serves
        compared += 1
        ours = cheapest_fleet(instance)
        with mock.patch.object(fleet_solve, "apart", return_value=False):
            program = cheapest_fleet(instance)
        assert ours.status == program.status == "optimal"
        assert ours.cost_micro_usd == program.cost_micro_usd
        assert broken(instance, ours) == []
    assert compared >= 3


def test_sets_come_in_order_of_cost_and_none_is_left_out():
    table = read_instance(solo(2, classes=3, load=1))
    block = Block(table, 0, 0, {kind: {kind: 1} for kind in table.serves})
    prices = np.array([1.0 + 0.37 * k for k in range(len(block.kinds))])
    found = []
    for one in block.in_order(prices, Deadline(20)):
        found.append(one)
        if len(found) == 12:
            break
    costs = [float(one @ prices) for one in found]
    assert costs == sorted(costs)
    assert len({one.tobytes() for one in found}) == len(found)
    grid = np.indices([int(most) + 1 for most in block.most]).reshape(len(block.most), -1).T
    cheaper = [one for one in grid if one @ prices < costs[-1] - 1e-9 and block.carries(one)]
    assert {one.tobytes() for one in cheaper} <= {one.tobytes() for one in found}


def test_a_rule_that_couples_models_is_left_to_the_program():
    instance = solo(2)
    assert apart(read_instance(instance))
    for fields in ({"budget_micro_usd": 1}, {"max_kinds": 1}, {"survive": "node"}, {"min_providers": 2}):
        assert not apart(read_instance(replace(instance, **fields)))
    free = tuple(replace(site, options=(Option(0),)) for site in instance.sites)
    assert not apart(read_instance(replace(instance, sites=free)))  # what is free cannot be counted by its cost


def test_whole_classes_that_shares_would_fit_may_need_another_replica():
    sites = (Site(1, (Option(5),)), Site(1, (Option(5),)))
    kinds = (Kind(0, 1, (1.0, 1.0, 1.0)), Kind(1, 1, (0.99, 0.99, 0.99001)))
    instance = FleetInstance(sites, kinds, ((0.6, 0.61, 0.62),))
    whole = replace(instance, whole_classes=True)
    table = read_instance(whole)
    assert deal_whole(table, 0, {0: 1}) == {}
    given = deal_whole(table, 0, {0: 2})
    assert given is not None
    assert sum(given.values()) == 3
    # 1.2 replicas of the first kind, or 2.4 of the second. In shares one of each is enough: the second takes 0.2 x 2.
    # Whole classes of 0.6: one on each needs two of the second; three of the second alone are cheaper.
    prices = (Site(1, (Option(10),)), Site(1, (Option(6),)))
    split = FleetInstance(prices, (Kind(0, 1, (1.0, 1.0)), Kind(1, 1, (0.5, 0.5))), ((0.6, 0.6),))
    assert cheapest_fleet(split).cost_micro_usd == 16
    assert cheapest_fleet(replace(split, whole_classes=True)).cost_micro_usd == 18


@pytest.mark.parametrize("seed", range(30))
def test_weights_never_say_what_a_linear_program_denies(seed):
    rng = np.random.default_rng(seed)
    loads = rng.uniform(0.05, 1.0, (3, 6))
    loads[1:][rng.random((2, 6)) < 0.2] = np.inf
    replicas = rng.integers(1, 3, 3).astype(float)
    solver = pywraplp.Solver.CreateSolver("GLOP")
    fullest = solver.NumVar(0, solver.infinity(), "fullest")
    shares = {(k, c): solver.NumVar(0, 1, "") for k in range(3) for c in range(6) if np.isfinite(loads[k, c])}
    for k in range(3):
        busy = [loads[k, c] * share for (kind, c), share in shares.items() if kind == k]
        solver.Add(sum(busy) <= replicas[k] * fullest)
    for c in range(6):
        solver.Add(sum(share for (_, other), share in shares.items() if other == c) == 1)
    solver.Minimize(fullest)
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    said = weigh(loads, replicas)
    if said is not None:
        assert (said.worth is None) == (fullest.solution_value() <= 1 + 1e-7)
    else:
        assert abs(fullest.solution_value() - 1) < 0.2
