"""Kinds that are never needed: leaving them out never changes the cost."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from optimizer.programs import fleet_table
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_dominance import needed_kinds
from optimizer.programs.fleet_instance import FleetInstance, Kind, NodeLimit, Option, Site
from tests.optimizer.programs.fleet_oracle import draw_instance

NODE = Site(8, (Option(8_000_000),))


def kept(kinds, sites=(NODE,), **fields) -> list[int]:
    instance = FleetInstance(sites, tuple(kinds), ((1.0,) * len(kinds[0].rates),), **fields)
    return needed_kinds(instance, range(len(kinds)))


def test_a_large_replica_is_not_needed_where_two_of_half_its_size_serve_as_much():
    assert kept([Kind(0, 8, (4.0, 2.0)), Kind(0, 4, (2.0, 1.0))]) == [1]
    assert kept([Kind(0, 8, (4.1, 2.0)), Kind(0, 4, (2.0, 1.0))]) == [0, 1]


def test_of_two_that_are_alike_one_stays():
    assert len(kept([Kind(0, 4, (2.0,)), Kind(0, 4, (2.0,))])) == 1


def test_a_replica_that_spans_nodes_is_not_needed_where_small_ones_fill_them():
    assert kept([Kind(0, 16, (8.0,), nodes=2), Kind(0, 4, (2.0,))]) == [1]
    assert kept([Kind(0, 16, (8.1,), nodes=2), Kind(0, 4, (2.0,))]) == [0, 1]


def test_a_label_keeps_a_kind_where_kinds_are_counted():
    kinds = [Kind(0, 8, (4.0,), label=1), Kind(0, 4, (2.0,), label=2)]
    assert kept(kinds) == [1]
    assert kept(kinds, max_kinds=1) == [0, 1]


def test_a_dearer_node_of_one_replica_is_not_needed_unless_a_quota_is_on_the_other():
    sites = (Site(1, (Option(3_000_000),)), Site(1, (Option(1_000_000),)))
    kinds = [Kind(0, 1, (2.0,)), Kind(1, 1, (1.0,))]
    assert kept(kinds, sites) == [1]
    assert kept(kinds, sites, limits=(NodeLimit("quota", {1: 1}, 5),)) == [0, 1]
    assert kept(kinds, (replace(sites[0], provider="other"), sites[1])) == [0, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"models": 2}, {"sizes": (3, 6, 2)}, {"max_kinds": 2}, {"whole_classes": True}, {"max_spot_share": 0.4},
        {"survive": "node", "gpus": (4,), "load": 0.5, "cap": 3, "kinds": 4}, {"survive": "provider", "load": 0.5},
        {"periods": 2, "options": "mixed"}, {"gpus": (1,), "sizes": (1,), "cap": 100_000},
    ],
)  # fmt: skip
def test_leaving_dominated_kinds_out_never_changes_the_cost(fields):
    left_out = 0
    for seed in range(8):
        instance = draw_instance(seed, **{"kinds": 7, "gpus": (8,), **fields})
        left_out += len(instance.kinds) - len(needed_kinds(instance, range(len(instance.kinds))))
        fewer = cheapest_fleet(instance)
        with mock.patch.object(fleet_table, "needed_kinds", lambda _, kinds: list(kinds)):
            every = cheapest_fleet(instance)
        assert (fewer.status, fewer.cost_micro_usd) == (every.status, every.cost_micro_usd)
    assert left_out
