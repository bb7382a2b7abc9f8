"""`shardwise prices refresh`: asks the sources, shows how far it is, and says what changed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator

from catalogs.history import open_history
from fetchers.credentials import Credentials
from fetchers.errors import FetchError
from fetchers.http import HttpSession
from fetchers.refresh import Refreshed, default_sources, exit_code
from fetchers.refresh import refresh as refresh_sources
from fetchers.source import Source, get_source
from optimizer.errors import QuestionError
from optimizer.report.catalog import print_table
from optimizer.report.refresh import refreshed


def run(names: tuple[str, ...], *, dry_run: bool, json: bool, csv: bool) -> int:
    """Refresh the named sources, or all; returns the exit code.

    Raises:
        UnknownNameError: there is no source of a name.
        QuestionError: no source can be asked with the credentials that are set.
    """
    if json and csv:
        raise QuestionError("--json and --csv exclude each other; give one of them")
    try:
        asked = [get_source(name) for name in dict.fromkeys(names)] or list(default_sources())
        credentials = Credentials.from_environment()
    except FetchError as error:
        raise QuestionError(str(error)) from None
    _demand_one(asked, credentials)
    with open_history() as history, HttpSession(credentials) as session:
        progress = _Progress(len(asked))
        outcomes = list(
            progress.watched(
                refresh_sources(history, asked, session, dry_run=dry_run, started=progress.started),
            )
        )
    print_table(refreshed(outcomes, dry_run=dry_run), json=json, csv=csv)
    return exit_code(outcomes)


def _demand_one(asked: Iterable[Source], credentials: Credentials) -> None:
    states = {source.name: source.state(credentials) for source in asked}
    if "ready" not in states.values():
        said = "; ".join(f"{name} {state}" for name, state in states.items())
        raise QuestionError(f"no source can be asked: {said}. Set them in the environment, or name other sources")


class _Progress:
    """One line on a terminal: how many sources are done, and which are being asked."""

    def __init__(self, sources: int):
        self._sources = sources
        self._done = 0
        self._running: dict[str, None] = {}
        self._shown = sys.stderr.isatty()

    def started(self, source: str) -> None:
        """Note that a source is being asked."""
        self._running[source] = None
        self._show()

    def watched(self, outcomes: Iterable[Refreshed]) -> Iterator[Refreshed]:
        """Pass outcomes on, and note that their sources are done."""
        try:
            for outcome in outcomes:
                self._running.pop(outcome.source, None)
                self._done += 1
                self._show()
                yield outcome
        finally:
            if self._shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    def _show(self) -> None:
        if self._shown:
            line = f"{self._done}/{self._sources} sources done; asking {', '.join(self._running) or 'none'}"
            sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
