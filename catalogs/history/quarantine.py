"""Rows set aside: kept in runs of looks that repeat them, and let in or refused by the user or a second look."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from catalogs.history.looks import packed, unpacked
from catalogs.history.records import MICRO, Facts, HistoryError, Key, Pull, Row, SetAside, checked, from_us
from catalogs.history.schema import pulls, set_aside, sources
from catalogs.history.stored import chunks, state_at
from catalogs.history.timeline import Sighting, Value

State = Literal["waiting", "confirmed", "rejected"]

# Rows of one look that are kept one by one; all are counted.
MOST_ROWS = 20_000
_MOST_CHARACTERS = 4_000


@dataclass
class Judged:
    """The rows that a look set aside, after what was decided of the same rows before.

    Attributes:
        confirmed: rows that were let in before: they count as offers.
        silent: offers of which the look says nothing, because a row about them waits or was refused.
        rows: every row to keep, by fingerprint, with its state.
        runs: fingerprint -> number of the kept row that the source's look before this one ended with.
    """

    confirmed: list[Row] = field(default_factory=list)
    silent: dict[Key, Facts] = field(default_factory=dict)
    rows: dict[str, tuple[SetAside, State]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)


def fingerprint(one: SetAside) -> str:
    """Return what is the same for the same row set aside for the same reason."""
    return hashlib.sha256(f"{one.reason}\0{_json(one.row)}\0{_offer_json(one)}".encode()).hexdigest()


def judge(connection: Connection, source_id: int, pull: Pull, rows: Sequence[SetAside]) -> Judged:
    """Look up what was decided of the same rows before."""
    judged = Judged()
    prints = {fingerprint(one): one for one in rows}
    decided = _decided(connection, source_id) if prints else {}
    for mark, one in prints.items():
        state = decided.get(mark, "waiting")
        judged.rows[mark] = (one, state)
        if one.offer is None:
            continue
        row = checked(one.offer, pull.moment)
        if state == "confirmed":
            judged.confirmed.append(row)
        else:
            judged.silent[row.key] = row.facts
    judged.runs = _runs_before(connection, source_id, pull.moment_us) if prints else {}
    return judged


def keep(connection: Connection, source_id: int, at: Sighting, judged: Judged) -> None:
    """Store the rows of a look: a row that the look before had too goes on, others begin."""
    go_on = [judged.runs[mark] for mark in judged.rows if mark in judged.runs]
    for chunk in chunks(go_on):
        grown = {"last_seen_us": at.moment_us, "last_pull_id": at.pull_id, "looks": set_aside.c.looks + 1}
        connection.execute(sa.update(set_aside).where(set_aside.c.id.in_(chunk)).values(grown))
    new = [
        {
            "source_id": source_id,
            "fingerprint": mark,
            "reason": one.reason,
            "row": _json(one.row)[:_MOST_CHARACTERS],
            "offer": _offer_json(one),
            "first_seen_us": at.moment_us,
            "last_seen_us": at.moment_us,
            "looks": 1,
            "first_pull_id": at.pull_id,
            "last_pull_id": at.pull_id,
            "state": state,
        }
        for mark, (one, state) in judged.rows.items()
        if mark not in judged.runs
    ]
    if new:
        connection.execute(sa.insert(set_aside), new[:MOST_ROWS])


Observe = Callable[[Connection, int, Sighting, Mapping[int, Any], Mapping[int, Value | None]], None]


def decide(connection: Connection, numbers: Iterable[int], state: State, observe_all: Observe) -> int:
    """Confirm or reject rows that wait; a confirmed one counts as seen in every look that had set it aside.

    Returns:
        How many were decided now; rows decided so before are left.

    Raises:
        HistoryError: a number is unknown, was decided otherwise, or its row cannot be placed as an offer.
    """
    changed = 0
    for number in dict.fromkeys(numbers):
        row = connection.execute(sa.select(set_aside).where(set_aside.c.id == number)).mappings().first()
        if row is None:
            raise HistoryError(f"row {number}: is not in the quarantine")
        connection.execute(sa.select(sources.c.id).where(sources.c.id == row["source_id"]).with_for_update())
        row = connection.execute(sa.select(set_aside).where(set_aside.c.id == number)).mappings().one()
        if row["state"] == state:
            continue
        if row["state"] == "confirmed":
            raise HistoryError(f"row {number}: was confirmed; its price is in the history")
        if state == "confirmed":
            if not row["offer"]:
                raise HistoryError(f"row {number}: cannot be placed as an offer: {row['reason']}")
            _let_in(connection, row, observe_all)
        decided = {"state": state, "decided_us": round(time.time() * MICRO)}
        connection.execute(sa.update(set_aside).where(set_aside.c.id == number).values(decided))
        changed += 1
    return changed


def _let_in(connection: Connection, row: Mapping[Any, Any], observe_all: Observe) -> None:
    looks = connection.execute(
        sa.select(pulls.c.id, pulls.c.moment_us, pulls.c.complete, pulls.c.exceptions)
        .where(
            pulls.c.source_id == row["source_id"],
            pulls.c.moment_us.between(row["first_seen_us"], row["last_seen_us"]),
        )
        .order_by(pulls.c.moment_us)
    ).all()
    for pull_id, moment_us, complete, exceptions in looks:
        offer = checked(_StoredOffer(**json.loads(row["offer"])), from_us(moment_us))
        at = Sighting(moment_us, pull_id)
        known = state_at(connection, row["source_id"], moment_us)[offer.key]
        ids = unpacked(exceptions)
        if (known.id not in ids) == complete:
            continue  # this look saw the offer at another price as well
        value = Value(offer.price_microusd, offer.max_nodes, offer.carried_from)
        observe_all(connection, row["source_id"], at, {known.id: known}, {known.id: value})
        ids ^= {known.id}
        connection.execute(sa.update(pulls).where(pulls.c.id == pull_id).values(exceptions=packed(ids)))


def _decided(connection: Connection, source_id: int) -> dict[str, State]:
    asked = (
        sa.select(set_aside.c.fingerprint, set_aside.c.state)
        .where(set_aside.c.source_id == source_id, set_aside.c.state != "waiting")
        .order_by(set_aside.c.decided_us)
    )
    return {row[0]: row[1] for row in connection.execute(asked)}


def _runs_before(connection: Connection, source_id: int, moment_us: int) -> dict[str, int]:
    """Return the rows that go on to the source's look before a moment; none where a later look is known."""
    newest = (
        sa.select(pulls.c.id)
        .where(pulls.c.source_id == source_id, pulls.c.moment_us != moment_us)
        .order_by(pulls.c.moment_us.desc())
        .limit(1)
    )
    later = sa.select(pulls.c.id).where(pulls.c.source_id == source_id, pulls.c.moment_us > moment_us).limit(1)
    last = connection.execute(newest).scalar()
    if last is None or connection.execute(later).first() is not None:
        return {}
    asked = sa.select(set_aside.c.fingerprint, set_aside.c.id).where(
        set_aside.c.source_id == source_id, set_aside.c.last_pull_id == last
    )
    return {row[0]: row[1] for row in connection.execute(asked)}


@dataclass(frozen=True)
class _StoredOffer:
    provider: str
    provider_kind: Any
    region: str
    instance_type: str
    gpu: str
    gpus_per_node: int
    term: Any
    price_usd_per_node_hour: float
    max_nodes: float | None

    @property
    def seen_on(self) -> date:
        """It counts as seen on the day of each look that had it."""
        return date.max


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(dict(row), sort_keys=True, default=str, ensure_ascii=False)


def _offer_json(one: SetAside) -> str:
    """Return the offer as JSON; "" where there is none. The day is left out: a run goes on over many."""
    offer = one.offer
    if offer is None:
        return ""
    fields = {
        "provider": offer.provider,
        "provider_kind": offer.provider_kind,
        "region": offer.region,
        "instance_type": offer.instance_type,
        "gpu": offer.gpu,
        "gpus_per_node": offer.gpus_per_node,
        "term": offer.term,
        "price_usd_per_node_hour": offer.price_usd_per_node_hour,
        "max_nodes": offer.max_nodes,
    }
    return json.dumps(fields, sort_keys=True)
