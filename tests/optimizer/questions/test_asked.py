"""Nothing in a request is a path: it is refused by name, and no file that it could mean is opened."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalogs.models import load_model, named_model
from optimizer.fleet.question import FleetScenario
from optimizer.questions import requests as ask
from optimizer.questions.answers import sweep as answer_sweep
from optimizer.questions.asked import AskedFleet, AskedScenario
from optimizer.questions.kinds import KINDS, answer, build_question
from optimizer.questions.list_requests import ModelsQuestion
from optimizer.questions.refusal import Refusal
from optimizer.scenario import Scenario

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
SMALL: dict[str, Any] = {
    "model": MODEL,
    "workload": {"input_tokens": 500, "output_tokens": 100, "request_rate": 2},
    "limits": {"gpus": ["A100-SXM-80GB"], "providers": ["spheron"]},
    "prices": {"as_of": "2026-08-14"},
}
HOSTILE = (
    "../../etc/passwd",
    "/etc/passwd",
    "~/config.json",
    "./config.json",
    "config.json",
    "model/config.yaml",
    "file:///etc/passwd",
    "http://127.0.0.1:9/config.json",
    "https://example.org/org/model",
    "\\\\server\\share\\config.json",
    "//server/share",
    "C:\\models\\config.json",
    "C:/models/config.json",
    "$HOME/config.json",
    "${HOME}/x",
    "%USERPROFILE%/x",
    "org/name\x00.json",
    "org/name\n",
    "org/../name",
    "org/./name",
    "org//name",
    "org/na me",
    "/proc/self/environ",
    "org/name/..",
    "",
    " ",
    "a" * 5000,
)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """What was opened while a test ran."""
    found: list[str] = []
    watching = [True]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event == "open":
            found.append(str(arguments[0]))

    sys.addaudithook(watch)
    yield found
    watching[0] = False


def refused(kind: str, fields: dict[str, Any]) -> tuple[str, ...]:
    """The fields that a question is refused for."""
    with pytest.raises(Refusal) as error:
        answer(build_question(KINDS[kind].question, fields))
    return tuple(one.field for one in error.value.problems)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_model_is_a_name_and_never_a_path_or_an_address(name: str, opened: list[str]) -> None:
    stripped = name.strip()
    opened.clear()

    if stripped != name and stripped:  # a name with a blank around it is the name
        assert AskedScenario(**{**SMALL, "model": name}).model == stripped
        return
    assert refused("solve", {"scenario": {**SMALL, "model": name}}) == ("scenario.model",)
    assert refused("fit", {"model": name, "gpu": "A100-SXM-80GB"}) == ("model",)
    classes = [{"input_tokens": 500, "output_tokens": 100, "request_rate": 2}]
    assert refused("solve", {"scenario": {"models": [{"model": name, "classes": classes}]}})[0].startswith(
        ("scenario.models.0.model", "scenario.model")
    )
    assert not [path for path in opened if stripped and stripped in path]


@pytest.mark.parametrize("path", ["/etc/passwd", "../offers.csv", "file:///x.csv", "offers.csv", ["a.csv", "b.csv"], 7])
def test_the_fields_of_a_scenario_that_name_files_are_refused_by_name(path: Any, opened: list[str]) -> None:
    opened.clear()

    assert refused("solve", {"scenario": {**SMALL, "prices": {"offers_files": path}}}) == (
        "scenario.prices.offers_files",
    )
    assert refused("pareto", {"scenario": {**SMALL, "performance": {"table": path}}}) == ("scenario.performance.table",)
    fleet = {"model": MODEL, "log": {"file": path}}
    assert refused("solve", {"scenario": fleet}) == ("scenario.log",)
    assert refused("solve", {"scenario": {"models": [fleet]}}) == ("scenario.models.0",)
    assert not [name for name in opened if str(path) in name]


@pytest.mark.parametrize(
    "vary",
    [
        "model=/etc/passwd,Qwen/Qwen2.5-0.5B-Instruct",
        "prices.offers_files=/etc/passwd",
        "prices.offers_files.0=/etc/passwd",
        "performance.table=/etc/passwd",
        "prices.as_of=2026-08-14",
    ],
)
def test_a_sweep_varies_nothing_that_points_at_files(vary: str) -> None:
    with pytest.raises(ValueError, match=r"vary|field"):
        answer_sweep(ask.SweepQuestion(scenario=AskedScenario(**SMALL), vary=(vary,)))


def test_a_folder_of_the_same_name_beside_the_service_is_not_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    folder = tmp_path / "evil" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    opened.clear()

    assert refused("solve", {"scenario": {**SMALL, "model": "evil/model"}}) == ("scenario.model",)
    assert not [path for path in opened if "evil" in path]


def test_every_bundled_model_can_be_named() -> None:
    listed = answer(ModelsQuestion(limit=1000))

    for row in listed.rows:  # type: ignore[attr-defined]
        assert AskedScenario(**{**SMALL, "model": row["name"]}).model == row["name"]
    assert named_model(MODEL.upper()) == load_model(MODEL)


def test_a_scenario_of_a_request_has_the_same_fields_and_defaults_as_one_of_a_file() -> None:
    asked, read = AskedScenario(**SMALL), Scenario(**SMALL)
    fleet = {"model": MODEL, "classes": [{"input_tokens": 500, "output_tokens": 100, "request_rate": 2}]}

    assert asked.model_dump() == read.model_dump()
    assert AskedFleet(**fleet).model_dump() == FleetScenario(**fleet).model_dump()


def test_a_config_that_comes_with_the_question_is_the_model() -> None:
    config = json.loads(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, '
        '"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, '
        '"max_position_embeddings": 8192, "torch_dtype": "bfloat16"}'
    )
    question = {"scenario": {**SMALL, "model": "acme/chat-8b"}, "models": {"acme/chat-8b": config}}

    found = answer(build_question(ask.SolveQuestion, question))

    assert found.status == "optimal"  # type: ignore[attr-defined]
    assert found.scenario["model"] == "acme/chat-8b"  # type: ignore[attr-defined]
    # 8.03 billion parameters of two bytes
    assert 14.5 < found.memory.weights_gib * found.layout.tp < 15.5  # type: ignore[attr-defined]


def test_logged_requests_are_put_into_classes_which_the_answer_says() -> None:
    requests = [[0.0, 100, 50], [1.5, 3000, 20], [3.0, 120, 60], [9.0, 2800, 30]]
    fleet = {"model": MODEL, "log": {"requests": requests, "classes": 2}, "limits": SMALL["limits"]}

    found = answer(build_question(ask.SolveQuestion, {"scenario": {**fleet, "prices": SMALL["prices"]}}))

    assert found.status == "optimal"  # type: ignore[attr-defined]
    asked = FleetScenario.model_validate(found.scenario)  # type: ignore[attr-defined]
    # Four requests in nine seconds are three spaces between arrivals: a third of a request a second.
    assert [(one.input_tokens, round(one.request_rate, 4)) for one in asked.classes] == [(110, 0.1667), (2900, 0.1667)]


@pytest.mark.parametrize(
    "log",
    [
        {},
        {"requests": [[0, 1]]},
        {"requests": [[0, 1, 1]]},
        {"requests": [[0, 1, 1], [0, 1, 1]]},
        {"requests": [[0, 1, 1], [-1, 1, 1]]},
        {"requests": [[0, 1, 1], [1, 0, 1]]},
        {"requests": [[0, 1, 1], [1, 1, 1]], "profile": "day"},
        {"requests": [[0, 1, 1], [1, 1, 1]], "file": "x.csv"},
        {"requests": "x.csv"},
        "x.csv",
        7,
    ],
)
def test_a_log_that_is_none_is_refused(log: Any) -> None:
    assert refused("solve", {"scenario": {"model": MODEL, "log": log}}) == ("scenario.log",)


@pytest.mark.parametrize(
    "config", [{}, {"model_type": "llama"}, {"architectures": ["X"], "num_hidden_layers": 10**30}, {"auto_map": "os"}]
)
def test_a_config_that_is_none_is_refused_under_its_name(config: dict[str, Any]) -> None:
    fields = {"scenario": {**SMALL, "model": "acme/chat-8b"}, "models": {"acme/chat-8b": config}}

    assert set(refused("solve", fields)) == {"models.acme/chat-8b"}


def test_a_plan_that_names_a_file_is_not_explained() -> None:
    plan = answer(build_question(ask.SolveQuestion, {"scenario": SMALL})).model_dump(mode="json")
    plan["scenario"]["prices"]["offers_files"] = ["/etc/passwd"]

    assert refused("explain", {"plan": plan}) == ("plan.scenario.prices.offers_files",)
    plan["scenario"]["prices"]["offers_files"] = []
    plan["scenario"]["model"] = "/etc/passwd"
    assert refused("explain", {"plan": plan}) == ("plan.scenario.model",)


def test_a_plan_whose_figures_do_not_go_together_is_refused() -> None:
    plan = answer(build_question(ask.SolveQuestion, {"scenario": SMALL})).model_dump(mode="json")
    plan["layout"]["nodes"] = plan["layout"]["gpus_per_node"] = 0

    assert refused("explain", {"plan": plan}) == ("plan",)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_plans_of_numbers_that_are_not_finite_are_refused(number: float) -> None:
    plan = answer(build_question(ask.SolveQuestion, {"scenario": SMALL})).model_dump(mode="json")
    plan["cost"]["usd_per_hour"] = number

    assert refused("explain", {"plan": plan}) == ("plan",)
    assert refused("export", {"plan": plan, "to": "vllm"}) == ("plan",)
