"""Steps and prefills that a user measured: a CSV file, one figure or two a row.

    gpu, model, weights, tp           which replica; needed
    pp, ep, attention_dp              1 where not given
    kv_cache, engine                  any where not given
    batch (or concurrency)            requests at once on the whole replica, for a step
    context_tokens                    that each of them attends to; or input_tokens and output_tokens, which make it
                                      input + output / 2
    decode_step_ms (or tpot_ms)       the time between two tokens of one request
    prefill_ms                        the time to first token of a lone request of input_tokens

A step needs batch and context; a prefill needs input_tokens. A table answers for exactly its replica, and only between
its own points: each is given back as it is, figures between them by logarithms, and none beyond them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from catalogs.errors import UnknownNameError, near_matches
from catalogs.gpus import get_gpu
from catalogs.model_spec import ModelSpec
from optimizer.errors import QuestionError
from optimizer.performance.backends.grid import LogGrid, running_maximum
from optimizer.performance.backends.protocol import Array, Index
from optimizer.performance.backends.tabled import NONE, Tables
from optimizer.performance.efficiency import DEFAULT_ENGINE
from optimizer.scenario import KV_DTYPES, WEIGHT_FORMATS

MEASURED = "table"
NEEDED = ("gpu", "model", "weights", "tp")
SIZES = ("tp", "pp", "ep", "attention_dp")
COUNTS = ("batch", "context_tokens", "input_tokens", "output_tokens")
TIMES = ("decode_step_ms", "prefill_ms")
SPELLINGS = {"concurrency": "batch", "tpot_ms": "decode_step_ms"}
COLUMNS = (*NEEDED, *SIZES[1:], "kv_cache", "engine", *COUNTS, *TIMES)
LARGEST_DIP = 0.15  # share by which a figure may be below one of less work: it is raised; a lower one is an error
MOST_BYTES, MOST_CELLS = 20_000_000, 4_000_000
WHOLE, NUMBER = "a whole number of at least 1", "a number above 0 and at most 1,000,000,000"

Key = tuple[str, str, str, int, int, int, int, str, str]  # model, GPU, weights, sizes, KV cache, engine


@dataclass(frozen=True)
class _Row:
    """One line of the file, read."""

    line: int
    key: Key
    values: Mapping[str, float]


@dataclass(frozen=True)
class _Point:
    """One figure, with the line that it is from."""

    line: int
    first: float
    second: float
    seconds: float


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """A user's figures, by replica.

    Attributes:
        path: the file.
        tables: the figures, a setting a replica.
        keys: number of the setting of each replica.
    """

    path: Path
    tables: Tables
    keys: Mapping[Key, int]

    def setting_of(self, model: ModelSpec, replicas: pd.DataFrame) -> Index:
        """Return the setting of each replica of a model, NONE where nothing of it was measured.

        A row that names cache and engine comes before one that leaves them open.
        """
        found = np.full(len(replicas), NONE, dtype=np.intp)
        name = model.name.lower()
        if not any(key[0] == name for key in self.keys):
            return found
        engines = replicas["engine"] if "engine" in replicas else [DEFAULT_ENGINE] * len(replicas)
        columns = [replicas[column] for column in ("gpu", "weights", *SIZES, "kv_cache")]
        for position, (gpu, weights, tp, pp, ep, dp, kv_cache, engine) in enumerate(
            zip(*columns, engines, strict=True)
        ):
            for cache, server in ((kv_cache, engine), (kv_cache, ""), ("", engine), ("", "")):
                key = (name, str(gpu), str(weights), int(tp), int(pp), int(ep), int(dp), str(cache), str(server))
                if key in self.keys:
                    found[position] = self.keys[key]
                    break
        return found


def read_measured(path: Path) -> MeasuredTable:
    """Read a measured table; the same object is returned as long as the file stays as it is.

    Raises:
        QuestionError: naming file, line, column and value, and what is accepted.
    """
    try:
        now = path.stat()
    except OSError as error:
        raise QuestionError(f"{path}: cannot be read: {error.strerror or error}") from None
    if now.st_size > MOST_BYTES:
        raise QuestionError(f"{path}: is larger than {MOST_BYTES:,} bytes")
    return _read(path, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, _modified: int, _size: int) -> MeasuredTable:
    rows = _rows(path)
    keys = {key: number for number, key in enumerate(dict.fromkeys(row.key for row in rows))}
    steps: list[list[_Point]] = [[] for _ in keys]
    prefills: list[list[_Point]] = [[] for _ in keys]
    for row in rows:
        values, at = row.values, keys[row.key]
        if "decode_step_ms" in values:
            steps[at].append(
                _Point(row.line, values["batch"], values["context_tokens"], values["decode_step_ms"] / 1e3)
            )
        if "prefill_ms" in values:
            prefills[at].append(_Point(row.line, 1.0, values["input_tokens"], values["prefill_ms"] / 1e3))
    tables = Tables(
        MEASURED, _grid(path, steps, "decode_step_ms"), _grid(path, prefills, "prefill_ms"), fixed_included=True
    )
    return MeasuredTable(path, tables, keys)


def _rows(path: Path) -> list[_Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = csv.reader(stream, strict=True)
            header = [SPELLINGS.get(name.strip(), name.strip()) for name in next(lines, [])]
            _check_header(path, header)
            rows = [_row(path, lines.line_num, header, cells) for cells in lines if any(cell.strip() for cell in cells)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise QuestionError(f"{path}: cannot be read as CSV ({error})") from None
    if not rows:
        raise QuestionError(f"{path}: has no rows; expected measured steps or prefills, one a line")
    return rows


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        if name not in COLUMNS:
            near = near_matches(name[:80], COLUMNS, limit=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise QuestionError(f"{path}: line 1: unknown column {name!r}{hint} (accepted: {', '.join(COLUMNS)})")
        if header.count(name) > 1:
            raise QuestionError(f"{path}: line 1: column {name!r} is given twice (also as {_also(name)})")
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise QuestionError(f"{path}: line 1: no column {', '.join(missing)}; needed: {', '.join(NEEDED)}")
    if not set(TIMES) & set(header):
        raise QuestionError(f"{path}: line 1: no column of figures; expected decode_step_ms, prefill_ms or both")


def _also(name: str) -> str:
    return next((other for other, meant in SPELLINGS.items() if meant == name), name)


def _row(path: Path, line: int, header: list[str], cells: list[str]) -> _Row:
    if len(cells) != len(header):
        raise QuestionError(f"{path}: line {line}: {len(cells)} values; expected {len(header)}, as in the header")
    given = {name: cell.strip() for name, cell in zip(header, cells, strict=True) if cell.strip()}

    def wrong(column: str, accepted: str) -> QuestionError:
        said = f"got {given[column][:80]!r}" if column in given else "is missing"
        return QuestionError(f"{path}: line {line}, column {column}: {said}; expected {accepted}")

    for name in NEEDED:
        if name not in given:
            raise wrong(name, "a value in every row")
    try:
        gpu = get_gpu(given["gpu"]).name
    except UnknownNameError as error:
        raise QuestionError(f"{path}: line {line}, column gpu: {error}") from None
    for name, known in (("weights", WEIGHT_FORMATS), ("kv_cache", KV_DTYPES)):
        if name in given and given[name] not in known:
            raise wrong(name, f"one of {', '.join(known)}")
    sizes = [_number(given.get(name, "1"), 1024.0, wrong, name, "a whole number from 1 to 1,024") for name in SIZES]
    values = {name: _number(given[name], 1e8, wrong, name, WHOLE) for name in COUNTS if name in given}
    values |= {name: _number(given[name], 1e9, wrong, name, NUMBER, whole=False) for name in TIMES if name in given}
    if "context_tokens" not in values and "input_tokens" in values and "output_tokens" in values:
        values["context_tokens"] = values["input_tokens"] + values["output_tokens"] / 2.0
    if not set(TIMES) & set(values):
        raise QuestionError(f"{path}: line {line}: no figure; expected decode_step_ms, prefill_ms or both")
    if "decode_step_ms" in values and "batch" not in values:
        raise wrong("batch", "the requests at once that the step is of")
    if "decode_step_ms" in values and "context_tokens" not in values:
        raise wrong("context_tokens", "the context of the step, or input_tokens and output_tokens")
    if "prefill_ms" in values and "input_tokens" not in values:
        raise wrong("input_tokens", "the length of the prompt that the prefill is of")
    tp, pp, ep, dp = (int(size) for size in sizes)
    if ep not in (1, tp * dp):
        raise wrong("ep", f"1, or tp x attention_dp = {tp * dp}")
    replica = (given["model"].lower(), gpu, given["weights"], tp, pp, ep, dp)
    return _Row(line, (*replica, given.get("kv_cache", ""), given.get("engine", "")), values)


def _number(
    text: str,
    most: float,
    wrong: Callable[[str, str], QuestionError],
    column: str,
    accepted: str,
    *,
    whole: bool = True,
) -> float:
    try:
        value = float(text)
    except ValueError:
        raise wrong(column, accepted) from None
    if not 0.0 < value <= most or (whole and value != int(value)):
        raise wrong(column, accepted)
    return value


def _grid(path: Path, points: list[list[_Point]], column: str) -> LogGrid:
    """Return the figures of every setting on the axes of all their points."""
    first = np.unique([point.first for one in points for point in one] or [1.0])
    second = np.unique([point.second for one in points for point in one] or [1.0])
    if len(points) * len(first) * len(second) > MOST_CELLS:
        raise QuestionError(
            f"{path}: {len(points):,} replicas x {len(first):,} batches x {len(second):,} lengths are more than "
            f"{MOST_CELLS:,} figures; expected fewer different ones (or more than one file)"
        )
    values = np.full((len(points), len(first), len(second)), np.nan)
    for number, one in enumerate(points):
        rows = np.searchsorted(first, [point.first for point in one])
        columns = np.searchsorted(second, [point.second for point in one])
        total, times = np.zeros(values.shape[1:]), np.zeros(values.shape[1:])
        np.add.at(total, (rows, columns), [point.seconds for point in one])
        np.add.at(times, (rows, columns), 1.0)
        own = np.divide(total, times, out=np.full_like(total, np.nan), where=times > 0)  # a point measured twice
        (raised,), (dip,) = running_maximum(own[np.newaxis])
        if dip > LARGEST_DIP:
            raise QuestionError(_dip(path, one, own[rows, columns], raised[rows, columns], column))
        values[number] = _filled(raised, np.log(first), np.log(second))
    return LogGrid(first, second, values)


def _dip(path: Path, points: list[_Point], own: Array, raised: Array, column: str) -> str:
    """Say which figure is too low, and which one of no more work is longer."""
    worst = int(np.argmax(raised / own))
    low = points[worst]
    above = [one for one in points if one.first <= low.first and one.second <= low.second]
    high = max(above, key=lambda one: one.seconds)
    return (
        f"{path}: line {low.line}, column {column}: got {low.seconds * 1e3:g}, and line {high.line}, of no more work, "
        f"has {high.seconds * 1e3:g}; expected figures that grow with work (or fall by at most {LARGEST_DIP:.0%})"
    )


def _filled(own: Array, first: Array, second: Array) -> Array:
    """Fill in what lies between measured points, along the first axis and then along the second; the rest stays NaN.

    Held between the measured figures of less and of more work, so that none of those has to move.
    """
    logs = np.log(own)
    filled = logs.copy()
    for column in filled.T:
        _between(first, column)
    for row in filled:
        _between(second, row)
    inside = ~np.isnan(filled)
    least = np.fmax.accumulate(np.fmax.accumulate(logs, axis=0), axis=1)
    turned = np.fmin.accumulate(np.fmin.accumulate(logs[::-1, ::-1], axis=0), axis=1)[::-1, ::-1]
    filled = np.where(np.isnan(logs), np.fmin(np.fmax(filled, least), turned), logs)
    (raised,), _ = running_maximum(np.where(inside, np.exp(filled), np.nan)[np.newaxis])
    return np.asarray(raised)


def _between(axis: Array, values: Array) -> None:
    """Fill in, in place, values between the first and the last known one."""
    known = np.flatnonzero(~np.isnan(values))
    if len(known) > 1:
        inner = slice(known[0], known[-1] + 1)
        values[inner] = np.interp(axis[inner], axis[known], values[known])
