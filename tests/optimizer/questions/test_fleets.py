"""What-ifs of fleets, asked as programs ask them: the same answers as on the command line, and words for agents."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.mcp_server.said import said
from optimizer.questions import requests as ask
from optimizer.questions.kinds import answer, build_question
from optimizer.questions.refusal import Refusal
from optimizer.whatif.fleet_explain_answer import FleetExplained
from optimizer.whatif.fleet_shock_answer import FleetShock

FLEET: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-0.5B-Instruct",
    "classes": [{"name": "chat", "input_tokens": 500, "output_tokens": 100, "request_rate": 2}],
    "limits": {"gpus": ["A100-SXM-80GB"], "providers": ["spheron", "gmicloud", "massedcompute"]},
    "prices": {"as_of": "2026-08-14"},
}


def shock(**fields: Any) -> FleetShock:
    found = answer(build_question(ask.ShockQuestion, {"scenario": FLEET} | fields))
    assert isinstance(found, FleetShock)
    return found


def test_a_shock_of_a_fleet_is_answered_as_one_and_said_in_words() -> None:
    found = shock(price=["*=+40%"])
    assert found.verdict == "keep"
    assert "Staying costs $" in said(found)

    provider = found.after.sites[0].provider
    without = shock(remove_provider=[provider], price=["*=+10%"], time_limit_s=5)
    assert without.verdict == "move"
    assert "Staying is not possible: " in said(without)
    assert [one.verdict for one in without.effects] == ["keep", "move", "move"]


def test_a_shock_of_a_fleet_that_changes_nothing_is_refused_by_the_field() -> None:
    with pytest.raises(Refusal) as refused:
        shock(price=["A100*=lots"])
    assert "expected" in str(refused.value.problems[0].detail)


def explain(**fields: Any) -> FleetExplained:
    found = answer(build_question(ask.ExplainQuestion, fields))
    assert isinstance(found, FleetExplained)
    return found


def test_a_fleet_and_its_plan_are_explained_alike_and_said_in_words() -> None:
    plan = answer(build_question(ask.SolveQuestion, {"scenario": FLEET, "reasons": False}))
    by_plan = explain(plan=plan.model_dump(mode="json"))
    by_scenario = explain(scenario=FLEET)

    assert by_plan.reproduced
    assert by_plan.money == by_scenario.money
    words = said(by_plan)
    assert "- pool 1, Qwen2.5-0.5B-Instruct 1x bf16 TP1" in words
    assert "The money goes to work $" in words


def test_why_not_of_a_fleet_and_a_plan_that_was_distorted_are_refused_by_their_fields() -> None:
    with pytest.raises(Refusal) as refused:
        explain(scenario=FLEET, why_not="4x A100-SXM-80GB tp=4")
    assert refused.value.problems[0].field == "why_not"

    plan = answer(build_question(ask.SolveQuestion, {"scenario": FLEET, "reasons": False})).model_dump(mode="json")
    plan["pools"][0]["serves"][0]["capacity_requests_per_second"] = 0.0
    with pytest.raises(Refusal, match="figures do not go together"):
        explain(plan=plan)
    plan["scenario"]["model"] = "/etc/passwd"
    with pytest.raises(Refusal) as refused:
        explain(plan=plan)
    assert refused.value.problems[0].field == "plan.scenario.model"
