"""Leaving kinds out of large tables never changes the cost."""

from __future__ import annotations

import pytest

from optimizer.programs import fleet_reduce
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_instance import FleetInstance, Kind, NodeLimit, Option, Site
from optimizer.programs.fleet_reduce import Relaxation, left_possible, promising
from optimizer.programs.fleet_table import read_instance
from optimizer.programs.mathopt_outcome import Deadline
from tests.optimizer.programs.fleet_oracle import Oracle, broken, draw_instance


@pytest.fixture
def _reduces_everything(monkeypatch):
    monkeypatch.setattr(fleet_reduce, "MANY_KINDS", 0)
    monkeypatch.setattr(fleet_reduce, "RESTRICTED", 2)
    monkeypatch.setattr(fleet_reduce, "FIRST_BEST", 1)
    monkeypatch.setattr(fleet_reduce.promising, "__defaults__", (2,))


@pytest.mark.usefixtures("_reduces_everything")
@pytest.mark.parametrize(
    "fields",
    [
        {"sites": 3, "kinds": 6}, {"models": 2, "sites": 3, "kinds": 6}, {"cap": 1, "sites": 3},
        {"gpus": (8, 7), "sizes": (3, 2)}, {"limits": (NodeLimit("quota", {0: 8, 1: 8}, 16),)},
        {"budget_micro_usd": 20_000_000}, {"max_spot_share": 0.3}, {"max_kinds": 1}, {"max_kinds_per_group": 1},
        {"whole_classes": True, "classes": 3}, {"survive": "node", "gpus": (4,), "kinds": 3, "load": 0.5},
        {"survive": "provider", "load": 0.6},
    ],
)  # fmt: skip
def test_the_cost_is_still_the_least_that_exhaustive_search_finds(fields):
    for seed in range(8):
        instance = draw_instance(seed, **fields)
        least = Oracle(instance).cheapest()
        answer = cheapest_fleet(instance)
        if least is None:
            assert answer.status == "infeasible"
        else:
            assert (answer.status, answer.cost_micro_usd) == ("optimal", float(least))
            assert broken(instance, answer) == []


def test_the_relaxation_over_a_few_sites_is_the_relaxation_over_all():
    # Hundreds of sites at prices that grow: only the first can be in the optimum of the relaxation.
    sites = tuple(Site(8, (Option(8_000_000 + 100_000 * s, node_cap=2),)) for s in range(200))
    kinds = tuple(Kind(s, 4, (5.0,)) for s in range(200))
    instance = FleetInstance(sites, kinds, ((38.0,),))
    priced = Relaxation(read_instance(instance)).solve(Deadline(20))
    assert priced is not None
    # 3.8 nodes: two at $8.0, 1.8 at $8.1.
    assert priced.bound == pytest.approx(2 * 8_000_000 + 1.8 * 8_100_000)
    assert set(promising(priced, 2)) == {0, 1}
    # 4 nodes cost $32.2, so nodes from $9.1 on are never in a cheaper fleet.
    assert len(left_possible(priced, 32_200_000)) < 25
    assert cheapest_fleet(instance).cost_micro_usd == 32_200_000
