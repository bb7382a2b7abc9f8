"""Sweeps: each row is the answer to its own question, and engines, chunks and interruptions change nothing."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from catalogs.models import load_model
from catalogs.offers import load_offers
from optimizer.errors import AuditError, QuestionError
from optimizer.report.plots.figure import check_plot, save
from optimizer.report.plots.sweep import check_grid, sweep_picture
from optimizer.scenario import Scenario, load_scenario
from optimizer.solve import solve
from optimizer.whatif.api_prices import api_price
from optimizer.whatif.chunks import Base, in_chunks, solve_chunk, weight
from optimizer.whatif.engines import OneProcess, Processes, choose_engine
from optimizer.whatif.fields import apply
from optimizer.whatif.inputs import _model_mark, load_model_once, marks_of
from optimizer.whatif.point import RESULT_COLUMNS, plan_row, solve_point
from optimizer.whatif.points import Grid, read_grid
from optimizer.whatif.sweep import Sweep, Watch, sweep
from optimizer.whatif.sweep_files import check_output
from tests.optimizer.catalogs import SMALL, TODAY, question
from tests.optimizer.command import run

# One provider's offers of one day and the smallest model: points of some milliseconds.
QUESTION = {
    "model": SMALL,
    "workload": {"input_tokens": 1000, "output_tokens": 200, "request_rate": 40},
    "targets": {"tpot_ms": 20},
    "limits": {"providers": ["spheron"], "tp": [1]},
    "prices": {"as_of": "2026-08-14"},
}
RATES = "workload.request_rate=20:320:x2"


def scenario_file(folder: Path) -> Path:
    path = folder / "question.yaml"
    path.write_text(yaml.safe_dump(QUESTION))
    return path


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return load_scenario(scenario_file(tmp_path_factory.mktemp("question")))


def swept(asked: Scenario, folder: Path, *vary: str, name: str = "out.csv", **more: Any) -> Sweep:
    return sweep(asked, read_grid(vary), folder / name, OneProcess(), today=TODAY, **more)


def test_each_row_is_the_answer_to_its_own_question(asked: Scenario, tmp_path: Path) -> None:
    vary = "workload.request_rate=20,160", "targets.tpot_ms=0.1,20", "limits.weights=bf16,fp8+bf16"
    found = swept(asked, tmp_path, *vary)
    assert len(found.rows) == 2 * 2 * 2
    assert set(found.counts) == {"optimal", "infeasible"}
    catalog, model = load_offers(asked.prices.as_of), load_model(asked.model)
    for row in found.table():
        values = {name: row[name] for name in ("workload.request_rate", "targets.tpot_ms")}
        question = apply(asked, values | {"limits.weights": tuple(row["limits.weights"].split("+"))})
        plan = solve(question, model=model, catalog=catalog, today=TODAY)
        assert {name: row[name] for name in RESULT_COLUMNS} == plan_row(plan)


def test_factors_on_prices_are_what_offers_at_those_prices_would_cost(asked: Scenario, tmp_path: Path) -> None:
    found = swept(asked, tmp_path, "price:spheron=0.5,1,2")
    half, list_price, double = (row["usd_per_hour"] for row in found.table())
    assert (half, double) == (pytest.approx(list_price / 2), pytest.approx(list_price * 2))
    fixed = swept(asked, tmp_path, RATES, fixed={"price:spheron": 2.0, "workload.output_tokens": 100})
    assert fixed.price_factors == {"price:spheron": 2.0}
    assert fixed.scenario["workload"]["output_tokens"] == 100
    plain = swept(asked, tmp_path, RATES, fixed={"workload.output_tokens": 100})
    for with_factor, without in zip(fixed.table(), plain.table(), strict=True):
        assert with_factor["usd_per_hour"] == pytest.approx(2 * without["usd_per_hour"])


def test_processes_give_the_rows_of_one_process(asked: Scenario, tmp_path: Path) -> None:
    grid = read_grid([RATES, "workload.input_tokens=500,1000"])
    one = sweep(asked, grid, tmp_path / "one.csv", OneProcess(), today=TODAY)
    two = sweep(asked, grid, tmp_path / "two.csv", Processes(2), today=TODAY)
    assert one.rows == two.rows
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_the_file_has_the_documented_columns_in_order_and_the_journal_is_gone(asked: Scenario, tmp_path: Path) -> None:
    found = swept(asked, tmp_path, RATES)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == ("workload.request_rate", *RESULT_COLUMNS)
    assert [float(row["usd_per_hour"]) for row in rows] == [row["usd_per_hour"] for row in found.table()]
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_parquet_holds_what_csv_holds_with_types(asked: Scenario, tmp_path: Path) -> None:
    vary = RATES, "targets.tpot_ms=0.1,20", "limits.weights=bf16,fp8"
    found = swept(asked, tmp_path, *vary, name="out.parquet")
    swept(asked, tmp_path, *vary)
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert list(frame.columns) == list(found.columns)
    assert frame["nodes"].dtype == "Int64"
    assert frame["usd_per_hour"].dtype == "Float64"
    text = pd.read_csv(tmp_path / "out.csv")
    assert frame["usd_per_hour"].fillna(-1).tolist() == text["usd_per_hour"].fillna(-1).tolist()
    assert frame["summary"].fillna("").tolist() == text["summary"].fillna("").tolist()
    assert frame["limits.weights"].tolist() == text["limits.weights"].tolist()


def test_combinations_that_are_refused_are_rows_and_values_refused_everywhere_are_errors(
    asked: Scenario, tmp_path: Path
) -> None:
    vary = "workload.context_tokens=1200,3000", "workload.output_tokens=200,900"
    found = swept(asked, tmp_path, *vary)
    assert found.counts == {"invalid": 1, "optimal": 3}
    assert "shorter than input_tokens + output_tokens = 1900" in str(found.table()[1]["message"])
    with pytest.raises(QuestionError, match=r"--vary workload.context_tokens=100: .*shorter than"):
        swept(asked, tmp_path, "workload.context_tokens=100,3000", "workload.output_tokens=200,900")
    with pytest.raises(QuestionError, match=r"--vary limits.weights=bf17: unknown weight format .*did you mean bf16"):
        swept(asked, tmp_path, "limits.weights=bf17,bf16", "targets.tpot_ms=1:2:n500")
    with pytest.raises(QuestionError, match=r"--vary limits.providers=sferon: .*Did you mean spheron"):
        swept(asked, tmp_path, "limits.providers=spheron,sferon")
    with pytest.raises(QuestionError, match=r"--vary model=nobody/nothing: Unknown model"):
        swept(asked, tmp_path, f"model={SMALL},nobody/nothing")
    with pytest.raises(QuestionError, match="both set and varied"):
        swept(asked, tmp_path, RATES, fixed={"workload.request_rate": 1})
    with pytest.raises(QuestionError, match=r"--out .*ends in \.csv or \.parquet"):
        swept(asked, tmp_path, RATES, name="out.txt")


def test_chunks_hold_every_point_once_and_never_mix_tables_of_candidates(asked: Scenario) -> None:
    grid = read_grid(["limits.terms=spot,on-demand", "workload.input_tokens=100:500:n5", "targets.tpot_ms=10:20:n11"])
    for todo in (None, set(range(0, len(grid), 3))):
        chunks = list(in_chunks(Base(asked), grid, todo, TODAY, {}, jobs=2))
        points = [point for chunk in chunks for point, _ in chunk.points]
        assert sorted(points) == sorted(todo if todo is not None else range(len(grid)))
        for chunk in chunks:
            assert len({values["workload.input_tokens"] for _, values in chunk.points}) == 1
            assert all(grid.at(point) == values for point, values in chunk.points)
    assert [weight(name) for name in ("limits.tp", "prices.as_of", "model", "memory.headroom")] == [0] * 4
    assert [weight(name) for name in ("targets.ttft_ms", "limits.max_utilization")] == [1] * 2
    assert [weight(name) for name in ("workload.request_rate", "limits.budget_usd_per_hour", "price:spot")] == [2] * 3


class _Stops(OneProcess):
    """An engine that is interrupted after some chunks."""

    def __init__(self, after: int):
        self._after = after

    def run(self, chunks: Any) -> Any:
        for number, solved in enumerate(super().run(chunks)):
            if number == self._after:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)
            yield solved


def test_an_interrupted_sweep_goes_on_where_it_stopped_on_the_day_it_began(asked: Scenario, tmp_path: Path) -> None:
    grid = read_grid([RATES, "targets.tpot_ms=10:20:n4"])
    with pytest.raises(Exception, match=r"interrupted: \d+ of 20 points are kept in .*out\.csv\.partial") as stopped:
        sweep(asked, grid, tmp_path / "out.csv", _Stops(3), today=TODAY)
    assert stopped.value.signal_number == signal.SIGTERM  # type: ignore[attr-defined]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    said: list[str] = []
    found = sweep(asked, grid, tmp_path / "out.csv", OneProcess(), Watch(say=said.append))
    assert 0 < found.kept < 20
    assert said == [f"going on from out.csv.partial: {found.kept} points are kept"]
    assert found.today == TODAY
    whole = sweep(asked, grid, tmp_path / "whole.csv", OneProcess(), today=TODAY)
    assert found.rows == whole.rows


def test_killed_processes_lose_nothing_that_was_done(asked: Scenario, tmp_path: Path) -> None:
    question, out = scenario_file(tmp_path), tmp_path / "out.csv"
    journal = tmp_path / "out.csv.partial"
    vary = "workload.request_rate=1:16:1", "targets.tpot_ms=10,20"
    flags = [f"--vary={one}" for one in vary]
    command = [
        sys.executable,
        "-m",
        "optimizer.cli",
        "whatif",
        "sweep",
        str(question),
        *flags,
        f"--out={out}",
        "--jobs=2",
    ]

    def stop_after(lines: int, number: int) -> tuple[int, str]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        end = time.monotonic() + 40
        while time.monotonic() < end and (not journal.exists() or journal.read_bytes().count(b"\n") < lines):
            time.sleep(0.02)
        # Ctrl-C reaches the whole group, as from a terminal; kill -9 only the process named.
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        _, errors = process.communicate(timeout=30)
        return process.returncode, errors

    code, errors = stop_after(3, signal.SIGINT)
    assert code == 130
    assert errors.count("\n") == 1
    assert "run the same command again to go on" in errors
    first = journal.read_text().splitlines()
    code, errors = stop_after(len(first) + 2, signal.SIGKILL)
    assert code == -signal.SIGKILL
    kept = sum(len(json.loads(line)) for line in first[1:])
    assert f"going on from out.csv.partial: {kept} points are kept" in errors
    second = journal.read_text().splitlines()
    assert second[: len(first)] == first
    assert len(second) > len(first)

    grid = read_grid(vary)
    went_on = sweep(asked, grid, out, OneProcess())
    assert went_on.kept == sum(len(json.loads(line)) for line in second[1:] if line.endswith("]"))
    assert 0 < went_on.kept < len(grid)
    assert not journal.exists()
    assert went_on.rows == sweep(asked, grid, tmp_path / "whole.csv", OneProcess(), today=went_on.today).rows


def test_the_command_prints_a_table_or_json_and_writes_the_file(tmp_path: Path) -> None:
    question, out = str(scenario_file(tmp_path)), str(tmp_path / "out.csv")
    table = run("whatif", "sweep", question, "--vary", RATES, "--out", out, "--jobs", "1")
    assert (table.code, table.err) == (0, "")
    assert "5 points over workload.request_rate (5): 5 optimal" in table.out
    assert "same" in table.out
    assert max(map(len, table.out.splitlines())) <= 80
    across = run(
        "whatif", "sweep", question, "--vary", RATES, "--vary", "targets.tpot_ms=0.1,20", "--out", out, "--jobs", "1"
    )
    assert "infeasible" in across.out
    assert "A: " in across.out
    long = run(
        "whatif",
        "sweep",
        question,
        "--vary",
        "workload.request_rate=1:400:n12",
        "--out",
        out,
        "--jobs",
        "1",
        "--limit",
        "9",
    )
    assert "Cheapest layout by stretch of values" in long.out
    three = ("--vary", "limits.tp=1", "--vary", "targets.tpot_ms=0.1,20", "--vary", RATES)
    by_value = run("whatif", "sweep", question, *three, "--out", out, "--jobs", "1", "--json")
    assert by_value.json["counts"] == {"infeasible": 5, "optimal": 5}
    assert by_value.json["columns"][:3] == ["limits.tp", "targets.tpot_ms", "workload.request_rate"]
    refused = run("whatif", "sweep", question, "--vary", "workload.rate=1", "--out", out)
    assert (refused.code, refused.out) == (2, "")


def test_plots_are_drawn_of_one_and_of_two_fields(asked: Scenario, tmp_path: Path) -> None:
    for vary in ([RATES], ["limits.weights=bf16,fp8", RATES], [RATES, "targets.tpot_ms=0.1:20:n5"]):
        picture = tmp_path / f"{len(vary)}.png"
        check_grid(read_grid(vary))
        save(sweep_picture(swept(asked, tmp_path, *vary)), picture)
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("vary", "name", "said"),
    [
        (["limits.weights=bf16,fp8"], "a.png", "needs a varied field of numbers"),
        ([RATES], "a.gif", "ends in .png"),
        ([RATES, "limits.tp=1,2", "limits.pp=1,2"], "a.png", "one or two varied fields"),
    ],
)
def test_plots_that_cannot_be_drawn_are_refused_first(vary: list[str], name: str, said: str) -> None:
    grid: Grid = read_grid(vary)
    check = partial(check_plot, Path(name)) if name.endswith(".gif") else partial(check_grid, grid)
    with pytest.raises(QuestionError, match=said):
        check()


def test_marks_of_equal_inputs_are_equal_in_every_process() -> None:
    program = (
        "from datetime import date; from optimizer.whatif.inputs import marks_of;"
        "from tests.optimizer.catalogs import question;"
        "print(marks_of([question(model='deepseek-ai/DeepSeek-V3')], date(2026, 8, 20)))"
    )
    marks = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(marks) == 1


def _parquet(folder: Path) -> None:
    check_output(folder / "a.parquet")


@pytest.mark.parametrize(
    ("package", "use", "extra"),
    [
        ("pyarrow", _parquet, "parquet"),
        ("matplotlib", lambda folder: check_plot(folder / "a.png"), "plot"),
        ("distributed", lambda _: choose_engine(None, "tcp://127.0.0.1:8786"), "dask"),
        ("genai_prices.data", lambda _: api_price("deepseek/deepseek-chat", 10, 10, day=TODAY), "api-prices"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_install_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, use: Any, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(QuestionError, match=rf'pip install "shardwise\[{extra}\]"'):
        use(tmp_path)


def test_without_joblib_one_process_does_the_work_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    engine, said = choose_engine(4, None)
    assert engine.jobs == 1
    assert said == 'joblib is not installed: one process instead of 4; pip install "shardwise[sweep]"'


def test_a_point_whose_audit_does_not_pass_is_a_failed_row_and_not_the_end(
    asked: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve_one(scenario: Scenario, **given: Any) -> dict[str, Any]:
        if scenario.workload.demand == 40:
            raise AuditError(["a rule is broken"])
        return solve_point(scenario, **given)

    monkeypatch.setattr("optimizer.whatif.chunks.solve_point", solve_one)
    found = swept(asked, tmp_path, RATES)
    assert found.counts == {"failed": 1, "optimal": 4}
    assert "a rule is broken" in str(found.table()[1]["message"])


def test_a_worker_with_other_prices_is_refused(asked: Scenario) -> None:
    grid = read_grid([RATES])
    marks = marks_of([asked], TODAY)
    (first, *_) = in_chunks(Base(asked), grid, None, TODAY, marks | dict.fromkeys(marks, "other"), jobs=1)
    with pytest.raises(QuestionError, match="this worker has other version of shardwise"):
        solve_chunk(first)


def test_what_a_model_has_worked_out_since_it_was_loaded_does_not_change_its_mark() -> None:
    asked = question(model="deepseek-ai/DeepSeek-V3")
    before = marks_of([asked], TODAY)
    model = load_model_once(asked.model)
    for name in dir(type(model)):
        if isinstance(getattr(type(model), name), cached_property):
            getattr(model, name)
    _model_mark.cache_clear()
    assert marks_of([asked], TODAY) == before
