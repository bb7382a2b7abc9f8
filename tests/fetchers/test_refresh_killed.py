"""kill -9 at random points of a refresh: no committed price is lost, no half look is ever seen."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import sqlite3
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from catalogs.history import open_history
from fetchers.pulls import RawPull
from tests.fetchers.server import Answer, serve
from tests.fetchers.shop import START, Shop, ask, listing

KILLS = 12
REGIONS = [f"region-{number}" for number in range(60)]

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.fetchers.test_refresh_killed"])


def refresh_until_killed(url: str, database: str, first: int, told_to: Connection) -> None:
    """Refresh again and again, two hours apart, and say each look once it is recorded."""
    with open_history(database) as history:
        for number in itertools.count(first):
            outcome = ask(history, Shop(url, START + number * timedelta(hours=2)))["shop"]
            assert outcome.status == "fresh", outcome
            told_to.send(number)


def test_killed_at_any_point_of_a_refresh(tmp_path: Path) -> None:
    rng = random.Random(11)
    database = f"sqlite:///{tmp_path}/prices.sqlite"
    counter = itertools.count()
    committed = 0
    with serve() as server, open_history(database) as history:
        # Every answer is a whole list at one price of its own.
        server.on("/prices", Answer(lambda: iter([listing(dict.fromkeys(REGIONS, 40.0 + next(counter) % 50))])))
        for kill in range(KILLS):
            here, there = processes.Pipe(duplex=False)
            arguments = (server.url, database, committed, there)
            process = processes.Process(target=refresh_until_killed, args=arguments, daemon=True)
            process.start()
            there.close()
            if kill % 3:
                assert here.poll(30)
            time.sleep(rng.uniform(0.0, 0.25))
            process.kill()
            process.join()
            said = committed - 1
            while here.poll():
                try:
                    said = here.recv()
                except EOFError:
                    break
            looks = sum(state.looks for state in history.sources())
            assert said + 1 <= looks <= said + 2  # the last may be recorded without having said so
            committed = looks
            if looks:
                frame = history.prices_as_of(None, ["shop"])
                assert set(frame["region"]) == set(REGIONS)
                assert frame["price_usd_per_node_hour"].nunique() == 1
                last = history.newest_look("shop")
                assert last is not None
                body = RawPull.from_bytes(history.raw.read(last.sha256)).parts[0].body
                assert str(frame["price_usd_per_node_hour"].iloc[0]).encode() in body
    assert committed >= KILLS // 3
    with sqlite3.connect(tmp_path / "prices.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
