"""How the sources of the history stand, what is set aside, and which looks had which bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from catalogs.history.records import RecordedLook, SourceState, from_us
from catalogs.history.schema import failures, offers, periods, pulls, set_aside, sources
from catalogs.history.stored import with_period
from catalogs.history.tables import FOREVER_US, moments, table_of

_PROVENANCE = ("moment_us", "complete", "sha256", "url", "size_bytes", "http_status", "rows", "offers", "set_aside")


def source_states(connection: Connection) -> list[SourceState]:
    """Return how each source stands, by name."""
    looks = _by_source(
        connection,
        sa.select(
            pulls.c.source_id,
            sa.func.count(),
            sa.func.min(pulls.c.moment_us),
            sa.func.max(pulls.c.moment_us),
            sa.func.max(sa.case((pulls.c.complete, pulls.c.moment_us))),
        ).group_by(pulls.c.source_id),
    )
    waiting = _by_source(
        connection,
        sa.select(set_aside.c.source_id, sa.func.count())
        .where(set_aside.c.state == "waiting", set_aside.c.offer != "")
        .group_by(set_aside.c.source_id),
    )
    listed = _by_source(
        connection,
        sa.select(offers.c.source_id, sa.func.count(periods.c.offer_id))
        .select_from(with_period(connection, FOREVER_US))
        .group_by(offers.c.source_id),
    )
    found = []
    for number, name, citation in connection.execute(
        sa.select(sources.c.id, sources.c.name, sources.c.citation).order_by(sources.c.name)
    ):
        count, first, last, complete = looks.get(number, (0, None, None, None))
        failed, when, reason = _failures(connection, number, last)
        found.append(
            SourceState(
                name=name,
                citation=citation,
                looks=count,
                first_look=_moment(first),
                last_look=_moment(last),
                last_complete=_moment(complete),
                offers=listed.get(number, (0,))[0],
                waiting=waiting.get(number, (0,))[0],
                failures=failed,
                last_failure=_moment(when),
                last_failure_reason=reason,
            )
        )
    return found


def _failures(connection: Connection, source_id: int, since_us: int | None) -> tuple[int, int | None, str]:
    of_source = failures.c.source_id == source_id
    asked = sa.select(sa.func.count()).where(of_source, failures.c.moment_us > (since_us or 0))
    newest = sa.select(failures.c.moment_us, failures.c.reason).where(of_source)
    row = connection.execute(newest.order_by(failures.c.moment_us.desc(), failures.c.id.desc()).limit(1)).first()
    return connection.execute(asked).scalar_one(), row[0] if row else None, row[1] if row else ""


def quarantined(
    connection: Connection, state: str | None, of: Sequence[str] | None, *, placed: bool = False
) -> pd.DataFrame:
    """Return rows set aside, the newest first: number, source, reason, row and offer (dicts), moments, looks, state."""
    asked = sa.select(
        set_aside.c.id.label("number"),
        sources.c.name.label("source"),
        *(set_aside.c[name] for name in ("reason", "row", "offer", "first_seen_us", "last_seen_us", "looks", "state")),
    ).join(sources, sources.c.id == set_aside.c.source_id)
    if state is not None:
        asked = asked.where(set_aside.c.state == state)
    if of is not None:
        asked = asked.where(sources.c.name.in_(list(of)))
    if placed:
        asked = asked.where(set_aside.c.offer != "")
    frame = table_of(connection, asked.order_by(set_aside.c.last_seen_us.desc(), set_aside.c.id))
    frame["row"] = [_loads(text) for text in frame["row"]]
    frame["offer"] = [json.loads(text) if text else None for text in frame["offer"]]
    for name in ("first_seen", "last_seen"):
        frame[name] = moments(frame[f"{name}_us"])
    return frame.drop(columns=["first_seen_us", "last_seen_us"])


def newest_look(connection: Connection, source: str) -> RecordedLook | None:
    """Return the newest look at a source; None where there is none."""
    row = connection.execute(
        sa.select(pulls.c.moment_us, pulls.c.sha256, pulls.c.complete, pulls.c.offers)
        .join(sources, sources.c.id == pulls.c.source_id)
        .where(sources.c.name == source)
        .order_by(pulls.c.moment_us.desc())
        .limit(1)
    ).first()
    return None if row is None else RecordedLook(from_us(row[0]), row[1], bool(row[2]), row[3])


def pull_of(connection: Connection, sha256: str) -> list[dict[str, Any]]:
    """Return the looks that had these raw bytes, the first first."""
    asked = (
        sa.select(sources.c.name.label("source"), *(pulls.c[name] for name in _PROVENANCE))
        .join(sources, sources.c.id == pulls.c.source_id)
        .where(pulls.c.sha256 == sha256)
        .order_by(pulls.c.moment_us)
    )
    rows = []
    for row in connection.execute(asked).mappings():
        cells = dict(row)
        cells["moment"] = from_us(cells.pop("moment_us"))
        cells["set_aside"] = json.loads(cells["set_aside"])
        rows.append(cells)
    return rows


def _by_source(connection: Connection, asked: sa.Select[Any]) -> dict[int, tuple[Any, ...]]:
    return {row[0]: tuple(row[1:]) for row in connection.execute(asked)}


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # a row too long to be kept whole
        return {"text": text}


def _moment(us: int | None) -> Any:
    return None if us is None else from_us(us)
