"""What questions are answered from changes when prices do, and only then."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from catalogs.models import load_model, names_only
from catalogs.user_data import HISTORY_FILE
from optimizer.errors import QuestionError, ScenarioError
from optimizer.questions.facts import newest_price, offers_on, price_state
from optimizer.questions.refusal import FieldProblem, Refusal, refusal

TODAY = date(2026, 8, 20)


def test_offers_are_loaded_once_while_no_price_changes() -> None:
    assert offers_on(None, TODAY) is offers_on(None, TODAY)
    assert offers_on(None, TODAY) is not offers_on(date(2026, 7, 5), TODAY)
    assert newest_price(TODAY) >= date(2026, 8, 14)


@pytest.mark.parametrize("file", [HISTORY_FILE, f"{HISTORY_FILE}-wal", "calibration/calibration.toml"])
def test_whatever_changes_an_answer_changes_the_state(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDWISE_DATA_DIR", str(tmp_path))
    before = price_state()

    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("x")
    written = price_state()
    (tmp_path / file).write_text("xy")

    assert len({before, written, price_state()}) == 3


def test_a_database_on_a_server_is_looked_at_anew_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DATABASE_URL", "postgresql://db/prices")
    monkeypatch.setattr("optimizer.questions.facts.time.time", lambda: 1_000_000.0)
    before = price_state()

    monkeypatch.setattr("optimizer.questions.facts.time.time", lambda: 1_000_070.0)

    assert price_state() != before


def test_within_names_only_no_path_is_a_model(tmp_path: Path) -> None:
    config = Path(__file__).parents[3] / "catalogs" / "data" / "models"
    file = tmp_path / "config.json"
    file.write_text(next(config.glob("*.json")).read_text())
    spec = load_model("Qwen/Qwen2.5-0.5B-Instruct")

    with names_only({"acme/own": spec}):
        assert load_model("acme/own") is spec
        assert load_model("qwen/qwen2.5-0.5b-instruct") == spec
        with pytest.raises(ValueError, match="Unknown model"):
            load_model(file)
        with pytest.raises(ValueError, match="Unknown model"):
            load_model(str(file))


def test_an_error_of_flags_is_worded_for_fields() -> None:
    error = QuestionError("--max-price-age 24h: too old; see `--set a=1` and -x--not-a-flag")

    assert str(refusal(error)) == "max_price_age 24h: too old; see `set a=1` and -x--not-a-flag"


def test_each_problem_of_an_error_keeps_its_field() -> None:
    found = refusal(ScenarioError("x", ["limits.tp.0: expected a whole number", "give one of them"]), "scenario")

    assert found.problems == (
        FieldProblem("scenario.limits.tp.0", "expected a whole number"),
        FieldProblem("scenario", "give one of them"),
    )
    assert type(found)(*found.__reduce__()[1]).problems == found.problems
    assert isinstance(found, Refusal)
