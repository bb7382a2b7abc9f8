"""How one look at one offer changes its periods; pure, so that looks may come in any order.

The rule that the periods keep: as of any moment, an offer stands as the last look at it said, where a look is at an
offer when it saw it, or was complete and did not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import NamedTuple


class Value(NamedTuple):
    """What a look says of an offer that it saw."""

    price_microusd: int
    max_nodes: float | None
    carried_from: date | None


class Sighting(NamedTuple):
    """A look at an offer."""

    moment_us: int
    pull_id: int


@dataclass(frozen=True, slots=True)
class Period:
    """A value that stood from one look to another; `until_us` is the look that saw another value or none (`gone`)."""

    value: Value
    first: Sighting
    last: Sighting
    until_us: int | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """What to do to the stored periods of one offer: take some out, then put some in."""

    out: tuple[Period, ...] = ()
    into: tuple[Period, ...] = ()


NOTHING = Edit()


def observe(
    seen: Value | None,
    at: Sighting,
    running: Period | None,
    *,
    before: Sighting | None = None,
    after: Sighting | None = None,
    following: Period | None = None,
) -> Edit:
    """Return what a look changes in an offer's periods.

    Args:
        seen: what the look says; None when the offer was not there.
        at: the look, at a moment of which no other look at the offer is known.
        running: the period in force at that moment.
        before: the last look at the offer before it; needed where `running` was seen again after it.
        after: the first look at the offer after it, if any.
        following: the first period that starts after it, if any.
    """
    if running is None:
        return NOTHING if seen is None else _with_end(Period(seen, at, at), after, following)
    if seen == running.value:
        return Edit((running,), (replace(running, last=at),)) if at > running.last else NOTHING
    gone = seen is None
    if running.last < at:
        closed = replace(running, until_us=at.moment_us, gone=gone)
        if seen is None:
            return Edit((running,), (closed,))
        edit = _with_end(Period(seen, at, at, running.until_us, running.gone), None, following)
        return Edit((running, *edit.out), (closed, *edit.into))
    if before is None or after is None:
        raise ValueError("a period that was seen on both sides of a look has looks on both sides")
    left = replace(running, last=before, until_us=at.moment_us, gone=gone)
    right = replace(running, first=after)
    middle = () if seen is None else (Period(seen, at, at, after.moment_us),)
    return Edit((running,), (left, *middle, right))


def _with_end(period: Period, after: Sighting | None, following: Period | None) -> Edit:
    """Put a period before what comes next: the look after it, and the period that follows."""
    if period.until_us is None and after is not None:
        starts = following is not None and following.first.moment_us == after.moment_us
        period = replace(period, until_us=after.moment_us, gone=not starts)
    if following is None or following.first.moment_us != period.until_us or following.value != period.value:
        return Edit((), (period,))
    joined = replace(period, last=following.last, until_us=following.until_us, gone=following.gone)
    return Edit((following,), (joined,))
