"""Offers of a day, from the bundled files and the history together."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from catalogs.errors import CatalogError
from catalogs.history import History, Pull, SetAside, open_history
from catalogs.offers import load_offers
from catalogs.user_data import HISTORY_FILE, user_data_folder
from tests.catalogs.history.observed import Priced
from tests.catalogs.test_offers import _price_row, _write_look

A10 = {"instance_type": "gpu_1x_a10", "gpu": "A10-24GB"}


def record(
    history: History, source: str, day: str, price: float | None, region: str = "global", **fields: object
) -> None:
    moment = datetime.fromisoformat(f"{day}T12:00:00+00:00")
    complete = bool(fields.pop("complete", True))
    listed = [] if price is None else [Priced(price_usd_per_node_hour=price, region=region, **A10)]
    history.record(Pull(source=source, moment=moment, **fields), listed, complete=complete)  # type: ignore[arg-type]


@pytest.fixture
def bundle(folder: Path) -> Path:
    """Bundled files of one source: 1.00 in one region and 5.00 in another, on 1 January 2026."""
    rows = (_price_row(1.0, "2026-01-01"), _price_row(5.0, "2026-01-01", region="us-east-1"))
    _write_look(folder / "bundle", "a", "2026-01-01", *rows)
    return folder / "bundle"


def prices(folder: Path, history: History | None, day: date | None = None) -> dict[str, float]:
    frame = load_offers(day, folder=folder, today=date(2026, 2, 1), history=history).frame
    return dict(zip(frame["region"], frame["price_usd_per_node_hour"], strict=True))


def test_a_newer_complete_look_of_the_source_replaces_its_file(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "a", "2026-01-05", 2.0)
    assert prices(bundle, sqlite_history) == {"global": 2.0}
    assert prices(bundle, sqlite_history, date(2026, 1, 4)) == {"global": 1.0, "us-east-1": 5.0}


def test_an_older_look_of_the_source_does_not(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "a", "2025-12-24", 2.0)
    assert prices(bundle, sqlite_history) == {"global": 1.0, "us-east-1": 5.0}
    assert prices(bundle, sqlite_history, date(2025, 12, 31)) == {"global": 2.0}


def test_a_partial_look_only_replaces_what_it_saw(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "a", "2026-01-05", 2.0, complete=False)
    assert prices(bundle, sqlite_history) == {"global": 2.0, "us-east-1": 5.0}


def test_of_two_sources_the_row_seen_last_stands(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "b", "2026-01-05", 2.0)
    table = load_offers(folder=bundle, history=sqlite_history)
    assert prices(bundle, sqlite_history) == {"global": 2.0, "us-east-1": 5.0}
    assert table.sources == {"a": "source a", "b": "source b"}


def test_the_whole_list_of_a_provider_replaces_what_others_saw_before(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "b", "2026-01-05", 2.0, covers=(("lambda", "on-demand"),))
    table = load_offers(folder=bundle, history=sqlite_history)
    assert prices(bundle, sqlite_history) == {"global": 2.0}
    assert table.set_aside == {"seen before the newest whole list of its provider": 2}
    assert prices(bundle, sqlite_history, date(2026, 1, 4)) == {"global": 1.0, "us-east-1": 5.0}


def test_the_whole_list_leaves_other_terms_and_what_was_seen_since(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "b", "2025-12-24", 2.0, covers=(("lambda", "on-demand"),))
    record(sqlite_history, "c", "2026-01-05", 3.0, covers=(("lambda", "spot"),))
    assert prices(bundle, sqlite_history) == {"global": 3.0, "us-east-1": 5.0}


def test_a_day_that_only_the_history_knows_has_its_prices(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "b", "2025-01-05", 2.0)
    assert prices(bundle, sqlite_history, date(2025, 6, 1)) == {"global": 2.0}
    with pytest.raises(CatalogError, match="the first are of 2025-01-05"):
        load_offers(date(2025, 1, 4), folder=bundle, history=sqlite_history)


def test_a_look_of_a_clock_that_ran_ahead_is_not_todays_price(bundle: Path, sqlite_history: History) -> None:
    record(sqlite_history, "b", "2031-01-05", 2.0)
    assert prices(bundle, sqlite_history) == {"global": 1.0, "us-east-1": 5.0}


def test_rows_that_looks_set_aside_are_counted(bundle: Path, sqlite_history: History) -> None:
    pull = Pull(source="b", moment=datetime(2026, 1, 5, tzinfo=UTC))
    sqlite_history.record(pull, [], set_aside=[SetAside("no GPU named", {"n": number}) for number in range(3)])
    assert load_offers(folder=bundle, history=sqlite_history).set_aside == {"no GPU named": 3}


def test_the_users_own_history_joins_the_bundled_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DATA_DIR", str(folder))
    before = load_offers().frame
    assert not (user_data_folder() / HISTORY_FILE).exists()  # reading makes no database
    record(open_history(), "lambda", "2026-11-01", 0.77, region="mars-north-1")
    after = load_offers(today=date(2026, 11, 30)).frame
    assert len(after) == len(before) + 1
    assert after.set_index("region")["price_usd_per_node_hour"]["mars-north-1"] == 0.77
    assert after.dtypes.to_dict() == before.dtypes.to_dict()
