"""Factors on list prices: "price:H100*", "price:spot", "price:aws" name offers by GPU, term or provider."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.errors import near_matches
from catalogs.offers import OfferTable, repriced
from optimizer.errors import QuestionError
from optimizer.fields import shown

PREFIX = "price:"
COLUMNS = ("gpu", "provider", "term")
LEAST, MOST = 0.001, 1000.0


def read_factor(name: str, text: str) -> float:
    """Read a factor on prices.

    Raises:
        QuestionError: it is none, or the name has no pattern.
    """
    if not name.removeprefix(PREFIX).strip():
        raise QuestionError(f"{name!r} names no offers; expected price:PATTERN, as in price:H100* or price:spot")
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not LEAST <= factor <= MOST:
        raise QuestionError(f"{name}: expected a factor from {LEAST:g} to {MOST:,.0f}, as in 0.8; got {shown(text)}")
    return factor


def factors_among(changes: Mapping[str, Any]) -> dict[str, float]:
    """Return the factors on prices among changes to a question."""
    return {name: float(value) for name, value in changes.items() if name.startswith(PREFIX)}


def with_factors(table: OfferTable, factors: Mapping[str, float]) -> OfferTable:
    """Return the table with prices multiplied: {"price:PATTERN": factor}; factors that meet on an offer multiply.

    Raises:
        QuestionError: a pattern matches no offer; near matches are offered.
    """
    if not factors:
        return table
    prices = table.frame["price_usd_per_node_hour"].to_numpy(copy=True)
    for name, factor in factors.items():
        prices[matching(table.frame, name)] *= factor
    return repriced(table, prices)


def matching(offers: pd.DataFrame, name: str) -> NDArray[np.bool_]:
    """Say of each offer whether its GPU, provider or term matches the pattern ("*" and "?" stand for letters).

    Raises:
        QuestionError: none does.
    """
    pattern = name.removeprefix(PREFIX).strip().lower()
    matches = np.zeros(len(offers), dtype=bool)
    known: list[str] = []
    for column in COLUMNS:
        names = [str(one) for one in offers[column].unique()]
        known += names
        wanted = [one for one in names if fnmatchcase(one.lower(), pattern)]
        matches |= offers[column].isin(wanted).to_numpy()
    if not matches.any():
        near = near_matches(pattern[:80], known, limit=3)
        hint = f"; did you mean {' or '.join(PREFIX + one for one in near)}?" if near else ""
        raise QuestionError(f"{name}: no offer has a GPU, provider or term that matches{hint}")
    return matches
