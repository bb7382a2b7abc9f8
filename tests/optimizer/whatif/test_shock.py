"""Price shocks: keep or move with the dollars, each part alone, and where a single change tips the answer."""

from __future__ import annotations

from typing import Any

import pytest

from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.whatif.shock import Change, find_shock, price_change, removal
from optimizer.whatif.shock_answer import Shock
from tests.optimizer.catalogs import SMALL, TODAY, Fields, catalog, offer, question
from tests.optimizer.command import LLAMA_70B, run

H100, L4 = "H100-SXM-80GB", "L4-24GB"
# The answer is an H100 at $2; an L4 at $3 would do as well.
TWO = (offer(H100, 2.0), offer(L4, 3.0, provider="bolt"))


def shock(*changes: Change, offers: tuple[dict[str, Any], ...] = TWO, sections: Fields | None = None) -> Shock:
    scenario = question(sections or {})
    return find_shock(scenario, changes, model=load_model(SMALL), catalog=catalog(*offers), today=TODAY)


CHANGES = {"spot=+40%": 1.4, "H100*=-20%": 0.8, "aws=x1.5": 1.5, "a/b=X2": 2.0, "provider=acme=+0.5%": 1.005}


@pytest.mark.parametrize("text", CHANGES)
def test_a_price_change_is_read_as_a_pattern_and_a_factor(text: str) -> None:
    found = price_change(text)

    assert found.pattern == text.rpartition("=")[0]
    assert found.factor == pytest.approx(CHANGES[text])


@pytest.mark.parametrize(
    "text", ["spot", "spot=40", "=+40%", "spot=-100%", "spot=x0", "spot=+40", "spot=x9999", "spot=%"]
)
def test_a_price_change_that_is_none_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(QuestionError, match=r"expected (PATTERN=\+40%|a change above)"):
        price_change(text)


def test_a_rise_that_does_not_reach_the_next_cost_is_kept_and_says_how_far_it_is() -> None:
    found = shock(price_change("H100*=+40%"))

    assert found.verdict == "keep"
    assert found.staying is not None
    assert (found.staying.usd_per_hour, found.staying.extra_usd_per_hour) == (2.8, 0.0)
    assert found.tipping is not None
    # At $3 a tie goes to the H100; a micro-dollar more and it is gone.
    assert found.tipping.price_usd_per_node_hour == 3.000001
    assert found.tipping.change == pytest.approx(0.5, abs=1e-6)
    assert [one.of_group for one in found.tipping.verified] == [True, False]


def test_a_rise_beyond_it_moves_and_says_what_staying_costs() -> None:
    found = shock(price_change(f"{H100}=x2"))

    assert found.verdict == "move"
    assert found.staying is not None
    # $4 against $3, for 730 hours a month.
    assert found.staying.extra_usd_per_hour == pytest.approx(1.0)
    assert found.staying.extra_usd_per_month == pytest.approx(730.0)
    assert found.after.layout is not None
    assert found.after.layout.gpu == L4
    assert [one.moves for one in found.effects] == [True]


def test_a_fall_of_another_offer_tips_at_its_break_even() -> None:
    found = shock(price_change("bolt=-10%"))

    assert found.verdict == "keep"
    assert found.tipping is not None
    assert found.tipping.price_usd_per_node_hour == 1.999999
    assert found.tipping.change == pytest.approx(1.999999 / 3 - 1)


@pytest.mark.parametrize(("text", "why"), [("bolt=+10%", "rents none"), ("acme=-10%", "all the more")])
def test_a_change_that_only_helps_the_answer_never_tips_it(text: str, why: str) -> None:
    found = shock(price_change(text))

    assert found.verdict == "keep"
    assert found.tipping is not None
    assert found.tipping.change is None
    assert why in found.tipping.why


def test_of_several_parts_each_is_shown_alone_and_only_together_they_move() -> None:
    # $2 x 1.3 = $2.60 and $3 x 0.8 = $2.40: neither crosses $3 or $2 alone.
    found = shock(price_change("acme=+30%"), price_change("bolt=-20%"))

    assert [(one.change, one.moves) for one in found.effects] == [
        ("--price acme=+30%", False),
        ("--price bolt=-20%", False),
        ("all together", True),
    ]
    assert found.verdict == "move"
    assert found.staying is not None
    assert found.staying.extra_usd_per_hour == pytest.approx(0.2)
    assert found.tipping is None


