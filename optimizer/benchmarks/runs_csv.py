"""The project's own files of runs: one run a row, in the columns that `shardwise validate speed` reads too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.benchmarks.run import CLOSED, NEAR, OPEN, SAME, Run, amount, text, whole_amount
from optimizer.errors import QuestionError

NAME = "csv"
NEEDED = ("isl", "osl")
SIGNS = ("isl", "osl", "ttft_ms", "tpot_ms")


def is_one(header: list[str]) -> bool:
    """Return whether the first row of a CSV names the columns of a file of runs."""
    return len(set(SIGNS) & {name.strip() for name in header}) > 1


def read(rows: list[list[str]], path: Path) -> tuple[Run, ...]:
    """Return the runs of a file, one a row.

    Raises:
        QuestionError: the file has no rows, lacks a column, or a value is not what it should be.
    """
    header = [name.strip() for name in rows[0]] if rows else []
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise QuestionError(
            f"{path}: no column {', '.join(missing)}; needed: {', '.join(NEEDED)}, and what was measured"
        )
    filled = [(number, row) for number, row in enumerate(rows[1:], 2) if any(cell.strip() for cell in row)]
    if not filled:
        raise QuestionError(f"{path}: no rows")
    return tuple(_run(dict(zip(header, row, strict=False)), path, f"row {number}") for number, row in filled)


def _run(record: dict[str, Any], path: Path, where: str) -> Run:
    place = f"{where}: "
    spread = (text(record, "len_dist") or "").startswith("uniform")
    mean = 0.9 if spread else 1.0  # lengths of 0.8 to 1 times the nominal one
    inputs, outputs = (amount(record, name, path, place) for name in NEEDED)
    rate = None
    if str(record.get("request_rate", "")).strip().lower() not in {"", "inf"}:
        rate = amount(record, "request_rate", path, place)
    concurrency, batch = (amount(record, name, path, place) for name in ("concurrency", "batch"))
    return Run(
        where=where,
        scenario=text(record, "scenario") or (OPEN if rate is not None and concurrency is None else CLOSED),
        input_tokens=None if inputs is None else inputs * mean,
        output_tokens=None if outputs is None else outputs * mean,
        lengths=text(record, "lengths") or (NEAR if spread else SAME),
        concurrency=concurrency,
        batch=batch,
        request_rate=rate,
        ttft_ms=amount(record, "ttft_ms", path, place),
        tpot_ms=amount(record, "tpot_ms", path, place),
        output_tokens_per_second=amount(record, "output_tok_s_total", path, place),
        model=text(record, "model"),
        engine=text(record, "engine"),
        engine_version=text(record, "engine_version"),
        gpu=text(record, "gpu"),
        gpus=whole_amount(record, "n_gpus", path, place),
        tp=whole_amount(record, "tp", path, place),
        pp=whole_amount(record, "pp", path, place),
        ep=whole_amount(record, "ep", path, place),
        attention_dp=whole_amount(record, "attn_dp", path, place),
        weights=text(record, "weight_precision"),
        kv_cache=text(record, "kv_precision"),
    )
