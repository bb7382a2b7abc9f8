"""Answers of the database as pandas tables, and the small questions that several larger ones ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from catalogs.history.schema import pulls, sources

FOREVER_US = 2**62


def table_of(
    connection: Connection,
    asked: sa.Select[Any],
    *,
    needed: str | None = None,
    change: Callable[[Sequence[Any], Sequence[str]], Sequence[Any]] | None = None,
) -> pd.DataFrame:
    """Return the answer as a table; rows without a value in the column `needed` are left out, then all are changed."""
    result = connection.execute(asked)
    columns = list(result.keys())
    rows: Sequence[Any] = result.all()
    if needed is not None:
        place = columns.index(needed)
        rows = [row for row in rows if row[place] is not None]
    if change is not None:
        rows = change(rows, columns)
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pd.DataFrame({name: list(values) for name, values in zip(columns, cells, strict=True)}).astype(
        {"max_nodes": float, "gpus_per_node": "int64"} if "max_nodes" in columns else {}
    )


def source_names(connection: Connection) -> dict[int, str]:
    """Return the names of all sources by number."""
    return {row[0]: row[1] for row in connection.execute(sa.select(sources.c.id, sources.c.name))}


def newest_looks(moment_us: int, *columns: Any, complete: bool = False) -> sa.Select[Any]:
    """Ask for columns of each source and its newest look by a moment, of complete looks alone where wanted."""
    newest = (
        sa.select(sa.func.max(pulls.c.moment_us))
        .where(pulls.c.source_id == sources.c.id, pulls.c.moment_us <= moment_us)
        .correlate(sources)
    )
    if complete:
        newest = newest.where(pulls.c.complete)
    return sa.select(*columns).select_from(
        sources.join(pulls, sa.and_(pulls.c.source_id == sources.c.id, pulls.c.moment_us == newest.scalar_subquery()))
    )


def moments(us: Iterable[Any]) -> pd.Series:
    """Return microseconds since 1970 as moments in UTC; NaT where there is none."""
    return pd.to_datetime(pd.Series(us, dtype="Int64"), unit="us", utc=True)
