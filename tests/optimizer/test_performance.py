"""--performance and --performance-table: from the flag to the answer, its audit, and its report."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import pytest

from catalogs.models import load_model
from optimizer.check import check_plan
from optimizer.flags import read_question
from optimizer.performance.backends import aiconfigurator
from optimizer.performance.backends.aiconfigurator import Aiconfigurator
from optimizer.plan import Plan
from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run
from tests.optimizer.performance.test_aiconfigurator import FakeDatabase

QUESTION = ("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--gpu", "H200-SXM-141GB", "--tp", "2", "--pp", "1")
PREDICT = ("predict", LLAMA_70B, "--gpu", "H200-SXM-141GB", "--tp", "2", "--concurrency", "8")
PREDICT += ("--input-tokens", "1000", "--output-tokens", "200")
HEAD = "gpu,model,weights,tp,batch,context_tokens,decode_step_ms,input_tokens,prefill_ms"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDatabase:
    """The package, with steps a fifth longer than about what the roofline says of 70B on two H200."""
    database = FakeDatabase(lambda bs, isl: 24.0 + 0.06 * bs + 5e-5 * bs * isl)
    one = Aiconfigurator(database)
    monkeypatch.setattr(aiconfigurator, "installed", lambda: one)
    return database


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "steps.csv"
    rows = ("1,500,22,,", "1,16000,24,,", "256,500,50,,", "256,16000,300,,", ",,,100,40", ",,,16000,1800")
    lines = [f"H200-SXM-141GB,{LLAMA_70B},bf16,2,{row}" for row in rows]
    path.write_text("\n".join([HEAD, *lines]) + "\n", encoding="utf-8")
    return path


def test_our_own_model_is_the_default_and_says_so_in_json_only() -> None:
    plain, asked = run(*QUESTION, "--json").json, run(*QUESTION, "--performance", "roofline", "--json").json

    assert plain["performance"] == asked["performance"]
    assert plain["performance"]["decode_from"] == "roofline"
    assert set(plain["speed"]["candidates"]) == {"roofline"}
    assert "Where speed figures come from" not in run(*QUESTION).out


def test_an_answer_on_the_packages_figures_passes_its_audit_and_names_them(fake: FakeDatabase) -> None:
    plan = run(*QUESTION, "--performance", "aiconfigurator", "--json").json
    said = plan["performance"]

    assert plan["status"] == "optimal"
    assert (said["decode_from"], said["prefill_from"], said["basis"]) == ("aiconfigurator",) * 3
    assert said["error_band"] == 0.21
    assert plan["speed"]["candidates"]["aiconfigurator"] > 0
    assert sum(plan["speed"]["not_covered"].values()) == plan["speed"]["candidates"]["roofline"]


def test_every_candidate_is_counted_once(fake: FakeDatabase) -> None:
    """By source; and those that the package does not cover, by reason."""
    plan = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--performance", "auto", "--json").json
    ours = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--json").json
    speed = plan["speed"]

    assert sum(speed["candidates"].values()) == ours["speed"]["candidates"]["roofline"]
    assert sum(speed["not_covered"].values()) == speed["candidates"]["roofline"]


def test_an_answer_that_names_another_backend_does_not_pass(fake: FakeDatabase) -> None:
    plan = Plan.model_validate_json(run(*QUESTION, "--performance", "aiconfigurator", "--json").out)
    assert plan.performance is not None
    lying = plan.model_copy(update={"performance": plan.performance.model_copy(update={"decode_from": "roofline"})})

    assert check_plan(plan, load_model(LLAMA_70B)) == ()
    (violation,) = check_plan(lying, load_model(LLAMA_70B))
    assert violation.message == "performance.decode_from is roofline, not aiconfigurator"


def test_the_report_says_where_figures_come_from(fake: FakeDatabase) -> None:
    out = run(*QUESTION, "--performance", "aiconfigurator", columns=120).out

    assert "Decode steps are sums of operators that NVIDIA timed (aiconfigurator); expect TPOT to be off by 21%" in out
    assert "Decode steps come from aiconfigurator, prefills from aiconfigurator" in out
    assert "Where speed figures come from (aiconfigurator)" in out


def test_a_measured_table_comes_first_and_passes_the_audit(table: Path) -> None:
    plan = run(*QUESTION, "--performance-table", str(table), "--json").json
    said = plan["performance"]

    assert plan["status"] == "optimal"
    assert (said["decode_from"], said["prefill_from"], said["basis"]) == ("table",) * 3
    assert said["error_band"] is None
    assert plan["speed"]["table"] == str(table)
    assert not [warning for warning in plan["warnings"] if "measured table" in warning]


def test_what_a_table_does_not_reach_is_a_warning(table: Path) -> None:
    traffic = ("--input-tokens", "30000", "--output-tokens", "300", "--request-rate", "0.1")
    ran = run("solve", LLAMA_70B, *traffic, *QUESTION[len(TRAFFIC) + 2 :], "--performance-table", str(table), "--json")

    assert ran.json["performance"]["decode_from"] == "roofline"
    assert "the measured table does not reach decode steps at this traffic and its prefills" in str(
        ran.json["warnings"]
    )


def test_one_replica_is_predicted_from_a_table(table: Path) -> None:
    """At the table's own points: one request of 500 tokens has a step of 22 ms."""
    alone = (*PREDICT[:6], "--concurrency", "1", "--input-tokens", "400", "--output-tokens", "200")
    found = run(*alone, "--performance-table", str(table), "--json").json

    assert found["tpot_ms"] == pytest.approx(22.0)
    assert sum(found["step_ms"].values()) == pytest.approx(22.0)


