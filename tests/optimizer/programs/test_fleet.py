"""The cheapest fleet, against exhaustive search and rule by rule."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from optimizer.programs import fleet_money
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_instance import FleetInstance, Kind, NodeLimit, Option, Site
from optimizer.programs.layout import Settings
from tests.optimizer.programs.fleet_oracle import Oracle, broken, draw_instance

QUOTA = NodeLimit("quota", {0: 8, 1: 8}, 16)
FAMILIES = {
    "powers of two": {},
    "TP3 and TP5": {"gpus": (8,), "sizes": (3, 2, 5), "load": 2},
    "TP3 and TP4 on 7 and 8 GPUs": {"gpus": (8, 7), "sizes": (3, 4), "load": 2},
    "two models on shared nodes": {"models": 2, "gpus": (8,), "load": 2},
    "committed and hourly over two periods": {"periods": 2, "options": "mixed", "sites": 1, "kinds": 2},
    "committed and hourly over three periods": {
        "periods": 3, "options": "mixed", "sites": 1, "kinds": 2, "cap": 1, "load": 1,
    },
    "a node is a replica": {"gpus": (1,), "sizes": (1,), "sites": 3, "kinds": 3, "cap": 4},
    "a node is a replica, whole classes": {
        "gpus": (1,), "sizes": (1,), "sites": 3, "kinds": 3, "cap": 4, "classes": 4, "whole_classes": True, "load": 2,
    },
    "a node is a replica, two models": {"gpus": (1,), "sizes": (1,), "sites": 4, "kinds": 4, "cap": 3, "models": 2},
    "a quota": {"limits": (QUOTA,)},
    "a budget": {"budget_micro_usd": 20_000_000},
    "one kind": {"max_kinds": 1},
    "one kind for each model": {"max_kinds_per_group": 1, "models": 2},
    "a limit on spot": {"max_spot_share": 0.3},
    "two providers": {"min_providers": 2},
    "two regions": {"min_regions": 2},
    "whole classes": {"whole_classes": True, "classes": 3},
    "whole classes over two periods": {
        "whole_classes": True, "periods": 2, "options": "mixed", "sites": 1, "kinds": 2, "cap": 1,
    },
    "a node may be lost": {"survive": "node", "gpus": (4,), "kinds": 3, "load": 0.5},
    "a node may be lost, TP3": {"survive": "node", "gpus": (4,), "sizes": (3, 1), "kinds": 2, "load": 0.5, "sites": 1},
    "a provider may be lost": {"survive": "provider", "load": 0.6},
    "a provider may be lost, over two periods": {
        "survive": "provider", "periods": 2, "load": 0.5, "kinds": 2, "cap": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cost_is_the_least_that_exhaustive_search_finds(family):
    solved = 0
    for seed in range(12):
        instance = draw_instance(seed, **FAMILIES[family])
        least = Oracle(instance).cheapest()
        answer = cheapest_fleet(instance)
        if least is None:
            assert answer.status == "infeasible"
            assert (answer.cost_micro_usd, answer.nodes, answer.rates) == (None, {}, {})
        else:
            solved += 1
            assert answer.status == "optimal"
            assert answer.cost_micro_usd == answer.bound_micro_usd == float(least)
            assert broken(instance, answer) == []
    assert solved >= 5  # a program that is always infeasible would pass the rest


def fleet(demand=(10.0,), rates=(5.0,), price=8_000_000, **fields) -> FleetInstance:
    """One site of 8 GPUs, one kind of TP4: two replicas of 5 requests/s to a node."""
    site = Site(8, (Option(price),), provider="a", region="x")
    return FleetInstance((site,), (Kind(0, 4, rates),), (demand,), **fields)


def test_a_load_that_fills_replicas_exactly_needs_no_more_of_them():
    answer = cheapest_fleet(fleet())  # 10 requests/s on 5 each: two replicas, one node
    assert (answer.cost_micro_usd, dict(answer.replicas)) == (8_000_000, {(0, 0): 2})
    assert sum(answer.rates.values()) == pytest.approx(10, rel=1e-9)


def test_a_load_just_above_needs_another_node():
    assert cheapest_fleet(fleet(demand=(10.001,))).cost_micro_usd == 16_000_000


def test_a_class_without_demand_needs_nothing():
    answer = cheapest_fleet(fleet(demand=(0.0,)))
    assert (answer.status, answer.cost_micro_usd, answer.bound_micro_usd) == ("optimal", 0, 0)


def test_a_class_that_nothing_serves_is_infeasible():
    assert cheapest_fleet(fleet(rates=(0.0,))).status == "infeasible"


@pytest.mark.parametrize(
    ("kept", "broken_by"),
    [
        ({"budget_micro_usd": 8_000_000}, {"budget_micro_usd": 7_999_999}),
        ({"limits": (NodeLimit("quota", {0: 8}, 8),)}, {"limits": (NodeLimit("quota", {0: 8}, 7),)}),
        ({"min_providers": 1}, {"min_providers": 2}),
        ({"min_regions": 1}, {"min_regions": 2}),
        ({"max_kinds": 1}, {"max_kinds": 0}),
        ({"max_kinds_per_group": 1}, {"max_kinds_per_group": 0}),
        ({"survive": "nothing"}, {"survive": "provider"}),
    ],
)
def test_breaking_one_rule_makes_a_feasible_fleet_infeasible(kept, broken_by):
    assert cheapest_fleet(fleet(**kept)).status == "optimal"
    assert cheapest_fleet(fleet(**broken_by)).status == "infeasible"


def test_stock_is_not_exceeded():
    site = Site(8, (Option(1_000_000, node_cap=1), Option(5_000_000, node_cap=1)))
    instance = FleetInstance((site,), (Kind(0, 8, (1.0,)),), ((2.0,),))
    assert cheapest_fleet(instance).cost_micro_usd == 6_000_000  # one at each price
    assert cheapest_fleet(replace(instance, demand=((2.1,),))).status == "infeasible"


def test_spot_takes_no_more_than_its_share():
    spot = Site(1, (Option(1_000_000),), spot=True)
    steady = Site(1, (Option(4_000_000),))
    kinds = (Kind(0, 1, (1.0,)), Kind(1, 1, (1.0,)))
    instance = FleetInstance((spot, steady), kinds, ((4.0,),))
    assert cheapest_fleet(instance).cost_micro_usd == 4_000_000
    half = cheapest_fleet(replace(instance, max_spot_share=0.5))  # two of the four requests/s on each
    assert half.cost_micro_usd == 2 * 1_000_000 + 2 * 4_000_000


def test_two_models_share_a_node():
    site = Site(8, (Option(8_000_000),))
    kinds = (Kind(0, 4, (1.0, 0.0)), Kind(0, 4, (0.0, 1.0)))
    answer = cheapest_fleet(FleetInstance((site,), kinds, ((1.0, 1.0),), groups=(0, 1)))
    assert answer.cost_micro_usd == 8_000_000
    assert [dict(unit.replicas) for unit in answer.packing[0]] == [{0: 1, 1: 1}]


def test_a_replica_that_spans_nodes_shares_none_of_them():
    site = Site(8, (Option(1_000_000),))
    kinds = (Kind(0, 12, (1.0, 0.0), nodes=2), Kind(0, 1, (0.0, 1.0)))
    answer = cheapest_fleet(FleetInstance((site,), kinds, ((1.0, 1.0),), groups=(0, 1)))
    assert answer.cost_micro_usd == 3_000_000  # 16 GPUs of which 12 are used, and a node for the other model


def test_committed_nodes_pay_where_they_are_busy_long_enough():
    # A steady base of 1 node and a peak of 3 in one of four periods: one committed node, and two by the hour.
    site = Site(8, (Option(10_000_000), Option(6_000_000, committed=True)))
    demand = ((1.0,), (1.0,), (3.0,), (1.0,))
    instance = FleetInstance((site,), (Kind(0, 8, (1.0,)),), demand, hours=(1.0,) * 4)
    answer = cheapest_fleet(instance)
    assert answer.cost_micro_usd == 4 * 6_000_000 + 2 * 10_000_000
    assert answer.nodes[0, 1, 0] == answer.nodes[0, 1, 3] == 1
    assert answer.nodes[0, 0, 2] == 2


def test_hours_that_are_no_whole_numbers_are_paid_exactly():
    instance = fleet(price=1_000_001)
    half = replace(instance, demand=((10.0,), (10.0,)), hours=(0.1, 0.7))
    assert cheapest_fleet(half).cost_micro_usd == 800_000.8


def test_a_start_keeps_a_node_on_through_a_short_dip():
    # Off for one period of three saves 1; a start costs 2.
    def cost(start: int) -> float | None:
        site = Site(1, (Option(1_000_000, start_micro_usd=start),))
        instance = FleetInstance((site,), (Kind(0, 1, (1.0,)),), ((1.0,), (0.0,), (1.0,)), hours=(1.0,) * 3)
        return cheapest_fleet(instance).cost_micro_usd

    assert cost(0) == 2_000_000
    assert cost(400_000) == 2_400_000
    assert cost(2_000_000) == 3_000_000


def test_a_node_is_paid_for_as_many_periods_as_it_has_to_be():
    site = Site(1, (Option(1_000_000, min_periods=3),))
    instance = FleetInstance((site,), (Kind(0, 1, (1.0,)),), ((1.0,), (0.0,), (0.0,), (0.0,)), hours=(1.0,) * 4)
    assert cheapest_fleet(instance).cost_micro_usd == 3_000_000


def test_the_shares_are_exact_where_rates_and_prices_lie_far_apart():
    sites = (Site(1, (Option(100_000),)), Site(1, (Option(1_000_000_000),)))
    kinds = (Kind(0, 1, (0.001, 0.0)), Kind(1, 1, (900.0, 700.0)))
    instance = FleetInstance(sites, kinds, ((0.0035, 650.0),))
    answer = cheapest_fleet(instance)
    assert answer.status == "optimal"
    assert broken(instance, answer) == []
    assert answer.cost_micro_usd == 1_000_000_000  # the large one has time left for both


def test_without_time_nothing_is_claimed():
    instance = draw_instance(3, sites=3, kinds=12, classes=6, models=3, load=9, cap=50, gpus=(8,))
    answer = cheapest_fleet(instance, Settings(time_limit_s=1e-9))
    if answer.status != "optimal":
        assert (
            answer.cost_micro_usd is None
            or answer.bound_micro_usd is None
            or (answer.bound_micro_usd <= answer.cost_micro_usd)
        )


def test_costs_come_in_steps_of_their_greatest_common_divisor():
    assert fleet_money.cost_step(map(fleet_money.Fraction, (6, 10, 0))) == 2
    assert fleet_money.cost_step([fleet_money.Fraction(1, 2), fleet_money.Fraction(1, 3)]) == fleet_money.Fraction(1, 6)


def test_an_instance_that_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="names the groups of 2"):
        cheapest_fleet(fleet(groups=(0, 0)))
    with pytest.raises(ValueError, match="finite"):
        cheapest_fleet(fleet(demand=(math.inf,)))
    with pytest.raises(ValueError, match="a rate for each"):
        cheapest_fleet(fleet(demand=(1.0, 1.0)))
