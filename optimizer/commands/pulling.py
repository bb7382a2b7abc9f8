"""Pulls prices for `reoptimize --refresh` and `watch`: whatever goes wrong is an outcome, and stops nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from catalogs.errors import CatalogError
from catalogs.history import open_history
from catalogs.user_data import user_has_history
from fetchers.credentials import Credentials
from fetchers.errors import FetchError
from fetchers.http import HttpSession
from fetchers.refresh import default_sources, refresh
from fetchers.source import get_source
from optimizer.reoptimize.answer import SourceOutcome


def last_looks() -> dict[str, datetime]:
    """Return when each source of the price history was last pulled; empty where no history is kept."""
    if not user_has_history():
        return {}
    with open_history() as history:
        return {one.name: one.last_look for one in history.sources() if one.last_look is not None}


def pull(names: Sequence[str] = (), stop: Callable[[], bool] = lambda: False) -> tuple[SourceOutcome, ...]:
    """Ask sources of prices (all by default) and keep what came; return what became of each.

    Args:
        names: the sources.
        stop: asked after each source that is kept; those that have not answered by then are left out.
    """
    found: list[SourceOutcome] = []
    try:
        asked = [get_source(name) for name in names] or list(default_sources())
        credentials = Credentials.from_environment()
        with open_history() as history, HttpSession(credentials) as session:
            for one in refresh(history, asked, session):
                found.append(SourceOutcome(name=one.source, status=one.status, message=one.reason))
                if stop():
                    break
    except (FetchError, CatalogError, OSError) as error:
        found.append(SourceOutcome(name="refresh", status="failed", message=str(error)))
    return tuple(found)
