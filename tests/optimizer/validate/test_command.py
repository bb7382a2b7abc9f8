"""`shardwise validate memory`: the summary, the file of predictions, and what it says of a bad file."""

from __future__ import annotations

import csv
from pathlib import Path

from optimizer.validate.cases import PREDICTED
from tests.optimizer.command import run
from tests.optimizer.validate.reports import cases, report, write


def test_predictions_are_written_beside_the_rows_they_are_of(tmp_path: Path) -> None:
    reports = write(tmp_path / "reports.csv", [report(row) for row in cases()])
    written = tmp_path / "predicted.csv"

    ran = run("validate", "memory", str(reports), "--out", str(written))

    assert (ran.code, ran.err) == (0, "")
    with written.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(cases())
    assert set(PREDICTED) <= set(rows[0])
    assert [row["case_id"] for row in rows] == [row["case"] for row in cases()]


def test_json_holds_every_row_and_column(tmp_path: Path) -> None:
    reports = write(tmp_path / "reports.csv", [report(row) for row in cases()[:12]])

    found = run("validate", "memory", str(reports), "--json").json

    assert len(found["rows"]) == 12
    assert found["columns"]


def test_a_file_that_is_missing_is_bad_input(tmp_path: Path) -> None:
    ran = run("validate", "memory", str(tmp_path / "none.csv"))

    assert ran.code == 2
    assert "none.csv" in ran.err
    assert ran.out == ""
