"""Rebuild the bundled price files from a folder of dated price files.

    python -m fetchers.snapshot --prices FOLDER --out catalogs/data/prices [--date 2026-08-14 ...]

For every date asked for, each source gives its newest day that is not later; a day is written once.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache, partial
from pathlib import Path

from catalogs.errors import CatalogError, DataFileError
from catalogs.offer_files import PRICE_COLUMNS
from fetchers import dated_files
from fetchers.checks import check_together
from fetchers.normalize import PlacedOffer, RawRow, place

DATES = tuple(date(2026, month, day) for month, day in ((7, 5), (7, 20), (8, 13), (8, 14), (8, 15), (8, 22)))
OLDEST = timedelta(days=365)

_STATED = Path(__file__).parent / "data" / "stated_figures.csv"
_GCP_MACHINES = "karpenter/gcp_ondemand_spot.csv"
# SkyPilot's file is undated. Its H100 at 4.29 was first seen on this day and still stood on 2026-05-24.
_LAMBDA_DAY = date(2026, 3, 25)


@dataclass(frozen=True)
class DatedFile:
    """One source: where its file lies and how a day of it is read."""

    source: str
    path: str | Path
    read: Callable[[str, date], list[RawRow]]
    only_day: date | None = None

    def days(self, text: str) -> list[date]:
        """Return the days that the file holds."""
        return [self.only_day] if self.only_day else dated_files.days_in(text)


def dated_sources(folder: Path) -> tuple[DatedFile, ...]:
    """Return the sources of the bundled snapshot, for files that lie under `folder`."""

    def machine_prices(source: str, path: str) -> DatedFile:
        return DatedFile(source, path, partial(dated_files.read_machine_prices, source=source))

    def read_lambda(text: str, day: date) -> list[RawRow]:
        return dated_files.read_skypilot(text, "lambda", day, "skypilot", regions_are_stock=False)

    def read_commitments(text: str, day: date) -> list[RawRow]:
        return dated_files.read_gcp_commitments(text, day, "cyclenerd-gcp", _machines_sold(folder / _GCP_MACHINES))

    return (
        machine_prices("karpenter-aws", "karpenter/aws_ondemand_us-east-1.csv"),
        machine_prices("karpenter-azure", "karpenter/azure_ondemand.csv"),
        machine_prices("karpenter-gcp", _GCP_MACHINES),
        DatedFile("cyclenerd-gcp", "karpenter/gcp_cyclenerd_2022-2026.csv", read_commitments),
        DatedFile(
            "aws-p5-daily",
            "trackers/aws_p5_daily_us-east-1.csv",
            partial(dated_files.read_aws_series, source="aws-p5-daily"),
        ),
        DatedFile(
            "gpurentalprices",
            "trackers/gpurentalprices_daily.csv",
            partial(dated_files.read_gpurentalprices, source="gpurentalprices"),
        ),
        DatedFile("hemgo", "trackers/hemgo_live_aug2026.csv", partial(dated_files.read_hemgo, source="hemgo")),
        DatedFile(
            "cherielilili",
            "trackers/cherielilili_daily.csv",
            partial(dated_files.read_cherielilili, source="cherielilili"),
        ),
        DatedFile("skypilot", "skypilot/lambda/v8-0f407038-date-unknown.csv", read_lambda, only_day=_LAMBDA_DAY),
        DatedFile("stated", _STATED, partial(dated_files.read_stated_figures, source="stated")),
    )


@lru_cache(maxsize=4)
def _machines_sold(path: Path) -> frozenset[tuple[str, str]]:
    """(region, machine) that Google's own price list has held since spring 2026."""
    rows = csv.DictReader(io.StringIO(_text(path)))
    return frozenset((row["region"], row["instance_type"]) for row in rows)


def rebuild(folder: Path, out: Path, dates: Sequence[date] = DATES) -> dict[tuple[str, date], int]:
    """Write the price files of every source for the dates asked for.

    Args:
        folder: holds the dated files.
        out: folder of price files, `<source>/<date>.csv` with `<date>.set_aside.csv` beside each.
        dates: as-of dates that the files must serve.

    Returns:
        (source, day) -> offers written.

    Raises:
        CatalogError: `folder` holds none of the sources.
        DataFileError: a source's file cannot be read or is not what its reader needs.
    """
    written: dict[tuple[str, date], int] = {}
    for source in dated_sources(folder):
        path = folder / source.path
        if not path.exists():
            continue
        text = _text(path)
        try:
            for day in _days_serving(source.days(text), dates):
                written[source.source, day] = _write_day(source, text, day, out)
        except (KeyError, ValueError, StopIteration) as error:
            raise DataFileError(path, [f"not a {source.source} file: {error!r}"]) from error
    if not {source for source, _ in written} - {"stated"}:
        raise CatalogError(f"{folder} holds none of the dated price files that the snapshot is made from.")
    return written


def _days_serving(days: Iterable[date], dates: Iterable[date]) -> list[date]:
    """Return, for each date, the newest day not later and not over a year older."""
    known = sorted(days)
    newest = (max((day for day in known if wanted - OLDEST <= day <= wanted), default=None) for wanted in dates)
    return sorted({day for day in newest if day is not None})


def _write_day(source: DatedFile, text: str, day: date, out: Path) -> int:
    placed = place(source.read(text, day))
    offers, failed = check_together(placed.offers)
    offers.sort(key=lambda offer: offer.key)
    _write_whole(out / source.source / f"{day}.csv", PRICE_COLUMNS, map(_cells, offers))
    counts = sorted((placed.reasons + Counter(failed)).items())
    _write_whole(out / source.source / f"{day}.set_aside.csv", ("reason", "rows"), counts)
    return len(offers)


def _cells(offer: PlacedOffer) -> tuple[object, ...]:
    return (
        offer.provider,
        offer.provider_kind,
        offer.region,
        offer.instance_type,
        offer.gpu,
        offer.gpus_per_node,
        offer.term,
        f"{offer.price_usd_per_node_hour:.10g}",
        "" if offer.max_nodes is None else f"{offer.max_nodes:g}",
        offer.seen_on.isoformat(),
    )


def _write_whole(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV beside its place and move it there, so that no half file is ever read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    os.replace(unfinished, path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataFileError(path, [f"cannot be read: {error}"]) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (2: bad input)."""
    parser = argparse.ArgumentParser(prog="python -m fetchers.snapshot", description=__doc__)
    parser.add_argument("--prices", type=Path, required=True, metavar="FOLDER", help="folder of dated price files")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of price files to write")
    parser.add_argument("--date", type=date.fromisoformat, action="append", help="as-of date to serve (repeatable)")
    asked = parser.parse_args(arguments)
    try:
        written = rebuild(asked.prices, asked.out, asked.date or DATES)
    except CatalogError as error:
        parser.exit(2, f"{error}\n")
    for (source, day), offers in written.items():
        print(f"{source:16} {day} {offers:6} offers")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
