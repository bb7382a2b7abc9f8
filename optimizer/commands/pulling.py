"""Pulls prices for `reoptimize --refresh` and `watch`: whatever goes wrong is an outcome, and stops nothing."""

from __future__ import annotations

from collections.abc import Sequence

from catalogs.errors import CatalogError
from catalogs.history import open_history
from fetchers.credentials import Credentials
from fetchers.errors import FetchError
from fetchers.http import HttpSession
from fetchers.refresh import default_sources, refresh
from fetchers.source import get_source
from optimizer.reoptimize.answer import SourceOutcome


def pull(names: Sequence[str] = ()) -> tuple[SourceOutcome, ...]:
    """Ask sources of prices (all by default) and keep what came; return what became of each."""
    found: list[SourceOutcome] = []
    try:
        asked = [get_source(name) for name in names] or list(default_sources())
        credentials = Credentials.from_environment()
        with open_history() as history, HttpSession(credentials) as session:
            for one in refresh(history, asked, session):
                found.append(SourceOutcome(name=one.source, status=one.status, message=one.reason))
    except (FetchError, CatalogError, OSError) as error:
        found.append(SourceOutcome(name="refresh", status="failed", message=str(error)))
    return tuple(found)
