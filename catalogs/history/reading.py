"""Prices from the history, as pandas tables: as of a moment, and an offer's periods."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from catalogs.history.records import MICRO, from_us
from catalogs.history.schema import offers, periods, pulls, sources
from catalogs.history.stored import latest_start, with_period
from catalogs.history.tables import moments, newest_looks, source_names, table_of

AS_OF_COLUMNS = (
    "provider",
    "provider_kind",
    "region",
    "instance_type",
    "gpu",
    "gpus_per_node",
    "term",
    "price_usd_per_node_hour",
    "max_nodes",
    "seen_on",
    "source",
)
PERIOD_COLUMNS = (
    "provider",
    "provider_kind",
    "region",
    "instance_type",
    "gpu",
    "gpus_per_node",
    "term",
    "price_usd_per_node_hour",
    "price_usd_per_gpu_hour",
    "max_nodes",  # NaN when not stated
    "first_seen",  # datetime64, UTC
    "last_seen",
    "until",  # the look that saw another price or none; NaT while the price stands
    "gone",  # True: that look saw none
    "carried_from",  # the day the source saw a price that it only repeats; NaT otherwise
    "source",
    "first_sha256",
    "last_sha256",
)
_OFFER = ("provider", "provider_kind", "region", "instance_type", "gpu", "gpus_per_node", "term")


def as_of(connection: Connection, moment_us: int, of: Sequence[str] | None) -> pd.DataFrame:
    """Return the offers in force at a moment, columns AS_OF_COLUMNS."""
    asked = sa.select(
        *(offers.c[name] for name in _OFFER),
        periods.c.price_microusd,
        periods.c.max_nodes,
        periods.c.carried_from,
        periods.c.first_seen_us,
        periods.c.last_seen_us,
        offers.c.source_id,
    ).select_from(with_period(connection, moment_us))
    names = source_names(connection)
    if of is not None:
        asked = asked.where(offers.c.source_id.in_([number for number, name in names.items() if name in set(of)]))
    frame = table_of(connection, asked, needed="first_seen_us")
    frame["seen_on"] = _seen_on(frame, _last_complete(connection, moment_us), moment_us)
    frame["source"] = frame["source_id"].map(names)
    frame["price_usd_per_node_hour"] = frame["price_microusd"].astype("int64") / MICRO
    return frame[list(AS_OF_COLUMNS)]


def _seen_on(frame: pd.DataFrame, complete: dict[int, int], moment_us: int) -> pd.Series:
    """Return the day each price was last seen by a moment: of the last look in its period, or where it is carried from.

    Inside the period of a source that gives partial looks only, that is the look that began it.
    """
    last = frame["last_seen_us"].astype("int64")
    first = frame["first_seen_us"].astype("int64")
    by_then = frame["source_id"].map(complete).fillna(0).astype("int64")
    inside = pd.Series(np.maximum(first, np.minimum(by_then, last)), index=frame.index, dtype="int64")
    seen = last.where(last <= moment_us, inside)
    day = pd.to_datetime(seen, unit="us").dt.floor("D").astype("datetime64[us]")
    carried = pd.to_datetime(frame["carried_from"]).astype("datetime64[us]")
    return carried.where(carried.notna(), day)


def periods_of(
    connection: Connection,
    *,
    since_us: int | None,
    until_us: int | None,
    equal: dict[str, Sequence[str]],
    like: dict[str, str],
    by_price: bool,
) -> pd.DataFrame:
    """Return the periods in force at some time from `since_us` to `until_us`, by offer and start; PERIOD_COLUMNS.

    Args:
        connection: what to read from.
        since_us: None for no bound.
        until_us: None for no bound.
        equal: column of the offers, or "source" -> values of which one must stand there.
        like: column of the offers -> pattern with * and ?, compared without case.
        by_price: join periods that differ in stock, or in the day they are carried from, alone.
    """
    names = source_names(connection)
    first, last = pulls.alias("first_pull"), pulls.alias("last_pull")
    this = periods.c.offer_id == offers.c.id
    if until_us is not None:
        this &= periods.c.first_seen_us <= until_us
    if since_us is not None:
        # The period in force at `since_us` is the last that began by then: earlier ones need not be looked at.
        this &= periods.c.first_seen_us >= sa.func.coalesce(latest_start(since_us), since_us)
        this &= sa.or_(periods.c.until_us.is_(None), periods.c.until_us > since_us)
    asked = (
        sa.select(
            *(offers.c[name] for name in _OFFER),
            offers.c.source_id,
            periods.c.price_microusd,
            periods.c.max_nodes,
            periods.c.first_seen_us,
            periods.c.last_seen_us,
            periods.c.until_us,
            periods.c.gone,
            periods.c.carried_from,
            first.c.sha256.label("first_sha256"),
            last.c.sha256.label("last_sha256"),
        )
        .select_from(offers)
        .outerjoin(periods, this)
        .outerjoin(first, first.c.id == periods.c.first_pull_id)
        .outerjoin(last, last.c.id == periods.c.last_pull_id)
        .order_by(*(offers.c[name] for name in _OFFER), offers.c.source_id, periods.c.first_seen_us)
    )
    for column, values in equal.items():
        wanted = [n for n, name in names.items() if name in set(values)] if column == "source" else list(values)
        asked = asked.where(offers.c["source_id" if column == "source" else column].in_(wanted))
    for column, pattern in like.items():
        asked = asked.where(offers.c[column].ilike(_like(pattern), escape="\\"))
    frame = table_of(connection, asked, needed="first_seen_us", change=_by_price if by_price else None)
    frame["source"] = frame["source_id"].map(names)
    frame["price_usd_per_node_hour"] = frame["price_microusd"].astype("int64") / MICRO
    frame["price_usd_per_gpu_hour"] = frame["price_usd_per_node_hour"] / frame["gpus_per_node"]
    for name in ("first_seen", "last_seen", "until"):
        frame[name] = moments(frame[f"{name}_us"])
    frame["gone"] = frame["gone"].astype(bool)
    frame["carried_from"] = pd.to_datetime(frame["carried_from"])
    return frame[list(PERIOD_COLUMNS)]


def _by_price(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> list[list[Any]]:
    """Join periods of one offer that follow each other at one price; stock and carried day are those of the last."""
    at = {name: place for place, name in enumerate(columns)}
    same = [at[name] for name in (*_OFFER, "source_id", "price_microusd")]
    taken = [at[name] for name in columns if name not in (*_OFFER, "source_id", "first_seen_us", "first_sha256")]
    joined: list[list[Any]] = []
    for row in rows:
        last = joined[-1] if joined else None
        if (
            last is not None
            and row[at["first_seen_us"]] == last[at["until_us"]]
            and all(row[place] == last[place] for place in same)
        ):
            for place in taken:
                last[place] = row[place]
        else:
            joined.append(list(row))
    return joined


@dataclass(frozen=True)
class View:
    """What the history knows by a moment, as catalogs.offers puts it together with the bundled prices.

    Attributes:
        frame: the offers in force, columns AS_OF_COLUMNS.
        whole: source -> the day of its newest complete look.
        covers: (source, day, provider, term) of lists that are the whole list of a provider's term.
        citations: source -> who publishes it.
        set_aside: rows that the newest looks kept out, by reason.
        first_day: the day of the oldest look of all; None where there is none.
    """

    frame: pd.DataFrame
    whole: dict[str, date]
    covers: tuple[tuple[str, date, str, str], ...]
    citations: dict[str, str]
    set_aside: dict[str, int]
    first_day: date | None


def view(connection: Connection, moment_us: int) -> View:
    """Return what is known by a moment."""
    newest = newest_looks(moment_us, sources.c.name, pulls.c.moment_us, pulls.c.covers, complete=True)
    looks = [(name, from_us(moment).date(), json.loads(covers)) for name, moment, covers in connection.execute(newest)]
    cited = connection.execute(sa.select(sources.c.name, sources.c.citation))
    oldest = connection.execute(sa.select(sa.func.min(pulls.c.moment_us))).scalar()
    return View(
        frame=as_of(connection, moment_us, None),
        whole={name: day for name, day, _ in looks},
        covers=tuple((name, day, provider, term) for name, day, covers in looks for provider, term in covers),
        citations={name: citation or f"{name}, as pulled by shardwise" for name, citation in cited},
        set_aside=dict(_set_aside_counts(connection, moment_us)),
        first_day=None if oldest is None else from_us(oldest).date(),
    )


def _set_aside_counts(connection: Connection, moment_us: int) -> Counter[str]:
    """Return how many rows the newest look of each source by a moment set aside, by reason."""
    counts: Counter[str] = Counter()
    for (text,) in connection.execute(newest_looks(moment_us, pulls.c.set_aside)):
        counts.update(json.loads(text))
    return counts


def _last_complete(connection: Connection, moment_us: int) -> dict[int, int]:
    looks = newest_looks(moment_us, pulls.c.source_id, pulls.c.moment_us, complete=True)
    return {row[0]: row[1] for row in connection.execute(looks)}


def _like(pattern: str) -> str:
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%").replace("?", "_")
