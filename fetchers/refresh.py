"""Ask the sources of prices, check what came, and keep it: of each source the whole look or nothing of it.

with open_history() as history, HttpSession() as session:
    for outcome in refresh(history, default_sources(), session):
        print(outcome.source, outcome.status, outcome.summary)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from catalogs.errors import CatalogError
from catalogs.history import History, HistoryError, Pull, Summary
from catalogs.offer_files import Term
from catalogs.offers import load_offers
from fetchers.crew import each
from fetchers.errors import FetchError
from fetchers.http import HttpSession
from fetchers.incoming_checks import Checked, Known, Usual, check_incoming, key_of, known_of, usual_prices
from fetchers.normalize import Placed, place
from fetchers.pulls import RawPull
from fetchers.source import Source, sources

AT_ONCE = 6
# A look at a provider is its whole list only where it has this share of the offers that all sources know of it.
WHOLE_LIST = 0.25

# fresh      recorded: the whole list
# unchanged  recorded: the source says that nothing changed since the last look
# partial    recorded: what came, without ending what did not
# failed     nothing recorded but the failure; the last good prices stand
# skipped    not asked: a credential is missing
Status = Literal["fresh", "unchanged", "partial", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What became of one source.

    Attributes:
        source: its short name.
        status: see Status.
        reason: why it was skipped, failed, or is partial; "" otherwise.
        summary: what changed in its offers; None where nothing came.
        set_aside: rows kept out, by reason.
        moment: when the look was.
        seconds: how long it was asked.
        received_bytes: what was received, decompressed.
    """

    source: str
    status: Status
    reason: str = ""
    summary: Summary | None = None
    set_aside: Counter[str] = field(default_factory=Counter)
    moment: datetime | None = None
    seconds: float = 0.0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Look:
    pull: RawPull
    placed: Placed
    shortfall: str
    kept_as: str


class _UnusableError(Exception):
    """Ends the look at one source; its text is the reason that the report shows."""


def default_sources() -> tuple[Source, ...]:
    """Return the sources that a refresh asks when none is named."""
    return tuple(source for source in sources() if source.on_by_default)


def refresh(
    history: History,
    asked: Sequence[Source],
    session: HttpSession,
    *,
    dry_run: bool = False,
    at_once: int = AT_ONCE,
    started: Callable[[str], None] = lambda _: None,
    longest_s: Callable[[Source], float] = lambda source: source.longest_s,
) -> Iterator[Refreshed]:
    """Ask sources, a few at once, and record each look as soon as it is there.

    Args:
        history: where to.
        asked: the sources.
        session: the way to the network, with the credentials.
        dry_run: write nothing, not even that a source failed; what would change is counted.
        at_once: how many are asked at the same time.
        started: told the name of each source as it is asked.
        longest_s: seconds after which a source is given up.

    Yields:
        What became of each source, as they end; one that fails never ends another.

    Raises:
        HistoryError: the history cannot be read.
    """
    history.exists()
    market = _market()
    began: dict[str, float] = {}

    def start(source: Source) -> None:
        began[source.name] = time.monotonic()
        started(source.name)

    ready = []
    for source in asked:
        state = source.state(session.credentials)
        if state == "ready":
            ready.append(source)
        else:
            yield Refreshed(source.name, "skipped", state)
    jobs = each(
        ready,
        lambda source: _look_at(source, session, history),
        at_once=at_once,
        longest_s=longest_s,
        started=start,
    )
    for source, look in jobs:
        seconds = time.monotonic() - began[source.name]
        try:
            if isinstance(look, Exception):
                raise look
            yield _keep(history, source, look, market, seconds, dry_run=dry_run)
        except Exception as error:  # whatever it is, the others go on
            reason = session.credentials.redactor.text(_reason(source, error))
            if not dry_run:
                _note_failure(history, source, reason)
            yield Refreshed(source.name, "failed", reason, seconds=seconds)
    if not dry_run and history.raw.folder.exists():
        history.raw.prune()


def exit_code(outcomes: Iterable[Refreshed]) -> int:
    """Return 0 when every source that was asked gave its whole list, 5 when none gave anything, else 4."""
    statuses = [outcome.status for outcome in outcomes if outcome.status != "skipped"]
    if all(status in ("fresh", "unchanged") for status in statuses):
        return 0
    return 5 if all(status == "failed" for status in statuses) else 4


def _look_at(source: Source, session: HttpSession, history: History) -> _Look:
    """Ask one source and place its rows; runs beside others."""
    previous, kept_as = _previous(history, source.name)
    pull = source.fetch(session, previous)
    try:
        rows = source.parse(pull, pull.fetched_at.astimezone(UTC).date())
        shortfall = source.shortfall(pull)
    except FetchError:
        raise
    except Exception as error:
        raise _UnusableError(f"its answer is not of the shape that is read: {type(error).__name__}: {error}") from error
    if not rows:
        raise _UnusableError("its answer lists nothing; its last prices stand")
    placed = place(rows)
    if not placed.offers:
        most = ", ".join(f"{reason} ({count})" for reason, count in placed.reasons.most_common(3))
        raise _UnusableError(f"none of its {len(rows):,} rows can be used: {most}")
    same = previous is not None and _content(previous) == _content(pull)
    return _Look(pull, placed, shortfall, kept_as if same else "")


