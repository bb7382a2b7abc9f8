"""What-ifs of fleets, asked as programs ask them: the same answers as on the command line, and words for agents."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.mcp_server.said import said
from optimizer.questions import requests as ask
from optimizer.questions.kinds import answer, build_question
from optimizer.questions.refusal import Refusal
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
