"""The database behind the history: SQLite in the user's folder, or PostgreSQL by URL, brought up to date as needed.

Transactions are the whole of what is promised: a write is one transaction, a read sees one state. SQLite runs in WAL
mode, so that readers never wait, with synchronous=FULL, so that what was committed survives a crash of the machine.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from catalogs.history.records import HistoryError
from catalogs.user_data import DATABASE_VARIABLE, HISTORY_FILE, user_data_folder

# Every version of the tables, in order; each is a file in migrations/versions.
REVISIONS = ("0001",)

BUSY_SECONDS = 60
_TRIES = 6
# Any number that other programs on the same server are unlikely to lock.
_UPGRADE_LOCK = 5_203_417_118
_WRITE = "shardwise_write"
_RETRY_SQLSTATES = {"40001", "40P01", "55P03"}

T = TypeVar("T")


class Database:
    """One database of prices. Opening it touches nothing; the first write makes it."""

    def __init__(self, url: str | None = None):
        self.url = _url_of(url)
        self.path = Path(str(self.url.database)) if self.url.get_backend_name() == "sqlite" else None
        self._engine: Engine | None = None
        self._ready = False

    @property
    def shown(self) -> str:
        """The database as a message may name it: without a password."""
        return str(self.path) if self.path else self.url.render_as_string(hide_password=True)

    def exists(self) -> bool:
        """Say whether there are tables to read. Makes nothing; an older version is brought up to date."""
        if self._ready:
            return True
        if self.path is not None and not self.path.exists():
            return False
        with self._explained():
            if self._version() is None:
                return False
            self._upgrade()
        return True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that sees one state of the whole database."""
        level = {} if self.path else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with (
            self._explained(),
            self._open().connect() as connection,
            connection.execution_options(**level).begin(),
        ):
            yield connection

    def write(self, action: Callable[[Connection], T]) -> T:
        """Run an action in one transaction, again where another writer was in the way.

        Raises:
            HistoryError: it could not be written; nothing of it was kept.
        """
        with self._explained():
            for attempt in range(_TRIES):
                try:
                    self._upgrade()
                    with self._open().connect().execution_options(**{_WRITE: True}) as connection, connection.begin():
                        return action(connection)
                except DBAPIError as error:
                    if attempt == _TRIES - 1 or not _may_pass(error):
                        raise
                    time.sleep(random.uniform(0.02, 0.1) * 2**attempt)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Close every connection."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = _sqlite_engine(self.path) if self.path else _postgres_engine(self.url)
        return self._engine

    def _version(self) -> str | None:
        """Return the version of the tables; None where there are none."""
        with self._open().connect() as connection:
            if not sa.inspect(connection).has_table("alembic_version"):
                return None
            return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()

    def _upgrade(self) -> None:
        """Bring the tables to the newest version, once for however many processes ask."""
        if self._ready:
            return
        if self.path is not None and not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.touch(mode=0o600)
        if self.path is not None:
            with self._open().connect() as connection:
                connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
        version = self._version()
        if version != REVISIONS[-1]:
            if version is not None and version not in REVISIONS:
                raise HistoryError(
                    f"{self.shown}: was written by a newer shardwise (its tables are of version {version}, "
                    f"this program knows up to {REVISIONS[-1]}); nothing was changed: update shardwise"
                )
            with self._open().connect().execution_options(**{_WRITE: True}) as connection, connection.begin():
                _run_migrations(connection)
        self._ready = True

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise HistoryError(f"{self.shown}: {_reason(error)}") from error
        except OSError as error:
            raise HistoryError(f"{self.shown}: {error.strerror or error}") from error


def _run_migrations(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  asked for only where tables are made or changed
    from alembic.config import Config  # noqa: PLC0415

    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _url_of(url: str | None) -> URL:
    chosen = url or os.environ.get(DATABASE_VARIABLE)
    if not chosen:
        return URL.create("sqlite", database=str(user_data_folder() / HISTORY_FILE))
    where = "the database's URL" if url else DATABASE_VARIABLE
    expected = "expected postgresql://user:password@host/database, or sqlite:////folder/prices.sqlite"
    try:
        parsed = make_url(chosen)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise HistoryError(f"{where}: cannot be read; {expected}") from None
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise HistoryError(f"{where}: {parsed.render_as_string(hide_password=True)} is not usable; {expected}")
    return parsed


def _sqlite_engine(path: Path) -> Engine:
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        for pragma in ("foreign_keys=ON", "synchronous=FULL", "cache_size=-65536", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The write lock is taken at once: a transaction that first reads and then writes could not wait for it.
        write = connection.get_execution_options().get(_WRITE)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _postgres_engine(url: URL) -> Engine:
    try:
        return sa.create_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise HistoryError('PostgreSQL needs its driver: pip install "shardwise[postgres]"') from None


def _may_pass(error: DBAPIError) -> bool:
    """Say whether the same transaction may succeed when it is run again."""
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _RETRY_SQLSTATES:
        return True
    return isinstance(error.orig, sqlite3.OperationalError) and "locked" in str(error.orig)


def _reason(error: DBAPIError) -> str:
    said = str(error.orig).strip().splitlines()[0] if error.orig and str(error.orig).strip() else type(error).__name__
    code = getattr(error.orig, "sqlite_errorname", "")
    if code in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR") or getattr(error.orig, "sqlstate", "") == "53100":
        return f"cannot be written ({said}): is the disk full? Nothing of this write was kept"
    if code in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        return f"is not a database of prices, or is damaged ({said}); move it away to start a new one"
    if "locked" in said:
        return f"another program holds it for over {BUSY_SECONDS} s ({said}); nothing of this write was kept"
    if code == "SQLITE_READONLY":
        return f"may not be written ({said})"
    return f"the database says: {said}"
