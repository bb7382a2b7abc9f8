"""Hardware of one's own as an offer: what a node costs an hour, and buy or rent in one solve."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from optimizer.errors import ScenarioError
from optimizer.owned import OwnedHardware
from optimizer.owned_offers import with_owned
from optimizer.solve import solve
from tests.optimizer.catalogs import SMALL, TODAY, catalog, offer, question

NODE: dict[str, Any] = {
    "gpu": "H100-SXM-80GB",
    "gpus_per_node": 8,
    "capital_usd_per_node": 280_000,
    "years": 4,
    "power_kw_per_node": 10,
    "usd_per_kwh": 0.1,
    "pue": 1.2,
    "network": "none",
}


def test_capital_is_written_off_over_the_hours_of_its_years_and_power_is_paid_by_the_hour() -> None:
    node = OwnedHardware(**NODE, hosting_usd_per_kw_month=73, upkeep_percent_per_year=10)
    parts = node.parts_usd_per_hour
    assert parts["capital"] == pytest.approx(280_000 / (4 * 8760))
    assert parts["power"] == pytest.approx(10 * 1.2 * 0.1)
    assert parts["hosting"] == pytest.approx(10 * 73 * 12 / 8760)  # 730 hours a month: a dollar an hour
    assert parts["upkeep"] == pytest.approx(28_000 / 8760)
    assert node.usd_per_node_hour == pytest.approx(sum(parts.values()))


def test_a_thousand_gpus_pay_15_million_for_infiniband_and_7_for_ethernet() -> None:
    for network, million in (("infiniband", 15), ("ethernet", 7)):
        node = OwnedHardware(**NODE | {"network": network})
        assert node.network_usd_per_node * 125 == pytest.approx(million * 1e6)


def test_money_that_costs_interest_makes_a_node_dearer_and_a_residual_value_cheaper() -> None:
    plain = OwnedHardware(**NODE).usd_per_node_hour
    assert OwnedHardware(**NODE, capital_rate_percent=8).usd_per_node_hour > plain
    assert OwnedHardware(**NODE, residual_share=0.2).usd_per_node_hour < plain
    # An annuity at 8% over 4 years is 0.30192 of the capital a year.
    interest = OwnedHardware(**NODE, capital_rate_percent=8).parts_usd_per_hour["capital"]
    assert interest == pytest.approx(280_000 * 0.3019208 / 8760, rel=1e-6)


def test_what_is_owned_is_an_offer_among_the_others_and_adding_it_twice_changes_nothing() -> None:
    table = catalog(offer("H100-SXM-80GB", 30.0, 8))
    once = with_owned(table, (OwnedHardware(**NODE),), TODAY)
    twice = with_owned(once, (OwnedHardware(**NODE),), TODAY)
    assert len(once.frame) == len(twice.frame) == 2
    own = once.frame[once.frame["term"] == "owned"].iloc[0]
    assert (own["provider"], own["provider_kind"], own["fabric"]) == ("own", "own", "nvswitch")
    assert with_owned(once, (), TODAY).frame["term"].tolist() == ["on-demand"]


@pytest.mark.parametrize(("price", "bought"), [(1.0, False), (20.0, True)])
def test_buy_or_rent_is_one_solve(price: float, bought: bool) -> None:
    # A node of one's own costs 280,000 / 35,040 + 1.2 = $9.19 an hour.
    scenario = question({"prices": {"owned": [NODE]}}, model=SMALL)
    plan = solve(scenario, catalog=catalog(offer("H100-SXM-80GB", price, 8)), today=TODAY)
    assert plan.layout is not None
    assert plan.cost is not None
    assert (plan.layout.term == "owned") == bought
    assert plan.cost.usd_per_hour == pytest.approx(9.190868 if bought else price, abs=1e-5)


def test_an_unknown_gpu_is_answered_with_near_matches() -> None:
    with pytest.raises(ScenarioError, match=r"prices\.owned\.0\.gpu: .*Did you mean"):
        question({"prices": {"owned": [NODE | {"gpu": "H100"}]}})


def test_hardware_is_seen_on_the_day_of_the_question() -> None:
    table = with_owned(catalog(offer("L4-24GB", 1.0)), (OwnedHardware(**NODE),), date(2026, 1, 2))
    assert table.frame.set_index("term").loc["owned", "seen_on"].date() == date(2026, 1, 2)
