"""Reading a file of engine reports: its columns, and rows as the user wrote them."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from catalogs.errors import DataFileError, near_matches

MAX_FILE_BYTES: Final = 32_000_000
COLUMNS: Final = (
    *("case_id", "kind", "confidence", "source", "url", "date", "engine", "model", "gpu", "n_gpus", "tp", "pp", "dp"),
    *("ep", "weights_dtype", "kv_dtype", "mem_util", "max_model_len", "weights_gib_per_gpu", "kv_gib_per_gpu"),
    *("kv_tokens", "kv_tokens_alt", "gpu_blocks", "block_size", "max_concurrency", "max_concurrency_len", "total_gib"),
    *("non_torch_gib", "activation_gib", "fits", "error_kind", "tok_s", "correct_solver_must_say"),
)
REQUIRED: Final = ("case_id", "engine", "model", "gpu")
PREDICTED: Final = (
    "predicted_weights_gib_per_gpu",
    "predicted_kv_tokens",
    "predicted_max_concurrency",
    "predicted_fits",
    "reason",
    "not_judged",
)

Answer = Literal["yes", "no", "depends", ""]
Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reports:
    """A file of reports.

    Attributes:
        columns: its columns, in order.
        rows: one mapping a row; a column the file lacks reads as "".
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, str], ...]


def read_reports(path: Path) -> Reports:
    """Read a CSV file of reports.

    Raises:
        DataFileError: the file cannot be read, is no CSV, lacks a needed column or has rows that do not match its
            header; names every problem.
    """
    text = _read_text(path)
    try:
        reader = csv.reader(io.StringIO(text), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise DataFileError(path, [f"not CSV: {error} near line {reader.line_num}"]) from None
    if not lines:
        raise DataFileError(path, ["is empty; expected a header with case_id, engine, model, gpu and so on"])
    columns = tuple(cell.strip() for cell in lines[0][1])
    problems = _header_problems(columns)
    for number, cells in lines[1:]:
        if len(cells) != len(columns):
            problems.append(f"line {number}: {len(cells)} cells where the header has {len(columns)}")
    if len(lines) == 1:
        problems.append("holds no row below its header")
    if problems:
        raise DataFileError(path, problems)
    return Reports(columns, tuple(dict(zip(columns, cells, strict=True)) for _, cells in lines[1:]))


def _read_text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise DataFileError(path, ["not a regular file"])
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataFileError(path, [f"larger than {MAX_FILE_BYTES // 1_000_000} MB; not a file of reports"])
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataFileError(path, ["not UTF-8 text"]) from None
    except (OSError, ValueError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(path, [f"cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    if "\0" in text:
        raise DataFileError(path, ["holds a NUL byte; not a CSV file"])
    return text


def _header_problems(columns: tuple[str, ...]) -> list[str]:
    problems = [
        f"column {name!r} is there {columns.count(name)} times"
        for name in dict.fromkeys(columns)
        if columns.count(name) > 1
    ]
    for name in REQUIRED:
        if name not in columns:
            near = near_matches(name, [column for column in columns if column], limit=1)
            problems.append(f"no column {name!r}{f'; is it {near[0]!r}?' if near else ''}")
    problems += [f"column {name!r} is one that the output adds" for name in PREDICTED if name in columns]
    return problems


def number(row: Row, column: str) -> float | None:
    """Return the number in a cell; None where the cell is blank or says something else (see `unread`)."""
    text = row.get(column, "").strip().replace(",", "").rstrip("%")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def whole(row: Row, column: str) -> int | None:
    """Return the whole number in a cell; None where there is none, or it is absurd."""
    value = number(row, column)
    return int(value) if value is not None and value == int(value) and value <= 2**40 else None


def unread(row: Row, columns: tuple[str, ...]) -> list[str]:
    """Return the inputs that are filled in and cannot be read as positive numbers, as "tp 'eight'"."""
    return [
        f"{name} {row[name].strip()[:40]!r}" for name in columns if row.get(name, "").strip() and not number(row, name)
    ]


def answer(text: str) -> Answer:
    """Return what a report says of fitting: what it says first, of the row as it stands; "" where nothing.

    "no (out of memory in graph capture); yes with enforce_eager" is no; "no before / yes after" depends on the version.
    """
    said = text.strip().lower()
    first = re.match(r"(yes|no)\b", said)
    if first is None:
        return ""
    if re.search(r"\bbefore\b.*\b(yes|no)\b.*\bafter\b", said):
        return "depends"
    return "yes" if first.group(1) == "yes" else "no"


def observed_kv_tokens(row: Row) -> float | None:
    """Return the KV tokens that a report gives: kv_tokens, or gpu_blocks x block_size."""
    tokens = number(row, "kv_tokens")
    if tokens is not None:
        return tokens
    blocks, block = number(row, "gpu_blocks"), number(row, "block_size")
    return blocks * block if blocks is not None and block is not None else None
