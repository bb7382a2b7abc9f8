"""The most traffic that a budget, caps and rules allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.programs.fleet import most_traffic
from optimizer.programs.fleet_instance import FleetInstance, Kind, NodeLimit, Option, Site
from tests.optimizer.programs.fleet_oracle import Oracle, broken, draw_instance

FAMILIES = {
    "caps": {},
    "a budget": {"budget_micro_usd": 20_000_000},
    "a quota": {"limits": (NodeLimit("quota", {0: 8, 1: 8}, 16),)},
    "TP3 and TP5": {"gpus": (8,), "sizes": (3, 2, 5)},
    "two periods": {"periods": 2, "options": "mixed", "sites": 1, "kinds": 2},
    "a limit on spot": {"max_spot_share": 0.3},
    "whole classes": {"whole_classes": True, "classes": 3},
    "a node may be lost": {"survive": "node", "gpus": (4,), "kinds": 3},
    "a provider may be lost": {"survive": "provider"},
}


def scaled(instance: FleetInstance, factor: float) -> FleetInstance:
    return replace(instance, demand=tuple(tuple(amount * factor for amount in period) for period in instance.demand))


@pytest.mark.parametrize("family", FAMILIES)
def test_exhaustive_search_finds_a_fleet_for_just_less_and_none_for_more(family):
    carried = 0
    for seed in range(6):
        instance = draw_instance(seed, **FAMILIES[family])
        answer = most_traffic(instance)
        assert answer.status == "optimal"
        if answer.scale:
            carried += 1
            assert broken(instance, answer) == []
            assert answer.scale_bound == pytest.approx(answer.scale, rel=2e-6)
            assert Oracle(scaled(instance, answer.scale * (1 - 1e-6))).cheapest() is not None
            assert Oracle(scaled(instance, answer.scale * (1 + 1e-5))).cheapest() is None
    assert carried >= 3


def test_a_budget_buys_whole_nodes():
    site = Site(8, (Option(3_000_000),))
    instance = FleetInstance((site,), (Kind(0, 4, (5.0,)),), ((4.0,),), budget_micro_usd=10_000_000)
    answer = most_traffic(instance)  # three nodes, six replicas of 5 requests/s: 30 of 4
    assert answer.scale == pytest.approx(7.5, rel=1e-9)
    assert answer.cost_micro_usd == 9_000_000


def test_nodes_that_carry_nothing_are_not_paid_for():
    sites = (Site(1, (Option(1_000_000, node_cap=2),)), Site(1, (Option(1_000_000, node_cap=9),)))
    instance = FleetInstance(sites, (Kind(0, 1, (1.0,)),), ((1.0,),), budget_micro_usd=50_000_000)
    assert most_traffic(instance).cost_micro_usd == 2_000_000


def test_a_budget_of_nothing_carries_nothing():
    site = Site(8, (Option(3_000_000),))
    instance = FleetInstance((site,), (Kind(0, 4, (5.0,)),), ((4.0,),), budget_micro_usd=1)
    answer = most_traffic(instance)
    assert (answer.status, answer.scale) == ("optimal", 0.0)


def test_traffic_that_nothing_bounds_is_refused():
    instance = FleetInstance((Site(8, (Option(1),)),), (Kind(0, 4, (5.0,)),), ((4.0,),))
    with pytest.raises(ValueError, match="nothing bounds the traffic"):
        most_traffic(instance)


def test_no_demand_is_refused():
    instance = FleetInstance((Site(8, (Option(1),)),), (Kind(0, 4, (5.0,)),), ((0.0,),), budget_micro_usd=1)
    with pytest.raises(ValueError, match="no demand"):
        most_traffic(instance)
