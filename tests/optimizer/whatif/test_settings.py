"""`--set FIELD=VALUE`: one field of a scenario changed, checked as if the file said so."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.errors import QuestionError
from optimizer.whatif.fields import with_settings
from tests.optimizer.catalogs import question


@pytest.mark.parametrize(
    ("text", "section", "field", "value"),
    [
        ("workload.request_rate=8", "workload", "request_rate", 8.0),
        ("limits.weights=[bf16, fp8]", "limits", "weights", ("bf16", "fp8")),
        ("limits.weights=fp8,int8", "limits", "weights", ("fp8", "int8")),
        ("targets.at=p95", "targets", "at", "p95"),
        ("limits.tp_across_nodes=true", "limits", "tp_across_nodes", True),
        (" limits.budget_usd_per_hour = 20", "limits", "budget_usd_per_hour", 20.0),
        ("limits.budget_usd_per_hour=", "limits", "budget_usd_per_hour", None),
    ],
)
def test_a_field_takes_the_value(text: str, section: str, field: str, value: Any) -> None:
    assert getattr(getattr(with_settings(question(), [text]), section), field) == value


def test_nothing_set_changes_nothing() -> None:
    assert with_settings(question(), []) == question()


def test_a_new_kind_of_traffic_takes_the_place_of_the_old_one() -> None:
    assert with_settings(question(), ["workload.concurrency=12"]).workload.kind == "concurrency"


def test_the_context_follows_from_new_lengths_unless_it_is_set_too() -> None:
    asked = question({"workload": {"context_tokens": 4096}})
    assert with_settings(asked, ["workload.input_tokens=9000"]).workload.held_tokens == 9100
    both = with_settings(asked, ["workload.input_tokens=9000", "workload.context_tokens=10000"])
    assert both.workload.held_tokens == 10_000


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["workload.requestrate=8"], "did you mean workload.request_rate"),
        (["request_rate=8"], "did you mean workload.request_rate?"),
        (["8"], "expected FIELD=VALUE"),
        (["workload.request_rate=-1"], "workload.request_rate: expected a number"),
        (["limits.weights=[bf16"], "expected a value as in YAML"),
        (["limits.tp=1", "limits.tp=2"], "given twice"),
    ],
)
def test_what_cannot_be_set_is_said(texts: list[str], said: str) -> None:
    with pytest.raises(QuestionError, match=said.replace("?", r"\?")):
        with_settings(question(), texts)
