"""What the points of a what-if are answered from: models and offers, loaded once in each process, and their marks.

A mark says what an answer rests on beside its question: the version, the prices, the model, the user's calibration and
measured table. Two processes, or two runs of one sweep, may share rows only where their marks are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel

from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable, load_offers
from optimizer.calibration_used import calibration_used
from optimizer.errors import QuestionError
from optimizer.fleet.question import FleetScenario
from optimizer.performance.efficiency import load_efficiencies
from optimizer.scenario import Scenario
from optimizer.version import __version__
from optimizer.whatif.price_factors import with_factors

MOST_BYTES = 1 << 28  # of a file that answers rest on


@lru_cache(maxsize=16)
def load_model_once(name: str) -> ModelSpec:
    """Return a model; the same object each time, so that what was worked out for it is found again."""
    return load_model(name)


@lru_cache(maxsize=8)
def load_offers_once(as_of: date | None, files: tuple[Path, ...], today: date) -> OfferTable:
    """Return the offers at list prices; the same object each time."""
    return load_offers(as_of, files, today=today)


@lru_cache(maxsize=16)
def _factored(
    as_of: date | None, files: tuple[Path, ...], today: date, factors: tuple[tuple[str, float], ...]
) -> OfferTable:
    return with_factors(load_offers_once(as_of, files, today), dict(factors))


def model_names(scenario: Scenario | FleetScenario) -> tuple[str, ...]:
    """Return the models that a question names."""
    if isinstance(scenario, Scenario):
        return (scenario.model,)
    return tuple(dict.fromkeys(one.model for one in scenario.traffic))


def offers_of(
    scenario: Scenario | FleetScenario, today: date, factors: Mapping[str, float] | None = None
) -> OfferTable:
    """Return the offers that a scenario is answered from, at list prices times factors.

    Raises:
        QuestionError, CatalogError: a file, a day or a pattern of prices is wrong.
    """
    prices = scenario.prices
    return _factored(prices.as_of, prices.offers_files, today, tuple((factors or {}).items()))


def marks_of(scenarios: Iterable[Scenario | FleetScenario], today: date) -> dict[str, str]:
    """Return the marks of all that these scenarios are answered from, by what they are marks of."""
    found = {"version of shardwise": __version__, "speed coefficients": _coefficients_mark()}
    for scenario in scenarios:
        prices, table = scenario.prices, scenario.performance.table
        files = "".join(f" {path}" for path in prices.offers_files)
        found |= {f"model {name}": _model_mark(name) for name in model_names(scenario)}
        found[f"prices of {prices.as_of or 'the newest day'}{files}"] = _prices_mark(
            prices.as_of, prices.offers_files, today
        )
        if table is not None:
            found[f"measured table {table}"] = _file_mark(table, "a table of measured steps")
        if isinstance(scenario, FleetScenario):
            logs = [one.log.file for one in scenario.traffic if one.log is not None]
            found |= {f"log {path}": _file_mark(path, "a log of requests") for path in logs}
    return found


def check_marks(scenario: Scenario | FleetScenario, today: date, expected: Mapping[str, str]) -> None:
    """Refuse to answer from other inputs than another process has.

    Raises:
        QuestionError: naming what differs.
    """
    for what, mark in marks_of([scenario], today).items():
        if expected.get(what) != mark:
            raise QuestionError(
                f"this worker has other {what} ({mark}) than the process that asked "
                f"({expected.get(what)}); install the same version and data on both"
            )


@lru_cache(maxsize=1)
def _coefficients_mark() -> str:
    own = calibration_used()
    said = _digest(_spelled(load_efficiencies()).encode())
    return said if own is None else f"{said}, own calibration of {own.date} with {own.runs} runs"


@lru_cache(maxsize=64)
def _model_mark(name: str) -> str:
    return _digest(_spelled(load_model_once(name)).encode())


@lru_cache(maxsize=64)
def _prices_mark(as_of: date | None, files: tuple[Path, ...], today: date) -> str:
    frame = load_offers_once(as_of, files, today).frame
    rows = pd.util.hash_pandas_object(frame.astype(str), index=False).to_numpy()
    newest = frame["seen_on"].max().date()
    return f"{_digest(rows.tobytes())}, {len(frame)} offers, newest of {newest}"


def _file_mark(path: Path, expected: str) -> str:
    from optimizer.user_files import read_bounded  # noqa: PLC0415  only where there is a table

    return _digest(read_bounded(path, MOST_BYTES, expected))


def _spelled(value: Any) -> str:
    """Spell a record out, the same in every process: a set's own order is not."""
    if is_dataclass(value) and not isinstance(value, type):
        return _spelled({one.name: getattr(value, one.name) for one in fields(value)})
    if isinstance(value, BaseModel):
        return _spelled({name: getattr(value, name) for name in type(value).model_fields})  # not what it has worked out
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_spelled(key)}:{_spelled(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(map(_spelled, value))) + ">"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_spelled, value)) + "]"
    return repr(value)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
