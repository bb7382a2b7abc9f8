"""Where nodes can be had, and what an hour of them really costs."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.candidates import node_shapes
from optimizer.fleet.question import Fleet, build_fleet_scenario
from optimizer.fleet.sites import RentalSite, min_periods, rental_sites, spot_overhead, start_micro_usd
from optimizer.fleet.traffic import read_traffic
from tests.optimizer.catalogs import SMALL, TODAY, catalog, offer

CHAT = {"name": "chat", "input_tokens": 1000, "output_tokens": 100, "request_rate": 4}


def sites_of(*offers: dict[str, Any], **fields: Any) -> tuple[RentalSite, ...]:
    scenario = build_fleet_scenario({"model": SMALL, "classes": [CHAT]} | fields)
    traffic = read_traffic(scenario)
    model = scenario.traffic[0]
    one = scenario.class_scenario(model, traffic.demands[0].traffic, scenario.targets)
    frame = catalog(*offers).frame
    return rental_sites(scenario, one, frame, node_shapes(frame)[1], traffic.demands, TODAY)


def test_terms_of_one_machine_are_ways_to_pay_for_one_site_and_spot_nodes_are_another() -> None:
    found = sites_of(
        offer("L4-24GB", 1.0),
        offer("L4-24GB", 0.7, term="reserved-1y"),
        offer("L4-24GB", 0.4, term="spot"),
        limits={"terms": ["any"]},
    )
    assert sorted((site.spot, [one.term for one in site.payments]) for site in found) == [
        (False, ["reserved-1y", "on-demand"]),
        (True, ["spot"]),
    ]


def test_of_alike_sites_only_those_stand_that_a_cheaper_one_may_leave_short() -> None:
    # The cheapest has 2 nodes, the next is never sold out: the third is never needed.
    found = sites_of(
        offer("L4-24GB", 0.5, provider="acme", max_nodes=2.0),
        offer("L4-24GB", 0.6, provider="bolt"),
        offer("L4-24GB", 0.7, provider="core"),
    )
    assert [site.provider for site in found] == ["acme", "bolt"]


@pytest.mark.parametrize(
    "fields",
    [
        {"fleet": {"min_providers": 2}},
        {"fleet": {"survive": "provider"}},
        {"limits": {"quotas": [{"provider": "acme", "max_nodes": 1}]}},
        {"classes": [CHAT | {"regions": ["west"]}]},
    ],
)
def test_a_dearer_site_stays_where_a_rule_may_need_it(fields: dict[str, Any]) -> None:
    found = sites_of(
        offer("L4-24GB", 0.5, provider="acme"), offer("L4-24GB", 0.6, provider="bolt", region="west"), **fields
    )
    assert [site.provider for site in found] == ["acme", "bolt"]


def test_what_is_out_of_stock_is_not_offered() -> None:
    found = sites_of(offer("L4-24GB", 0.5, max_nodes=0.0), offer("T4-16GB", 0.6))
    assert [site.gpu for site in found] == ["T4-16GB"]


def test_a_contract_of_the_users_is_a_committed_way_to_pay_at_its_discount() -> None:
    contract = {"years": 1, "percent_off": 30, "upfront_share": 0.5, "provider": "acme"}
    [site] = sites_of(offer("L4-24GB", 1.0), commitments=[contract])
    committed, hourly = site.payments
    assert (committed.committed_years, committed.price_usd_per_hour, committed.upfront_share) == (1.0, 0.7, 0.5)
    assert (hourly.committed_years, hourly.price_usd_per_hour) == (0.0, 1.0)
    assert sites_of(offer("L4-24GB", 1.0), commitments=[contract | {"provider": "bolt"}])[0].payments[0].term == (
        "on-demand"
    )


def test_a_contract_that_outlasts_the_traffic_costs_its_empty_months_too() -> None:
    contract = {"years": 3, "percent_off": 50}
    [site] = sites_of(offer("L4-24GB", 1.0), commitments=[contract], fleet={"horizon_months": 18})
    # 36 months paid, 18 used: $0.50 an hour is $1.00 for each hour of use.
    assert [one.effective_usd_per_hour for one in site.payments if one.committed_years] == [1.0]


def test_money_paid_on_signing_costs_half_the_contracts_interest() -> None:
    contract = {"years": 1, "percent_off": 0, "upfront_share": 1.0}
    [site] = sites_of(offer("L4-24GB", 1.0), commitments=[contract], fleet={"capital_rate_percent": 8})
    assert max(one.effective_usd_per_hour for one in site.payments) == pytest.approx(1.04)


def test_spot_pays_for_the_start_of_each_node_that_replaces_one() -> None:
    # Two interruptions a day of 864 s each: 2% of a day is paid for nothing.
    fleet = Fleet(interruptions_per_day=2, startup_s=864)
    assert spot_overhead(fleet) == pytest.approx(0.02 / 0.98)


def test_switching_a_node_on_costs_its_start_in_whole_steps_of_billing() -> None:
    assert start_micro_usd(Fleet(startup_s=90, billing_s=60), 3_600_000, 24) == 120_000  # 120 s at 1,000 a second
    assert start_micro_usd(Fleet(startup_s=90, billing_s=3600), 3_600_000, 24) == 3_600_000
    assert start_micro_usd(Fleet(startup_s=90), 3_600_000, 1) == 0  # nothing is ever switched


def test_minimum_billing_is_in_whole_hours_of_the_cycle() -> None:
    assert min_periods(Fleet(), 24) == 1
    assert min_periods(Fleet(min_billing_s=3601), 24) == 2
    assert min_periods(Fleet(billing_s=86_400), 24) == 24
    assert min_periods(Fleet(min_billing_s=604_800), 24) == 24
