"""Price shocks of fleets: keep or move with the dollars, each part alone, what changes, and what is not proved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import build_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from optimizer.report.fleet_shock import print_fleet_shock
from optimizer.whatif import fleet_shock
from optimizer.whatif.fleet_shock import find_fleet_shock
from optimizer.whatif.fleet_shock_answer import FleetShock
from optimizer.whatif.shock import Change, price_change, removal
from tests.optimizer.catalogs import MEDIUM, TODAY, catalog, offer
from tests.optimizer.command import run

H100, L4 = "H100-SXM-80GB", "L4-24GB"
SHORT = {"name": "short", "input_tokens": 300, "output_tokens": 100, "request_rate": 8}
TARGETS = {"ttft_ms": 2000, "tpot_ms": 60}
DAY = [0.25] * 12 + [1.0] * 12
# The answer is one H100 at $2; an H100 of bolt's at $3 would do as well, on fewer names.
TWO = (offer(H100, 2.0), offer(H100, 3.0, provider="bolt"))


def shock(*changes: Change, offers: tuple[dict[str, Any], ...] = TWO, **fields: Any) -> FleetShock:
    fields = {"model": MEDIUM, "classes": [SHORT], "targets": TARGETS} | fields
    return find_fleet_shock(build_fleet_scenario(fields), changes, catalog=catalog(*offers), today=TODAY)


def removed(pattern: str) -> Change:
    return removal("--remove-provider", "provider", pattern)


def after_usd(found: FleetShock) -> float:
    assert found.after.cost is not None
    return found.after.cost.usd_per_hour


def test_a_rise_that_does_not_reach_the_next_fleet_is_kept_at_its_new_cost() -> None:
    found = shock(price_change("acme=+40%"))

    assert (found.verdict, found.proved, found.open_usd_per_hour) == ("keep", True, 0.0)
    assert found.before is not None
    assert found.staying is not None
    assert found.before.usd_per_hour == 2.0
    assert (found.staying.usd_per_hour, found.staying.extra_usd_per_hour) == (pytest.approx(2.8), 0.0)
    assert (found.nodes, found.pools) == ((), ())


def test_a_rise_beyond_it_moves_and_names_the_nodes_and_pools_that_change() -> None:
    found = shock(price_change("acme=x2"))

    assert found.verdict == "move"
    assert found.staying is not None
    # $4 against $3, for 730 hours a month.
    assert found.staying.extra_usd_per_hour == pytest.approx(1.0)
    assert found.staying.extra_usd_per_month == pytest.approx(730.0)
    assert found.staying.most_usd_per_hour == pytest.approx(1.0)
    assert [(one.provider, one.before_by_period, one.after_by_period) for one in found.nodes] == [
        ("acme", (1,), (0,)),
        ("bolt", (0,), (1,)),
    ]
    assert [(one.before_usd_per_hour, one.after_usd_per_hour) for one in found.nodes] == [(2.0, 0.0), (0.0, 3.0)]
    assert [(one.provider, one.before_by_period, one.after_by_period) for one in found.pools] == [
        ("acme", (1,), (0,)),
        ("bolt", (0,), (1,)),
    ]


def test_of_several_parts_each_is_shown_alone_and_only_together_they_move() -> None:
    found = shock(price_change("acme=+30%"), price_change("bolt=-20%"))

    assert [(one.change, one.verdict, one.offers) for one in found.effects] == [
        ("--price acme=+30%", "keep", 1),
        ("--price bolt=-20%", "keep", 1),
        ("all together", "move", 2),
    ]
    assert [one.staying_usd_per_hour for one in found.effects] == pytest.approx([2.6, 2.0, 2.6])
    assert found.verdict == "move"
    assert after_usd(found) == pytest.approx(2.4)


def test_without_its_provider_the_fleet_cannot_stay_and_says_which_nodes_are_gone() -> None:
    found = shock(removed("acme"))

    assert found.verdict == "move"
    assert found.staying is not None
    assert (found.staying.available, found.staying.usd_per_hour) == (False, None)
    assert found.staying.gone == (f"1x {H100} (acme east, on-demand)",)
    assert after_usd(found) == 3.0


def test_nothing_left_is_infeasible_and_a_fall_into_the_budget_starts() -> None:
    assert shock(removed("*")).verdict == "infeasible"
    found = shock(price_change("*=-50%"), limits={"budget_usd_per_hour": 1.5})
    assert (found.verdict, found.before, found.staying) == ("start", None, None)
    assert after_usd(found) == 1.0


def test_a_rise_over_the_budget_breaks_it_for_the_fleet_that_would_stay() -> None:
    found = shock(price_change("acme=x2"), limits={"budget_usd_per_hour": 3.5})

    assert found.verdict == "move"
    assert found.staying is not None
    assert "budget" in found.staying.breaks
    assert found.staying.extra_usd_per_hour is None


def test_discounts_and_contracts_come_off_the_shocked_prices() -> None:
    contract = {"years": 1, "percent_off": 50, "upfront_share": 0.5}
    found = shock(
        price_change("acme=x1.2"),
        commitments=[contract],
        prices={"discounts": [{"provider": "acme", "percent": 25}]},
        fleet={"capital_rate_percent": 10},
    )

    assert found.verdict == "keep"
    assert found.before is not None
    assert found.staying is not None
    # $2 less a quarter less a half; half of it is paid half a year early, at 10% a year.
    assert found.before.usd_per_hour == pytest.approx(0.75 * 1.025)
    assert found.staying.usd_per_hour == pytest.approx(0.9 * 1.025)
    assert found.staying.extra_usd_per_hour == 0.0
    assert found.staying.upfront_usd == pytest.approx(0.9 * 8760 / 2)


def test_spot_nodes_and_starts_cost_in_proportion_to_the_shocked_price() -> None:
    spot = offer(H100, 0.5, term="spot")
    found = shock(
        price_change("spot=+20%"),
        offers=(spot, offer(H100, 9.0)),
        classes=[SHORT | {"request_rate": 400}],
        limits={"terms": ["on-demand", "spot"]},
        profile=DAY,
        fleet={"startup_s": 1800, "interruptions_per_day": 4},
    )

    assert found.verdict == "keep"
    assert found.before is not None
    assert found.staying is not None
    assert found.staying.usd_per_hour == pytest.approx(found.before.usd_per_hour * 1.2, abs=1e-4)
    assert found.staying.extra_usd_per_hour == 0.0
    assert not found.staying.breaks


OWN = {
    "name": "mine",
    "gpu": H100,
    "gpus_per_node": 1,
    "capital_usd_per_node": 40_000,
    "power_kw_per_node": 1,
    "usd_per_kwh": 0.1,
    "hosting_usd_per_kw_month": 100,
}


def test_hardware_of_ones_own_costs_more_in_every_part_and_can_go() -> None:
    fields = {"prices": {"owned": [OWN]}}
    found = shock(price_change("own=+10%"), **fields)
    assert found.verdict == "keep"
    assert found.before is not None
    assert found.staying is not None
    assert found.before.committed_usd_per_hour == found.before.usd_per_hour
    assert found.staying.usd_per_hour == pytest.approx(found.before.usd_per_hour * 1.1, abs=2e-6)
    assert found.staying.upfront_usd == pytest.approx(found.before.upfront_usd * 1.1)
    assert not found.staying.breaks

    dearer = shock(price_change("own=x3"), price_change("acme=-10%"), **fields)
    assert dearer.verdict == "move"
    assert [one.term for one in dearer.nodes] == ["owned", "on-demand"]
    assert shock(removed("own"), **fields).verdict == "move"


def test_a_part_that_touches_no_offer_is_named_and_nothing_is_no_shock() -> None:
    with pytest.raises(QuestionError, match=r"--remove-gpu H100: .*did you mean H100-SXM-80GB"):
        shock(removal("--remove-gpu", "gpu", "H100"))
    with pytest.raises(QuestionError, match="nothing changes"):
        shock()


def _left_open(plan: FleetPlan, below: float) -> FleetPlan:
    """A plan as it is where the solver stops at its time limit, so far above what it proved."""
    cost = plan.cost
    assert cost is not None
    bound = cost.usd_per_hour - below
    changed = cost.model_copy(update={"bound_usd_per_hour": bound, "gap": below / cost.usd_per_hour})
    return plan.model_copy(update={"status": "feasible", "cost": changed})


@pytest.mark.parametrize(("left_open", "verdict"), [(0.5, "keep"), (0.2, "move")])
def test_a_difference_within_what_the_solver_left_open_is_no_saving(
    left_open: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops_early(*arguments: Any, **named: Any) -> FleetPlan:
        return _left_open(solve_fleet(*arguments, **named), left_open)

    monkeypatch.setattr(fleet_shock, "solve_fleet", stops_early)
    found = shock(price_change("acme=+65%"))

    # Staying is $3.30 and bolt $3.
    assert (found.verdict, found.proved) == (verdict, False)
    assert found.open_usd_per_hour == pytest.approx(left_open)
    assert found.staying is not None
    assert found.staying.extra_usd_per_hour == pytest.approx(0.3)
    assert found.staying.within_open == (verdict == "keep")
    assert found.staying.most_usd_per_hour == pytest.approx(0.3 + left_open)


def test_a_saving_on_a_proved_fleet_counts_though_the_one_before_was_not_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans: list[FleetPlan] = []

    def first_stops_early(*arguments: Any, **named: Any) -> FleetPlan:
        plans.append(solve_fleet(*arguments, **named))
        return _left_open(plans[0], 0.5) if len(plans) == 1 else plans[-1]

    monkeypatch.setattr(fleet_shock, "solve_fleet", first_stops_early)
    found = shock(price_change("acme=+65%"))
    assert (found.verdict, found.proved, found.open_usd_per_hour) == ("move", False, 0.0)
    print_fleet_shock(found)
    assert "up to $0.50/hour may have been to save before the shock" in " ".join(capsys.readouterr().out.split())


def test_a_search_that_ends_above_staying_or_finds_nothing_keeps_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[FleetPlan] = []

    def dearer(*arguments: Any, **named: Any) -> FleetPlan:
        plan = solve_fleet(*arguments, **named)
        plans.append(plan)
        if len(plans) % 2:
            return plan
        none = {"sites": (), "pools": (), "nodes": (), "cost": None}
        return plan.model_copy(update={"status": "unknown", "summary": "none in time"} | none)

    monkeypatch.setattr(fleet_shock, "solve_fleet", dearer)
    found = shock(price_change("acme=x2"))
    assert (found.verdict, found.proved) == ("keep", False)
    assert shock(removed("acme")).verdict == "unknown"


offers_drawn = st.tuples(st.integers(50, 300), st.integers(100, 600), st.integers(100, 600))


@settings(max_examples=10, deadline=None)
@given(cents=offers_drawn, factor=st.floats(1.0, 3.0), which=st.sampled_from(["*", "H100*", "bolt", "L4*"]))
def test_rising_prices_never_lower_the_cost_and_staying_is_never_less_than_the_best(
    cents: tuple[int, int, int], factor: float, which: str
) -> None:
    small, large, other = cents
    offers = (
        offer(L4, small / 100),
        offer(H100, large / 100, max_nodes=1.0),
        offer(H100, other / 100, provider="bolt"),
    )
    found = shock(price_change(f"{which}=x{factor:.6f}"), offers=offers, classes=[SHORT | {"request_rate": 30}])

    assert found.proved
    assert found.before is not None
    assert found.staying is not None
    assert found.staying.usd_per_hour is not None
    assert after_usd(found) >= found.before.usd_per_hour - 1e-9
    assert found.staying.usd_per_hour >= after_usd(found) - 1e-9
    assert (found.verdict == "keep") == (found.staying.usd_per_hour - after_usd(found) < 5e-7)


@settings(max_examples=8, deadline=None)
@given(cents=offers_drawn)
def test_removing_what_is_not_used_never_changes_the_cost(cents: tuple[int, int, int]) -> None:
    small, large, other = cents
    offers = (offer(L4, small / 100), offer(H100, large / 100), offer(H100, other / 100, provider="bolt"))
    scenario = build_fleet_scenario({"model": MEDIUM, "classes": [SHORT], "targets": TARGETS})
    plan = solve_fleet(scenario, catalog=catalog(*offers), today=TODAY, compare=False)
    used = {(site.provider, site.gpu) for site in plan.sites}
    unused = [one for one in offers if (one["provider"], one["gpu"]) not in used]
    parts = [removal("--remove-offer", None, f"{one['provider']}/{one['instance_type']}") for one in unused]
    found = find_fleet_shock(scenario, parts, catalog=catalog(*offers), today=TODAY)

    assert found.verdict == "keep"
    assert plan.cost is not None
    assert after_usd(found) == plan.cost.usd_per_hour
    assert all(one.verdict == "keep" for one in found.effects)


@pytest.fixture(scope="module")
def fleet_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    file.write_text(
        f"model: {MEDIUM}\nclasses: [{{name: chat, input_tokens: 300, output_tokens: 100, request_rate: 20}}]\n"
        "limits: {providers: [spheron, gmicloud], gpus: [H200-SXM-141GB, H100-SXM-80GB], pp: [1]}\n"
        "prices: {as_of: 2026-08-14}\n"
    )
    return file


@pytest.mark.parametrize("columns", [80, 120])
def test_the_command_answers_for_a_fleet_within_the_width(fleet_file: Path, columns: int) -> None:
    ran = run("whatif", "shock", str(fleet_file), "--price", "*=+40%", "--remove-provider", "gmicloud", columns=columns)

    assert ran.code == 0, ran.err
    assert ran.out.split()[0] in ("KEEP", "MOVE")
    assert "What each part does" in ran.out
    assert "every answer proved and audited" in " ".join(ran.out.split())
    assert max(map(len, ran.out.splitlines())) <= columns


def test_the_command_leaves_with_3_where_no_fleet_is_left_and_prints_json(fleet_file: Path) -> None:
    removal_of_both = ("--remove-provider", "spheron", "--remove-provider", "gmicloud")
    ran = run("whatif", "shock", str(fleet_file), *removal_of_both, "--json")

    assert ran.code == 3
    assert (ran.json["kind"], ran.json["verdict"]) == ("fleet", "infeasible")
    assert run("whatif", "shock", str(fleet_file), *removal_of_both).code == 3


def test_a_time_limit_is_for_fleets_only(tmp_path: Path) -> None:
    layout = tmp_path / "layout.yaml"
    layout.write_text(f"model: {MEDIUM}\nworkload: {{input_tokens: 300, output_tokens: 100, request_rate: 2}}\n")
    ran = run("whatif", "shock", str(layout), "--price", "spot=+40%", "--time-limit", "5")
    assert ran.code == 2
    assert "--time-limit: is for fleets" in ran.err
