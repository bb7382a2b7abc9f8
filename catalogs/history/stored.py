"""Stored offers and periods of one source: reading the state at a moment, and writing what a look changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from catalogs.history.records import Facts, Key
from catalogs.history.schema import offers, periods
from catalogs.history.timeline import Edit, Period, Sighting, Value

_KEY = (offers.c.provider, offers.c.region, offers.c.instance_type, offers.c.term)
_FACTS = (offers.c.provider_kind, offers.c.gpu, offers.c.gpus_per_node)
_PERIOD = (
    periods.c.first_seen_us,
    periods.c.last_seen_us,
    periods.c.until_us,
    periods.c.gone,
    periods.c.price_microusd,
    periods.c.max_nodes,
    periods.c.carried_from,
    periods.c.first_pull_id,
    periods.c.last_pull_id,
)
# Rows that one statement may name: SQLite takes 32,766 values.
_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Known:
    """An offer that its source has listed at some time, and the period in force at the moment asked for."""

    id: int
    facts: Facts
    running: Period | None


def latest_start(moment_us: int) -> sa.ScalarSelect[int]:
    """Return the start of an offer's last period that began by a moment: one step down the key, however long it is."""
    return (
        sa.select(sa.func.max(periods.c.first_seen_us))
        .where(periods.c.offer_id == offers.c.id, periods.c.first_seen_us <= moment_us)
        .correlate(offers)
        .scalar_subquery()
    )


def with_period(connection: Connection, moment_us: int) -> sa.Join:
    """Return every offer joined with its period in force at a moment, or with nothing.

    It must be read offer by offer, one step down the key of the periods for each. An outer join keeps SQLite to that
    order; PostgreSQL may take reading all periods at once for cheaper, and is told otherwise for this transaction.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL enable_hashjoin = off")
        connection.exec_driver_sql("SET LOCAL enable_mergejoin = off")
    return offers.outerjoin(
        periods,
        sa.and_(
            periods.c.offer_id == offers.c.id,
            periods.c.first_seen_us == latest_start(moment_us),
            sa.or_(periods.c.until_us.is_(None), periods.c.until_us > moment_us),
        ),
    )


def state_at(connection: Connection, source_id: int, moment_us: int) -> dict[Key, Known]:
    """Return every offer of a source by key, with its period in force at a moment."""
    joined = with_period(connection, moment_us)
    asked = sa.select(offers.c.id, *_KEY, *_FACTS, *_PERIOD).select_from(joined).where(offers.c.source_id == source_id)
    return {tuple(row[1:5]): Known(row[0], Facts(*row[5:8]), _period(row[8:])) for row in connection.execute(asked)}


def following(connection: Connection, moment_us: int, ids: Iterable[int]) -> dict[int, Period]:
    """Return, by offer, the first period that begins after a moment."""
    found: dict[int, Period] = {}
    first = (
        sa.select(sa.func.min(periods.c.first_seen_us))
        .where(periods.c.offer_id == offers.c.id, periods.c.first_seen_us > moment_us)
        .correlate(offers)
        .scalar_subquery()
    )
    joined = offers.outerjoin(periods, sa.and_(periods.c.offer_id == offers.c.id, periods.c.first_seen_us == first))
    for chunk in chunks(sorted(ids)):
        asked = sa.select(offers.c.id, *_PERIOD).select_from(joined).where(offers.c.id.in_(chunk))
        found |= {row[0]: period for row in connection.execute(asked) if (period := _period(row[1:])) is not None}
    return found


def add_offers(connection: Connection, source_id: int, new: dict[Key, Facts]) -> dict[Key, int]:
    """Store offers that were never listed before; returns their ids."""
    if not new:
        return {}
    names = [column.name for column in (*_KEY, *_FACTS)]
    rows = [
        {"source_id": source_id, **dict(zip(names, (*key, f.provider_kind, f.gpu, f.gpus_per_node), strict=True))}
        for key, f in sorted(new.items(), key=lambda item: item[0])
    ]
    before = connection.execute(sa.select(sa.func.coalesce(sa.func.max(offers.c.id), 0))).scalar_one()
    connection.execute(sa.insert(offers), rows)
    asked = sa.select(offers.c.id, *_KEY).where(offers.c.source_id == source_id, offers.c.id > before)
    found = {tuple(row[1:]): row[0] for row in connection.execute(asked)}
    if not new.keys() <= found.keys():  # numbers of PostgreSQL need not grow in the order of transactions
        asked = sa.select(offers.c.id, *_KEY).where(offers.c.source_id == source_id)
        found = {tuple(row[1:]): row[0] for row in connection.execute(asked)}
    return {key: found[key] for key in new}


def correct_facts(connection: Connection, corrected: dict[int, Facts]) -> None:
    """Call offers by what the newest look calls them."""
    if corrected:
        statement = sa.update(offers).where(offers.c.id == sa.bindparam("of"))
        rows = [
            {"of": id_, "provider_kind": f.provider_kind, "gpu": f.gpu, "gpus_per_node": f.gpus_per_node}
            for id_, f in sorted(corrected.items())
        ]
        connection.execute(statement, rows)


def apply(connection: Connection, edits: dict[int, Edit]) -> None:
    """Write what a look changed. A period that only ends or grows is updated; others are taken out and put in."""
    updates: list[dict[str, Any]] = []
    deletes: list[dict[str, Any]] = []
    inserts: list[dict[str, Any]] = []
    for offer_id, edit in edits.items():
        into = {period.first.moment_us: period for period in edit.into}
        for old in edit.out:
            kept = into.pop(old.first.moment_us, None)
            key = {"of": offer_id, "start": old.first.moment_us}
            if kept is None:
                deletes.append(key)
            else:
                updates.append(key | _columns(kept))
        inserts += [{"offer_id": offer_id, "first_seen_us": start} | _columns(period) for start, period in into.items()]
    this = sa.and_(periods.c.offer_id == sa.bindparam("of"), periods.c.first_seen_us == sa.bindparam("start"))
    for statement, rows in (
        (sa.delete(periods).where(this), deletes),
        (sa.update(periods).where(this), updates),
        (sa.insert(periods), inserts),
    ):
        if rows:
            connection.execute(statement, rows)


def chunks(ids: list[int]) -> Iterable[list[int]]:
    """Return lists short enough for one statement."""
    return (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))


def _columns(period: Period) -> dict[str, Any]:
    return {
        "last_seen_us": period.last.moment_us,
        "until_us": period.until_us,
        "gone": period.gone,
        "price_microusd": period.value.price_microusd,
        "max_nodes": period.value.max_nodes,
        "carried_from": period.value.carried_from,
        "first_pull_id": period.first.pull_id,
        "last_pull_id": period.last.pull_id,
    }


def _period(cells: Any) -> Period | None:
    first, last, until, gone, price, max_nodes, carried_from, first_pull, last_pull = cells
    if first is None:
        return None
    value = Value(price, max_nodes, carried_from)
    return Period(value, Sighting(first, first_pull), Sighting(last, last_pull), until, bool(gone))
