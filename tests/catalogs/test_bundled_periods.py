"""The bundled files as periods: the same as a history that recorded them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

from catalogs.bundled_periods import bundled_periods
from catalogs.history import Pull, open_history
from catalogs.history.reading import PERIOD_COLUMNS
from tests.catalogs.history.observed import Priced
from tests.catalogs.test_offers import _price_row, _write_look


def test_they_are_those_of_a_history_that_recorded_each_file(tmp_path: Path) -> None:
    days = {1: {"global": 1.0, "x": 5.0}, 2: {"global": 1.0}, 5: {"global": 2.0, "x": 5.0}, 9: {"x": 5.0}}
    with open_history(f"sqlite:///{tmp_path}/prices.sqlite") as history:
        for day, prices in days.items():
            seen = [_price_row(price, f"2026-01-0{day}", region=region) for region, price in prices.items()]
            _write_look(tmp_path / "bundle", "a", f"2026-01-0{day}", *seen)
            offers = [Priced("gpu_1x_a10", price, region=region, gpu="A10-24GB") for region, price in prices.items()]
            history.record(Pull(source="a", moment=datetime(2026, 1, day, 12, tzinfo=UTC)), offers)
        kept = history.periods()
    told = [name for name in PERIOD_COLUMNS if not name.endswith("sha256") and name != "max_nodes"]
    key = ["region", "first_seen"]
    bundled = bundled_periods(tmp_path / "bundle")[told].sort_values(key, ignore_index=True)
    assert bundled.astype(str).equals(kept[told].sort_values(key, ignore_index=True).astype(str))


def test_the_brief_days_of_spheron_are_told_apart() -> None:
    frame = bundled_periods()
    h200 = frame[
        (frame["provider"] == "spheron")
        & (frame["instance_type"] == "1x H200-SXM-141GB")
        & (frame["term"] == "on-demand")
    ]
    stood = {row.first_seen.date(): row.price_usd_per_node_hour for row in h200.itertuples()}
    assert stood[date(2026, 8, 13)] == 5.86
    assert stood[date(2026, 8, 14)] == 5.90
    assert stood[date(2026, 8, 15)] == 4.79
