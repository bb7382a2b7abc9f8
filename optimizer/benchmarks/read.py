"""Telling formats of benchmark files apart by what is in them, and reading each."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.benchmarks import perf_export, runs_csv, vllm_bench
from optimizer.benchmarks.run import Run
from optimizer.errors import QuestionError
from optimizer.user_files import read_bounded

MAX_BYTES = 200_000_000
FORMATS = (vllm_bench.NAME, perf_export.GENAI_PERF, perf_export.AIPERF, runs_csv.NAME)
ACCEPTED = (
    "accepted: the JSON of `vllm bench serve --save-result`, profile_export_genai_perf.json, "
    "profile_export_aiperf.json or .csv, or a CSV with the columns of `shardwise validate speed`"
)


@dataclass(frozen=True)
class Benchmark:
    """The runs of one file, its format, and the SHA-256 of its bytes."""

    format: str
    sha256: str
    runs: tuple[Run, ...]


def read_benchmark(path: Path, form: str | None = None) -> Benchmark:
    """Read a benchmark file.

    Args:
        path: the file.
        form: one of FORMATS; None to tell by the content.

    Raises:
        QuestionError: the file cannot be read, is in none of the formats, or a value is wrong.
    """
    data = read_bounded(path, MAX_BYTES, "the summary that a benchmark writes")
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise QuestionError(f"{path}: is not text in UTF-8; {ACCEPTED}") from None
    found, runs = _read(content, path, form)
    return Benchmark(found, hashlib.sha256(data).hexdigest(), runs)


def _read(content: str, path: Path, form: str | None) -> tuple[str, tuple[Run, ...]]:
    stripped = content.lstrip()
    if not stripped:
        raise QuestionError(f"{path}: is empty; {ACCEPTED}")
    if stripped[0] in "{[":
        return _read_json(content, path, form)
    rows = _rows(content, path)
    if form == perf_export.AIPERF or (form is None and perf_export.is_csv(rows)):
        if not perf_export.is_csv(rows):
            raise QuestionError(f"{path}: is no AIPerf export: its first row should begin with Metric,avg")
        return perf_export.AIPERF, perf_export.read_csv(rows, path)
    if form == runs_csv.NAME or (form is None and runs_csv.is_one(rows[0])):
        return runs_csv.NAME, runs_csv.read(rows, path)
    if form is not None:
        raise QuestionError(f"{path}: is no JSON, which --format {form} asks for")
    raise QuestionError(f"{path}: is in no known format; {ACCEPTED}")


def _rows(content: str, path: Path) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(content)))
    except csv.Error as error:
        raise QuestionError(f"{path}: cannot be read as CSV ({error}); {ACCEPTED}") from None


def _read_json(content: str, path: Path, form: str | None) -> tuple[str, tuple[Run, ...]]:
    records = _records(content, path)
    if form == runs_csv.NAME:
        raise QuestionError(f"{path}: is JSON, and --format csv asks for a CSV")
    if form == vllm_bench.NAME or (form is None and records and all(map(vllm_bench.is_one, records))):
        if not records or not all(isinstance(one, dict) for one in records):
            raise QuestionError(f"{path}: expected one object of results, or one a line; got something else")
        return vllm_bench.NAME, vllm_bench.read(records, path)
    if len(records) == 1 and perf_export.is_one(records[0]):
        return form or perf_export.format_of(records[0]), perf_export.read(records[0], path)
    if form is not None:
        metrics = " or ".join(perf_export.METRICS[:2])
        raise QuestionError(f"{path}: is no export of {form}: it has no {metrics} with an avg")
    raise QuestionError(f"{path}: is JSON of no known benchmark{_has(records)}; {ACCEPTED}")


def _records(content: str, path: Path) -> list[Any]:
    """Return the object of a JSON file, those of a list, or those of its lines."""
    try:
        whole = json.loads(content)
    except RecursionError:
        raise QuestionError(f"{path}: is JSON that is nested too deeply; {ACCEPTED}") from None
    except json.JSONDecodeError as first:
        lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
        found = []
        for number, line in lines:
            try:
                found.append(json.loads(line))
            except (json.JSONDecodeError, RecursionError) as error:
                if isinstance(error, RecursionError):
                    raise QuestionError(f"{path}: line {number} is nested too deeply") from None
                at, why = (number, error.msg) if found else (first.lineno, first.msg)
                raise QuestionError(f"{path}: line {at} is not JSON ({why})") from None
        return found
    return whole if isinstance(whole, list) else [whole]


def _has(records: list[Any]) -> str:
    names = list(records[0])[:6] if records and isinstance(records[0], dict) else []
    return f" (it has {', '.join(map(str, names))})" if names else ""
