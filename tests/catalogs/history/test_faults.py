"""Crashes, full disks and many at once: no committed price is lost, and no half look is ever seen."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from catalogs.history import History, HistoryError, open_history, recording
from catalogs.history.database import REVISIONS, Database
from tests.catalogs.history import faults
from tests.catalogs.history.observed import at, look, offers, told

KILLS = 50

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.catalogs.history.faults"])


def start(target: Callable[..., None], *arguments: Any) -> Any:
    process = processes.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def ask(target: Callable[..., None], *arguments: Any) -> Any:
    """Run a function in a process of its own; returns what it sent."""
    here, there = processes.Pipe(duplex=False)
    process = start(target, *arguments, there)
    assert here.poll(60)
    answer = here.recv()
    process.join(60)
    return answer


def test_killed_at_any_point_nothing_committed_is_lost_and_no_half_look_stays(url: str, folder: Path) -> None:
    rng = random.Random(7)
    history, committed = open_history(url), -1
    for kill in range(KILLS if url.startswith("sqlite") else KILLS // 2):
        here, there = processes.Pipe(duplex=False)
        process = start(faults.write_until_killed, url, str(folder), committed + 1, there)
        there.close()
        said = committed
        if kill % 3:  # else it may not even have begun: the tables are half made, or there is no file yet
            said = here.recv()
        time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        process.join()
        while True:
            try:
                said = here.recv() if here.poll() else said
            except EOFError:
                break
        if not history.exists():
            assert said == -1
            continue
        looks = sum(state.looks for state in history.sources())
        assert said <= looks - 1 <= said + 1  # the last may have been committed without having said so
        committed = looks - 1
        if committed >= 0:
            faults.whole(history, committed)
    assert committed >= KILLS // 4
    assert_sound(history)
    history.raw.prune(now=time.time() + 90_000, max_age_seconds=1e9)
    assert not list(history.raw.folder.glob(".unfinished*"))
    history.close()


def test_a_full_disk_says_so_and_keeps_what_was_there(folder: Path) -> None:
    url = f"sqlite:///{folder}/prices.sqlite"
    last, said = ask(faults.write_on_a_full_disk, url, str(folder), 400_000)
    assert "is the disk full? Nothing of this write was kept" in said
    history = open_history(url)
    faults.whole(history, last)
    faults.record_look(history, last + 1)  # there is room again
    faults.whole(history, last + 1)
    assert_sound(history)


def test_a_full_disk_leaves_no_half_raw_pull(folder: Path) -> None:
    url = f"sqlite:///{folder}/prices.sqlite"
    last, said = ask(faults.write_on_a_full_disk, url, str(folder), 20)
    assert (last, "cannot be written" in said) == (0, True)
    history = open_history(url)
    assert not list(history.raw.folder.glob(".unfinished*"))
    faults.whole(history, 0)


def test_two_writers_and_ten_readers_at_once_in_processes(url: str, folder: Path) -> None:
    sources = ["a", "b"]
    stop = processes.Event()
    pipes = [processes.Pipe(duplex=False) for _ in range(5)]
    readers = [start(faults.read_whole_looks, url, str(folder), sources, stop, there) for _, there in pipes]
    history = open_history(url)
    with ThreadPoolExecutor(5) as pool:  # five more readers, in threads
        threads = [pool.submit(_read_in_thread, url, stop) for _ in range(5)]
        writers = [start(faults.write_looks, url, str(folder), source, list(range(12))) for source in sources]
        for writer in writers:
            writer.join(120)
            assert writer.exitcode == 0
        stop.set()
        answers = [here.recv() for here, _ in pipes] + [thread.result() for thread in threads]
    for reader in readers:
        reader.join(60)
    assert [wrong for _, wrong in answers if wrong] == []
    assert min(reads for reads, _ in answers) >= 3
    assert {state.name: state.looks for state in history.sources()} == {"a": 12, "b": 12}
    assert_sound(history)
    history.close()


def _read_in_thread(url: str, stop: Any) -> tuple[int, list[object]]:
    history, reads = open_history(url), 0
    while not stop.is_set() or reads < 3:
        seen = told(history.as_of(sources=["a"]))
        reads += 1
        if seen and seen not in [faults.prices_of(number) for number in range(12)]:
            return reads, [seen]
    history.close()
    return reads, []


def test_two_refreshes_of_one_source_at_once_record_each_look_once(url: str, folder: Path) -> None:
    numbers = list(range(10))
    orders = (numbers, numbers[::-1])
    writers = [start(faults.write_looks, url, str(folder), "tracker", order) for order in orders]
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    history = open_history(url)
    faults.whole(history, 9)
    for number in numbers:
        assert told(history.as_of(at(number))) == faults.prices_of(number)
    assert_sound(history)
    history.close()


def test_a_reader_does_not_wait_for_a_writer_nor_see_its_half(url: str) -> None:
    history = open_history(url)
    history.record(look(0), offers({"a": 1.0}))
    written, go_on = threading.Event(), threading.Event()

    def write_and_wait(connection: sa.Connection) -> None:
        recording.record(connection, look(1), offers({"a": 2.0}), [], complete=True)
        written.set()
        go_on.wait(30)

    database = Database(url)
    writer = threading.Thread(target=database.write, args=(write_and_wait,))
    writer.start()
    assert written.wait(30)
    begun = time.perf_counter()
    assert told(history.as_of()) == {"a": (1.0, None)}
    took = time.perf_counter() - begun
    go_on.set()
    writer.join()
    assert took < 5
    assert told(history.as_of()) == {"a": (2.0, None)}
    history.close()
    database.close()


def test_an_error_in_the_middle_keeps_nothing(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.record(look(0), offers({"a": 1.0}))
    before = history.periods()

    def fail(*_: object) -> None:
        raise RuntimeError("the power went")

    monkeypatch.setattr(recording, "observe_all", fail)
    with pytest.raises(RuntimeError):
        history.record(look(1), offers({"a": 2.0, "b": 3.0}))
    assert history.periods().equals(before)
    assert history.sources()[0].looks == 1


class TestVersions:
    def test_tables_are_those_that_the_program_reads(self, url: str) -> None:
        from alembic.autogenerate import compare_metadata  # noqa: PLC0415
        from alembic.migration import MigrationContext  # noqa: PLC0415

        from catalogs.history.schema import METADATA  # noqa: PLC0415

        database = Database(url)
        database.write(lambda _: None)
        with database.reading() as connection:
            assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
            stored = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        assert stored == REVISIONS[-1]
        database.close()

    def test_every_migration_is_known_by_its_number(self) -> None:
        from alembic.config import Config  # noqa: PLC0415
        from alembic.script import ScriptDirectory  # noqa: PLC0415

        from catalogs import history as package  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(Path(str(package.__file__)).parent / "migrations"))
        scripts = ScriptDirectory.from_config(config).walk_revisions()
        assert tuple(script.revision for script in scripts)[::-1] == REVISIONS

    def test_a_database_of_a_newer_program_is_refused_and_left_alone(self, url: str) -> None:
        database = Database(url)
        database.write(lambda connection: connection.execute(sa.text("UPDATE alembic_version SET version_num='0999'")))
        database.close()
        for use in (lambda h: h.as_of(), lambda h: h.record(look(0), offers({"a": 1.0}))):
            with open_history(url) as history, pytest.raises(HistoryError, match=r"newer shardwise .*0999.* update"):
                use(history)

    def test_a_crash_before_the_first_tables_reads_as_no_history(self, folder: Path) -> None:
        (folder / "prices.sqlite").touch()
        history = open_history(f"sqlite:///{folder}/prices.sqlite")
        assert len(history.as_of()) == 0
        history.record(look(0), offers({"a": 1.0}))
        assert told(history.as_of()) == {"a": (1.0, None)}

    def test_a_file_that_is_no_database_is_named(self, folder: Path) -> None:
        (folder / "prices.sqlite").write_text("provider,region\n" * 1_000)
        with pytest.raises(HistoryError, match=r"prices\.sqlite: is not a database of prices, or is damaged"):
            open_history(f"sqlite:///{folder}/prices.sqlite").as_of()


def assert_sound(history: History) -> None:
    """Check the stored file, and that periods of an offer neither overlap nor run backwards."""
    path = history._database.path
    if path is not None:
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    frame = history.periods(by_price=False)
    assert (frame["first_seen"] <= frame["last_seen"]).all()
    ended = frame[frame["until"].notna()]
    assert (ended["last_seen"] < ended["until"]).all()
    for _, periods in frame.groupby(["source", "instance_type"]):
        assert periods["until"].iloc[:-1].notna().all()
        assert (periods["until"].iloc[:-1].to_numpy() <= periods["first_seen"].iloc[1:].to_numpy()).all()
