"""Fleets that outlive a node or a provider."""

from __future__ import annotations

import pytest

from optimizer.errors import QuestionError
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_instance import FleetInstance, Kind, Option, Site
from optimizer.programs.fleet_survive import node_contents
from optimizer.programs.fleet_table import read_instance
from tests.optimizer.programs.fleet_oracle import broken


def test_one_more_node_is_paid_for_where_any_may_be_lost():
    site = Site(8, (Option(1_000_000),))
    instance = FleetInstance((site,), (Kind(0, 4, (5.0,)),), ((20.0,),), survive="node")
    answer = cheapest_fleet(instance)  # 4 replicas must be left: of 3 nodes of 2
    assert answer.cost_micro_usd == 3_000_000
    assert [(failure.site, dict(failure.lost)) for failure in answer.failures] == [(0, {0: 2})]
    assert broken(instance, answer) == []


def test_replicas_are_spread_so_that_less_is_lost_with_a_node():
    # Three replicas on three small nodes lose one each; on one large node they would all be lost.
    large, small = Site(8, (Option(4_000_000),)), Site(2, (Option(2_000_000),))
    kinds = (Kind(0, 2, (1.0,)), Kind(1, 2, (1.0,)))
    answer = cheapest_fleet(FleetInstance((large, small), kinds, ((2.0,),), survive="node"))
    assert answer.cost_micro_usd == 6_000_000
    assert dict(answer.replicas) == {(1, 0): 3}


def test_two_models_share_two_nodes_so_that_either_may_be_lost():
    site = Site(8, (Option(1_000_000),))
    kinds = (Kind(0, 4, (1.0, 0.0)), Kind(0, 4, (0.0, 1.0)))
    instance = FleetInstance((site,), kinds, ((1.0, 1.0),), groups=(0, 1), survive="node")
    answer = cheapest_fleet(instance)
    assert answer.cost_micro_usd == 2_000_000
    assert [dict(unit.replicas) for unit in answer.packing[0]] == [{0: 1, 1: 1}]
    assert answer.packing[0][0].units == 2


def test_a_replica_on_two_nodes_is_lost_whole():
    site = Site(8, (Option(1_000_000),))
    instance = FleetInstance((site,), (Kind(0, 16, (1.0,), nodes=2),), ((1.5,),), survive="node")
    answer = cheapest_fleet(instance)  # two are needed, so three are run
    assert answer.cost_micro_usd == 6_000_000
    assert [dict(failure.lost) for failure in answer.failures] == [{0: 1}]


def test_every_provider_in_use_may_be_lost():
    sites = tuple(Site(1, (Option(price),), provider=name) for name, price in (("a", 10), ("b", 11), ("c", 30)))
    kinds = tuple(Kind(s, 1, (1.0,)) for s in range(3))
    instance = FleetInstance(sites, kinds, ((4.0,),), survive="provider")
    answer = cheapest_fleet(instance)  # 4 left of a and b each; or 2 of each of three: 20 + 22 + 60
    assert answer.cost_micro_usd == 4 * 10 + 4 * 11
    assert {failure.provider for failure in answer.failures} == {"a", "b"}


def test_the_limit_on_spot_need_not_hold_in_a_failure():
    sites = (Site(1, (Option(10),), provider="a"), Site(1, (Option(1),), provider="b", spot=True))
    kinds = (Kind(0, 1, (1.0,)), Kind(1, 1, (1.0,)))
    instance = FleetInstance(sites, kinds, ((4.0,),), survive="provider", max_spot_share=0.25)
    answer = cheapest_fleet(instance)
    assert answer.cost_micro_usd == 4 * 10 + 4 * 1
    assert broken(instance, answer) == []


def test_too_many_ways_to_fill_a_node_are_an_error_for_people():
    site = Site(8, (Option(1),))
    kinds = tuple(Kind(0, 1, (1.0 + k / 10,)) for k in range(8))
    table = read_instance(FleetInstance((site,), kinds[:1] + kinds[1:], ((400.0,),), survive="node"))
    assert len(table.serves) == 1  # slower kinds of the same size are never needed
    kinds = tuple(Kind(0, 1, tuple(1.0 if c == k else 0.5 for c in range(8))) for k in range(8))
    table = read_instance(FleetInstance((site,), kinds, ((400.0,) * 8,), survive="node"))
    with pytest.raises(QuestionError, match="8 kinds of replica can share a node of 8 GPUs in more than 1,000 ways"):
        node_contents(table, 0, most=1_000)
