"""Cores of infeasible fleets: rules that cannot hold together, from which none can be left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_conflict import conflicting_rules, rule_names
from optimizer.programs.fleet_instance import FleetInstance, Kind, NodeLimit, Option, Site
from tests.optimizer.programs.fleet_oracle import Oracle, draw_instance

SITES = (
    Site(8, (Option(8_000_000, node_cap=4),), provider="a", region="x"),
    Site(8, (Option(9_000_000, node_cap=4),), provider="b", region="y", spot=True),
)
KINDS = (Kind(0, 8, (5.0, 5.0)), Kind(1, 8, (5.0, 5.0)))


def fleet(demand=(5.0, 5.0), **fields) -> FleetInstance:
    """Two sites of one kind each: 5 requests/s to a node."""
    return FleetInstance(SITES, KINDS, (demand,), groups=(0, 0), **fields)


@pytest.mark.parametrize(
    ("instance", "core"),
    [
        # 10 requests/s need two nodes at $8.
        (fleet(budget_micro_usd=15_999_999), {"budget", "traffic"}),
        # One class alone needs more than the budget buys.
        (fleet((1.0, 11.0), budget_micro_usd=16_000_000), {"budget", "traffic:1"}),
        # Of 8 nodes in stock 9 are needed.
        (fleet((45.0, 0.0)), {"stock", "traffic:0"}),
        (fleet((21.0, 22.0)), {"stock", "traffic"}),
        (fleet(limits=(NodeLimit("quota a", {0: 1}, 0), NodeLimit("quota b", {1: 1}, 1))),
         {"quota a", "quota b", "traffic"}),
        # No node may be spot, and the other site has a quota of one.
        (fleet(limits=(NodeLimit("quota", {0: 1}, 1),), max_spot_share=0.0), {"quota", "spot_share", "traffic"}),
        (fleet(min_providers=3), {"min_providers"}),
        (fleet(min_regions=2, limits=(NodeLimit("quota", {1: 1}, 0),)), {"min_regions", "quota"}),
        (fleet(max_kinds=1, limits=(NodeLimit("quota", {0: 1, 1: 1}, 9),), demand=(12.0, 12.0)),
         {"max_kinds", "stock", "traffic"}),
        (fleet((20.0, 0.0), survive="provider", limits=(NodeLimit("quota", {0: 1, 1: 1}, 7),)),
         {"survive", "quota", "traffic:0"}),
    ],
)  # fmt: skip
def test_the_core_is_just_the_rules_that_conflict(instance, core):
    assert cheapest_fleet(instance).status == "infeasible"
    assert set(conflicting_rules(instance)) == core


def test_a_class_that_no_kind_serves_is_named():
    instance = replace(fleet(), kinds=tuple(replace(kind, rates=(5.0, 0.0)) for kind in KINDS))
    assert conflicting_rules(instance) == ("traffic:1",)


def test_nothing_conflicts_where_there_is_a_fleet():
    assert conflicting_rules(fleet()) == ()


def without(instance: FleetInstance, name: str) -> FleetInstance:
    """The instance with one rule of a core given up."""
    zero = tuple((0.0,) * len(period) for period in instance.demand)
    plenty = tuple(
        replace(site, options=tuple(replace(option, node_cap=7) for option in site.options)) for site in instance.sites
    )
    changes = {
        "traffic": {"demand": zero},
        "budget": {"budget_micro_usd": None},
        "stock": {"sites": plenty},
        "max_kinds": {"max_kinds": None},
        "min_providers": {"min_providers": 1},
        "spot_share": {"max_spot_share": 1.0},
        "survive": {"survive": "nothing"},
    }
    if name in changes:
        return replace(instance, **changes[name])
    if name.startswith("traffic:"):
        return replace(instance, demand=zero)
    return replace(instance, limits=tuple(limit for limit in instance.limits if limit.name != name))


@pytest.mark.parametrize(
    "fields",
    [
        {"budget_micro_usd": 9_000_000},
        {"limits": (NodeLimit("quota", {0: 8, 1: 8}, 8),), "load": 2},
        {"max_kinds": 1, "budget_micro_usd": 12_000_000, "load": 2},
        {"max_spot_share": 0.2, "budget_micro_usd": 14_000_000},
        {"survive": "provider", "budget_micro_usd": 18_000_000},
        {"min_providers": 2, "budget_micro_usd": 12_000_000},
    ],
)
def test_exhaustive_search_agrees_that_each_rule_of_a_core_is_needed(fields):
    conflicts = 0
    for seed in range(8):
        instance = draw_instance(seed, **{"gpus": (4,), "kinds": 3, **fields})
        if Oracle(instance).cheapest() is not None:
            continue
        conflicts += 1
        core = conflicting_rules(instance)
        assert core
        alone = instance
        for name in set(rule_names(instance)) - {"traffic" if rule.startswith("traffic") else rule for rule in core}:
            alone = without(alone, name)
        for rule in core:
            if rule.startswith("traffic:"):
                only = int(rule.removeprefix("traffic:"))
                kept = tuple(tuple(d if c == only else 0.0 for c, d in enumerate(row)) for row in alone.demand)
                alone = replace(alone, demand=kept)
        assert Oracle(alone).cheapest() is None, core
        for rule in core:
            assert Oracle(without(alone, rule)).cheapest() is not None, (core, rule)
    assert conflicts
