"""`shardwise prices ...`: what the commands print, what they refuse, files in and out."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from catalogs.history import Pull, SetAside, open_history
from catalogs.offers import load_offers
from tests.catalogs.history.observed import Priced, aside, at, look, offers
from tests.optimizer.command import Ran, run

Prices = Callable[..., Ran]


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prices:
    """Run `shardwise prices ...` on a data folder of the test's own."""
    monkeypatch.setenv("SHARDWISE_DATA_DIR", str(tmp_path / "data"))
    return lambda *arguments, **more: run("prices", *arguments, **more)


class TestOnAFreshInstall:
    """No history is kept: the bundled files answer, and nothing is made."""

    @pytest.mark.parametrize("columns", [80, 120])
    @pytest.mark.parametrize(
        "arguments",
        [
            ("list", "--gpu", "h100*", "--as-of", "2026-08-14", "--sort", "usd_per_gpu_hour"),
            ("history", "--gpu", "H200-SXM-141GB", "--provider", "spheron"),
            ("diff", "2026-07-20", "2026-08-20"),
            ("quarantine",),
            ("sources",),
        ],
    )
    def test_every_table_fits_the_terminal(self, prices: Prices, arguments: tuple[str, ...], columns: int) -> None:
        ran = prices(*arguments, columns=columns)
        assert (ran.code, ran.err) == (0, "")
        assert max(map(len, ran.out.splitlines())) <= columns

    def test_reading_makes_no_database(self, prices: Prices, tmp_path: Path) -> None:
        for arguments in (("list",), ("history", "--gpu", "H200*"), ("sources",), ("quarantine",)):
            assert prices(*arguments).code == 0
        assert not (tmp_path / "data").exists()

    def test_list_is_sorted_and_fits_the_patterns(self, prices: Prices) -> None:
        rows = prices("list", "--gpu", "h100-sxm*", "--provider", "l*", "--json").json
        assert {row["gpu"] for row in rows} == {"H100-SXM-80GB"}
        per_gpu = [row["price_usd_per_gpu_hour"] for row in rows]
        assert per_gpu == sorted(per_gpu)

    def test_history_shows_the_bundled_days(self, prices: Prices) -> None:
        asked = ("history", "--gpu", "H200-SXM-141GB", "--provider", "spheron", "--instance-type", "1x H200-SXM-141GB")
        rows = prices(*asked, "--term", "on-demand", "--since", "2026-08-13", "--json").json
        assert [row["price_usd_per_gpu_hour"] for row in rows] == [
            4.54,
            5.86,
            5.90,
            4.79,
        ]  # until noon of the 13th 4.54

    def test_diff_tells_what_came_went_and_moved(self, prices: Prices) -> None:
        rows = prices("diff", "2026-08-13", "2026-08-14", "--provider", "spheron", "--gpu", "H200*", "--json").json
        by_name = {(row["instance_type"], row["term"]): row for row in rows}
        assert by_name["1x H200-SXM-141GB", "on-demand"]["change"] == "dearer"
        assert by_name["1x H200-SXM-141GB (low end)", "on-demand"]["change"] == "new"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("list", "--gpu", "H100-SXM-81GB"), "Did you mean H100-SXM-80GB"),
            (("list", "--sort", "age"), "expected one of usd_per_gpu_hour"),
            (("list", "--as-of", "soon"), "--as-of"),
            (("diff", "2026-08-20", "2026-07-20"), "expected the earlier day first"),
            (("quarantine", "--confirm", "3"), "row 3: is not in the quarantine"),
            (("export", "prices.xlsx"), "ends in .csv or .parquet"),
            (("import", "none.csv", "--format", "skypilot"), "cannot be read"),
        ],
    )
    def test_what_is_wrong_is_said(self, prices: Prices, arguments: tuple[str, ...], said: str) -> None:
        ran = prices(*arguments)
        assert ran.code == 2
        assert said in ran.err
        assert "Traceback" not in ran.err


