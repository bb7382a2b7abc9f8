"""Prices that were different: which offers a pattern names, and the table of offers with theirs changed.

Prices change at list prices: the user's own discounts come off the changed ones, as they would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.errors import near_matches
from catalogs.offers import OfferTable, sorted_offers
from optimizer.errors import QuestionError
from optimizer.plan import Layout

Mask = NDArray[np.bool_]

# What a plain name may be, looked for in this order: the first that any offer has is what it means.
FIELDS = ("gpu", "term", "provider", "instance_type", "region", "provider_kind")
PATH = ("provider", "instance_type", "region", "term")  # what a name with slashes gives, in this order
LEAST_PRICE_USD = 1e-6  # money is counted in whole micro-dollars, and nothing is for nothing
ACCEPTED = (
    "a GPU type (H100*), a term (spot), a provider (aws), an instance type, a region, FIELD=NAME, "
    "or PROVIDER/INSTANCE_TYPE[/REGION[/TERM]]; * stands for any text"
)


def matching(frame: pd.DataFrame, pattern: str) -> Mask:
    """Return which offers a pattern names, upper and lower case alike.

    A plain name is a GPU type, else a term, provider, instance type, region or kind of provider: the first that some
    offer has. "field=name" says which is meant; "provider/instance_type/region/term" names each, the last two or the
    last one left out for any. In all of them `*` stands for any text.

    Args:
        frame: offers, as OfferTable.frame.
        pattern: the pattern.

    Raises:
        QuestionError: no offer matches; names near ones, and what is accepted.
    """
    for wanted in _readings(pattern):
        found = np.ones(len(frame), dtype=bool)
        for field, name in wanted.items():
            found &= _named(frame[field], name)
        if found.any():
            return found
    raise QuestionError(f"{pattern!r} matches no offer; {_hint(frame, pattern)}")


def same_offer(frame: pd.DataFrame, layout: Layout) -> Mask:
    """Return which offer (one, or none) is the one that a layout rents."""
    found = np.ones(len(frame), dtype=bool)
    for field in (*PATH, "gpu"):
        found &= (frame[field] == getattr(layout, field)).to_numpy()
    return found


def scaled(table: OfferTable, offers: Mask, factor: float) -> OfferTable:
    """Return the table with the prices of some offers times a factor, sorted anew; at least a micro-dollar each."""
    frame = table.frame.copy()
    prices = frame["price_usd_per_node_hour"].to_numpy(copy=True)
    prices[offers] = scaled_prices(prices[offers], factor)
    frame["price_usd_per_node_hour"] = prices
    return replace(table, frame=sorted_offers(frame))


def scaled_prices(prices_usd: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
    """Return prices times a factor, at least a micro-dollar each."""
    return np.maximum(prices_usd * factor, LEAST_PRICE_USD)


def withdrawn(table: OfferTable, offers: Mask) -> OfferTable:
    """Return the table with none of some offers to be had: they stay in it with a stock of no nodes.

    So the question may still name their providers and regions, and an answer says of them that nothing is left.
    """
    frame = table.frame.copy()
    frame.loc[offers, "max_nodes"] = 0.0
    return replace(table, frame=frame)


def _readings(pattern: str) -> Iterator[dict[str, str]]:
    """Return what a pattern may mean, by field, in the order in which it is tried."""
    text = pattern.strip()
    field, equals, name = text.partition("=")
    if equals and field.strip() in FIELDS:
        yield {field.strip(): name.strip()}
    elif "/" in text:
        parts = [part.strip() or "*" for part in text.split("/")]
        if len(parts) <= len(PATH):
            yield dict(zip(PATH, parts, strict=False))
    elif text:
        yield from ({field: text} for field in FIELDS)


def _named(column: pd.Series, name: str) -> Mask:
    """Return the rows of a column that hold a name, or what a name with * stands for."""
    codes, values = pd.factorize(column)
    known = [fnmatchcase(str(value).lower(), name.lower().replace("[", "[[]")) for value in values]
    return np.asarray(np.array(known, dtype=bool)[codes])


def _hint(frame: pd.DataFrame, pattern: str) -> str:
    """Say what was probably meant."""
    field, equals, name = pattern.partition("=")
    if equals and field.strip() in FIELDS:
        near = near_matches(name.strip(), set(frame[field.strip()]))
    elif "/" in pattern:
        near = near_matches(pattern, set(frame["provider"] + "/" + frame["instance_type"]))
    else:
        near = _near_names(frame, name) if (name := pattern.strip("* ")) else []
    return f"did you mean {' or '.join(near)}?" if near else f"expected {ACCEPTED}"


def _near_names(frame: pd.DataFrame, name: str) -> list[str]:
    """Return names of offers most like this one; machines, of which there are many, only where nothing else is."""
    names = {str(value) for field in FIELDS if field != "instance_type" for value in frame[field].unique()}
    return near_matches(name, sorted(names)) or near_matches(name, sorted(set(frame["instance_type"])))
