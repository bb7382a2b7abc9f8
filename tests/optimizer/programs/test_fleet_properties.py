"""What must hold of any fleets, whatever they cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_instance import FleetInstance, NodeLimit
from tests.optimizer.programs.fleet_oracle import broken, draw_instance

seeds = st.integers(0, 10_000)
few = settings(max_examples=25, deadline=None, derandomize=True)


def least(instance: FleetInstance) -> float:
    """Cost of the cheapest fleet; without end where there is none."""
    answer = cheapest_fleet(instance)
    assert answer.status in ("optimal", "infeasible")
    if answer.status == "optimal":
        assert broken(instance, answer) == []
    return float("inf") if answer.cost_micro_usd is None else answer.cost_micro_usd


def draw(seed: int, **asked: object) -> FleetInstance:
    return draw_instance(seed, **{"sites": 3, "kinds": 7, "classes": 3, "models": 2, "cap": 4, "load": 3, **asked})


def quota(instance: FleetInstance, most: int) -> FleetInstance:
    weights = {s: site.gpus_per_node for s, site in enumerate(instance.sites)}
    return replace(instance, limits=(NodeLimit("quota", weights, most),))


@few
@given(seeds, st.integers(8, 40), st.integers(0, 16))
def test_more_quota_never_costs_more(seed, most, more):
    instance = draw(seed)
    assert least(quota(instance, most + more)) <= least(quota(instance, most))


@few
@given(seeds, st.floats(0.8, 1.5))
def test_a_budget_changes_nothing_unless_it_is_too_small(seed, factor):
    instance = draw(seed)
    free = least(instance)
    assume(free < float("inf"))
    capped = least(replace(instance, budget_micro_usd=int(free * factor)))
    assert capped == (free if int(free * factor) >= free else float("inf"))


@few
@given(seeds, st.integers(0, 2), st.floats(0.1, 1.0))
def test_a_lower_price_never_raises_the_cost(seed, site, factor):
    instance = draw(seed)
    options = tuple(
        replace(option, price_micro_usd=int(option.price_micro_usd * factor)) for option in instance.sites[site].options
    )
    cheaper = tuple(replace(s, options=options) if i == site else s for i, s in enumerate(instance.sites))
    assert least(replace(instance, sites=cheaper)) <= least(instance)


@few
@given(seeds, st.integers(0, 5))
def test_fewer_classes_never_cost_more(seed, gone):
    instance = draw(seed)
    fewer = tuple(tuple(0.0 if c == gone else amount for c, amount in enumerate(row)) for row in instance.demand)
    assert least(replace(instance, demand=fewer)) <= least(instance)


@few
@given(seeds)
def test_shares_of_a_class_never_cost_more_than_whole_classes(seed):
    instance = draw(seed, models=1)
    assert least(instance) <= least(replace(instance, whole_classes=True))


@few
@given(seeds)
def test_a_kind_that_is_left_out_never_makes_it_cheaper(seed):
    instance = draw(seed)
    assert least(instance) <= least(replace(instance, kinds=instance.kinds[:-1]))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(seeds)
def test_surviving_more_never_costs_less(seed):
    instance = draw_instance(seed, gpus=(4,), kinds=4, load=0.6, cap=4)
    costs = [least(replace(instance, survive=what)) for what in ("nothing", "node", "provider")]
    # A node of a provider is lost with it.
    assert costs == sorted(costs)


@pytest.mark.parametrize("fields", [{"max_kinds": 2}, {"max_kinds_per_group": 1}, {"max_spot_share": 0.2}])
def test_a_rule_never_makes_it_cheaper(fields):
    for seed in range(8):
        instance = draw(seed)
        assert least(instance) <= least(replace(instance, **fields))