def _previous(history: History, source: str) -> tuple[RawPull | None, str]:
    """Return the newest look's raw answers with the hash they lie under; None where they are not kept (any more)."""
    last = history.newest_look(source)
    if last is None:
        return None, ""
    try:
        pull = RawPull.from_bytes(history.raw.read(last.sha256))
    except (HistoryError, ValueError):  # pruned, damaged, or a file that was imported: all is asked for again
        return None, ""
    return (pull, last.sha256) if pull.source == source else (None, "")


def _content(pull: RawPull) -> list[tuple[str, ...]]:
    return [(part.label, part.sha256, part.etag, part.last_modified) for part in pull.parts]


def _keep(
    history: History, source: Source, look: _Look, market: _Market, seconds: float, *, dry_run: bool
) -> Refreshed:
    """Check a look against the history as it stands now, and record it whole."""
    pull, moment = look.pull, look.pull.fetched_at
    known = known_of(history, source.name)
    checked = check_incoming(look.placed, known, moment=moment, usual=market.usual, shortfall=look.shortfall)
    if dry_run:
        summary = _would_change(checked, known)
    else:
        # Raw bytes first: a look never speaks of bytes that are not there. The same content is kept once.
        sha256 = look.kept_as or history.raw.keep([pull.to_bytes()]).sha256
        history.confirm(checked.confirms)
        summary = history.record(
            _pull_of(source, look, sha256, checked, market),
            checked.offers,
            complete=not checked.partial,
            set_aside=checked.set_aside,
            unpriced=checked.unpriced,
        )
    return Refreshed(
        source.name,
        "partial" if checked.partial else "unchanged" if pull.not_modified else "fresh",
        checked.partial,
        summary,
        Counter(one.reason for one in checked.set_aside),
        moment,
        seconds,
        sum(part.received_bytes for part in pull.parts if not part.not_modified),
    )


def _pull_of(source: Source, look: _Look, sha256: str, checked: Checked, market: _Market) -> Pull:
    pull = look.pull
    return Pull(
        source=source.name,
        moment=pull.fetched_at,
        sha256=sha256,
        url=pull.parts[0].url if pull.parts else source.url,
        size_bytes=sum(len(part.body) for part in pull.parts),
        http_status=304 if pull.not_modified else 200,
        rows=len(look.placed.offers) + len(look.placed.set_aside),
        citation=f"{source.title}, {source.url} ({source.terms})",
        covers=_covers(source, checked, market),
    )


def _covers(source: Source, checked: Checked, market: _Market) -> tuple[tuple[str, Term], ...]:
    """Return of which providers and terms a look is the whole list, so that older prices of others no longer count.

    Only who sells speaks of all there is. A first look with a fraction of what is known elsewhere says more of its
    reader than of its provider.
    """
    if checked.partial or source.kind not in ("provider", "marketplace"):
        return ()
    listed = Counter((offer.provider, offer.term) for offer in checked.offers)
    return tuple(sorted(pair for pair, count in listed.items() if count >= WHOLE_LIST * market.offers.get(pair, 0)))


def _would_change(checked: Checked, known: Known) -> Summary:
    """Return what recording would change, as `History.record` counts it."""
    prices = {offer.key: round(offer.price_usd_per_node_hour, 6) for offer in checked.offers}
    silent = {offer.key for offer in checked.unpriced} | {key_of(one.offer) for one in checked.set_aside if one.offer}
    before = {key: round(price, 6) for key, price in known.prices.items()}
    kept = [price == before[key] for key, price in prices.items() if key in before]
    gone = 0 if checked.partial else len(before.keys() - prices.keys() - silent)
    return Summary(
        new=len(prices) - len(kept),
        changed=len(kept) - sum(kept),
        gone=gone,
        same=sum(kept),
        set_aside=len(checked.set_aside),
    )


def _note_failure(history: History, source: Source, reason: str) -> None:
    with suppress(HistoryError):  # the disk is full, or the database gone: the outcome says so
        history.record_failure(source.name, datetime.now(UTC), reason, source.url)


def _reason(source: Source, error: Exception) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, (FetchError, CatalogError, _UnusableError, TimeoutError)):
        return text.removeprefix(f"{source.name}: ")
    return f"{type(error).__name__}: {text}"


@dataclass(frozen=True, slots=True)
class _Market:
    """What is known of all sources before a refresh: usual prices, and how many offers a provider has on a term."""

    usual: Usual = field(default_factory=dict)
    offers: Mapping[tuple[str, str], int] = field(default_factory=dict)


def _market() -> _Market:
    try:
        frame = load_offers().frame
    except CatalogError:
        return _Market()
    columns: list[Any] = ["gpu", "provider", "provider_kind", "term", "gpus_per_node", "price_usd_per_node_hour"]
    rows: list[Any] = frame[columns].to_dict("records")
    return _Market(usual_prices(rows), Counter((row["provider"], row["term"]) for row in rows))
