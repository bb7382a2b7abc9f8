"""The library: what `from optimizer import ...` gives, how answers show themselves, and the example notebook."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pandas as pd
import pytest

import optimizer
from optimizer import FleetScenario, QuestionError, Scenario
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.whatif.sweep import Sweep
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, catalog, offer, question
from tests.optimizer.records import HOSTILE, layout, memory
from tests.test_imports import imported_by

EXAMPLES = Path(__file__).parents[2] / "examples"
OFFERS = catalog(offer("L4-24GB", 0.8), offer("A10G-24GB", 1.0), offer("H100-SXM-80GB", 2.5))
FLEET: dict[str, Any] = {
    "models": [
        {"model": SMALL, "classes": [{"name": "a", "input_tokens": 500, "output_tokens": 50, "request_rate": 2}]},
    ]
}


def plan() -> Plan:
    return optimizer.solve(question({"targets": {"tpot_ms": 40}}), offers=OFFERS, today=TODAY)


class TestNames:
    def test_importing_the_package_imports_nothing_heavy(self) -> None:
        assert imported_by("import optimizer") == set()

    def test_a_question_needs_no_tables_and_no_solver(self) -> None:
        assert not imported_by("from optimizer import Scenario") & {"numpy", "ortools", "pandas"}

    def test_every_name_that_is_promised_is_there(self) -> None:
        assert set(optimizer.__all__) <= set(dir(optimizer))
        for name in optimizer.__all__:
            assert callable(getattr(optimizer, name))

    def test_another_name_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="no attribute 'sovle'"):
            optimizer.sovle  # noqa: B018

    @pytest.mark.parametrize("first", ["import optimizer.solve, optimizer.fit", "import optimizer"])
    def test_a_function_is_called_by_its_name_whatever_was_imported_before(self, first: str) -> None:
        program = (
            f"{first}\nfrom optimizer import fit, solve\nimport inspect, optimizer.solve as module\n"
            "assert callable(solve) and callable(fit) and callable(module.pose)\n"
            "assert 'time_limit_s' in inspect.signature(solve).parameters\n"
            "print(fit('Qwen/Qwen2.5-0.5B-Instruct', 'L4-24GB').fits)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"

    def test_every_function_says_what_it_does(self) -> None:
        library = sys.modules["optimizer.library"]
        for name in library.__all__:
            assert inspect.getdoc(getattr(library, name))


class TestQuestions:
    def test_a_question_is_asked_in_the_words_of_the_file(self, tmp_path: Path) -> None:
        asked = Scenario(
            model=SMALL,
            workload={"input_tokens": 1000, "output_tokens": 100, "request_rate": 4},  # type: ignore[arg-type]
            limits={"gpus": "L4-24GB"},  # type: ignore[arg-type]
        )
        file = tmp_path / "scenario.yaml"
        file.write_text(asked.to_yaml(), encoding="utf-8")
        assert Scenario.from_yaml(file) == Scenario.from_yaml(str(file)) == asked
        assert asked.to_yaml().count("\n") == 7

    @pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
    def test_every_example_survives_being_written_down(self, path: Path, tmp_path: Path) -> None:
        kind: Any = FleetScenario if path.stem.startswith("fleet") else Scenario
        asked = kind.from_yaml(path)
        (tmp_path / "a.yaml").write_text(asked.to_yaml(), encoding="utf-8")
        assert kind.from_yaml(tmp_path / "a.yaml") == asked

    def test_a_wrong_field_is_named(self) -> None:
        with pytest.raises(ValueError, match="whole number from 1"):
            Scenario(model=SMALL, workload={"input_tokens": 0, "output_tokens": 1, "request_rate": 1})  # type: ignore[arg-type]


class TestAnswers:
    def test_solve_answers_a_layout_and_a_fleet(self) -> None:
        assert plan().status == "optimal"
        fleet = optimizer.solve(FleetScenario.model_validate(FLEET), offers=OFFERS, today=TODAY)
        assert isinstance(fleet, FleetPlan)
        assert fleet.to_frame()["price_usd_per_node_hour"].tolist() == [0.8]

    def test_the_frame_of_a_plan_is_the_answer_and_its_alternatives(self) -> None:
        frame = plan().to_frame()
        assert frame["gpu"].tolist() == ["L4-24GB", "A10G-24GB", "H100-SXM-80GB"]
        assert frame["usd_per_hour"].tolist() == [0.8, 1.0, 2.5]
        assert frame["why"][0] == "the answer"
        assert frame["tp"].tolist() == [1, 1, 1]

    def test_an_infeasible_plan_has_an_empty_frame(self) -> None:
        none = optimizer.solve(question({"limits": {"budget_usd_per_hour": 0.01}}), offers=OFFERS, today=TODAY)
        assert none.to_frame().empty

    def test_a_plan_is_kept_and_read_back(self, tmp_path: Path) -> None:
        found = plan()
        path = found.save(tmp_path / "plan.json")
        assert optimizer.load_plan(path) == Plan.from_file(str(path)) == found
        with pytest.raises(QuestionError, match="is not a plan"):
            FleetPlan.from_file(path)

    def test_fit_and_predict_take_the_words_of_the_command_line(self) -> None:
        found = optimizer.fit(MEDIUM, "L4-24GB", tp=2, concurrency=4, memory={"policy": "engine"})
        assert (found.fits, found.gpus, found.memory and found.memory.policy) == (True, 2, "engine")
        speed = optimizer.predict(MEDIUM, "L4-24GB", tp=2, concurrency=4, input_tokens=500, output_tokens=50)
        assert speed.tpot_ms > 0

    def test_fronts_and_budgets_are_tables_too(self) -> None:
        asked = question()
        front = optimizer.front(asked, offers=OFFERS, today=TODAY).to_frame()
        assert front["usd_per_hour"].is_monotonic_increasing
        bought = optimizer.what_budgets_buy(asked, [1.0, 5.0], ["traffic"], offers=OFFERS, today=TODAY).to_frame()
        assert bought["budget_usd_per_hour"].tolist() == [1.0, 5.0]
        assert bought["value"].is_monotonic_increasing

    def test_explain_takes_the_plan_itself(self) -> None:
        found = optimizer.explain(plan(), "1x H100-SXM-80GB", offers=OFFERS)
        assert found.why_not is not None
        assert found.why_not.verdict == "dearer"


def sweep_answer() -> Sweep:
    columns = ("workload.request_rate", "status", "usd_per_hour", "gpu")
    return Sweep(
        scenario={}, price_factors={}, varied=({"field": "workload.request_rate", "values": (1, 2)},),  # type: ignore[arg-type]
        counts={}, marks={}, kept=0, engine="", today=date(2026, 8, 20), columns=columns,
        rows=((1, "infeasible", None, None), (2, "infeasible", None, None)), file="a.csv",
    )  # fmt: skip


class TestNotebooks:
    def test_answers_show_themselves_as_drawings_and_tables(self) -> None:
        found = plan()
        none = optimizer.solve(question({"limits": {"budget_usd_per_hour": 0.01}}), offers=OFFERS, today=TODAY)
        fleet = optimizer.solve(FleetScenario.model_validate(FLEET), offers=OFFERS, today=TODAY)
        fit = optimizer.fit(MEDIUM, "L4-24GB", tp=2)
        speed = optimizer.predict(MEDIUM, "L4-24GB", tp=2, concurrency=4, input_tokens=500, output_tokens=50)
        drawings = {id(found): 3, id(none): 0, id(fleet): 1, id(fit): 1, id(speed): 1}
        for one in (found, none, fleet, fit, speed):
            shown = one._repr_html_()
            assert shown.count("<svg") == drawings[id(one)]
            assert "<script" not in shown
            root = Xml.fromstring(shown.replace("<br>", ""))
            assert root.attrib["class"] == "shardwise"

    def test_plain_text_is_the_summary(self) -> None:
        found = plan()
        assert found._repr_mimebundle_()["text/plain"] == f"Plan: {found.summary}"
        assert len(memory()._repr_mimebundle_()["text/plain"]) <= 200

    def test_an_answer_without_a_form_of_its_own_shows_its_fields(self) -> None:
        shown = memory()._repr_html_()
        assert "<dt>weights_gib</dt><dd>30</dd>" in shown

    def test_hostile_names_are_text(self) -> None:
        shown = layout(provider=HOSTILE)._repr_html_()
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown

    def test_rows_of_a_sweep_are_a_frame(self) -> None:
        found = sweep_answer()
        assert isinstance(found.to_frame(), pd.DataFrame)
        assert found.to_frame()["workload.request_rate"].tolist() == [1, 2]
        assert found._repr_html_().count("<tr>") == 3

    def test_its_style_is_its_own(self) -> None:
        """Each rule begins with the class of the answer, so that the rest of a notebook looks as before."""
        style = re.findall(r"<style>(.*?)</style>", memory()._repr_html_())[0]
        selectors = [one for rule in re.findall(r"([^{}]+)\{", style) for one in rule.split(",")]
        assert all(".shardwise" in one for one in selectors)


def test_the_notebook_gives_what_it_shows() -> None:
    """Run again, every cell has the output that is kept in the file."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    kept = nbformat.read(EXAMPLES / "library.ipynb", as_version=4)
    again = nbformat.from_dict(kept)
    nbclient.NotebookClient(again, timeout=120, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    for before, after in zip(kept.cells, again.cells, strict=True):
        assert _shown(after) == _shown(before)


def _shown(cell: Any) -> list[Any]:
    return [one.get("data") or one.get("text") for one in cell.get("outputs", [])]
