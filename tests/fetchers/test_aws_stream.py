"""The AWS bulk file: several GB that must never be held."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchers.errors import ContentError, UnreachableError
from fetchers.source import source_classes
from fetchers.sources.aws import PATH, keep_gpu_lines
from tests.fetchers.recorded import DAY, payload, session
from tests.fetchers.server import Answer, serve

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
STATM = Path("/proc/self/statm")
GROWTH_LIMIT_MB = 60


def resident_mb() -> float:
    return int(STATM.read_text().split()[1]) * PAGE_BYTES / 1e6


def block(megabytes: int) -> bytes:
    """Return lines that are not kept: one in a hundred is plain, but of a machine without GPUs."""
    lines = payload("aws.csv").splitlines(keepends=True)[6:]
    (plain,) = (line for line in lines if b"m5.large" in line)
    (windows,) = (line for line in lines if b"Windows" in line)
    text = plain + windows * 99
    return text * (megabytes * 1_000_000 // len(text))


@pytest.mark.skipif(not STATM.exists(), reason="measures resident memory by /proc")
def test_a_large_file_is_filtered_while_it_streams() -> None:
    lines = payload("aws.csv").splitlines(keepends=True)
    head, rows = b"".join(lines[:6]), b"".join(lines[6:])
    filler, largest, before = block(1), 0.0, 0.0

    def body() -> Iterator[bytes]:
        yield head
        for _ in range(100):
            yield filler
        yield rows

    def measure() -> None:
        nonlocal largest
        largest = max(largest, resident_mb())

    with serve() as server, session() as http:
        server.on(PATH, Answer(body, content_type="text/csv", between=measure))
        source = source_classes()["aws"](server.url)
        before = resident_mb()
        pull = source.fetch(http)
    assert pull.parts[0].received_bytes > 90_000_000
    assert len(pull.parts[0].body) < 10_000
    assert largest - before < GROWTH_LIMIT_MB
    expected = [("p5.48xlarge", 55.04), ("g6f.large", 0.202), ("g6e.xlarge", 1.861), ("g6e.xlarge", None)]
    assert [(row.instance_type, row.price_usd) for row in source.parse(pull, DAY)][:4] == expected


def test_a_file_cut_off_in_the_middle_leaves_nothing() -> None:
    with serve() as server, session() as http:
        server.on(PATH, Answer(payload("aws.csv"), content_type="text/csv", cut_after=1500))
        with pytest.raises(UnreachableError, match="cut off"):
            source_classes()["aws"](server.url).fetch(http)
    assert len(server.asked) > 1


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_lines_are_whole_whatever_pieces_arrive(size: int) -> None:
    body = payload("aws.csv")
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert keep_gpu_lines(iter(pieces)) == keep_gpu_lines(iter([body]))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"x" * 70_000, "a line of more than 65536 bytes"),
        (b"a\n" * 30, "no header line"),
        (b"", "no header line"),
        (payload("aws.csv").replace(b'"Region Code"', b'"Region"'), "lacks Region Code"),
    ],
)
def test_another_file_is_refused(body: bytes, told: str) -> None:
    with pytest.raises(ContentError, match=told):
        keep_gpu_lines(iter([body]))
