"""One measured run, and reading numbers from files that people and tools wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.errors import QuestionError
from optimizer.fields import shown

CLOSED, OPEN, BURST = "fixed_concurrency", "server_fixed_qps", "offline_burst_all_requests"
SAME, NEAR, MIXED = "same", "near", "mixed"
# Coefficients of variation of answers up to which clients keep in step, and nearly do.
SAME_CV, NEAR_CV = 0.01, 0.15


@dataclass(frozen=True)
class Run:
    """What was measured once, of a whole deployment. None is what the file does not say.

    Attributes:
        where: the place in the file ("row 3"); "" where the file is one run.
        model, engine, engine_version, gpu, weights, kv_cache: as the file names them.
        gpus: all of them; replicas share the requests evenly.
        input_tokens, output_tokens: means per request.
        lengths: "same", "near" or "mixed": how alike the requests were.
        scenario: how they came, in the words of the project's own files of runs.
        concurrency: requests in flight; batch: of a static batch; request_rate: per second.
        requests, failed: how many were served, and how many were not.
        ttft_ms, tpot_ms: means.
        output_tokens_per_second: generated.
    """

    where: str
    scenario: str
    input_tokens: float | None
    output_tokens: float | None
    ttft_ms: float | None
    tpot_ms: float | None
    output_tokens_per_second: float | None
    lengths: str | None = None
    concurrency: float | None = None
    batch: float | None = None
    request_rate: float | None = None
    requests: float | None = None
    failed: float | None = None
    model: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    attention_dp: int | None = None
    weights: str | None = None
    kv_cache: str | None = None


def scenario_of(concurrency: float | None, rate: float | None) -> str:
    """Return how requests come: so many in flight, at a rate, or (neither is limited) all at once."""
    return CLOSED if concurrency is not None and rate is None else OPEN if rate is not None else BURST


def lengths_of(variation: float | None) -> str | None:
    """Return how alike requests are by the coefficient of variation of their answers."""
    if variation is None:
        return None
    return SAME if variation <= SAME_CV else NEAR if variation <= NEAR_CV else MIXED


def amount(record: Mapping[str, Any], field: str, path: Path, place: str = "") -> float | None:
    """Return a number above 0 of a record; None where it is missing, empty, 0 or not a number (NaN).

    Args:
        record: fields of the file.
        field: the one to read.
        path: the file, for the message.
        place: what `field` is inside of, for the message.

    Raises:
        QuestionError: it is something else.
    """
    value = record.get(field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if math.isnan(number) or number == 0.0:
        return None
    if number < 0.0 or math.isinf(number):
        raise QuestionError(f"{path}: {place}{field}: expected a number above 0; got {shown(value)}")
    return number


def whole_amount(record: Mapping[str, Any], field: str, path: Path, place: str = "") -> int | None:
    """Return a whole number above 0 of a record, likewise.

    Raises:
        QuestionError: it is something else.
    """
    number = amount(record, field, path, place)
    if number is not None and number != int(number):
        raise QuestionError(f"{path}: {place}{field}: expected a whole number; got {shown(record[field])}")
    return None if number is None else int(number)


def text(record: Mapping[str, Any], *fields: str) -> str | None:
    """Return the first of some fields that holds text; None where none does."""
    for field in fields:
        value = record.get(field)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None
