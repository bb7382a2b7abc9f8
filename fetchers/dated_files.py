"""Readers of dated price files that others keep: pure functions from a file's text to raw rows of one day.

Each reader takes the text and the day wanted and returns the rows of that day only; `days_in` says which there are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import date

from catalogs.offer_files import Term
from fetchers.normalize import RawRow

HOURS_PER_MONTH = 730.0  # the month in which cloud providers bill commitments (8760 h / 12)

_SERVERLESS = "a serverless service, not a rentable node"
_OTHER_SOURCE = "another source carries this provider"
_DATE_COLUMNS = ("date", "timestamp_utc", "generated_at", "seen_on")

_VARIANTS = {"rtx-pro-6000-server": "server edition", "rtx-pro-6000-wk": "workstation edition"}
_AWS_REGIONS = {"Asia Pacific (Mumbai)": "ap-south-1"}
_NO_REGION = frozenset({"", "Global (lowest)", "Mumbai / global list", "EU / US", "any", "default", "global"})


def days_in(text: str) -> list[date]:
    """Return the days for which a dated file holds rows, in order."""
    reader = csv.DictReader(io.StringIO(text))
    column = next(name for name in _DATE_COLUMNS if name in (reader.fieldnames or ()))
    return sorted({date.fromisoformat(row[column][:10]) for row in reader})


def read_machine_prices(text: str, day: date, source: str) -> list[RawRow]:
    """Read prices by machine (columns date, cloud, region, instance_type, market, price_usd_per_instance_hour)."""
    terms: dict[str, Term] = {"on_demand": "on-demand", "spot": "spot"}
    return [
        RawRow(
            source=source,
            provider=row["cloud"],
            region=row["region"],
            instance_type=row["instance_type"],
            spelling=row["instance_type"],
            term=terms[row["market"]],
            price_usd=_number(row["price_usd_per_instance_hour"]),
            per="node",
            seen_on=day,
        )
        for row in _rows_of(text, "date", day)
    ]


def read_aws_series(text: str, day: date, source: str, region: str = "us-east-1") -> list[RawRow]:
    """Read the last AWS on-demand prices of a day (timestamp_utc, instance_type, price_usd_per_instance_hour)."""
    last = {row["instance_type"]: row for row in _rows_of(text, "timestamp_utc", day)}
    return [
        RawRow(
            source=source,
            provider="aws",
            region=region,
            instance_type=name,
            spelling=name,
            term="on-demand",
            price_usd=_number(row["price_usd_per_instance_hour"]),
            per="node",
            seen_on=day,
        )
        for name, row in last.items()
    ]


def read_gcp_commitments(text: str, day: date, source: str, sold: frozenset[tuple[str, str]]) -> list[RawRow]:
    """Read 1- and 3-year commitments of Google Cloud, stated per month, as prices per hour.

    Args:
        text: columns date, region, instance_type, month_1y_commit_usd, month_3y_commit_usd.
        day: the day wanted.
        source: short name of the data set.
        sold: (region, machine) that can be had; the file also prices regions that do not have the machine.
    """
    columns: dict[str, Term] = {"month_1y_commit_usd": "reserved-1y", "month_3y_commit_usd": "reserved-3y"}
    rows = []
    for row in _rows_of(text, "date", day):
        here = (row["region"], row["instance_type"]) in sold
        for column, term in columns.items():
            per_month = _number(row[column])
            rows.append(
                RawRow(
                    source=source,
                    provider="gcp",
                    region=row["region"],
                    instance_type=row["instance_type"],
                    spelling=row["instance_type"],
                    term=term,
                    price_usd=None if per_month is None else per_month / HOURS_PER_MONTH,
                    per="node",
                    seen_on=day,
                    refused="" if here else "the region does not have the machine",
                )
            )
    return rows


def read_gpurentalprices(text: str, day: date, source: str) -> list[RawRow]:
    """Read a tracker's daily per-GPU prices. A price carried forward keeps the day on which it was really seen."""
    rows = []
    for row in _rows_of(text, "date", day):
        kind = row["kind"]
        rows.append(
            RawRow(
                source=source,
                provider=row["provider"],
                spelling=row["gpu"],
                variant=_VARIANTS.get(row["gpu"], ""),
                memory_gb=_number(row["vram_gb"]),
                term="spot" if kind == "spot" else "on-demand",
                price_usd=_number(row["price_usd_per_gpu_hour"]),
                per="gpu",
                min_gpus=int(_number(row["min_gpus"]) or 1),
                community=kind == "community",
                seen_on=min(day, date.fromisoformat(row["fetched_at"][:10])),
                refused=_SERVERLESS if kind == "serverless" else "",
            )
        )
    return rows


