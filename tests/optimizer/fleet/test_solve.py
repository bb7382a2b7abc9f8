"""Fleets from question to audited answer, on catalogs small enough to work the optimum out by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.problem import pose
from optimizer.fleet.question import build_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, catalog, offer

SHORT = {"name": "short", "input_tokens": 300, "output_tokens": 100, "request_rate": 8}
LONG = {"name": "long", "input_tokens": 6000, "output_tokens": 400, "request_rate": 2}
TARGETS = {"ttft_ms": 2000, "tpot_ms": 60}
L4, H100 = offer("L4-24GB", 0.8), offer("H100-SXM-80GB", 2.5)
DAY = [0.25] * 12 + [1.0] * 12


def ask(*offers: dict[str, Any], model: str = MEDIUM, **fields: Any) -> FleetPlan:
    fields = {"model": model, "classes": [SHORT, LONG], "targets": TARGETS} | fields
    if "models" in fields:
        fields |= {"model": None, "classes": []}
    return solve_fleet(build_fleet_scenario(fields), catalog=catalog(*offers), today=TODAY)


def cost(plan: FleetPlan) -> float:
    assert plan.cost is not None
    return plan.cost.usd_per_hour


def test_mixed_hardware_is_never_dearer_than_one_kind() -> None:
    mixed = ask(L4, H100)
    assert mixed.status == "optimal"
    assert cost(mixed) <= min(cost(ask(L4)) if ask(L4).cost else 1e9, cost(ask(H100)))


@pytest.mark.parametrize("rate", [3.0, 40.0, 150.0])
def test_the_optimum_is_the_least_over_all_numbers_of_replicas(rate: float) -> None:
    """One class on two kinds: n and m replicas carry it where n r1 + m r2 is enough."""
    offers = (L4, H100)
    fields = {"model": MEDIUM, "classes": [SHORT | {"request_rate": rate}], "targets": TARGETS}
    instance = pose(build_fleet_scenario(fields), catalog=catalog(*offers), today=TODAY).instance
    kinds = [(instance.sites[kind.site].options[0].price_micro_usd / 1e6, kind.rates[0]) for kind in instance.kinds]
    most = [range(int(rate / carried) + 2) for _, carried in kinds]
    least = min(
        sum(count * price for count, (price, _) in zip(counts, kinds, strict=True))
        for counts in product(*most)
        if sum(count * carried for count, (_, carried) in zip(counts, kinds, strict=True)) >= rate
    )
    assert cost(ask(*offers, classes=[SHORT | {"request_rate": rate}])) == pytest.approx(least)


def test_two_models_share_a_node_that_neither_fills() -> None:
    node = offer("H100-SXM-80GB", 16.0, 8)
    models = [{"name": name, "model": MEDIUM, "classes": [SHORT]} for name in ("one", "two")]
    plan = ask(node, models=models)
    assert cost(plan) == 16.0
    [held] = plan.nodes
    assert len(held.replicas) == 2
    apart = next(one for one in plan.compared if one.rule == "no node shared between models")
    assert apart.usd_per_hour == 32.0


def test_a_class_is_served_only_where_its_regions_allow() -> None:
    east, west = offer("H100-SXM-80GB", 2.0), offer("H100-SXM-80GB", 5.0, region="west")
    plan = ask(east, west, classes=[SHORT, LONG | {"regions": ["west"]}])
    where = {site.id: site.region for site in plan.sites}
    of_long = {where[pool.site] for pool in plan.pools for one in pool.serves if one.class_name == "long"}
    assert of_long == {"west"}


def test_day_and_night_rent_by_the_hour_what_a_contract_would_pay_for_idly() -> None:
    # The peak takes more replicas than the night, at any price: the rest is rented for twelve hours.
    busy = [SHORT | {"request_rate": 400}]
    contract = {"years": 1, "percent_off": 30}
    plan = ask(H100, classes=busy, profile=DAY, commitments=[contract], fleet={"startup_s": 0, "billing_s": 1})
    assert plan.status == "optimal"
    assert plan.cost is not None
    [site] = plan.sites
    by_term = {one.term: one.nodes_by_period for one in site.purchases}
    committed, hourly = by_term["reserved-1y"], by_term["on-demand"]
    assert len(set(committed)) == 1
    assert set(hourly[:12]) == {0}
    assert min(hourly[12:]) > 0
    # A node of twelve hours costs 1.25 on average by the hour and 1.75 under contract.
    assert plan.cost.usd_per_hour == pytest.approx(committed[0] * 1.75 + hourly[12] * 2.5 / 2)
    dearer = {one.rule: one.extra_usd_per_hour for one in plan.compared}
    assert all(extra is not None and extra > 0 for extra in dearer.values())
    assert set(dearer) == {"nothing committed", "the peak's nodes in every hour"}


def test_what_switching_costs_is_paid_for_each_start() -> None:
    busy = [SHORT | {"request_rate": 400}]
    free = ask(H100, classes=busy, profile=DAY, fleet={"startup_s": 0, "billing_s": 1})
    paid = ask(H100, classes=busy, profile=DAY, fleet={"startup_s": 1800, "billing_s": 60})
    [site] = paid.sites
    [bought] = site.purchases
    assert bought.starts > 0
    assert bought.start_usd == pytest.approx(1.25)  # half an hour of 2.50
    assert cost(paid) == pytest.approx(cost(free) + bought.starts * 1.25 / 24)


def test_a_fleet_survives_the_loss_of_a_node_and_says_how() -> None:
    plan = ask(H100, classes=[SHORT], fleet={"survive": "node"})
    assert sum(sum(one.nodes_by_period) for site in plan.sites for one in site.purchases) == 2
    assert [(one.what, sum(one.lost.values())) for one in plan.survived] == [("node", 1)]
    assert cost(plan) == 2 * cost(ask(H100, classes=[SHORT]))


def test_a_fleet_survives_the_loss_of_a_provider() -> None:
    plan = ask(H100, offer("H100-SXM-80GB", 3.0, provider="bolt"), classes=[SHORT], fleet={"survive": "provider"})
    assert {site.provider for site in plan.sites} == {"acme", "bolt"}
    assert cost(plan) == 5.5


def test_spot_serves_no_more_than_its_share() -> None:
    spot = offer("H100-SXM-80GB", 0.5, term="spot")
    plan = ask(H100, spot, classes=[SHORT], limits={"terms": ["on-demand", "spot"]}, fleet={"max_spot_share": 0.4})
    cheap = {site.id for site in plan.sites if site.spot}
    on_spot = sum(one.share for pool in plan.pools if pool.site in cheap for one in pool.serves)
    assert on_spot <= 0.4 + 1e-9


def test_nothing_feasible_names_the_rules_that_conflict() -> None:
    plan = ask(H100, limits={"budget_usd_per_hour": 1})
    assert plan.status == "infeasible"
    assert "budget" in {one.rule for one in plan.conflict}
    assert not plan.pools


def test_a_class_that_nothing_carries_is_named() -> None:
    plan = ask(H100, classes=[SHORT, LONG | {"name": "hasty", "targets": {"ttft_ms": 1}}])
    assert plan.status == "infeasible"
    [conflict] = plan.conflict
    assert "carries 'hasty' (ttft: at most 1 ms is asked" in conflict.needs


def test_a_quota_holds_for_all_models_together() -> None:
    models = [{"name": name, "model": SMALL, "classes": [SHORT]} for name in ("one", "two")]
    offers = (offer("L4-24GB", 0.5), offer("A10G-24GB", 1.0))
    free = ask(*offers, models=models)
    assert {site.gpu for site in free.sites} == {"L4-24GB"}
    held = ask(*offers, models=models, limits={"quotas": [{"gpu": "L4-24GB", "max_nodes": 1}]})
    rented = {site.gpu: sum(one.nodes_by_period[0] for one in site.purchases) for site in held.sites}
    assert rented["L4-24GB"] <= 1
    assert cost(held) >= cost(free)


@settings(max_examples=12, deadline=None)
@given(
    rates=st.tuples(st.floats(1, 60), st.floats(0.2, 8)),
    prices=st.tuples(st.floats(0.3, 3), st.floats(1, 6)),
    cheaper=st.floats(0.4, 1),
)
def test_a_lower_price_or_less_traffic_never_costs_more(
    rates: tuple[float, float], prices: tuple[float, float], cheaper: float
) -> None:
    offers = [offer("L4-24GB", round(prices[0], 4)), offer("H100-SXM-80GB", round(prices[1], 4))]
    classes = [SHORT | {"request_rate": rates[0]}, LONG | {"request_rate": rates[1]}]
    scenario = build_fleet_scenario({"model": MEDIUM, "classes": classes, "targets": TARGETS})
    plan = solve_fleet(scenario, catalog=catalog(*offers), today=TODAY, compare=False)
    lower = [offers[0] | {"price_usd_per_node_hour": round(prices[0] * cheaper, 4)}, offers[1]]
    fewer = scenario.model_copy(update={"classes": scenario.classes[:1]})
    assert cost(solve_fleet(scenario, catalog=catalog(*lower), today=TODAY, compare=False)) <= cost(plan) + 1e-9
    assert cost(solve_fleet(fewer, catalog=catalog(*offers), today=TODAY, compare=False)) <= cost(plan) + 1e-9


def test_the_answer_does_not_depend_on_sites_that_are_never_the_cheapest() -> None:
    offers = [H100, offer("H100-SXM-80GB", 2.6, provider="bolt"), offer("H100-SXM-80GB", 2.7, provider="core")]
    problem = pose(
        build_fleet_scenario({"model": MEDIUM, "classes": [SHORT], "targets": TARGETS}),
        catalog=catalog(*offers),
        today=TODAY,
    )
    assert [site.provider for site in problem.posed.sites] == ["acme"]
