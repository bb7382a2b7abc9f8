"""The price history as the rest of the program sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Self

import pandas as pd

from catalogs.gpus import load_gpus
from catalogs.history import quarantine, reading, recording, states
from catalogs.history.database import Database
from catalogs.history.quarantine import State
from catalogs.history.raw_pulls import RawPulls
from catalogs.history.records import (
    HistoryError,
    PricedOffer,
    Pull,
    RecordedLook,
    SetAside,
    SourceState,
    Summary,
    end_of,
    start_of,
    to_us,
)
from catalogs.history.tables import FOREVER_US
from catalogs.offer_files import with_node_facts
from catalogs.price_changes import price_changes
from catalogs.user_data import user_data_folder

Moment = date | datetime


def open_history(url: str | None = None) -> History:
    """Open the price history; nothing is made before the first write.

    Args:
        url: SQLAlchemy URL of its database; None takes SHARDWISE_DATABASE_URL, else a file in the user's data folder.

    Raises:
        HistoryError: the URL is not usable, or the driver for it is missing.
    """
    return History(Database(url))


class History:
    """Prices by period. Methods raise HistoryError where the database cannot be read or written.

    A day, where a moment is asked for, counts to its end in UTC. Moments need a time zone.

    Attributes:
        raw: the raw bytes of pulls, in a folder beside the database.
    """

    def __init__(self, database: Database):
        self._database = database
        beside = database.path.parent if database.path else user_data_folder()
        self.raw = RawPulls(beside / "raw")

    @property
    def where(self) -> str:
        """Where the database is, without its password."""
        return self._database.shown

    def exists(self) -> bool:
        """Say whether anything was ever recorded; makes nothing."""
        return self._database.exists()

    def close(self) -> None:
        """Close the connections to the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(
        self,
        pull: Pull,
        offers: Sequence[PricedOffer],
        *,
        complete: bool = True,
        set_aside: Sequence[SetAside] = (),
        unpriced: Sequence[PricedOffer] = (),
    ) -> Summary:
        """Record one look at one source, whole or not at all.

        Args:
            pull: which source, when, and where the bytes are.
            offers: what it listed, one price an offer (provider, region, instance type, term).
            complete: whether an offer that is not listed is gone; of a partial look only what it lists counts.
            set_aside: rows that a check kept out; kept with their reason until they are decided.
            unpriced: offers that it listed without a price that can be used; their prices are not read. Of them the
                look says nothing: an older price stands, and they are not gone.

        Raises:
            HistoryError: an offer stands twice or is not storable, another look of the source has the same moment,
                or the database cannot be written; nothing is kept then.
        """
        offers, set_aside = list(offers), list(set_aside)
        return self._database.write(
            lambda connection: recording.record(
                connection, pull, offers, set_aside, complete=complete, unpriced=unpriced
            )
        )

    def record_failure(self, source: str, moment: datetime, reason: str, url: str = "") -> None:
        """Note that a source could not be pulled; its prices stay as they are."""
        self._database.write(
            lambda connection: recording.record_failure(connection, source, to_us(moment), reason, url)
        )

    def as_of(self, moment: Moment | None = None, sources: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the offers in force at a moment (None: the newest of all), of all sources or some.

        Columns are those of catalogs.offers.OFFER_COLUMNS; an offer that several sources list stands once for each.
        GPUs that the catalog does not hold (any more) are left out.
        """
        frame = self.prices_as_of(moment, sources)
        frame = with_node_facts(frame)
        before = ["provider", "provider_kind", "region", "instance_type", "gpu", "gpus_per_node"]
        facts = ["fabric", "scale_up_gpus", "network", "network_gbit_per_s"]
        return frame[[*before, *facts, *(name for name in reading.AS_OF_COLUMNS if name not in before)]]

    def prices_as_of(self, moment: Moment | None = None, sources: Sequence[str] | None = None) -> pd.DataFrame:
        """Return `as_of` without the facts of the nodes."""
        if not self.exists():
            return _empty(reading.AS_OF_COLUMNS)
        with self._database.reading() as connection:
            frame = reading.as_of(connection, _us(moment), sources)
        return frame[frame["gpu"].isin(set(load_gpus()))].reset_index(drop=True)

    def view(self, moment: Moment | None = None) -> reading.View | None:
        """Return what the history knows by a moment, for catalogs.offers; None where nothing was ever recorded."""
        if not self.exists():
            return None
        with self._database.reading() as connection:
            found = reading.view(connection, _us(moment))
        known = found.frame["gpu"].isin(set(load_gpus()))
        return replace(found, frame=found.frame[known].reset_index(drop=True))

    def periods(
        self,
        *,
        gpu: str | None = None,
        provider: str | None = None,
        region: str | None = None,
        instance_type: str | None = None,
        term: str | None = None,
        source: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        by_price: bool = True,
    ) -> pd.DataFrame:
        """Return the periods in force at some time from `since` to `until`; columns reading.PERIOD_COLUMNS.

        Args:
            gpu: a name, or a pattern with * and ?; letter case does not count.
            provider: a name.
            region: a name.
            instance_type: a name or a pattern, as `gpu`.
            term: a name.
            source: a name.
            since: day or moment; None for no bound.
            until: day or moment; None for no bound.
            by_price: join periods that differ in stock alone.
        """
        if not self.exists():
            return _empty(reading.PERIOD_COLUMNS)
        named = {"provider": provider, "region": region, "term": term, "source": source}
        patterns = {"gpu": gpu, "instance_type": instance_type}
        with self._database.reading() as connection:
            return reading.periods_of(
                connection,
                since_us=None if since is None else start_of(since),
                until_us=None if until is None else end_of(until),
                equal={name: [value] for name, value in named.items() if value is not None},
                like={name: value for name, value in patterns.items() if value is not None},
                by_price=by_price,
            )

    def diff(self, before: Moment, after: Moment, sources: Sequence[str] | None = None) -> pd.DataFrame:
        """Return what changed between two moments; columns as catalogs.price_changes.CHANGE_COLUMNS."""
        return price_changes(self.prices_as_of(before, sources), self.prices_as_of(after, sources), by_source=True)

    def sources(self) -> list[SourceState]:
        """Return how each source stands: its looks, their age, its failures; by name."""
        if not self.exists():
            return []
        with self._database.reading() as connection:
            return states.source_states(connection)

    def newest_look(self, source: str) -> RecordedLook | None:
        """Return the newest look at a source; None where there is none."""
        if not self.exists():
            return None
        with self._database.reading() as connection:
            return states.newest_look(connection, source)

    def quarantined(
        self, state: State | None = "waiting", sources: Sequence[str] | None = None, *, placed: bool = False
    ) -> pd.DataFrame:
        """Return rows set aside, the newest first: number, source, reason, row, offer, looks, first_seen, last_seen.

        Args:
            state: "waiting", "confirmed" or "rejected"; None for all.
            sources: of these alone.
            placed: only rows that could be offers.
        """
        if not self.exists():
            return _empty(("number", "source", "reason", "row", "offer", "looks", "state", "first_seen", "last_seen"))
        with self._database.reading() as connection:
            return states.quarantined(connection, state, sources, placed=placed)

    def confirm(self, numbers: Iterable[int]) -> int:
        """Let rows in that were set aside, as if their looks had listed them; returns how many waited.

        The same row is let in by later looks as well.

        Raises:
            HistoryError: a number is unknown, or its row could not be placed as an offer; none is let in then.
        """
        return self._decide(numbers, "confirmed")

    def reject(self, numbers: Iterable[int]) -> int:
        """Refuse rows that were set aside: they, and the same rows in later looks, no longer wait."""
        return self._decide(numbers, "rejected")

    def _decide(self, numbers: Iterable[int], state: State) -> int:
        asked = list(numbers)
        if not self.exists():
            if asked:
                raise HistoryError(f"row {asked[0]}: is not in the quarantine")
            return 0
        return self._database.write(
            lambda connection: quarantine.decide(connection, asked, state, recording.observe_all)
        )

    def provenance(self, sha256: str) -> list[dict[str, Any]]:
        """Return the looks that had these raw bytes: source, moment, URL, size, HTTP status, rows, set aside."""
        if not self.exists():
            return []
        with self._database.reading() as connection:
            return states.pull_of(connection, sha256)


def _us(moment: Moment | None) -> int:
    return FOREVER_US if moment is None else end_of(moment)


def _empty(columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame({name: [] for name in columns})
