"""The journal: nothing that was written is lost, nothing half-written or of another sweep is used."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import QuestionError
from optimizer.whatif.journal import Header, Journal

COLUMNS = ("status", "usd_per_hour")
HEADER = Header(
    {"model": "m"}, (["workload.request_rate", (1, 2, 3)],), {"prices of the newest day": "a"}, "2026-08-20"
)


def row(cost: float) -> dict[str, Any]:
    return {"status": "optimal", "usd_per_hour": cost}


def begun(folder: Path, header: Header = HEADER) -> tuple[dict[int, dict[str, Any]], str]:
    with closing(Journal(folder / "out.csv", COLUMNS)) as journal:
        return journal.begin(header)


def written(folder: Path) -> Path:
    journal = Journal(folder / "out.csv", COLUMNS)
    assert journal.begin(HEADER) == ({}, "")
    journal.add([(0, row(0.1)), (2, row(1 / 3))])
    journal.add([(1, row(2.5))])
    journal.close()
    return journal.path


def test_rows_come_back_to_the_last_digit(tmp_path: Path) -> None:
    written(tmp_path)
    rows, said = begun(tmp_path)
    assert rows == {0: row(0.1), 1: row(2.5), 2: row(1 / 3)}
    assert said == "going on from out.csv.partial: 3 points are kept"


def test_a_half_written_line_is_cut_off_at_every_length(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        journal = Journal(tmp_path / "out.csv", COLUMNS)
        rows, _ = journal.begin(HEADER)
        assert set(rows) == {0, 2}
        journal.add([(1, row(7.0))])
        journal.close()
        assert begun(tmp_path)[0][1] == row(7.0)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Header({"model": "n"}, HEADER.varied, HEADER.marks, HEADER.today), "another question"),
        (Header(HEADER.question, (["workload.request_rate", (1, 2)],), HEADER.marks, HEADER.today), "other values"),
        (
            Header(HEADER.question, HEADER.varied, {"prices of the newest day": "b"}, HEADER.today),
            "other prices of the newest day",
        ),
    ],
)
def test_another_sweep_starts_anew_and_the_old_journal_is_kept_aside(tmp_path: Path, other: Header, said: str) -> None:
    path = written(tmp_path)
    before = path.read_text()
    rows, message = begun(tmp_path, other)
    assert rows == {}
    assert said in message
    assert "starting anew" in message
    assert (tmp_path / "out.csv.partial.old").read_text() == before
    assert len(path.read_text().splitlines()) == 1


def test_a_damaged_journal_is_kept_aside_too(tmp_path: Path) -> None:
    (tmp_path / "out.csv.partial").write_bytes(b"\xff{\n[]\n")
    rows, message = begun(tmp_path)
    assert rows == {}
    assert "damaged" in message


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX locks")
def test_two_sweeps_cannot_write_one_file(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "out.csv", COLUMNS)) as first:
        first.begin(HEADER)
        with pytest.raises(QuestionError, match="another sweep is writing it"):
            begun(tmp_path)
    begun(tmp_path)


def test_the_day_on_which_a_sweep_began_is_known(tmp_path: Path) -> None:
    assert Journal(tmp_path / "out.csv", COLUMNS).today() is None
    written(tmp_path)
    assert Journal(tmp_path / "out.csv", COLUMNS).today() == "2026-08-20"
