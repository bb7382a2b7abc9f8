"""What the processes of test_faults do; each opens the history by itself, as a program of its own would."""

from __future__ import annotations

import hashlib
import resource
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from catalogs.history import History, HistoryError, open_history
from tests.catalogs.history.observed import Priced, at, look, told

OFFERS = 40


def prices_of(number: int) -> dict[str, tuple[float, float | None]]:
    """What a look lists: some prices stay, some move at every look, some come and go."""
    return {
        f"machine-{one}": (1.0 + one + (number % 7 if one % 2 else 0), None)
        for one in range(OFFERS)
        if one % 5 or number % 2
    }


def body_of(number: int) -> bytes:
    """The raw bytes of a look."""
    return f"look {number} ".encode() * 50


def record_look(history: History, number: int, source: str = "tracker") -> None:
    """Keep the raw bytes, then record the look."""
    raw = history.raw.keep([body_of(number)])
    listed = [Priced(name, price, stock) for name, (price, stock) in prices_of(number).items()]
    history.record(look(number, source, sha256=raw.sha256, size_bytes=raw.size_bytes), listed)


def write_until_killed(url: str, folder: str, first: int, told_to: Connection) -> None:
    """Record looks one after another, and say each number once it is committed."""
    history = _open(url, folder)
    for number in count(first):
        record_look(history, number)
        told_to.send(number)


def write_looks(url: str, folder: str, source: str, numbers: list[int]) -> None:
    """Record some looks of one source."""
    history = _open(url, folder)
    for number in numbers:
        record_look(history, number, source)
    history.close()


def read_whole_looks(url: str, folder: str, sources: list[str], stop: Any, told_to: Connection) -> None:
    """Read until told to stop; answer how often, and what was read that no look lists."""
    history, wrong, reads = _open(url, folder), [], 0
    while not stop.is_set() or reads < 3:
        for source in sources:
            state = {one.name: one for one in history.sources()}.get(source)
            seen = told(history.as_of(sources=[source]))
            reads += 1
            newest = [n for n in range(-1, 60) if (prices_of(n) if n >= 0 else {}) == seen]
            if not newest or (state is not None and state.offers > OFFERS):
                wrong.append(seen)
    told_to.send((reads, wrong[:1]))


def write_on_a_full_disk(url: str, folder: str, most_bytes: int, told_to: Connection) -> None:
    """Record looks where no file may grow beyond a size; answer the last one committed and what was said then."""
    history = _open(url, folder)
    record_look(history, 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    last = 0
    try:
        for number in range(1, 5_000):
            record_look(history, number)
            last = number
    except HistoryError as error:
        told_to.send((last, str(error)))
    else:
        told_to.send((last, ""))


def whole(history: History, last: int) -> None:
    """Check that looks 0 to `last` are there, whole, with their raw bytes, and nothing after them."""
    (state,) = history.sources()
    assert state.looks == last + 1
    assert state.last_look == at(last)
    for number in {0, max(0, last - 1), last}:
        assert told(history.as_of(at(number))) == prices_of(number)
        sha256 = hashlib.sha256(body_of(number)).hexdigest()
        assert history.raw.read(sha256) == body_of(number)
        assert history.provenance(sha256)[0]["moment"] == at(number)


def _open(url: str, folder: str) -> History:
    import os  # noqa: PLC0415

    os.environ["SHARDWISE_DATA_DIR"] = folder
    return open_history(url)
