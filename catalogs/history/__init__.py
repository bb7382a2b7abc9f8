"""Every price ever seen: SQLite in the user's folder by default, PostgreSQL by SHARDWISE_DATABASE_URL.

A price is a period, not a row a day: a look that finds the same price makes the running period longer, a look that
finds another one ends it and starts the next, and an offer that a complete look no longer lists is gone. Looks may be
recorded in any order; the same look twice changes nothing.

    history = open_history()
    raw = history.raw.keep([body])
    history.record(Pull(source="vast", moment=now, sha256=raw.sha256, ...), offers, set_aside=rows)
    history.as_of(date(2026, 8, 14))
"""

from catalogs.history.history import History, open_history
from catalogs.history.raw_pulls import RawPull, RawPulls
from catalogs.history.records import HistoryError, PricedOffer, Pull, RecordedLook, SetAside, SourceState, Summary

__all__ = [
    "History",
    "HistoryError",
    "PricedOffer",
    "Pull",
    "RawPull",
    "RawPulls",
    "RecordedLook",
    "SetAside",
    "SourceState",
    "Summary",
    "open_history",
]
