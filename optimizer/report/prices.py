"""What `shardwise prices` shows: prices of a day, their history, what changed, where they came from."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd

from catalogs.bundled_periods import bundled_periods
from catalogs.errors import UnknownNameError
from catalogs.gpus import load_gpus
from catalogs.history import open_history
from catalogs.history.reading import PERIOD_COLUMNS
from catalogs.offers import OfferTable, load_offers
from catalogs.price_changes import price_changes
from optimizer.errors import QuestionError
from optimizer.report.catalog import Listing, Row
from optimizer.report.columns import Column

SORTS = {
    "usd_per_gpu_hour": ["price_usd_per_gpu_hour"],
    "usd_per_node_hour": ["price_usd_per_node_hour"],
    "gpu": ["gpu", "price_usd_per_gpu_hour"],
    "provider": ["provider", "price_usd_per_gpu_hour"],
    "seen_on": ["seen_on", "price_usd_per_gpu_hour"],
}


def offers(as_of: date | None, wanted: dict[str, str | None], sort: str, *, table: OfferTable | None = None) -> Listing:
    """Offers of a day whose columns fit the patterns, sorted; of `table`, where the caller has it already."""
    if sort not in SORTS:
        raise QuestionError(f"--sort {sort!r}: expected one of {', '.join(SORTS)}")
    table = table or load_offers(as_of)
    frame = table.frame.assign(
        price_usd_per_gpu_hour=table.frame["price_usd_per_node_hour"] / table.frame["gpus_per_node"],
        seen_on=table.frame["seen_on"].dt.date,
    )
    frame = _fitting(frame, wanted).sort_values(SORTS[sort], kind="stable")
    columns = {
        "price_usd_per_gpu_hour": Column("$/GPU-h", digits=3),
        "price_usd_per_node_hour": Column("$/node-h", 1, digits=2),
        "gpus_per_node": Column("GPUs", digits=0),
        "gpu": Column("GPU"),
        "provider": Column("provider"),
        "region": Column("region", 3),
        "term": Column("term", 1),
        "instance_type": Column("instance type", 4),
        "seen_on": Column("seen on", 2),
        "source": Column("source", 5),
    }
    return Listing(_rows(frame), columns, f"Prices as of {table.as_of}.")


def periods(
    wanted: dict[str, str | None], since: date | None, until: date | None, source: str | None
) -> tuple[Listing, pd.DataFrame]:
    """Periods that fit, of the history and of the bundled files of sources that it does not hold; and their table."""
    patterns = {name: value for name, value in wanted.items() if name in ("gpu", "instance_type")}
    with open_history() as history:
        kept = history.periods(**patterns, since=since, until=until, source=source)  # type: ignore[arg-type]
        recorded = {state.name for state in history.sources() if state.looks}
    bundled = bundled_periods()
    bundled = bundled[~bundled["source"].isin(recorded)]
    if source is not None:
        bundled = bundled[bundled["source"] == source]
    if since is not None:
        bundled = bundled[bundled["until"].isna() | (bundled["until"] > pd.Timestamp(since, tz=UTC))]
    if until is not None:
        bundled = bundled[bundled["first_seen"] < pd.Timestamp(until, tz=UTC) + pd.Timedelta(days=1)]
    tables = [table for table in (kept, bundled) if len(table)]
    frame = pd.concat(tables, ignore_index=True)[list(PERIOD_COLUMNS)] if tables else kept
    frame = _fitting(frame, wanted).sort_values(
        ["provider", "gpu", "instance_type", "region", "term", "source", "first_seen"], kind="stable"
    )
    columns = {
        "provider": Column("provider"),
        "instance_type": Column("instance type"),
        "region": Column("region", 3),
        "term": Column("term", 2),
        "price_usd_per_gpu_hour": Column("$/GPU-h", digits=3),
        "first_seen": Column("first seen"),
        "last_seen": Column("last seen", 1),
        "ended": Column("then", 1),
        "source": Column("source", 4),
    }
    rows = _rows(frame)
    for row in rows:
        row["ended"] = "stands" if row["until"] is None else "gone" if row["gone"] else "changed"
        for name in ("first_seen", "last_seen", "until"):
            row[name] = None if row[name] is None else f"{row[name]:%Y-%m-%d %H:%M}"
    return Listing(rows, columns, "Times in UTC. --csv and --json have every column."), frame


def changes(before: date, after: date, wanted: dict[str, str | None]) -> Listing:
    """What came, went and moved between two days."""
    frame = _fitting(price_changes(load_offers(before).frame, load_offers(after).frame), wanted)
    columns = {
        "change": Column("change"),
        "percent": Column("%", digits=1),
        "usd_per_node_hour_before": Column("$/node-h", digits=2),
        "usd_per_node_hour_after": Column("now", digits=2),
        "gpu": Column("GPU", 1),
        "provider": Column("provider"),
        "instance_type": Column("instance type", 2),
        "region": Column("region", 4),
        "term": Column("term", 3),
    }
    counts = frame["change"].value_counts()
    said = ", ".join(f"{counts[name]:,} {name}" for name in ("dearer", "cheaper", "new", "gone") if name in counts)
    return Listing(_rows(frame), columns, f"{before} to {after}: {said or 'nothing changed'}.")


def quarantine(source: str | None, state: str | None) -> Listing:
    """Rows set aside, those that could be offers first."""
    with open_history() as history:
        frame = history.quarantined(state, None if source is None else [source])  # type: ignore[arg-type]
    rows = [
        {
            "number": int(row["number"]),
            "state": row["state"],
            "source": row["source"],
            "reason": row["reason"],
            "usd_per_node_hour": (row["offer"] or {}).get("price_usd_per_node_hour"),
            "what": _what(row["offer"], row["row"]),
            "looks": int(row["looks"]),
            "last_seen": f"{row['last_seen']:%Y-%m-%d %H:%M}",
            "row": row["row"],
            "offer": row["offer"],
        }
        for row in frame.to_dict("records")
    ]
    rows.sort(key=lambda row: row["offer"] is None)
    columns = {
        "number": Column("row"),
        "source": Column("source", 1),
        "reason": Column("reason"),
        "what": Column("what", 2),
        "usd_per_node_hour": Column("$/node-h", digits=2),
        "looks": Column("looks", 4, digits=0),
        "last_seen": Column("last seen", 3),
    }
    decidable = sum(row["offer"] is not None for row in rows)
    return Listing(rows, columns, f"{decidable:,} could be offers: --confirm ROW lets one in, --reject ROW refuses it.")


def sources(now: datetime | None = None) -> Listing:
    """How the sources of the history stand, and what is bundled."""
    now = now or datetime.now(UTC)
    with open_history() as history:
        states = history.sources()
    rows: list[Row] = []
    for state in states:
        age = state.age(now)
        rows.append(
            {
                "source": state.name,
                "looks": state.looks,
                "offers": state.offers,
                "last_look": None if state.last_look is None else f"{state.last_look:%Y-%m-%d %H:%M}",
                "age": "never" if age is None else _age(age.total_seconds()),
                "age_hours": None if age is None else round(age.total_seconds() / 3600, 2),
                "waiting": state.waiting,
                "failures": state.failures,
                "last_failure": state.last_failure_reason or None,
                "citation": state.citation,
            }
        )
    columns = {
        "source": Column("source"),
        "last_look": Column("last look", 1),
        "age": Column("age"),
        "looks": Column("looks", 2, digits=0),
        "offers": Column("offers", digits=0),
        "waiting": Column("waiting", 3, digits=0),
        "failures": Column("failed since", 2, digits=0),
        "last_failure": Column("last failure", 4),
    }
    note = "Sources of your own history; the bundled prices are apart (`shardwise catalog offers`)."
    return Listing(rows, columns, note if rows else "No history is kept yet: prices import, or prices refresh.")


def imported(looks: list[Any]) -> Listing:
    """What an import did, a row a day."""
    rows: list[Row] = []
    for look in looks:
        row: Row = {"source": look.source, "day": look.day.isoformat(), "outcome": "recorded"}
        summary = look.summary
        if summary is None:
            row["outcome"] = "no usable offer: left out"
        elif summary.known:
            row["outcome"] = "known already"
        for name in ("new", "changed", "gone", "same"):
            row[name] = None if summary is None else getattr(summary, name)
        row["set_aside"] = sum(look.reasons.values())
        row["reasons"] = dict(look.reasons.most_common())
        rows.append(row)
    columns = {
        "day": Column("day"),
        "source": Column("source", 2),
        "new": Column("new", digits=0),
        "changed": Column("changed", digits=0),
        "gone": Column("gone", digits=0),
        "same": Column("same", digits=0),
        "set_aside": Column("set aside", 1, digits=0),
        "outcome": Column("outcome", 3),
    }
    return Listing(rows, columns, "Rows set aside, with their reasons: shardwise prices quarantine.")


def _fitting(frame: pd.DataFrame, wanted: dict[str, str | None]) -> pd.DataFrame:
    """Keep rows whose columns fit the patterns (* and ?), letter case aside; what fits nothing at all is an error."""
    for column, pattern in wanted.items():
        if pattern is None:
            continue
        known = {str(name) for name in frame[column].unique()}
        fits = {name for name in known if fnmatchcase(name.lower(), pattern.lower())}
        if not fits and not any(mark in pattern for mark in "*?"):
            raise UnknownNameError(
                column.replace("_", " "), pattern, known | (set(load_gpus()) if column == "gpu" else set())
            )
        frame = frame[frame[column].isin(fits)]
    return frame


def _rows(frame: pd.DataFrame) -> list[Row]:
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _what(offer: dict[str, Any] | None, row: dict[str, Any]) -> str:
    if offer is not None:
        return f"{offer['provider']} {offer['instance_type']} {offer['region']} {offer['term']}"
    return " ".join(str(row[name]) for name in ("provider", "instance_type", "spelling", "region") if row.get(name))[
        :60
    ]


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"
