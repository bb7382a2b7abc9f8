"""The reports of tests/data/cases.csv, in the columns that `shardwise validate memory` reads."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

CASES = Path(__file__).parent.parent.parent / "data" / "cases.csv"
COLUMN_OF = {
    "case": "case_id",
    "kind": "kind",
    "seen_on": "date",
    "source": "url",
    "engine": "engine",
    "model": "model",
    "gpu": "gpu",
    "gpus": "n_gpus",
    "tp": "tp",
    "pp": "pp",
    "dp": "dp",
    "ep": "ep",
    "weights": "weights_dtype",
    "kv_cache": "kv_dtype",
    "memory_fraction": "mem_util",
    "context": "max_model_len",
    "gpu_memory_gib": "total_gib",
    "observed_weights_gib": "weights_gib_per_gpu",
    "observed_kv_tokens": "kv_tokens",
    "observed_concurrency": "max_concurrency",
    "concurrency_context": "max_concurrency_len",
    "observed_fits": "fits",
}


@cache
def cases() -> tuple[dict[str, str], ...]:
    """Rows of the file, in its own columns."""
    with CASES.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def report(case: dict[str, str]) -> dict[str, str]:
    """A row as the command reads it."""
    return {column: case[name] for name, column in COLUMN_OF.items()}


def case(name: str, **changed: str) -> dict[str, str]:
    """One report by its id, with cells changed (in the columns that the command reads)."""
    return {**report(next(row for row in cases() if row["case"] == name)), **changed}


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    """Write reports as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
