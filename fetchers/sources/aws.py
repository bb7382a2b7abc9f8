"""AWS: the public bulk file of EC2 prices, several GB of CSV, filtered while it streams."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from catalogs.nodes import load_nodes
from fetchers.errors import ContentError
from fetchers.http import HttpSession
from fetchers.normalize import RawRow
from fetchers.payload import number
from fetchers.pulls import RawPull
from fetchers.source import Source

PATH = "/offers/v1.0/aws/AmazonEC2/current/index.csv"
MAX_FILE_BYTES = 30_000_000_000
MAX_KEPT_BYTES = 100_000_000
MAX_LINE_BYTES = 65_536
MAX_SECONDS = 3600.0

# What makes a row the plain Linux price of a machine by the hour, by column.
PLAIN = {
    "TermType": "OnDemand",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "CapacityStatus": "Used",
    "Unit": "Hrs",
    "Pre Installed S/W": "NA",
    "MarketOption": "OnDemand",
}
NEEDED = (*PLAIN, "Instance Type", "Region Code", "PricePerUnit", "Currency", "GPU")
# How often each of these values must stand in a row at least: cheap to count, and nearly no other row passes.
_MARKS = tuple(Counter(f'"{value}"'.encode() for value in PLAIN.values()).items())
_HEADER = b'"SKU"'
_MOST_LEAD_LINES = 20


class Aws(Source):
    """On-demand Linux prices of every machine with a GPU, in every region and local zone."""

    name = "aws"
    title = "Amazon Web Services"
    url = "https://pricing.us-east-1.amazonaws.com"
    kind = "provider"
    terms = "documented public price list"
    longest_s = MAX_SECONDS

    def fetch(self, session: HttpSession, previous: RawPull | None = None) -> RawPull:
        """Stream the file once and keep the lines of machines with GPUs; nothing is sent when it did not change."""
        limits = replace(session.limits, total_s=MAX_SECONDS, max_bytes=MAX_FILE_BYTES)
        part = self.get(session, PATH, expect="csv", previous=previous, limits=limits, consume=keep_gpu_lines)
        return self.pull(part)

    def parse(self, pull: RawPull, day: date) -> list[RawRow]:
        """Return one row a machine and region."""
        lines = pull.parts[0].body.decode("utf-8", "replace").splitlines()
        start = next((number for number, line in enumerate(lines) if line.startswith('"SKU"')), len(lines))
        reader = csv.DictReader(lines[start:])
        _check_columns(reader.fieldnames or ())
        machines = _machines()
        whole = (entry for entry in reader if None not in entry.values() and None not in entry)
        return [_row(entry, day) for entry in whole if _is_plain(entry, machines)]


def keep_gpu_lines(chunks: Iterator[bytes]) -> bytes:
    """Return the lead lines, the header and the rows of machines with GPUs.

    Raises:
        ContentError: a line without end, no header, or columns missing.
    """
    kept = io.BytesIO()
    columns: list[str] = []
    machines = _machines()
    for number_, line in enumerate(_lines(chunks)):
        if not columns:
            kept.write(line)
            if line.startswith(_HEADER):
                columns = next(csv.reader([line.decode("utf-8", "replace")]))
                _check_columns(columns)
            elif number_ >= _MOST_LEAD_LINES:
                break
        elif _may_be_plain(line) and _has_gpu(line, columns, machines):
            kept.write(line)
        if kept.tell() > MAX_KEPT_BYTES:
            raise ContentError("aws", "more machines with GPUs than can be", "The file has changed; report it.")
    if not columns:
        raise ContentError("aws", "the price file has no header line", "The file has changed; report it.")
    return kept.getvalue()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > MAX_LINE_BYTES:
            raise ContentError("aws", f"a line of more than {MAX_LINE_BYTES} bytes", "The file has changed; report it.")
    if rest:
        yield rest + b"\n"


def _may_be_plain(line: bytes) -> bool:
    return all(line.count(mark) >= times for mark, times in _MARKS)


def _has_gpu(line: bytes, columns: list[str], machines: set[str]) -> bool:
    cells = next(csv.reader([line.decode("utf-8", "replace")]), [])
    return len(cells) == len(columns) and _is_plain(dict(zip(columns, cells, strict=True)), machines)


def _is_plain(entry: dict[str, str], machines: set[str]) -> bool:
    """Return whether an entry is the plain Linux price of a machine with a GPU."""
    if any(entry[column] != value for column, value in PLAIN.items()):
        return False
    return entry["Instance Type"] in machines or (number(entry["GPU"]) or 0.0) > 0.0


def _machines() -> set[str]:
    return {name for provider, name in load_nodes() if provider == "aws"}


def _check_columns(columns: Sequence[str]) -> None:
    lost = [column for column in NEEDED if column not in columns]
    if lost:
        raise ContentError("aws", f"the price file lacks {', '.join(lost)}", "The file has changed; report it.")


def _row(entry: dict[str, str], day: date) -> RawRow:
    gpus, currency, price = number(entry["GPU"]), entry["Currency"].upper(), number(entry["PricePerUnit"])
    part_of_gpu = gpus is not None and gpus != int(gpus)
    return RawRow(
        source="aws",
        provider="aws",
        region=entry["Region Code"] or "global",
        instance_type=entry["Instance Type"],
        spelling=entry["Instance Type"],
        gpus=int(gpus) if gpus else None,
        term="on-demand",
        price_usd=price if currency == "USD" else None,
        currency=currency,
        price_in_currency=None if currency == "USD" else price,
        per="node",
        seen_on=day,
        refused="a part of a GPU" if part_of_gpu else "",
    )
