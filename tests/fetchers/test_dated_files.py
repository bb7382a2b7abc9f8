"""Readers of dated files: what each takes from its format, on real rows of that format."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from fetchers import dated_files

PRICES = Path(__file__).parent.parent / "data" / "prices"
NEWEST = date(2026, 8, 22)


def _text(path: str) -> str:
    return (PRICES / path).read_text(encoding="utf-8")


def test_days_of_a_file() -> None:
    text = _text("trackers/gpurentalprices_daily.csv")
    assert dated_files.days_in(text) == [date(2026, 8, 14), NEWEST]


def test_machine_prices_take_one_day() -> None:
    text = _text("karpenter/gcp_ondemand_spot.csv")
    rows = dated_files.read_machine_prices(text, date(2026, 8, 3), "karpenter-gcp")
    prices = {(row.instance_type, row.term): row.price_usd for row in rows}
    assert prices["a3-highgpu-8g", "spot"] == 50.609541
    assert prices["a3-highgpu-8g", "on-demand"] == 88.49
    assert {row.per for row in rows} == {"node"}
    assert not dated_files.read_machine_prices(text, date(2026, 8, 4), "karpenter-gcp")


def test_aws_series_takes_the_last_of_the_day() -> None:
    text = "timestamp_utc,instance_type,price_usd_per_instance_hour\n" + "\n".join(
        f"2025-06-05T{hour}:00:00Z,p5.48xlarge,{price}" for hour, price in (("01", 98.32), ("23", 55.04))
    )
    (row,) = dated_files.read_aws_series(text, date(2025, 6, 5), "aws-p5-daily")
    assert (row.price_usd, row.region) == (55.04, "us-east-1")


def test_commitments_become_hourly_and_keep_to_regions_that_have_the_machine() -> None:
    text = _text("karpenter/gcp_cyclenerd_2022-2026.csv")
    sold = frozenset({("us-central1", "a3-highgpu-8g"), ("us-central1", "a2-ultragpu-1g")})
    rows = dated_files.read_gcp_commitments(text, date(2026, 6, 4), "cyclenerd-gcp", sold)
    here = {(row.instance_type, row.term): row.price_usd for row in rows if not row.refused}
    # 44,810.08066464 / 730 = 61.3837 and 28,370.99821392 / 730 = 38.8644 $/h; A2 Ultra has none: missing, not 0.
    assert here["a3-highgpu-8g", "reserved-1y"] == pytest.approx(61.3837, abs=1e-4)
    assert here["a3-highgpu-8g", "reserved-3y"] == pytest.approx(38.8644, abs=1e-4)
    assert here["a2-ultragpu-1g", "reserved-1y"] is None
    assert {row.region for row in rows if row.refused} == {"me-central2"}


def test_tracker_kinds_become_terms() -> None:
    rows = dated_files.read_gpurentalprices(_text("trackers/gpurentalprices_daily.csv"), NEWEST, "gpurentalprices")
    by_price = {row.price_usd: row for row in rows}
    assert (by_price[2.69].community, by_price[2.69].term) == (True, "on-demand")
    assert (by_price[3.29].community, by_price[3.29].term) == (False, "on-demand")
    assert by_price[2.51].term == "spot"
    assert {row.provider for row in rows if row.refused} == {"modal"}


def test_a_carried_forward_price_keeps_the_day_it_was_seen() -> None:
    header, *_ = _text("trackers/gpurentalprices_daily.csv").splitlines()
    text = f"{header}\n2026-07-17,vultr,l40s,48,on-demand,1.671,1,2026-07-08T14:15:12.452Z,https://example.org\n"
    (row,) = dated_files.read_gpurentalprices(text, date(2026, 7, 17), "gpurentalprices")
    assert row.seen_on == date(2026, 7, 8)


def test_live_tracker_takes_the_last_snapshot_and_only_live_rows() -> None:
    rows = dated_files.read_hemgo(_text("trackers/hemgo_live_aug2026.csv"), NEWEST, "hemgo")
    assert len(rows) == 9  # of two snapshots of 9 rows
    assert {row.provider for row in rows if row.refused} == {"Nebius"}  # kept list prices
    assert {row.price_usd for row in rows if row.provider == "E2E Networks"} == {None}  # rupees
    assert {row.region for row in rows if row.provider == "Oracle OCI"} == {"global"}


def test_groups_of_offers_give_their_lowest_price_and_what_stock_is_sure() -> None:
    rows = dated_files.read_cherielilili(_text("trackers/cherielilili_daily.csv"), date(2026, 7, 20), "cherielilili")
    mixed = next(row for row in rows if row.price_usd == 0.5963)
    assert (mixed.gpus, mixed.region, mixed.max_nodes) == (8, "CA", 1.0)  # two offers, 0.5963 and 0.7336
    assert all(row.provider == "vast.ai" for row in rows if not row.refused)


class TestSkypilot:
    def test_regions_that_are_no_stock_are_dropped(self) -> None:
        text = _text("skypilot/lambda/v8-0f407038-date-unknown.csv")
        rows = dated_files.read_skypilot(text, "lambda", date(2026, 3, 25), "skypilot", regions_are_stock=False)
        assert [(row.instance_type, row.price_usd, row.region) for row in rows] == [
            ("gpu_1x_h100_sxm5", 4.29, "global"),
            ("gpu_8x_h100_sxm5", 31.92, "global"),
        ]

    @pytest.mark.parametrize(
        ("price", "spot", "expected"),
        [
            ("3.0", "1.0", [("on-demand", 3.0), ("spot", 1.0)]),
            ("3.0", "", [("on-demand", 3.0)]),
            ("3.0", "0.00", [("on-demand", 3.0)]),  # Vast writes 0.00 for not known
            ("", "1.0", [("on-demand", None), ("spot", 1.0)]),  # Verda with spot stock only
        ],
    )
    def test_prices(self, price: str, spot: str, expected: list[tuple[str, float | None]]) -> None:
        text = f"InstanceType,AcceleratorName,AcceleratorCount,Price,Region,SpotPrice\nm,H100,1.0,{price},r,{spot}\n"
        rows = dated_files.read_skypilot(text, "verda", NEWEST, "skypilot")
        assert [(row.term, row.price_usd) for row in rows] == expected

    def test_a_gpu_without_its_machine_is_refused(self) -> None:
        text = "InstanceType,AcceleratorName,AcceleratorCount,Price,Region,SpotPrice\n,H100,8.0,78.37,us-central1,\n"
        (row,) = dated_files.read_skypilot(text, "gcp", NEWEST, "skypilot")
        assert row.refused == "the GPU without its machine"


def test_stated_figures_become_one_row_per_size() -> None:
    text = (
        "provider,gpu,sizes,label,price_usd_per_gpu_hour,seen_on\nspheron,H200-SXM-141GB,1 2,low end,4.84,2026-08-14\n"
    )
    rows = dated_files.read_stated_figures(text, date(2026, 8, 14), "stated")
    assert [row.instance_type for row in rows] == ["1x H200-SXM-141GB (low end)", "2x H200-SXM-141GB (low end)"]
