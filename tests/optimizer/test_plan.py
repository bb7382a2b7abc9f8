"""The answer: what `--json` prints can be read back, and what is not known in it is null."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from optimizer import plan as plans
from optimizer.plan import SCHEMA_VERSION, Plan, PriceBasis, SolverRun
from optimizer.scenario import build_scenario
from tests.optimizer.plans import TODAY, Case, plan_of

SMALLEST: dict[str, Any] = {
    "shardwise_version": "0",
    "status": "infeasible",
    "summary": "nothing fits",
    "scenario": {},
    "prices": PriceBasis(
        as_of=TODAY, seen_on=None, age_days=0, stale=False, sources={}, offers_considered=0, offers_set_aside={}
    ),
    "solver": SolverRun(name="none", status="infeasible", seconds=0.0, candidates=0, choices=0),
}
PARTS = [
    part
    for part in vars(plans).values()
    if isinstance(part, type) and issubclass(part, BaseModel) and part.__module__ == plans.__name__
]


def test_a_plan_comes_back_from_json_as_it_was() -> None:
    for plan in (plan_of(Case()), Plan(**SMALLEST)):
        assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_the_json_of_a_plan_has_what_scripts_read() -> None:
    printed = json.loads(plan_of(Case()).model_dump_json())

    assert printed["schema_version"] == SCHEMA_VERSION
    assert printed["status"] == "optimal"
    assert printed["cost"]["usd_per_hour"] == printed["cost"]["bound_usd_per_hour"] == 40.0  # 2 nodes at $20
    assert printed["layout"]["price_seen_on"] == "2026-08-14"
    assert set(printed["memory"]) >= {"policy", "weights_gib", "kv_cache_gib", "activations_gib", "overhead_gib"}
    assert set(printed["performance"]) >= {"ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_second", "utilization"}
    assert set(printed["prices"]) >= {"as_of", "sources", "age_days"}
    assert printed["alternatives"][0]["extra_usd_per_hour"] == 22.0  # 2 nodes at $31 instead


def test_the_question_inside_a_plan_can_be_asked_again() -> None:
    case = Case(sections={"targets": {"ttft_ms": 500}, "prices": {"as_of": "2026-08-14", "offers_files": "mine.csv"}})
    printed = json.loads(plan_of(case).model_dump_json())

    assert build_scenario(printed["scenario"]) == case.scenario


def test_what_is_not_known_is_null_and_never_zero() -> None:
    printed = json.loads(Plan(**SMALLEST).model_dump_json())

    assert [printed[name] for name in ("layout", "cost", "memory", "performance")] == [None] * 4


def test_a_plan_of_another_schema_is_refused() -> None:
    with pytest.raises(ValidationError, match="schema_version"):
        Plan(**SMALLEST | {"schema_version": "2"})


def test_a_plan_with_a_field_of_its_own_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        Plan(**SMALLEST | {"price": 1})


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_part_is_frozen_and_refuses_unknown_fields(part: type[BaseModel]) -> None:
    assert part.model_config.get("frozen")
    assert part.model_config.get("extra") == "forbid"


def test_statuses_are_the_three_that_are_documented() -> None:
    assert get_args(Plan.model_fields["status"].annotation) == ("optimal", "feasible", "infeasible")


def test_the_schema_can_be_printed() -> None:
    schema = Plan.model_json_schema()

    assert {"status", "layout", "cost", "memory", "performance", "prices", "alternatives"} <= set(schema["properties"])
