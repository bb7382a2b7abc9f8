"""Recording one look in one transaction: whatever its moment, the periods end up as if looks had come in order."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from catalogs.history import quarantine
from catalogs.history.looks import looks_after, looks_before, nearest, packed
from catalogs.history.records import MICRO, Facts, HistoryError, Key, PricedOffer, Pull, Row, SetAside, Summary, checked
from catalogs.history.records import without_secrets as clean
from catalogs.history.schema import failures, pulls, sources
from catalogs.history.stored import Known, add_offers, apply, correct_facts, following, state_at
from catalogs.history.timeline import NOTHING, Edit, Sighting, Value, observe


def record(
    connection: Connection,
    pull: Pull,
    offers: Sequence[PricedOffer],
    set_aside: Sequence[SetAside],
    *,
    complete: bool,
    unpriced: Sequence[PricedOffer] = (),
) -> Summary:
    """Record a look (see `History.record`) inside a transaction."""
    rows = _by_key(offers, pull)
    digest = pull.sha256 or _digest(rows, set_aside)
    source_id = lock_source(connection, pull.source, clean(pull.citation))
    if _already(connection, source_id, pull, digest):
        return Summary(same=len(rows), set_aside=len(set_aside), known=True)
    judged = quarantine.judge(connection, source_id, pull, set_aside)
    rows |= {row.key: row for row in judged.confirmed if row.key not in rows}
    listed = {row.key: row.facts for row in (checked(offer, pull.moment) for offer in unpriced)}
    without_price = {**listed, **judged.silent}
    silent = without_price.keys() - rows.keys()
    known = _known(connection, source_id, pull, rows, {key: without_price[key] for key in silent})
    spoken = {known[key].id for key in rows}
    exceptions = packed({known[key].id for key in silent} if complete else spoken)
    reasons = Counter(one.reason for one in set_aside)
    pull_id = _add_pull(
        connection,
        source_id=source_id,
        moment_us=pull.moment_us,
        complete=complete,
        exceptions=exceptions,
        sha256=digest,
        url=clean(pull.url),
        size_bytes=pull.size_bytes,
        http_status=pull.http_status,
        rows=pull.rows or len(offers) + len(set_aside),
        offers=len(rows),
        set_aside=json.dumps(dict(sorted(reasons.items()))),
        covers=json.dumps([list(pair) for pair in sorted(pull.covers)]),
        recorded_us=round(time.time() * MICRO),
    )
    seen: dict[int, Value | None] = {
        known[key].id: Value(row.price_microusd, row.max_nodes, row.carried_from) for key, row in rows.items()
    }
    if complete:
        absent = known.keys() - rows.keys() - silent
        seen |= {known[key].id: None for key in absent if known[key].running is not None}
    observe_all(connection, source_id, Sighting(pull.moment_us, pull_id), {one.id: one for one in known.values()}, seen)
    quarantine.keep(connection, source_id, Sighting(pull.moment_us, pull_id), judged)
    return _summary(known, seen, len(set_aside))


def record_failure(connection: Connection, source: str, moment_us: int, reason: str, url: str) -> None:
    """Note that a source could not be pulled."""
    source_id = lock_source(connection, source, "")
    values = {"source_id": source_id, "moment_us": moment_us, "reason": clean(reason)[:2_000], "url": clean(url)}
    connection.execute(sa.insert(failures), values)


def lock_source(connection: Connection, name: str, citation: str) -> int:
    """Return the source's number, made where needed; its other writers wait until this transaction ends."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(sources).values(name=name, citation=citation).on_conflict_do_nothing())
    asked = sa.select(sources.c.id, sources.c.citation).where(sources.c.name == name).with_for_update()
    source_id, known_citation = connection.execute(asked).one()
    if citation and citation != known_citation:
        connection.execute(sa.update(sources).where(sources.c.id == source_id).values(citation=citation))
    return int(source_id)


