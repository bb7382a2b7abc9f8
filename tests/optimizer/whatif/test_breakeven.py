"""Break-evens: exact on catalogs worked out by hand, and on drawn ones the answer really changes there."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pytest

from catalogs.models import load_model
from catalogs.offers import OfferTable
from optimizer.answer import Answer
from optimizer.errors import QuestionError
from optimizer.scenario import Scenario
from optimizer.solve import cheapest_answer, pose
from optimizer.whatif.breakeven import Repriced, break_even, find_break_evens
from optimizer.whatif.breakeven_answer import BreakEven, BreakEvens
from optimizer.whatif.prices import matching, scaled
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, Fields, catalog, draw, offer, question
from tests.optimizer.command import LLAMA_70B, run

SEEDS = range(0, 24, 2)
H100, L4, A100 = "H100-SXM-80GB", "L4-24GB", "A100-SXM-80GB"


def ask(sections: Fields, *offers: dict[str, Any], named: str | None = None, model: str = SMALL) -> BreakEvens:
    return find_break_evens(
        question(sections, model=model), named, model=load_model(model), catalog=catalog(*offers), today=TODAY
    )


def asked(sections: Fields, *offers: dict[str, Any], named: str, model: str = SMALL) -> BreakEven:
    found = ask(sections, *offers, named=named, model=model).asked
    assert found is not None
    return found


def test_a_dearer_offer_has_to_fall_to_the_answers_cost_and_ties_go_by_the_table() -> None:
    # One GPU of either carries it. At the same $2.50 both rent one GPU in BF16 without stages: the one with more room
    # is preferred, which is the H100. So the L4 has to cost a micro-dollar less.
    found = asked({}, offer(H100, 2.5), offer(L4, 3.0), named=L4)

    assert found.status == "must_fall"
    assert found.at is not None
    assert found.at.price_usd_per_node_hour == 2.499999
    assert found.change == pytest.approx(2.499999 / 3.0 - 1)
    assert [one.of_group for one in found.verified] == [True, False]
    assert found.takes_over is not None
    assert found.takes_over.gpu == H100


def test_the_answer_may_rise_to_the_next_cost_and_keeps_a_tie_that_the_table_gives_it() -> None:
    found = asked({}, offer(H100, 2.5), offer(L4, 3.0), named=H100)

    assert found.status == "may_rise"
    assert found.at is not None
    assert found.at.price_usd_per_node_hour == 3.0
    assert found.takes_over is not None
    assert found.takes_over.gpu == L4
    assert found.change == pytest.approx(0.2)


def test_nodes_count_and_what_does_not_divide_is_rounded_down_to_a_micro_dollar() -> None:
    # Three nodes of one L4 against one node at $1: a third of a dollar is $0.333333.
    fields: Fields = {"limits": {"replicas": [3]}}
    found = asked(fields, offer(L4, 0.5), offer(H100, 1.0, 4, instance_type="quad"), named=L4)

    assert found.at is not None
    assert found.at.nodes == 3
    assert found.at.price_usd_per_node_hour == 0.333333
    assert found.at.usd_per_hour == pytest.approx(0.999999)


def test_one_factor_moves_every_offer_named_and_the_cheapest_of_them_then_is_told() -> None:
    found = asked({}, offer(H100, 1.0), offer(L4, 2.0), offer(L4, 6.0, 4), named="L4*")

    assert found.offers == found.allowed_offers == 2
    assert found.factor == pytest.approx(0.999999 / 2.0)
    assert found.cheapest_usd_per_node_hour == pytest.approx(0.999999)
    assert found.cheapest_usd_per_gpu_hour == pytest.approx(6.0 * 0.999999 / 2.0 / 4)


def test_an_offer_that_others_of_its_kind_undercut_today_is_weighed_by_its_own_price() -> None:
    # Both are one H100: today bolt's stands in the shade of acme's, and would not be in the table at all.
    found = asked({}, offer(H100, 2.0), offer(H100, 3.0, provider="bolt"), named="bolt")

    assert found.status == "must_fall"
    # At $2 acme comes first by name.
    assert found.at is not None
    assert (found.at.provider, found.at.price_usd_per_node_hour) == ("bolt", 1.999999)


def test_the_only_layout_is_the_answer_whatever_it_costs_or_up_to_the_budget() -> None:
    free = asked({}, offer(H100, 2.5), named=H100)
    budgeted = asked({"limits": {"budget_usd_per_hour": 4.0}}, offer(H100, 2.5), named=H100)

    assert free.status == "any_price"
    assert budgeted.status == "may_rise"
    assert budgeted.at is not None
    assert budgeted.at.price_usd_per_node_hour == 4.0
    assert budgeted.takes_over is None


def test_where_nothing_is_within_the_budget_an_offer_may_fall_into_it() -> None:
    found = ask({"limits": {"budget_usd_per_hour": 1.0}}, offer(H100, 2.5), offer(L4, 1.2))

    assert found.answer is None
    assert [(one.offer, one.at.price_usd_per_node_hour) for one in found.alternatives if one.at] == [
        (L4, 1.0),
        (H100, 1.0),
    ]


def test_no_price_helps_what_breaks_a_rule_and_the_nearest_layout_says_which() -> None:
    # 16 GB over 0.3 TB/s take over 50 ms a token.
    fields: Fields = {"targets": {"tpot_ms": 20}, "workload": {"request_rate": 0.1}, "limits": {"weights": ["bf16"]}}
    found = asked(fields, offer(H100, 2.5), offer(L4, 0.5), named=L4, model=MEDIUM)

    assert found.status == "no_price"
    assert "TPOT is" in found.why
    assert found.nearest is not None
    assert "tpot" in found.nearest.breaks


def test_an_offer_outside_the_limits_is_the_answer_at_no_price() -> None:
    found = asked({}, offer(H100, 2.5), offer(L4, 0.5, term="spot"), named="spot")

    assert (found.status, found.allowed_offers) == ("no_price", 0)
    assert found.nearest is not None
    assert found.nearest.breaks == {"term_allowed": "spot"}


def test_a_gpu_that_runs_no_split_at_all_says_so() -> None:
    found = asked({}, offer(H100, 2.5), offer("V100-SXM-16GB", 0.5), named="V100*")

    assert found.status == "no_price"
    assert found.nearest is None or "weights_allowed" in found.nearest.breaks
    assert "bf16" in found.why


def test_discounts_of_the_users_own_come_off_the_changed_prices() -> None:
    # The price is what is paid: $2 as well, at a list price of $4.
    discounts = {"prices": {"discounts": [{"provider": "bolt", "percent": 50}]}}
    found = asked(discounts, offer(H100, 2.0), offer(L4, 6.0, provider="bolt"), named="bolt")

    assert found.now is not None
    assert found.now.price_usd_per_node_hour == 3.0
    assert found.at is not None
    assert found.at.price_usd_per_node_hour == 1.999999


def test_every_gpu_on_offer_is_the_answer_an_alternative_or_has_a_reason() -> None:
    found = ask({}, offer(H100, 2.5), offer(L4, 3.0), offer(A100, 2.6), offer("V100-SXM-16GB", 0.5))

    assert found.answer is not None
    assert found.answer.gpu == H100
    assert [one.offer for one in found.own] == [f"acme/1x {H100}/east/on-demand", H100]
    # The nearest first: -4% against -17%.
    assert [one.offer for one in found.alternatives] == [A100, L4]
    assert [one.gpu for one in found.no_layout] == ["V100-SXM-16GB"]


@cache
def drawn_break_evens(seed: int) -> tuple[Scenario, OfferTable, Answer | None, tuple[tuple[str, BreakEven], ...]]:
    drawn = draw(seed)
    table, scenario = drawn.table, drawn.scenario
    model = load_model(scenario.model)
    again = Repriced(pose(scenario, model=model, catalog=table, today=TODAY), TODAY)
    patterns = [*sorted(set(table.frame["gpu"]))[:2], "acme", "*"]
    known = [name for name in patterns if name != "acme" or (table.frame["provider"] == "acme").any()]
    found = [(name, break_even(again, name, partial(matching, pattern=name))) for name in known]
    return scenario, table, cheapest_answer(scenario, model=model, catalog=table, today=TODAY), tuple(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_drawn_catalogs_the_answer_is_of_the_group_below_its_break_even_and_not_above(seed: int) -> None:
    scenario, table, today, found = drawn_break_evens(seed)
    model = load_model(scenario.model)

    def of_group(name: str, factor: float) -> bool:
        mask = matching(table.frame, name)
        answer = cheapest_answer(scenario, model=model, catalog=scaled(table, mask, factor), today=TODAY)
        key = ["provider", "region", "instance_type", "term"]
        named = {tuple(row) for row in table.frame.loc[mask, key].to_numpy().tolist()}
        return answer is not None and tuple(getattr(answer.layout, part) for part in key) in named

    for name, one in found:
        if one.at is None or one.factor is None:
            factors = dict.fromkeys((1e-3, 50.0), one.status == "any_price")
        else:
            step = 1e-6 / one.at.price_usd_per_node_hour * one.factor
            factors = {one.factor * 0.6: True, one.factor + step: False, one.factor * 2: False}
            assert (one.status == "may_rise") == (one.factor >= 1.0)
        for factor, expected in factors.items():
            assert of_group(name, factor) == expected, (seed, name, factor)
    if today is not None:
        assert next(one for name, one in found if name == "*").status in ("may_rise", "any_price")


def test_drawn_catalogs_hold_every_kind_of_break_even() -> None:
    kinds = {one.status for seed in SEEDS for _, one in drawn_break_evens(seed)[3]}

    assert kinds == {"may_rise", "must_fall", "any_price", "no_price"}


def test_on_a_percentile_the_break_even_is_where_the_layout_that_holds_it_changes() -> None:
    fields: Fields = {"targets": {"at": "p95", "ttft_ms": 200, "tpot_ms": 30}}
    found = asked(fields, offer(H100, 2.5), offer(L4, 3.0), named=L4)

    assert found.status == "must_fall"
    assert [one.of_group for one in found.verified] == [True, False]


@pytest.fixture(scope="module")
def scenario_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("breakeven") / "question.yaml"
    file.write_text(
        f"model: {LLAMA_70B}\nworkload: {{input_tokens: 2000, output_tokens: 300, request_rate: 4}}\n"
        "targets: {ttft_ms: 1500, tpot_ms: 50}\n"
        "limits: {providers: [spheron], gpus: [H200-SXM-141GB, A100-SXM-80GB, B300-SXM-288GB]}\n"
        "prices: {as_of: 2026-08-14}\n"
    )
    return str(file)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_command_says_the_price_and_both_solves_within_the_width(scenario_file: str, columns: int) -> None:
    ran = run("whatif", "breakeven", scenario_file, "--offer", "A100-SXM-80GB", columns=columns)

    assert ran.code == 0, ran.err
    assert ran.out.startswith("BREAK-EVEN  A100-SXM-80GB")
    assert ran.out.count("- solved at $") == 2
    assert "…" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= columns


def test_the_command_prints_its_result_as_json(scenario_file: str) -> None:
    found = run("whatif", "breakeven", scenario_file, "--offer", "H200*", "--json").json

    assert found["schema_version"] == "1"
    assert found["asked"]["status"] in ("may_rise", "must_fall")
    assert len(found["asked"]["verified"]) == 2


def test_a_pattern_that_names_no_offer_is_bad_input_with_near_names(scenario_file: str) -> None:
    ran = run("whatif", "breakeven", scenario_file, "--offer", "H200-SXM")

    assert ran.code == 2
    assert "did you mean H200-SXM-141GB" in ran.err
    with pytest.raises(QuestionError):
        ask({}, offer(H100, 2.5), named="L4")


def test_the_command_says_how_it_is_used() -> None:
    ran = run("whatif", "breakeven", "--help")

    assert ran.code == 0, ran.err
    assert "--json" in ran.out
