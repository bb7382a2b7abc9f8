"""The question of a fleet: what it accepts, and what it says of what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.errors import ScenarioError
from optimizer.fleet.question import build_fleet_scenario, load_fleet_scenario
from optimizer.scenario import FLEET_FIELDS, is_fleet

CHAT = {"name": "chat", "input_tokens": 1000, "output_tokens": 200, "request_rate": 2}
ONE = {"model": "meta-llama/Llama-3.1-8B-Instruct", "classes": [CHAT]}
DAY = [1.0] * 24


def wrong(**changes: Any) -> str:
    """What the question is told, where fields of a sound one are changed."""
    with pytest.raises(ScenarioError) as caught:
        build_fleet_scenario(ONE | changes)
    return str(caught.value)


def test_one_model_with_its_traffic_is_a_question() -> None:
    scenario = build_fleet_scenario(ONE)
    assert [one.label for one in scenario.traffic] == ["Llama-3.1-8B-Instruct"]
    assert scenario.traffic[0].classes[0].name == "chat"


def test_any_field_of_a_fleet_makes_a_file_a_fleets() -> None:
    assert all(is_fleet({name: []}) for name in FLEET_FIELDS)
    assert not is_fleet({"model": "m", "workload": {}})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": [{"model": "m", "classes": [CHAT]}]}, "either model, with its traffic, or models"),
        ({"model": None}, "either model, with its traffic, or models"),
        ({"classes": []}, "exactly one of classes, histogram, log; got none of them"),
        ({"log": {"file": "x.csv"}}, "got classes and log"),
        ({"classes": [CHAT, CHAT]}, "chat is the name of two"),
        ({"profile": [1.0] * 23}, "expected 24 values (hours of a day) or 168 (of a week), got 23"),
        ({"profile": [0.0] * 24}, "expected an hour with some traffic"),
        ({"profile": [-1.0] * 24}, "profile.0: expected a number from 0 to 1,000,000; got -1"),
        ({"fleet": {"survive": "nodes"}}, "fleet.survive: expected 'nothing', 'node' or 'provider'; got 'nodes'"),
        ({"fleet": {"max_kind": 2}}, "fleet.max_kind: is not a field; did you mean max_kinds?"),
        ({"fleet": {"max_spot_share": 1.5}}, "expected a share from 0 to 1"),
        ({"limits": {"replicas": [2]}}, "limits.replicas is for one layout"),
        ({"limits": {"quotas": [{"gpu": "H100-SXM-80GB"}]}}, "a quota needs max_gpus or max_nodes"),
        ({"commitments": [{"years": 2, "percent_off": 10}]}, "commitments.0.years: expected 1 or 3; got 2"),
        ({"classes": [CHAT | {"context_tokens": 100}]}, "context_tokens 100 is shorter than"),
        ({"classes": [CHAT | {"request_rate": 0}]}, "classes.0.request_rate: expected a number from 0.000001"),
        ({"workload": {"input_tokens": 1}}, "workload: is not a field"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_accepted(changes: dict[str, Any], said: str) -> None:
    assert said in wrong(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"input_edges": [200, 100]}, "input_edges: expected rising numbers"),
        ({"shares": [[1, 1]]}, "shares: expected 2 rows (input bins) of 2 values"),
        ({"shares": [[0, 0], [0, 0]]}, "shares: expected a bin with some traffic"),
    ],
)
def test_a_histogram_that_is_no_table_is_refused(changes: dict[str, Any], said: str) -> None:
    table = {"input_edges": [100, 1000], "output_edges": [50, 500], "shares": [[1, 2], [3, 4]], "request_rate": 5}
    fields = {"model": "m", "histogram": table | changes}
    with pytest.raises(ScenarioError, match=r"\w") as caught:
        build_fleet_scenario(fields)
    assert said in str(caught.value)


def test_models_of_one_name_need_names_of_their_own() -> None:
    two = [{"model": "a/m", "classes": [CHAT]}, {"model": "b/m", "classes": [CHAT]}]
    with pytest.raises(ScenarioError, match="models: m is the name of two"):
        build_fleet_scenario({"models": two})
    named = build_fleet_scenario({"models": [two[0] | {"name": "first"}, two[1]]})
    assert [one.label for one in named.traffic] == ["first", "m"]


def test_a_class_has_its_own_targets_then_its_models_then_the_questions() -> None:
    own = CHAT | {"name": "own", "targets": {"tpot_ms": 10}}
    models = [
        {"model": "a/x", "classes": [CHAT, own], "targets": {"tpot_ms": 20}},
        {"model": "a/y", "classes": [CHAT]},
    ]
    scenario = build_fleet_scenario({"models": models, "targets": {"tpot_ms": 30}})
    found = [scenario.targets_of(model, one).tpot_ms for model in scenario.traffic for one in model.classes]
    assert found == [20, 10, 30]


def test_paths_are_from_the_folder_of_the_file(tmp_path: Any) -> None:
    (tmp_path / "fleet.yaml").write_text(
        "models:\n  - {model: ./config.json, log: {file: requests.csv}}\nprices: {offers_files: [mine.csv]}\n"
    )
    scenario = load_fleet_scenario(tmp_path / "fleet.yaml")
    assert scenario.models[0].model == str(tmp_path / "config.json")
    assert scenario.models[0].log is not None
    assert scenario.models[0].log.file == tmp_path / "requests.csv"
    assert scenario.prices.offers_files == (tmp_path / "mine.csv",)


def test_the_question_of_a_class_leaves_out_what_holds_for_the_whole_fleet() -> None:
    limits = {"budget_usd_per_hour": 5, "max_gpus": 8, "quotas": [{"max_nodes": 1}], "tp": [1, 2]}
    scenario = build_fleet_scenario(ONE | {"limits": limits})
    model = scenario.traffic[0]
    one = scenario.class_scenario(model, model.classes[0], scenario.targets)
    assert (one.limits.budget_usd_per_hour, one.limits.max_gpus, one.limits.quotas) == (None, None, ())
    assert one.limits.tp == (1, 2)
    assert one.workload.request_rate == 2
