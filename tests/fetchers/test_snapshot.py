"""Rebuilding the bundled price files from a folder of dated files."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from catalogs.errors import CatalogError, DataFileError
from catalogs.offers import PRICES_FOLDER, load_offers
from fetchers.snapshot import dated_sources, main, rebuild

PRICES = Path(__file__).parent.parent / "data" / "prices"
DATES = (date(2026, 8, 14), date(2026, 8, 22))


def test_rebuilt_files_load_and_answer_as_of_both_dates(tmp_path: Path) -> None:
    written = rebuild(PRICES, tmp_path, DATES)
    shutil.copy(PRICES_FOLDER / "sources.toml", tmp_path)
    assert written["gpurentalprices", date(2026, 8, 14)] > 0
    h200 = {}
    for day in DATES:
        frame = load_offers(day, folder=tmp_path).frame
        prices = frame.set_index(["provider", "instance_type", "term"])["price_usd_per_node_hour"]
        h200[day] = prices["spheron", "2x H200-SXM-141GB", "on-demand"]
    # 2 x 5.90 and 2 x 4.79.
    assert h200 == {DATES[0]: 11.8, DATES[1]: 9.58}


def test_each_source_gives_its_newest_day_not_later(tmp_path: Path) -> None:
    written = rebuild(PRICES, tmp_path, (date(2026, 7, 1), date(2026, 8, 14)))
    assert [day for source, day in written if source == "karpenter-aws"] == [date(2026, 6, 15), date(2026, 7, 20)]


def test_what_was_left_out_is_written_beside(tmp_path: Path) -> None:
    rebuild(PRICES, tmp_path, DATES)
    shutil.copy(PRICES_FOLDER / "sources.toml", tmp_path)
    set_aside = load_offers(folder=tmp_path).set_aside
    assert set_aside["a serverless service, not a rentable node"] == 1
    assert set_aside["spot above on-demand"] == 4  # Spheron's L40S on 22 August, in four sizes
    assert set_aside["cards of 40 and 80 GB under one name"] == 9


def test_rebuilding_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        rebuild(PRICES, tmp_path / name, DATES)
    one, two = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("one", "two")
    )
    assert one == two
    assert not [path for path in one if path.suffix == ".unfinished"]


def test_every_source_is_cited_in_the_bundled_snapshot() -> None:
    assert {source.source for source in dated_sources(PRICES)} <= set(load_offers().sources)


def test_a_folder_without_dated_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="holds none of the dated price files"):
        rebuild(tmp_path, tmp_path / "out")


def test_a_file_with_other_columns_is_named(tmp_path: Path) -> None:
    path = tmp_path / "karpenter" / "aws_ondemand_us-east-1.csv"
    path.parent.mkdir()
    path.write_text("date,cloud\n2026-07-20,aws\n")
    with pytest.raises(DataFileError, match="not a karpenter-aws file"):
        rebuild(tmp_path, tmp_path / "out", DATES)


def test_command_writes_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--prices", str(PRICES), "--out", str(tmp_path), "--date", "2026-08-14"]) == 0
    assert "gpurentalprices  2026-08-14" in capsys.readouterr().out


def test_command_refuses_a_wrong_folder_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--prices", str(tmp_path), "--out", str(tmp_path)])
    assert stop.value.code == 2
    assert "holds none" in capsys.readouterr().err