def read_hemgo(text: str, day: date, source: str) -> list[RawRow]:
    """Read the last snapshot of a day of a live per-GPU tracker; only what it read live, not its kept list prices."""
    of_day = list(_rows_of(text, "generated_at", day))
    last = max((row["generated_at"] for row in of_day), default="")
    return [
        RawRow(
            source=source,
            provider=row["provider"],
            region=_region(row["region"]),
            spelling=row["gpu_label"],
            memory_gb=_number(row["vram_gb"]),
            term="spot" if row["billing"] == "spot" else "on-demand",
            price_usd=_number(row["usd_per_gpu_hour"]) if row["currency"] == "USD" else None,
            per="gpu",
            community=row["billing"] == "community",
            seen_on=day,
            refused="" if row["source_kind"] == "live" else "a list price kept by hand, not read that day",
        )
        for row in of_day
        if row["generated_at"] == last
    ]


def read_cherielilili(text: str, day: date, source: str, provider: str = "vast.ai") -> list[RawRow]:
    """Read one provider's groups of offers (GPU, count, country, term) at the lowest price of each group.

    Only that price is sure to be had, and for one node unless the whole group stands at it.
    """
    rows = []
    for row in _rows_of(text, "date", day):
        one_price = row["price_min_usd"] == row["price_max_usd"]
        rows.append(
            RawRow(
                source=source,
                provider=row["provider"],
                region=_region(row["region"]),
                spelling=row["gpu_model"],
                term="spot" if row["rental_type"] == "spot" else "on-demand",
                price_usd=_number(row["price_min_usd"]),
                per="gpu",
                gpus=int(row["gpu_count"]),
                max_nodes=float(row["n_offers"]) if one_price else 1.0,
                seen_on=day,
                refused="" if row["provider"] == provider else _OTHER_SOURCE,
            )
        )
    return rows


def read_skypilot(text: str, provider: str, seen_on: date, source: str, regions_are_stock: bool = True) -> list[RawRow]:
    """Read a SkyPilot VM catalog: prices per instance; a spot price that is empty or 0.00 means that none is known.

    Args:
        text: columns InstanceType, AcceleratorName, AcceleratorCount, Price, SpotPrice, Region.
        provider: whose catalog it is.
        seen_on: the day the prices were seen (the file does not say).
        source: short name of the data set.
        regions_are_stock: False where the catalog repeats every machine for every region; the region is dropped then.
    """
    rows: dict[RawRow, None] = {}
    for entry in csv.DictReader(io.StringIO(text)):
        count = _number(entry["AcceleratorCount"])
        if not count:
            continue
        spot = _number(entry.get("SpotPrice") or "")
        prices: list[tuple[Term, float | None]] = [("on-demand", _number(entry["Price"]))]
        if spot:
            prices.append(("spot", spot))
        for term, price in prices:
            row = RawRow(
                source=source,
                provider=provider,
                region=entry["Region"] if regions_are_stock else "global",
                instance_type=entry["InstanceType"],
                spelling=entry["AcceleratorName"],
                gpus=int(count) if count == int(count) else 0,
                term=term,
                price_usd=price,
                per="node",
                seen_on=seen_on,
                refused="" if entry["InstanceType"] else "the GPU without its machine",
            )
            rows[row] = None
    return list(rows)


def read_stated_figures(text: str, day: date, source: str) -> list[RawRow]:
    """Read figures that were stated in prose (provider, gpu, sizes, label, price_usd_per_gpu_hour, seen_on)."""
    return [
        RawRow(
            source=source,
            provider=row["provider"],
            spelling=row["gpu"],
            gpus=int(size),
            instance_type=f"{size}x {row['gpu']}" + (f" ({row['label']})" if row["label"] else ""),
            term="on-demand",
            price_usd=_number(row["price_usd_per_gpu_hour"]),
            per="gpu",
            seen_on=day,
        )
        for row in _rows_of(text, "seen_on", day)
        for size in row["sizes"].split()
    ]


def _rows_of(text: str, column: str, day: date) -> Iterator[dict[str, str]]:
    wanted = day.isoformat()
    return (row for row in csv.DictReader(io.StringIO(text)) if row[column][:10] == wanted)


def _number(text: str) -> float | None:
    return float(text) if text.strip() else None


def _region(text: str) -> str:
    return "global" if text in _NO_REGION else _AWS_REGIONS.get(text, text)


def read_gpuhunt(text: str, provider: str, seen_on: date, source: str) -> list[RawRow]:
    """Read a gpuhunt catalog: prices per instance, on-demand or spot; GPU memory is per GPU.

    Args:
        text: columns instance_name, location, price, gpu_count, gpu_name, gpu_memory, spot.
        provider: whose catalog it is.
        seen_on: the day the prices were seen (the file does not say).
        source: short name of the data set.
    """
    rows = []
    for entry in csv.DictReader(io.StringIO(text)):
        count = _number(entry["gpu_count"])
        if not count:
            continue
        rows.append(
            RawRow(
                source=source,
                provider=provider,
                region=entry["location"],
                instance_type=entry["instance_name"],
                spelling=entry["gpu_name"],
                gpus=int(count) if count == int(count) else 0,
                memory_gb=_number(entry["gpu_memory"]),
                term="spot" if entry["spot"].strip().lower() == "true" else "on-demand",
                price_usd=_number(entry["price"]),
                per="node",
                seen_on=seen_on,
            )
        )
    return rows
