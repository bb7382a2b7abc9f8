"""The file of a sweep: CSV or Parquet, written whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optimizer.errors import QuestionError
from optimizer.user_files import write_whole
from optimizer.whatif.fleet_point import FLEET_COLUMNS
from optimizer.whatif.point import RESULT_COLUMNS

PARQUET_EXTRA = 'pip install "shardwise[parquet]"'
WHOLE_COLUMNS = ("nodes", "gpus", "replicas", "tp", "pp", "ep", "attention_dp")
NUMBER_COLUMNS = ["usd_per_hour", "usd_per_million_output_tokens", "bound_usd_per_hour", "gap"]
NUMBER_COLUMNS += ["ttft_ms", "tpot_ms", "e2e_ms", "utilization"]
NUMBER_COLUMNS += ["peak_usd_per_hour", "committed_usd_per_hour", "upfront_usd"]


def check_output(path: Path) -> None:
    """Refuse, before anything is solved, a file that could not be written.

    Raises:
        QuestionError: another ending than .csv or .parquet, a folder, or a package that is missing.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise QuestionError(f"--out {path}: expected a file that ends in .csv or .parquet")
    if path.is_dir():
        raise QuestionError(f"--out {path}: is a folder")
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401, PLC0415  an extra
        except ModuleNotFoundError:
            raise QuestionError(f"--out {path}: Parquet needs pyarrow: {PARQUET_EXTRA}; or name a .csv") from None


def write_rows(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write the rows, as the file's ending says.

    Raises:
        QuestionError: the file cannot be written.
    """
    content = _parquet(columns, rows) if path.suffix.lower() == ".parquet" else _csv(columns, rows)
    try:
        write_whole(path, content)
    except OSError as error:
        raise QuestionError(f"--out {path}: cannot be written: {error.strerror or error}") from None


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _parquet(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    import pandas as pd  # noqa: PLC0415  only for Parquet

    frame = pd.DataFrame(list(rows), columns=list(columns), dtype=object)
    for name in columns:
        if name in WHOLE_COLUMNS:
            frame[name] = frame[name].astype("Int64")
        elif name in NUMBER_COLUMNS:
            frame[name] = frame[name].astype("Float64")
        elif name in RESULT_COLUMNS or name in FLEET_COLUMNS:
            frame[name] = frame[name].astype("string")
        else:
            frame[name] = _varied(frame[name])
    return frame.to_parquet(engine="pyarrow", index=False)


def _varied(values: Any) -> Any:
    """Return a varied field's column: numbers where all are, else text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int}:
        return values.astype("Int64")
    if kinds <= {int, float}:
        return values.astype("Float64")
    return values.astype("boolean" if kinds == {bool} else "string")