def test_factors_on_one_offer_multiply() -> None:
    found = shock(price_change("acme=x1.2"), price_change("H100*=x1.2"))

    assert found.staying is not None
    assert found.staying.usd_per_hour == pytest.approx(2.88)


def test_without_its_provider_the_answer_is_gone_and_the_next_one_stands() -> None:
    found = shock(removal("--remove-provider", "provider", "acme"))

    assert found.verdict == "move"
    assert found.staying is not None
    assert not found.staying.available
    assert found.staying.extra_usd_per_hour is None
    assert found.after.cost is not None
    assert found.after.cost.usd_per_hour == 3.0


def test_a_provider_that_the_question_asks_for_may_be_removed_and_leaves_nothing() -> None:
    found = shock(removal("--remove-provider", "provider", "acme"), sections={"limits": {"providers": ["acme"]}})

    assert found.verdict == "infeasible"
    assert found.after.status == "infeasible"
    assert any(one.rule == "quota" for one in found.after.conflict)


def test_a_rise_over_the_budget_breaks_it_for_the_layout_that_would_stay() -> None:
    found = shock(price_change("H100*=x2"), sections={"limits": {"budget_usd_per_hour": 3.5}})

    assert found.verdict == "move"
    assert found.staying is not None
    assert "budget" in found.staying.breaks
    assert found.staying.extra_usd_per_hour is None


def test_a_fall_into_the_budget_starts_what_was_infeasible() -> None:
    found = shock(price_change("*=-50%"), sections={"limits": {"budget_usd_per_hour": 1.5}})

    assert (found.verdict, found.before, found.staying, found.tipping) == ("start", None, None, None)
    assert found.after.cost is not None
    assert found.after.cost.usd_per_hour == 1.0


def test_a_part_that_touches_no_offer_is_named_with_what_is_near() -> None:
    with pytest.raises(QuestionError, match=r"--remove-gpu H100: .*did you mean H100-SXM-80GB"):
        shock(removal("--remove-gpu", "gpu", "H100"))
    with pytest.raises(QuestionError, match="nothing changes"):
        shock()


def test_discounts_come_off_the_shocked_prices() -> None:
    prices = {"prices": {"discounts": [{"provider": "acme", "percent": 25}]}}
    found = shock(price_change("acme=x1.2"), sections=prices)

    assert found.before is not None
    assert found.staying is not None
    assert (found.before.usd_per_hour, found.staying.usd_per_hour) == (1.5, pytest.approx(1.8))


@pytest.fixture(scope="module")
def scenario_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("shock") / "question.yaml"
    file.write_text(
        f"model: {LLAMA_70B}\nworkload: {{input_tokens: 2000, output_tokens: 300, request_rate: 4}}\n"
        "limits: {providers: [spheron], gpus: [H200-SXM-141GB, B300-SXM-288GB]}\nprices: {as_of: 2026-08-14}\n"
    )
    return str(file)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_command_prints_its_verdict_within_the_width(scenario_file: str, columns: int) -> None:
    ran = run("whatif", "shock", scenario_file, "--price", "H200*=+40%", columns=columns)

    assert ran.code == 0, ran.err
    assert ran.out.split()[0] in ("KEEP", "MOVE")
    assert "How far until it moves" in ran.out
    assert max(map(len, ran.out.splitlines())) <= columns


def test_the_command_leaves_with_3_where_nothing_is_left_and_prints_json(scenario_file: str) -> None:
    ran = run("whatif", "shock", scenario_file, "--remove-provider", "spheron", "--json")

    assert ran.code == 3
    assert ran.json["verdict"] == "infeasible"
    assert ran.json["after"]["status"] == "infeasible"


def test_the_command_answers_bad_input_with_2(scenario_file: str) -> None:
    assert run("whatif", "shock", scenario_file, "--price", "spheron=40").code == 2
    assert run("whatif", "shock", scenario_file).code == 2


def test_the_command_says_how_it_is_used() -> None:
    ran = run("whatif", "shock", "--help")

    assert ran.code == 0, ran.err
    assert "--json" in ran.out