def observe_all(
    connection: Connection,
    source_id: int,
    at: Sighting,
    known: Mapping[int, Known],
    seen: Mapping[int, Value | None],
) -> None:
    """Write what a look at some offers changes; the look itself must not count among its neighbours."""
    after: dict[int, Sighting] = {}
    before: dict[int, Sighting] = {}
    next_periods = {}
    later = looks_after(connection, source_id, at.moment_us)
    if later:
        after = nearest(later, seen)
        split = [id_ for id_ in seen if _is_split(known[id_], seen[id_], at)]
        if split:
            before = nearest(looks_before(connection, source_id, at.moment_us), split)
        next_periods = following(connection, at.moment_us, seen)
    edits: dict[int, Edit] = {}
    for offer_id, value in seen.items():
        edit = observe(
            value,
            at,
            known[offer_id].running,
            before=before.get(offer_id),
            after=after.get(offer_id),
            following=next_periods.get(offer_id),
        )
        if edit is not NOTHING:
            edits[offer_id] = edit
    apply(connection, edits)


def _is_split(known: Known, value: Value | None, at: Sighting) -> bool:
    return known.running is not None and known.running.last > at and known.running.value != value


def _by_key(offers: Iterable[PricedOffer], pull: Pull) -> dict[Key, Row]:
    rows: dict[Key, Row] = {}
    for offer in offers:
        row = checked(offer, pull.moment)
        if row.key in rows:
            raise HistoryError(f"{pull.source}: {' '.join(row.key)} stands twice in one look; expected one price each")
        rows[row.key] = row
    return rows


def _digest(rows: Mapping[Key, Row], set_aside: Sequence[SetAside]) -> str:
    text = repr(sorted((row.key, row.price_microusd, row.max_nodes, str(row.carried_from)) for row in rows.values()))
    text += repr(sorted(quarantine.fingerprint(one) for one in set_aside))
    return hashlib.sha256(text.encode()).hexdigest()


def _already(connection: Connection, source_id: int, pull: Pull, digest: str) -> bool:
    asked = sa.select(pulls.c.sha256).where(pulls.c.source_id == source_id, pulls.c.moment_us == pull.moment_us)
    recorded = connection.execute(asked).scalar()
    if recorded is None or recorded == digest:
        return recorded is not None
    raise HistoryError(
        f"{pull.source}: a look at {pull.moment.astimezone(UTC).isoformat()} is recorded already, of other bytes "
        f"({recorded[:12]}, now {digest[:12]}); expected another moment"
    )


def _known(
    connection: Connection, source_id: int, pull: Pull, rows: Mapping[Key, Row], silent: Mapping[Key, Facts]
) -> dict[Key, Known]:
    """Return the source's offers with those that this look is the first to name; newest facts are taken over."""
    known = state_at(connection, source_id, pull.moment_us)
    named = {**silent, **{key: row.facts for key, row in rows.items()}}
    new = {key: facts for key, facts in named.items() if key not in known}
    ids = add_offers(connection, source_id, new)
    known |= {key: Known(ids[key], facts, None) for key, facts in new.items()}
    corrected = {known[key].id: facts for key, facts in named.items() if known[key].facts != facts}
    if corrected and not _newer_look(connection, source_id, pull.moment_us):
        correct_facts(connection, corrected)
    return known


def _newer_look(connection: Connection, source_id: int, moment_us: int) -> bool:
    asked = sa.select(pulls.c.id).where(pulls.c.source_id == source_id, pulls.c.moment_us > moment_us).limit(1)
    return connection.execute(asked).first() is not None


def _add_pull(connection: Connection, **values: Any) -> int:
    return int(connection.execute(sa.insert(pulls).returning(pulls.c.id), values).scalar_one())


def _summary(known: Mapping[Key, Known], seen: Mapping[int, Value | None], set_aside: int) -> Summary:
    new = changed = gone = same = stock_changed = 0
    for one in known.values():
        if one.id not in seen:
            continue
        value, running = seen[one.id], one.running
        if value is None:
            gone += 1
        elif running is None:
            new += 1
        elif value.price_microusd != running.value.price_microusd:
            changed += 1
        else:
            same += 1
            stock_changed += value.max_nodes != running.value.max_nodes
    return Summary(new, changed, gone, same, stock_changed, set_aside)
