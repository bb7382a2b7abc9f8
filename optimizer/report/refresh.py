"""What a refresh did, a row a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from optimizer.report.catalog import Listing, Row
from optimizer.report.columns import Column

if TYPE_CHECKING:
    from fetchers.refresh import Refreshed

_ORDER = ("failed", "partial", "fresh", "unchanged", "skipped")


def refreshed(outcomes: Sequence[Refreshed], *, dry_run: bool) -> Listing:
    """What became of each source, those that failed first."""
    rows: list[Row] = []
    for outcome in sorted(outcomes, key=lambda one: (_ORDER.index(one.status), one.source)):
        summary = outcome.summary
        row: Row = {"source": outcome.source, "status": outcome.status}
        for name in ("new", "changed", "gone", "same", "set_aside"):
            row[name] = None if summary is None else getattr(summary, name)
        row["seconds"] = round(outcome.seconds, 2)
        row["moment"] = None if outcome.moment is None else outcome.moment.isoformat(timespec="seconds")
        row["received_bytes"] = outcome.received_bytes
        row["reasons"] = dict(outcome.set_aside.most_common())
        row["reason"] = outcome.reason
        rows.append(row)
    columns = {
        "source": Column("source"),
        "status": Column("status"),
        "new": Column("new", digits=0),
        "changed": Column("changed", digits=0),
        "gone": Column("gone", digits=0),
        "same": Column("same", digits=0),
        "set_aside": Column("set aside", digits=0),
        "seconds": Column("seconds", 1, digits=1),
    }
    return Listing(rows, columns, _note(outcomes, dry_run=dry_run))


def _note(outcomes: Sequence[Refreshed], *, dry_run: bool) -> str:
    counts = Counter[str](outcome.status for outcome in outcomes)
    said = ", ".join(f"{counts[status]} {status}" for status in _ORDER if counts[status])
    lines = [f"{said[:1].upper()}{said[1:]}.{' Nothing was written (--dry-run).' if dry_run else ''}"]
    lines += [
        f"{outcome.source}: {outcome.reason.rstrip('.')}."
        for outcome in outcomes
        if outcome.reason and outcome.status != "skipped"
    ]
    skipped = [f"{outcome.source} ({outcome.reason})" for outcome in outcomes if outcome.status == "skipped"]
    lines += [f"Skipped: {', '.join(skipped)}."] if skipped else []
    if any(outcome.set_aside for outcome in outcomes):
        lines.append("Rows set aside, with their reasons: shardwise prices quarantine.")
    return "\n".join(lines)
