"""Saved plans at other prices: which verdict, which money, and when nothing has to be solved again."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs.offers import load_offers
from optimizer.errors import QuestionError
from optimizer.plan import Plan
from optimizer.reoptimize import look as looking
from optimizer.reoptimize.answer import Figures, Rules
from optimizer.reoptimize.decide import decide, exit_code
from optimizer.reoptimize.plans import find_plans
from optimizer.reoptimize.run import reoptimize
from optimizer.reoptimize.state import FILE_NAME, Kept
from optimizer.solve import solve
from tests.optimizer.catalogs import catalog, offer, question
from tests.optimizer.reoptimize.saved import NOON, RULES, at, look, save, save_fleet, verdict


class TestVerdicts:
    def test_a_plan_at_the_same_prices_is_kept(self, tmp_path: Path) -> None:
        found = verdict(save(tmp_path, at()), at())

        assert (found.verdict, found.why, found.saving_usd_per_hour) == ("keep", "nothing is cheaper", 0.0)
        assert found.figures is not None
        assert found.figures.replacement is None

    def test_a_saving_of_twice_the_margin_is_a_switch_at_the_first_look(self, tmp_path: Path) -> None:
        found = verdict(save(tmp_path, at()), at(l4=2.0))

        assert found.verdict == "switch"
        assert found.saving_usd_per_hour == pytest.approx(0.6)
        assert found.saving_usd_per_month == pytest.approx(0.6 * 730)
        assert found.payback_hours == pytest.approx(20 / 0.6)
        assert found.figures is not None
        assert found.figures.usd_per_hour_then == 1.0
        assert found.figures.usd_per_hour_now == 2.0
        assert isinstance(found.figures.replacement, Plan)
        assert found.figures.replacement.layout is not None
        assert found.figures.replacement.layout.gpu == "L40S-48GB"

    def test_a_saving_below_the_margin_is_none(self, tmp_path: Path) -> None:
        found = verdict(save(tmp_path, at()), at(l4=1.45))

        assert (found.verdict, found.waiting) == ("keep", False)
        assert "less than 5%" in found.why

    def test_a_saving_that_pays_back_too_late_is_none(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at())

        assert verdict(plan, at(l4=2.0), rules=Rules(switch_cost_usd=0.6 * 720)).verdict == "switch"
        late = verdict(plan, at(l4=2.0), rules=Rules(switch_cost_usd=0.6 * 720 + 0.01), keep_state=False)
        assert late.verdict == "keep"
        assert "not in 30 days" in late.why

    def test_a_plan_whose_offer_is_gone_is_no_longer_valid(self, tmp_path: Path) -> None:
        found = verdict(save(tmp_path, at()), at(l4=None))

        assert found.verdict == "invalid"
        assert found.figures is not None
        assert found.figures.usd_per_hour_now is None
        assert "1x L4-24GB (acme east, on-demand) is no longer listed" in found.why
        assert "1x L40S-48GB" in found.why

    def test_a_plan_whose_offer_is_sold_out_is_no_longer_valid(self, tmp_path: Path) -> None:
        found = verdict(save(tmp_path, at()), at(max_nodes=0.0))

        assert found.verdict == "invalid"
        assert "0 are in stock" in found.why

    def test_a_price_that_breaks_the_budget_makes_a_plan_invalid_and_one_within_it_does_not(
        self, tmp_path: Path
    ) -> None:
        plan = save(tmp_path, at(), {"limits": {"budget_usd_per_hour": 1.5}})

        assert verdict(plan, at(l4=1.5), rules=Rules(min_saving=0.5), keep_state=False).verdict == "keep"
        over = verdict(plan, at(l4=1.51))
        assert over.verdict == "invalid"
        assert over.figures is not None
        assert list(over.figures.breaks) == ["budget"]

    def test_where_nothing_is_left_the_verdict_is_infeasible_with_the_rules(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at(), {"limits": {"budget_usd_per_hour": 1.2}})

        found = verdict(plan, at(l4=5.0, l40s=5.0))
        assert found.verdict == "infeasible"
        assert found.figures is not None
        assert found.figures.conflict

    def test_a_provider_that_lists_nothing_any_more_leaves_the_question_infeasible_not_broken(
        self, tmp_path: Path
    ) -> None:
        plan = save(tmp_path, at(), {"limits": {"providers": ["acme"]}})

        found = verdict(plan, at(l4=None))
        assert found.verdict == "infeasible"
        assert "no offer of provider acme is listed" in found.why

    def test_of_several_providers_one_may_go(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at(), {"limits": {"providers": ["acme", "bolt"]}})

        found = verdict(plan, at(l4=None))
        assert found.verdict == "invalid"
        assert found.figures is not None
        assert found.figures.notes == ("no offer of provider acme is listed any more",)

    def test_a_question_without_an_answer_may_get_one(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at(), {"limits": {"budget_usd_per_hour": 0.5}})

        assert verdict(plan, at()).verdict == "infeasible"
        assert verdict(plan, at(l4=0.4)).verdict == "switch"

    def test_discounts_of_the_users_own_are_taken_off_todays_prices(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at(), {"prices": {"discounts": [{"provider": "acme", "percent": 50}]}})

        found = verdict(plan, at(l4=2.0))
        assert found.figures is not None
        assert found.figures.usd_per_hour_now == pytest.approx(1.0)
        assert found.verdict == "keep"

    def test_prices_that_are_too_old_make_a_plan_invalid(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at())

        assert verdict(plan, at(), max_age_days=6).verdict == "keep"
        old = verdict(plan, at(), max_age_days=5)
        assert old.verdict == "infeasible"
        assert old.figures is not None
        assert "price_age" in old.figures.breaks

    def test_the_day_that_a_scenario_asked_for_is_dropped(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at(), {"prices": {"as_of": date(2026, 8, 14)}})

        assert verdict(plan, at(l4=2.0)).verdict == "switch"

    def test_the_age_of_the_prices_is_told_also_where_nothing_else_changed(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at())

        first = verdict(plan, at())
        assert first.figures is not None
        assert (first.figures.seen_on, first.figures.stale) == (date(2026, 8, 14), False)
        later = verdict(plan, at(), hours=96)
        assert later.figures is not None
        assert (later.resolved, later.figures.stale) == (False, True)
        again = verdict(plan, at(seen_on=date(2026, 8, 23)), hours=97)
        assert again.figures is not None
        assert (again.resolved, again.figures.stale, again.figures.seen_on) == (False, False, date(2026, 8, 23))


class TestFleets:
    def test_a_fleet_at_the_same_prices_is_kept_and_costs_what_it_did(self, tmp_path: Path) -> None:
        found = verdict(save_fleet(tmp_path, at()), at())

        assert found.verdict == "keep"
        assert found.figures is not None
        assert found.figures.usd_per_hour_now == found.figures.usd_per_hour_then == 1.0

    def test_a_fleet_at_other_prices_keeps_its_rules_and_costs_more(self, tmp_path: Path) -> None:
        found = verdict(save_fleet(tmp_path, at()), at(l4=2.0))

        assert found.verdict == "switch"
        assert found.saving_usd_per_hour == pytest.approx(0.6)

    def test_a_fleet_by_the_hour_pays_todays_prices_for_nodes_and_starts(self, tmp_path: Path) -> None:
        day = [0.1] * 12 + [1.0] * 12
        many = {"classes": [{"input_tokens": 1000, "output_tokens": 100, "request_rate": 30}], "profile": day}
        plan = save_fleet(tmp_path, at(l40s=None), fleet={"startup_s": 600}, **many)

        found = verdict(plan, at(l4=1.5, l40s=None))
        assert found.verdict == "keep"
        assert found.figures is not None
        assert found.figures.breaks == {}
        assert found.figures.usd_per_hour_now == pytest.approx(1.5 * (found.figures.usd_per_hour_then or 0), rel=1e-5)

    def test_a_fleet_under_contract_is_on_todays_list_price_and_says_what_is_committed(self, tmp_path: Path) -> None:
        contract = [{"percent_off": 40, "years": 1, "upfront_share": 0.5}]
        plan = save_fleet(tmp_path, at(l40s=None), commitments=contract)

        found = verdict(plan, at(l4=2.0, l40s=None))
        assert found.figures is not None
        assert found.figures.breaks == {}
        assert found.figures.usd_per_hour_now == pytest.approx(2 * (found.figures.usd_per_hour_then or 0), rel=1e-5)
        assert found.figures.committed_usd_per_hour == pytest.approx(found.figures.usd_per_hour_now)
        assert "committed" in found.figures.notes[0]

    def test_a_switch_away_from_what_is_signed_has_to_save_that_too(self, tmp_path: Path) -> None:
        plan = save_fleet(tmp_path, at(l40s=None), commitments=[{"percent_off": 10, "years": 1}])
        dearer = at(l4=3.0)

        assert verdict(plan, dearer, keep_state=False).verdict == "switch"
        signed = verdict(plan, dearer, rules=Rules(switch_cost_usd=20, signed=True), keep_state=False)
        assert (signed.verdict, signed.saving_usd_per_hour) == ("keep", 0.0)

    def test_a_fleet_whose_nodes_are_gone_or_over_budget_is_no_longer_valid(self, tmp_path: Path) -> None:
        plan = save_fleet(tmp_path, at(), limits={"budget_usd_per_hour": 1.5})

        assert verdict(plan, at(l4=None, l40s=1.1)).verdict == "invalid"
        over = verdict(plan, at(l4=1.6))
        assert over.verdict == "invalid"
        assert over.figures is not None
        assert list(over.figures.breaks) == ["budget"]


class TestHysteresis:
    def test_a_saving_within_twice_the_margin_needs_a_second_look_an_hour_later(self, tmp_path: Path) -> None:
        plan, dearer = save(tmp_path, at()), at(l4=1.5)

        assert (verdict(plan, dearer).verdict, verdict(plan, dearer).waiting) == ("keep", True)
        assert verdict(plan, dearer, hours=0.5).verdict == "keep"
        assert verdict(plan, dearer, hours=1).verdict == "switch"

    def test_a_saving_that_went_away_in_between_begins_anew(self, tmp_path: Path) -> None:
        plan, dearer = save(tmp_path, at()), at(l4=1.5)

        looks = [verdict(plan, table, hours) for hours, table in enumerate((dearer, at(), dearer, dearer))]
        assert [one.verdict for one in looks] == ["keep", "keep", "keep", "switch"]

    def test_with_at_once_one_look_is_enough_and_the_margin_still_holds(self, tmp_path: Path) -> None:
        plan, rules = save(tmp_path, at()), Rules(switch_cost_usd=20, at_once=True)

        assert verdict(plan, at(l4=1.5), rules=rules).verdict == "switch"
        assert verdict(plan, at(l4=1.45), rules=rules).verdict == "keep"

    def test_a_look_back_in_time_is_no_second_look(self, tmp_path: Path) -> None:
        plan, dearer = save(tmp_path, at()), at(l4=1.5)

        assert verdict(plan, dearer, hours=5).verdict == "keep"
        assert verdict(plan, dearer, hours=0).verdict == "keep"

    @given(prices=st.lists(st.sampled_from((0.9, 1.4, 1.45, 1.5, 1.52, 1.6, 3.0)), min_size=2, max_size=8))
    def test_a_switch_is_twice_the_margin_or_was_worth_it_at_the_look_before(self, prices: list[float]) -> None:
        shares = [max(0.0, (price - 1.4) / price) for price in prices]
        worth = [share >= 0.05 and 720 * share * price >= 20 for share, price in zip(shares, prices, strict=True)]
        before, found = None, []
        for hours, price in enumerate(prices):
            figures = Figures(
                question="q", summary="plan", usd_per_hour_then=1.0, usd_per_hour_now=price, best_summary="best",
                best_usd_per_hour=min(price, 1.4), proved=True,
            )  # fmt: skip
            moment = NOON + timedelta(hours=hours)
            one, since = decide("plan.json", figures, RULES, moment, before, resolved=True)
            before = Kept(mark="m", moment=moment, figures=figures, verdict=one.verdict, worth_since=since)
            found.append(one.verdict == "switch")

        expected = [
            worth[look] and (shares[look] >= 0.1 or (look > 0 and worth[look - 1])) for look in range(len(prices))
        ]
        assert found == expected


class TestWhatIsSolvedAgain:
    def test_the_same_prices_are_answered_from_the_state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plan = save(tmp_path, at())
        first = verdict(plan, at())
        monkeypatch.setattr(looking, "solve", None)

        again = verdict(plan, at())
        assert (first.resolved, again.resolved) == (True, False)
        assert again.figures == first.figures

    def test_a_price_that_the_limits_rule_out_changes_nothing(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at(), {"limits": {"gpus": ["L4-24GB", "L40S-48GB"]}})
        verdict(plan, at())

        marketplace = offer("L4-24GB", 0.1, provider="cheap", provider_kind="marketplace")
        other_gpu = offer("T4-16GB", 0.01)
        spot = offer("L4-24GB", 0.2, term="spot")
        more = catalog(offer("L4-24GB", 1.0), offer("L40S-48GB", 1.4, provider="bolt"), marketplace, other_gpu, spot)
        assert not verdict(plan, more).resolved

    @pytest.mark.parametrize(
        "table", [at(l4=1.001), at(l40s=1.5), at(max_nodes=3.0), at(l40s=None)], ids=["own", "other", "stock", "gone"]
    )
    def test_any_price_or_stock_that_is_allowed_is_looked_at(self, tmp_path: Path, table: object) -> None:
        plan = save(tmp_path, at())
        verdict(plan, at())

        assert verdict(plan, table).resolved  # type: ignore[arg-type]

    def test_a_changed_plan_or_a_damaged_state_is_solved_again(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at())
        verdict(plan, at())
        save(tmp_path, at(), {"workload": {"request_rate": 0.6}})
        assert verdict(plan, at()).resolved

        (tmp_path / FILE_NAME).write_text("{")
        found = look(plan, at())
        assert found.plans[0].resolved
        assert "cannot be used" in found.warnings[0]

    def test_without_a_state_nothing_is_written(self, tmp_path: Path) -> None:
        verdict(save(tmp_path, at()), at(), keep_state=False)

        assert not (tmp_path / FILE_NAME).exists()


class TestManyPlans:
    def test_a_bad_file_is_reported_and_stops_no_other(self, tmp_path: Path) -> None:
        save(tmp_path, at(), name="b.json")
        (tmp_path / "a.json").write_text("{")
        (tmp_path / "c.json").write_text('{"scenario": {}}')

        found = look(tmp_path, at())
        assert [one.verdict for one in found.plans] == ["failed", "keep", "failed"]
        assert exit_code([one.verdict for one in found.plans]) == 0

    def test_reports_of_ours_beside_the_plans_are_no_plans(self, tmp_path: Path) -> None:
        plan = save(tmp_path, at())
        (tmp_path / "report.json").write_text(look(plan, at()).model_dump_json(indent=2))

        assert find_plans([tmp_path, plan]) == [plan]

    def test_a_folder_without_plans_and_a_path_that_is_none_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(QuestionError, match="holds no plans"):
            find_plans([tmp_path])
        with pytest.raises(QuestionError, match="no such file"):
            find_plans([tmp_path / "none"])

    @pytest.mark.parametrize(
        ("verdicts", "code"),
        [
            (["keep", "keep"], 0),
            (["keep", "switch"], 10),
            (["switch", "invalid"], 11),
            (["infeasible", "switch"], 11),
            (["failed"], 2),
            (["failed", "keep"], 0),
        ],
    )
    def test_exit_codes(self, verdicts: list[object], code: int) -> None:
        assert exit_code(verdicts) == code  # type: ignore[arg-type]


def test_a_timeline_of_real_days_is_what_a_solve_from_scratch_of_each_day_says(tmp_path: Path) -> None:
    first = date(2026, 7, 5)
    limits = {"provider_kinds": ["any"], "gpus": ["H100-SXM-80GB", "A100-SXM-80GB", "L40S-48GB"], "terms": ["any"]}
    scenario = question({"limits": limits}, model="meta-llama/Llama-3.1-8B-Instruct")
    saved = solve(scenario, catalog=load_offers(first), today=first)
    path = tmp_path / "plan.json"
    path.write_text(saved.model_dump_json())
    assert saved.layout is not None
    worth_before = False

    for day in (first, date(2026, 7, 20), date(2026, 7, 21), date(2026, 8, 14), date(2026, 8, 22)):
        (found,) = reoptimize([path], RULES, as_of=day).plans
        table = load_offers(day)
        best = solve(scenario, catalog=table, today=day)
        key = {name: getattr(saved.layout, name) for name in ("provider", "region", "instance_type", "term")}
        rows = table.frame[(table.frame[list(key)] == list(key.values())).all(axis=1)]
        assert best.cost is not None
        assert found.figures is not None
        assert found.figures.best_usd_per_hour == pytest.approx(best.cost.usd_per_hour)
        if rows.empty:
            assert found.verdict == "invalid"
            worth_before = False
            continue
        now = saved.layout.nodes * rows["price_usd_per_node_hour"].iloc[0]
        assert found.figures.usd_per_hour_now == pytest.approx(now)
        saving = now - best.cost.usd_per_hour
        worth = saving >= 0.05 * now and 720 * saving >= 20
        assert (found.verdict == "switch") == (worth and (saving >= 0.1 * now or worth_before)), day
        worth_before = worth


def test_the_plan_itself_is_never_touched(tmp_path: Path) -> None:
    plan = save(tmp_path, at())
    before = plan.read_bytes()
    verdict(plan, at(l4=3.0))

    assert plan.read_bytes() == before
