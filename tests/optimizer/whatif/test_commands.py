"""`shardwise pareto` and `shardwise whatif budget`, as they are typed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import yaml

from optimizer.report.pareto import FIGURES, LAYOUT_COLUMNS, pick
from optimizer.report.plots.front import lower_steps, short
from optimizer.whatif.budget_report import BudgetReport
from optimizer.whatif.front import find_front
from optimizer.whatif.front_points import Front
from tests.optimizer.catalogs import TODAY, draw
from tests.optimizer.command import LLAMA_70B, run


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Spheron's offers of one day: a small question, whose answer new prices do not change."""
    file = tmp_path_factory.mktemp("scenario") / "chat.yaml"
    fields = {
        "model": LLAMA_70B,
        "workload": {"input_tokens": 2000, "output_tokens": 300, "request_rate": 1},
        "targets": {"ttft_ms": 1000, "tpot_ms": 40},
        "limits": {"gpus": ["H200-SXM-141GB", "A100-SXM-80GB"], "providers": "spheron"},
        "prices": {"as_of": "2026-08-14"},
    }
    file.write_text(yaml.safe_dump(fields))
    return str(file)


@pytest.fixture(scope="module")
def long_front() -> Front:
    one = draw(9).with_limits(budget_usd_per_hour=None)
    return find_front(one.scenario, ("cost", "tpot", "ttft", "throughput"), catalog=one.table, today=TODAY)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_front_is_a_table_that_fits_the_terminal_and_marks_its_knee(scenario: str, columns: int) -> None:
    ran = run("pareto", scenario, columns=columns)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("FRONT of cost, TPOT, TTFT: ")
    assert max(map(len, ran.out.splitlines())) <= columns
    assert ran.out.count("knee") >= 1
    assert "best TPOT" in ran.out


def test_a_front_is_written_as_json_and_as_csv_with_the_same_points(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "front.csv"
    ran = run("pareto", scenario, "--cost", "--tpot", "--e2e", "--json", "--out", str(out))
    front = Front.model_validate(ran.json)
    assert front.objectives == ("cost", "tpot", "e2e")
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert list(rows[0]) == [*FIGURES, "knee", "best_in", *LAYOUT_COLUMNS]
    assert [float(row["usd_per_hour"]) for row in rows] == [point.usd_per_hour for point in front.points]
    assert [row["gpu"] for row in rows] == [point.layout.gpu for point in front.points]
    assert [row["knee"] for row in rows].count("true") == 1


def test_a_front_is_drawn(scenario: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "front.png"
    assert run("pareto", scenario, "--plot", str(file), "--set", "workload.request_rate=3").code == 0
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_written_is_one_line(scenario: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").touch()
    ran = run("pareto", scenario, "--plot", str(tmp_path / "file" / "front.png"))
    assert (ran.code, ran.out) == (2, "")
    assert "cannot be written" in ran.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cost"], "--cost alone is no front; name one of --tpot, --ttft, --e2e, --throughput"),
        (["--set", "targets.tpot=1"], "did you mean targets.tpot_ms"),
        (["--up-to-usd-per-hour", "0.1"], "the cheapest layout costs"),
        (["--up-to-usd-per-hour", "much"], "--up-to-usd-per-hour: expected a number"),
    ],
)
def test_what_is_no_front_is_said(scenario: str, flags: list[str], said: str) -> None:
    ran = run("pareto", scenario, *flags)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_question_without_an_answer_has_no_front_and_buys_nothing(scenario: str) -> None:
    impossible = ("--set", "targets.ttft_ms=1")
    ran = run("pareto", scenario, *impossible)
    assert ran.code == 3
    assert ran.out.startswith("INFEASIBLE")
    bought = run("whatif", "budget", scenario, "--usd-per-hour", "50", "--maximize", "latency", *impossible)
    assert bought.code == 3
    assert "no budget buys any" in bought.out


@pytest.mark.parametrize("columns", [80, 120])
def test_budgets_are_tables_that_fit_the_terminal(scenario: str, columns: int) -> None:
    flags = ("--usd-per-hour", "12,40", "--maximize", "traffic,latency")
    ran = run("whatif", "budget", scenario, *flags, columns=columns)
    assert ran.code == 0, ran.err
    assert max(map(len, ran.out.splitlines())) <= columns
    for said in ("$12.00/hour", "$40.00/hour", "most traffic", "least TPOT", "bound by the budget", "output tokens"):
        assert said in " ".join(ran.out.split())


def test_budgets_are_json_and_nothing_else(scenario: str) -> None:
    flags = ("--usd-per-hour", "40, 12, 40", "--maximize", "precision,traffic", "--json")
    report = BudgetReport.model_validate(run("whatif", "budget", scenario, *flags).json)
    assert [answer.usd_per_hour for answer in report.budgets] == [12.0, 40.0]
    assert [bought.what for bought in report.budgets[0].bought] == ["traffic", "precision"]
    assert report.budgets[1].bought[1].same_as_usd_per_hour == 12.0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--usd-per-hour", "none"], "expected a number"),
        (["--usd-per-hour", ""], "--usd-per-hour"),
        (["--usd-per-hour", "9", "--maximize", "trafic"], "did you mean traffic?"),
    ],
)
def test_budgets_that_are_none_are_said(scenario: str, flags: list[str], said: str) -> None:
    ran = run("whatif", "budget", scenario, *flags)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_of_a_long_front_the_table_keeps_ends_knee_and_the_best(long_front: Front) -> None:
    points = long_front.points
    assert len(points) > 8
    shown = pick(points, 8)
    assert len(shown) == 8
    assert shown[0] is points[0]
    assert shown[-1] is points[-1]
    assert any(point.knee for point in shown)
    assert [points.index(point) for point in shown] == sorted(points.index(point) for point in shown)


def test_the_line_of_a_plot_is_the_least_latency_for_the_money(long_front: Front) -> None:
    steps = lower_steps(long_front, "tpot_ms")
    assert [cost for cost, _ in steps] == sorted(cost for cost, _ in steps)
    assert [value for _, value in steps] == sorted((value for _, value in steps), reverse=True)
    assert all(short(point) for point in long_front.points)