class TestWithAHistory:
    def test_an_imported_file_is_in_history_list_and_sources(self, prices: Prices, tmp_path: Path) -> None:
        file = tmp_path / "contract.csv"
        for day, price in (("2026-11-01", 2.5), ("2026-11-02", 2.1)):
            file.write_text(
                f"provider,gpu,gpus_per_node,price_usd_per_gpu_hour,seen_on\nacme,H100-SXM-80GB,8,{price},{day}\n"
            )
            ran = prices("import", str(file), "--format", "shardwise")
            assert (ran.code, "recorded" in ran.out) == (0, True)
        assert "known already" in prices("import", str(file), "--format", "shardwise").out
        rows = prices("history", "--provider", "acme", "--json").json
        assert [(row["price_usd_per_gpu_hour"], row["ended"]) for row in rows] == [(2.5, "changed"), (2.1, "stands")]
        assert [row["price_usd_per_node_hour"] for row in prices("list", "--provider", "acme", "--json").json] == [16.8]
        assert [row["looks"] for row in prices("sources", "--json").json] == [2]

    def test_rows_set_aside_are_let_in_and_refused_by_number(self, prices: Prices) -> None:
        with open_history() as history:
            rows = [aside("a", 42.9), aside("b", 0.01), SetAside("no GPU named", {"spelling": "?"})]
            history.record(look(0), offers({"c": 1.0}), set_aside=rows)
        listed = prices("quarantine", "--json").json
        assert listed[-1]["reason"] == "no GPU named"
        number = {row["offer"]["instance_type"]: str(row["number"]) for row in listed[:2]}
        left = prices("quarantine", "--confirm", number["a"], "--reject", number["b"], "--json").json
        assert [row["reason"] for row in left] == ["no GPU named"]
        assert {row["state"] for row in prices("quarantine", "--all", "--json").json} == {
            "waiting",
            "confirmed",
            "rejected",
        }
        assert {row["instance_type"] for row in prices("history", "--source", "tracker", "--json").json} == {"a", "c"}

    def test_sources_say_how_old_they_are_and_what_failed(self, prices: Prices) -> None:
        with open_history() as history:
            history.record(look(0), offers({"a": 1.0}))
            history.record_failure("tracker", at(1), "HTTP 500")
        (row,) = prices("sources", "--json").json
        assert (row["failures"], row["last_failure"]) == (1, "HTTP 500")
        assert row["age_hours"] > 0

    def test_plot_draws_what_fits(self, prices: Prices, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        out = tmp_path / "h200.png"
        assert prices("history", "--gpu", "H200*", "--provider", "spheron", "--plot", str(out)).code == 0
        assert out.read_bytes().startswith(b"\x89PNG")
        ran = prices("history", "--gpu", "no-such-*", "--plot", str(out))
        assert (ran.code, "nothing to draw" in ran.err) == (2, True)


class TestExport:
    def test_no_cell_begins_a_formula(self, prices: Prices, tmp_path: Path) -> None:
        names = ["=1+1", "+1", "-1", "@sum", "plain"]
        with open_history() as history:
            moment = datetime(2026, 11, 1, tzinfo=UTC)
            history.record(Pull(source="=cmd", moment=moment), [Priced(name, 1.0, region="@x") for name in names])
        out = tmp_path / "all.csv"
        assert prices("export", str(out)).out == f"{out}: 5 periods\n"
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert sorted(row["instance_type"] for row in rows) == ["'+1", "'-1", "'=1+1", "'@sum", "plain"]
        assert {row["source"] for row in rows} == {"'=cmd"}
        assert not [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "-", "@", "\t")]

    def test_parquet_holds_every_period(self, prices: Prices, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        with open_history() as history:
            history.record(look(0), offers({"a": 1.0, "b": 2.0}))
            history.record(look(1), offers({"a": 1.5}))
        assert prices("export", str(tmp_path / "all.parquet")).code == 0
        frame = pd.read_parquet(tmp_path / "all.parquet")
        assert list(frame["price_usd_per_node_hour"]) == [1.0, 1.5, 2.0]
        assert list(frame["gone"]) == [False, False, True]

    def test_a_day_comes_back_by_import(self, prices: Prices, tmp_path: Path) -> None:
        out = tmp_path / "day.csv"
        assert prices("export", str(out), "--as-of", "2026-08-14").code == 0
        (row,) = prices("import", str(out), "--format", "shardwise", "--source", "copy", "--json").json
        assert row["new"] == len(load_offers(datetime(2026, 8, 14).date()).frame)
