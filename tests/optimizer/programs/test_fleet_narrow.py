"""Large tables narrowed by reduced costs: the answer is the one of all kinds, as exhaustive search has it."""

from __future__ import annotations

import pytest

from optimizer.programs import fleet
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_instance import FleetInstance, Kind, Option, Site
from optimizer.programs.fleet_narrow import cheapest_alone, is_large
from optimizer.programs.fleet_table import read_instance
from tests.optimizer.programs.fleet_oracle import Oracle, broken, draw_instance
from tests.optimizer.programs.test_fleet import FAMILIES


@pytest.fixture(autouse=True)
def _every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "is_large", lambda table: True)
    monkeypatch.setattr(fleet, "worth_separating", lambda table: False)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_cost_is_the_least_that_exhaustive_search_finds(family: str) -> None:
    feasible = 0
    for seed in range(200, 212):
        instance = draw_instance(seed, **FAMILIES[family])
        if instance.whole_classes:
            continue
        least, answer = Oracle(instance).cheapest(), cheapest_fleet(instance)
        assert (answer.status == "infeasible") == (least is None), (family, seed)
        if least is not None:
            feasible += 1
            assert answer.status == "optimal", (family, seed)
            assert answer.cost_micro_usd == pytest.approx(float(least), rel=1e-9), (family, seed)
            assert broken(instance, answer) == [], (family, seed)
    assert feasible or "whole" in family


def test_kinds_come_by_what_whole_nodes_of_them_alone_would_cost() -> None:
    # 10 requests/s: 2 nodes at 2.00 of the first kind, 1 at 3.00 of the second, 4 at 1.50 of the third.
    sites = tuple(Site(1, (Option(price),)) for price in (2_000_000, 3_000_000, 1_500_000))
    kinds = tuple(Kind(site, 1, (rate,)) for site, rate in enumerate((5.0, 10.0, 2.5)))
    table = read_instance(FleetInstance(sites, kinds, ((10.0,),)))
    assert cheapest_alone(table, 0) == [1, 0, 2]


def test_a_contract_counts_for_the_hours_it_is_needed() -> None:
    # Busy 18 of 24 hours: 24 x 0.70 under contract is less than 18 x 1.00; of a kind without one, 18 x 0.95 is more.
    both = Site(1, (Option(1_000_000), Option(700_000, committed=True)))
    sites, kinds = (both, Site(1, (Option(950_000),))), (Kind(0, 1, (5.0,)), Kind(1, 1, (5.0,)))
    table = read_instance(FleetInstance(sites, kinds, ((5.0,), (0.0,)), hours=(18.0, 6.0)))
    assert cheapest_alone(table, 0) == [0, 1]


def test_few_kinds_are_not_worth_a_linear_program() -> None:
    assert not is_large(read_instance(draw_instance(1)))
