"""Which offers each look of a source was a look at; asked only where looks come out of order."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from catalogs.history.schema import pulls
from catalogs.history.timeline import Sighting


def packed(ids: Iterable[int]) -> bytes:
    """Return offer ids as a few bytes."""
    ordered = np.array(sorted(ids), dtype="<i8")
    return zlib.compress(np.diff(ordered, prepend=0).astype("<i8").tobytes()) if len(ordered) else b""


def unpacked(data: bytes) -> set[int]:
    """Return the ids that `packed` put away."""
    if not data:
        return set()
    return {int(number) for number in np.cumsum(np.frombuffer(zlib.decompress(data), dtype="<i8"))}


@dataclass(frozen=True, slots=True)
class Look:
    """A recorded pull: a complete one is a look at every offer but its exceptions, a partial one at those alone."""

    at: Sighting
    complete: bool
    exceptions: bytes

    def among(self, offers: set[int]) -> set[int]:
        """Return those of the offers at which this was a look."""
        exceptions = unpacked(self.exceptions)
        return offers - exceptions if self.complete else offers & exceptions


def looks_after(connection: Connection, source_id: int, moment_us: int) -> list[Look]:
    """Return the source's looks after a moment, the first first."""
    return _looks(connection, source_id, pulls.c.moment_us > moment_us, pulls.c.moment_us.asc())


def looks_before(connection: Connection, source_id: int, moment_us: int) -> list[Look]:
    """Return the source's looks before a moment, the last first."""
    return _looks(connection, source_id, pulls.c.moment_us < moment_us, pulls.c.moment_us.desc())


def nearest(looks: Iterable[Look], offers: Iterable[int]) -> dict[int, Sighting]:
    """Return, by offer, the first of the looks that was a look at it; offers that none saw are missing."""
    found: dict[int, Sighting] = {}
    remaining = set(offers)
    for look in looks:
        if not remaining:
            break
        here = look.among(remaining)
        found |= dict.fromkeys(here, look.at)
        remaining -= here
    return found


def _looks(
    connection: Connection, source_id: int, where: sa.ColumnElement[bool], order: sa.UnaryExpression[int]
) -> list[Look]:
    asked = (
        sa.select(pulls.c.moment_us, pulls.c.id, pulls.c.complete, pulls.c.exceptions)
        .where(pulls.c.source_id == source_id, where)
        .order_by(order)
    )
    return [
        Look(Sighting(moment, pull), complete, exceptions)
        for moment, pull, complete, exceptions in connection.execute(asked)
    ]
