"""Importing dated files into the history: each format, what it refuses, and that a second time changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from catalogs.errors import CatalogError, DataFileError, UnknownNameError
from catalogs.history import History, open_history
from fetchers.price_import import import_file

PRICES = Path(__file__).parent.parent / "data" / "prices"
TRACKER = PRICES / "trackers" / "gpurentalprices_daily.csv"
OWN = "provider,gpu,gpus_per_node,price_usd_per_gpu_hour,seen_on\n"
GPUHUNT = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size\n"
    "p5.48xlarge,us-east-1,55.04,192,2048.0,8,H100,80.0,False,\n"
    "p5.48xlarge,us-east-1,21.5,192,2048.0,8,H100,80.0,True,\n"
    "t3.micro,us-east-1,0.01,2,1.0,0,,,False,\n"
)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with open_history(f"sqlite:///{tmp_path}/data/prices.sqlite") as opened:
        yield opened


def prices(history: History, **asked: str) -> list[tuple[str, float, int, int]]:
    """Periods as (machine, price, day of July to December of the first look, of the last)."""
    frame = history.periods(**asked)  # type: ignore[arg-type]
    return [
        (row.instance_type, row.price_usd_per_node_hour, row.first_seen.day, row.last_seen.day)
        for row in frame.itertuples()
    ]


def test_a_trackers_days_become_periods(history: History) -> None:
    # Of the tracker's file, rows of 14 and 22 August 2026: Spheron's H200 stood at 5.90 and at 4.79.
    looks = list(import_file(history, TRACKER, "gpurentalprices"))
    assert [look.day for look in looks] == [date(2026, 8, 14), date(2026, 8, 22)]
    assert prices(history, provider="spheron", instance_type="1x H200*", term="on-demand") == [
        ("1x H200-SXM-141GB", 5.9, 14, 14),
        ("1x H200-SXM-141GB", 4.79, 22, 22),
    ]
    assert looks[0].summary is not None
    assert looks[0].summary.set_aside == sum(looks[0].reasons.values())


def test_days_that_repeat_a_price_make_one_period_and_a_day_without_it_a_gap(history: History, tmp_path: Path) -> None:
    # Restated from the tracker's file, July 2026: Spheron's H200 stood at 4.54 from the 20th to the 23rd, then at 5.92.
    header = TRACKER.read_text().splitlines()[0]
    standing = [(20, 4.54), (21, 4.54), (22, 4.54), (23, 4.54), (24, 5.92), (25, 4.54)]
    rows = [
        f"2026-07-{day},spheron,h200,141,on-demand,{price},,2026-07-{day}T06:47:03.514Z,https://example.org"
        for day, price in standing
    ]
    rows += [
        f"2026-07-{day},runpod,h100-sxm,80,secure,3.29,,2026-07-{day}T06:47:03.514Z,https://example.org"
        for day in (20, 25)
    ]
    file = tmp_path / "tracker.csv"
    file.write_text("\n".join([header, *rows]) + "\n")
    list(import_file(history, file, "gpurentalprices"))
    assert prices(history, provider="spheron", instance_type="1x *") == [
        ("1x H200-SXM-141GB", 4.54, 20, 23),
        ("1x H200-SXM-141GB", 5.92, 24, 24),
        ("1x H200-SXM-141GB", 4.54, 25, 25),
    ]
    runpod = history.periods(provider="runpod", instance_type="1x *")
    assert [(row.first_seen.day, row.until.day, row.gone) for row in runpod.iloc[:1].itertuples()] == [(20, 21, True)]


def test_the_same_file_twice_changes_nothing(history: History) -> None:
    list(import_file(history, TRACKER, "gpurentalprices"))
    before = history.periods()
    assert all(look.summary and look.summary.known for look in import_file(history, TRACKER, "gpurentalprices"))
    assert history.periods().equals(before)


def test_the_price_cut_of_june_2025_is_one_step(history: History, tmp_path: Path) -> None:
    file = tmp_path / "aws.csv"
    rows = [f"2025-06-0{day}T19:00:00Z,p5.48xlarge,{98.32 if day < 5 else 55.04}" for day in range(1, 8)]
    file.write_text("timestamp_utc,instance_type,price_usd_per_instance_hour\n" + "\n".join(rows) + "\n")
    list(import_file(history, file, "aws-series"))
    assert prices(history) == [("p5.48xlarge", 98.32, 1, 4), ("p5.48xlarge", 55.04, 5, 7)]


def test_an_older_file_imported_later_goes_to_its_place(history: History, tmp_path: Path) -> None:
    file = tmp_path / "gpuhunt.csv"
    for day, price in ((20, "55.04"), (10, "55.04"), (15, "60.00")):
        file.write_text(GPUHUNT.replace("55.04", price))
        list(import_file(history, file, "gpuhunt", provider="aws", day=date(2026, 7, day)))
    assert prices(history, term="on-demand") == [
        ("p5.48xlarge", 55.04, 10, 10),
        ("p5.48xlarge", 60.0, 15, 15),
        ("p5.48xlarge", 55.04, 20, 20),
    ]
    assert prices(history, term="spot") == [("p5.48xlarge", 21.5, 10, 20)]


def test_skypilot_files_need_their_provider_and_day(history: History) -> None:
    file = PRICES / "skypilot" / "lambda" / "v8-0f407038-date-unknown.csv"
    with pytest.raises(CatalogError, match="does not say its provider and date; give it"):
        list(import_file(history, file, "skypilot"))
    (look,) = import_file(history, file, "skypilot", provider="Lambda", day=date(2026, 3, 25))
    assert look.summary is not None
    assert prices(history, source=look.source) == [
        ("gpu_1x_h100_sxm5", 4.29, 25, 25),
        ("gpu_8x_h100_sxm5", 31.92, 25, 25),
    ]


def test_own_offers_are_seen_on_their_newest_day_and_older_rows_are_carried(history: History, tmp_path: Path) -> None:
    file = tmp_path / "contract.csv"
    file.write_text(OWN + "acme,H100-SXM-80GB,8,2.1,2026-07-02\nacme,A10-24GB,1,0.5,2026-07-01\n")
    (look,) = import_file(history, file, "shardwise")
    assert (look.source, look.day) == ("own-contract", date(2026, 7, 2))
    assert set(history.as_of()["seen_on"].dt.day) == {1, 2}
    assert set(history.as_of()["provider_kind"]) == {"own"}
    with pytest.raises(DataFileError, match="expected a past day"):
        list(import_file(history, file, "shardwise", day=date(2026, 7, 1)))


def test_a_day_on_which_nothing_can_be_an_offer_ends_no_price(history: History, tmp_path: Path) -> None:
    header = TRACKER.read_text().splitlines()[0]
    row = "2026-07-{day},{provider},h200,141,on-demand,4.54,,2026-07-{day}T06:47:03.514Z,https://example.org"
    file = tmp_path / "tracker.csv"
    named = (("20", "spheron"), ("21", "nobody"), ("22", "spheron"))
    file.write_text("\n".join([header, *(row.format(day=day, provider=name) for day, name in named)]) + "\n")
    summaries = [look.summary for look in import_file(history, file, "gpurentalprices")]
    assert summaries[1] is None
    assert prices(history, instance_type="1x*") == [("1x H200-SXM-141GB", 4.54, 20, 22)]


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("a,b\n1,2\n", "gpurentalprices", "no column of days"),
        ("date,provider\n2026-07-01,aws\n", "gpurentalprices", "is not of this format"),
        ("", "hemgo", "no column of days"),
        ("x\x00y", "hemgo", "is not text"),
        ("a,b\n1,2\n", "gpuhunt", "is not of this format"),
        (GPUHUNT.splitlines()[0] + "\n", "gpuhunt", "it has no GPU rows"),
        (GPUHUNT.replace("p5.48xlarge", "zz9"), "gpuhunt", "holds no offer that can be used"),
        (GPUHUNT.replace("55.04", "cheap"), "gpuhunt", "is not of this format"),
        ("provider\nacme\n", "shardwise", "misses column"),
    ],
)
def test_a_file_of_another_form_is_named_and_leaves_nothing(
    history: History, tmp_path: Path, text: str, form: str, said: str
) -> None:
    file = tmp_path / "file.csv"
    file.write_text(text)
    with pytest.raises(DataFileError, match=said):
        list(import_file(history, file, form, provider="aws", day=date(2026, 7, 1)))
    assert len(history.periods()) == 0


def test_what_is_unknown_is_named(history: History, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean shardwise"):
        list(import_file(history, TRACKER, "shardvise"))
    with pytest.raises(DataFileError, match="cannot be read: No such file"):
        list(import_file(history, tmp_path / "none.csv", "hemgo"))
    with pytest.raises(DataFileError, match="has no rows of 2026-01-01"):
        list(import_file(history, TRACKER, "gpurentalprices", day=date(2026, 1, 1)))