def test_a_plan_is_replayed_on_the_figures_that_it_was_made_of(table: Path, tmp_path: Path) -> None:
    """A lone request waits for nobody: the TPOT of 1,000 + 100 tokens lies between the table's at 500 and 16,000."""
    plan, trace = tmp_path / "plan.json", tmp_path / "trace.csv"
    plan.write_text(run(*QUESTION, "--performance-table", str(table), "--json").out, encoding="utf-8")
    trace.write_text("timestamp,input_tokens,output_tokens\n0,1000,200\n", encoding="utf-8")
    same = run("simulate", str(plan), "--trace", str(trace), "--json").json["simulated"]["tpot_ms"]["mean"]
    other = ("--performance", "roofline")
    ours = run("simulate", str(plan), "--trace", str(trace), *other, "--json").json["simulated"]["tpot_ms"]["mean"]
    expected = 22.0 * (24 / 22) ** (log(1100 / 500) / log(16_000 / 500))

    assert same == pytest.approx(expected, rel=0.005)
    assert ours != pytest.approx(expected, rel=0.005)


def test_the_environment_says_it_where_neither_flag_nor_file_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHARDWISE_PERFORMANCE", "auto")
    flags = {"input_tokens": "10", "output_tokens": "10", "concurrency": "1"}
    workload = "model: m\nworkload: {input_tokens: 10, output_tokens: 10, concurrency: 1}\n"
    silent, says = tmp_path / "silent.yaml", tmp_path / "says.yaml"
    silent.write_text(workload, encoding="utf-8")
    says.write_text(workload + "performance: {backend: roofline, table: mine.csv}\n", encoding="utf-8")

    assert read_question("m", flags).performance.backend == "auto"
    assert read_question("m", flags | {"performance": "roofline"}).performance.backend == "roofline"
    assert read_question(str(silent), {}).performance.backend == "auto"
    assert read_question(str(says), {}).performance.backend == "roofline"
    assert read_question(str(says), {}).performance.table == tmp_path / "mine.csv"


@pytest.mark.parametrize("command", [QUESTION, PREDICT])
def test_a_backend_that_is_none_is_refused(command: tuple[str, ...]) -> None:
    ran = run(*command, "--performance", "guess")

    assert (ran.code, ran.out) == (2, "")
    assert "--performance: expected 'roofline', 'aiconfigurator' or 'auto'; got 'guess'" in ran.err


def test_a_wrong_environment_is_refused_too() -> None:
    assert "expected 'roofline', 'aiconfigurator' or 'auto'" in run(*PREDICT, SHARDWISE_PERFORMANCE="guess").err


@pytest.mark.parametrize("command", [QUESTION, PREDICT])
def test_without_the_package_one_line_says_how_to_install_it(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiconfigurator, "PACKAGE", "no-such-package-at-all")
    aiconfigurator.installed.cache_clear()
    ran = run(*command, "--performance", "aiconfigurator")

    assert (ran.code, ran.out) == (2, "")
    expected = (
        "--performance aiconfigurator and auto need the package aiconfigurator: pip install 'shardwise[aiconfigurator]'"
    )
    assert ran.err == f"shardwise: {expected}\n"


def test_a_wrong_table_is_refused_with_its_place(table: Path) -> None:
    table.write_text(table.read_text(encoding="utf-8").replace("1,500,22", "1,500,x"), encoding="utf-8")
    ran = run(*PREDICT, "--performance-table", str(table))

    assert ran.code == 2
    assert "line 2, column decode_step_ms: got 'x'; expected a number above 0" in ran.err


def test_validation_compares_a_backend_with_our_own_model_on_the_same_runs(fake: FakeDatabase, tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    head = "engine,model,gpu,n_gpus,tp,isl,osl,len_dist,scenario,concurrency,tpot_ms"
    row = "vllm,meta-llama/Meta-Llama-3.1-70B,{},2,2,1000,200,fixed,fixed_concurrency,8,25"
    gpus = ("H200-SXM-141GB", "MI300X-192GB")
    runs.write_text("\n".join([head, *(row.format(gpu) for gpu in gpus)]) + "\n", encoding="utf-8")
    found = json.loads(run("validate", "speed", str(runs), "--performance", "aiconfigurator", "--json").out)
    groups = {one["name"]: one["errors"][0] for one in found["groups"] if one["by"] == "answered_by"}

    assert found["performance"] == "aiconfigurator"
    assert {name: one["rows"] for name, one in groups.items()} == {
        "aiconfigurator, closed loops": 1,
        "roofline, the same": 1,
        "roofline, closed loops": 1,
    }
