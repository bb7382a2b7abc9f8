"""Sweeps over fleets: each row is the answer to its own question, traffic is one factor, interruptions lose nothing."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from catalogs.models import load_model
from catalogs.offers import load_offers
from optimizer.errors import QuestionError
from optimizer.fleet.question import FleetScenario, load_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from optimizer.fleet.traffic import read_traffic
from optimizer.programs.layout import Settings
from optimizer.report.plots.sweep import sweep_picture
from optimizer.whatif.engines import OneProcess, Processes
from optimizer.whatif.fleet_fields import apply_to_fleet
from optimizer.whatif.fleet_point import FLEET_COLUMNS, fleet_row
from optimizer.whatif.journal import SUFFIX
from optimizer.whatif.points import read_grid
from optimizer.whatif.sweep import Sweep, SweepInterrupted, Watch, sweep
from tests.optimizer.catalogs import SMALL, TODAY
from tests.optimizer.command import run

QUESTION: dict[str, Any] = {
    "model": SMALL,
    "classes": [
        {"name": "chat", "input_tokens": 1000, "output_tokens": 200, "request_rate": 20},
        {"name": "long", "input_tokens": 4000, "output_tokens": 100, "request_rate": 4},
    ],
    "targets": {"tpot_ms": 20},
    "limits": {"providers": ["spheron"], "tp": [1]},
    "prices": {"as_of": "2026-08-14"},
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("question") / "fleet.yaml"
    path.write_text(yaml.safe_dump(QUESTION))
    return path


@pytest.fixture(scope="module")
def asked(file: Path) -> FleetScenario:
    return load_fleet_scenario(file)


def swept(asked: FleetScenario, folder: Path, *vary: str, name: str = "out.csv", **more: Any) -> Sweep:
    return sweep(asked, read_grid(vary, FleetScenario), folder / name, OneProcess(), today=TODAY, **more)


def test_each_row_is_the_answer_to_its_own_question(asked: FleetScenario, tmp_path: Path) -> None:
    found = swept(asked, tmp_path, "traffic=0.5,4", "targets.tpot_ms=0.01,20", "fleet.survive=nothing,node")
    assert set(found.counts) == {"optimal", "infeasible"}
    catalog, models = load_offers(asked.prices.as_of), {SMALL: load_model(SMALL)}
    for row in found.table():
        question = apply_to_fleet(asked, {name: row[name] for name in found.columns[:3]})
        plan = solve_fleet(question, models=models, catalog=catalog, today=TODAY, compare=False)
        assert {name: row[name] for name in FLEET_COLUMNS} == fleet_row(plan)


def test_traffic_is_a_factor_on_every_class_in_every_hour(asked: FleetScenario) -> None:
    fields: dict[str, Any] = {
        "model": None,
        "classes": (),
        "models": [
            {"model": SMALL, "classes": QUESTION["classes"], "profile": [0.5] * 12 + [1.0] * 12},
            {
                "model": SMALL,
                "name": "b",
                "histogram": {
                    "input_edges": [1000, 2000],
                    "output_edges": [100],
                    "shares": [[3.0], [1.0]],
                    "request_rate": 4,
                },
            },
        ],
    }
    question = FleetScenario.model_validate(asked.model_dump() | fields)
    before, after = read_traffic(question), read_traffic(apply_to_fleet(question, {"traffic": 2.5}))
    assert [one.name for one in after.demands] == [one.name for one in before.demands]
    for was, now in zip(before.demands, after.demands, strict=True):
        assert now.rates == pytest.approx([2.5 * rate for rate in was.rates])
        assert (now.targets, now.regions, now.model) == (was.targets, was.regions, was.model)
    assert apply_to_fleet(question, {"traffic": 1}) is question


def test_more_traffic_and_dearer_offers_never_cost_less(asked: FleetScenario, tmp_path: Path) -> None:
    more = [row["usd_per_hour"] for row in swept(asked, tmp_path, "traffic=0.25:8:x2").table()]
    assert more == sorted(more)
    half, listed, double = (row["usd_per_hour"] for row in swept(asked, tmp_path, "price:spheron=0.5,1,2").table())
    assert (half, double) == (pytest.approx(listed / 2), pytest.approx(listed * 2))


class _Stops(OneProcess):
    """An engine that is interrupted after some chunks."""

    def run(self, chunks: Any) -> Any:
        for number, solved in enumerate(super().run(chunks)):
            if number == 2:
                raise KeyboardInterrupt
            yield solved


def test_an_interrupted_sweep_goes_on_where_it_stopped_and_processes_give_the_same_rows(
    asked: FleetScenario, tmp_path: Path
) -> None:
    grid = read_grid(["traffic=0.5:2:n4"], FleetScenario)
    with pytest.raises(SweepInterrupted, match="2 of 4 points are kept"):
        sweep(asked, grid, tmp_path / "out.csv", _Stops(), today=TODAY)
    assert (tmp_path / f"out.csv{SUFFIX}").exists()
    said: list[str] = []
    found = sweep(asked, grid, tmp_path / "out.csv", OneProcess(), Watch(say=said.append))
    assert (found.kept, said) == (2, [f"going on from out.csv{SUFFIX}: 2 points are kept"])
    assert found.rows == sweep(asked, grid, tmp_path / "two.csv", Processes(2), today=TODAY).rows


def test_another_time_limit_is_another_sweep(asked: FleetScenario, tmp_path: Path) -> None:
    grid = read_grid(["traffic=0.5:2:n4"], FleetScenario)
    with pytest.raises(SweepInterrupted):
        sweep(asked, grid, tmp_path / "out.csv", _Stops(), today=TODAY, settings=Settings(time_limit_s=5))
    said: list[str] = []
    watch, longer = Watch(say=said.append), Settings(time_limit_s=6)
    found = sweep(asked, grid, tmp_path / "out.csv", OneProcess(), watch, TODAY, settings=longer)
    assert found.kept == 0
    assert "is of another sweep (another question)" in said[0]


def test_parquet_holds_what_csv_holds_with_types(asked: FleetScenario, tmp_path: Path) -> None:
    found = swept(asked, tmp_path, "traffic=1,2", "targets.tpot_ms=0.01,20", name="out.parquet")
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert list(frame.columns) == list(found.columns)
    assert {name: str(frame[name].dtype) for name in ("nodes", "upfront_usd", "kinds")} == {
        "nodes": "Int64",
        "upfront_usd": "Float64",
        "kinds": "string",
    }


def test_values_that_are_wrong_everywhere_are_errors_and_some_combinations_are_rows(
    asked: FleetScenario, tmp_path: Path
) -> None:
    with pytest.raises(QuestionError, match=r"--vary limits.providers=nope: .*Unknown provider 'nope'"):
        swept(asked, tmp_path, "limits.providers=spheron,nope")
    with pytest.raises(QuestionError, match=r"traffic: expected a factor from 1e-06 to 1,000,000"):
        swept(asked, tmp_path, "traffic=0,1")
    with pytest.raises(QuestionError, match=r"histogram\.request_rate.*is not a field"):
        swept(asked, tmp_path, "histogram.request_rate=1,2")
    with pytest.raises(QuestionError, match="a fleet's traffic stands in its classes"):
        swept(asked, tmp_path, "workload.request_rate=1,2")
    with pytest.raises(QuestionError, match="the scenario has 2 of them"):
        swept(asked, tmp_path, "classes.5.request_rate=1,2")
    found = swept(asked, tmp_path, "limits.providers=spheron,gmicloud", "limits.exclude_providers=gmicloud,aws")
    statuses = {row[:2]: row[2] for row in found.rows}
    assert statuses.pop(("gmicloud", "gmicloud")) == "invalid"
    assert "invalid" not in statuses.values()


def test_a_picture_is_drawn_and_the_command_prints_a_table_or_json(
    file: Path, asked: FleetScenario, tmp_path: Path
) -> None:
    assert sweep_picture(swept(asked, tmp_path, "traffic=1,2,4")) is not None
    out = str(tmp_path / "sweep.csv")
    sweeps = ("whatif", "sweep", str(file), "--out", out, "--jobs", "1")
    for columns in (80, 120):
        ran = run(*sweeps, "--vary", "traffic=0.5:4:x2", columns=columns)
        assert ran.code == 0, ran.err
        assert "Cheapest fleet by value" in ran.out
        assert max(map(len, ran.out.splitlines())) <= columns
    with Path(out).open() as lines:
        assert tuple(next(csv.reader(lines))) == ("traffic", *FLEET_COLUMNS)
    ran = run(*sweeps, "--vary", "traffic=1,2", "--set", "fleet.survive=node", "--json")
    assert ran.json["counts"] == {"optimal": 2}
    assert ran.json["scenario"]["fleet"]["survive"] == "node"
    assert run(*sweeps, "--vary", "traffic=1,2", "--time-limit", "soon").code == 2
