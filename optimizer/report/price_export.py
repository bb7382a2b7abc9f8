"""Writing prices to a file: CSV that no spreadsheet takes for formulas, or Parquet."""

from __future__ import annotations

import io
from datetime import date
from pathlib import Path

import pandas as pd

from catalogs.history import open_history
from catalogs.offer_files import PRICE_COLUMNS
from catalogs.offers import load_offers
from optimizer.errors import QuestionError
from optimizer.report.catalog import safe_cell
from optimizer.user_files import write_whole


def export_prices(out: Path, as_of: date | None) -> int:
    """Write every period of the history, or the offers of a day, by the ending of the file; returns the rows.

    The offers of a day are written as `--offers-file` and `prices import --format shardwise` read them.

    Raises:
        QuestionError: the ending is neither .csv nor .parquet, pyarrow is missing, or the file cannot be written.
    """
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise QuestionError(f"{out}: expected a name that ends in .csv or .parquet")
    if as_of is None:
        with open_history() as history:
            frame = history.periods(by_price=False)
    else:
        frame = load_offers(as_of).frame[list(PRICE_COLUMNS)]
        frame = frame.assign(seen_on=frame["seen_on"].dt.date)
    data = _csv(frame) if out.suffix.lower() == ".csv" else _parquet(frame)
    try:
        write_whole(out, data)
    except OSError as error:
        raise QuestionError(f"{out}: cannot be written: {error.strerror or error}") from None
    return len(frame)


def _csv(frame: pd.DataFrame) -> bytes:
    safe = frame.copy()
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]) and not pd.api.types.is_datetime64_any_dtype(safe[name]):
            safe[name] = safe[name].map(safe_cell)
    return safe.to_csv(index=False, lineterminator="\n").encode()


def _parquet(frame: pd.DataFrame) -> bytes:
    try:
        import pyarrow  # noqa: F401, PLC0415  pandas names no install line of ours
    except ImportError:
        raise QuestionError("a .parquet file needs pyarrow: pip install 'shardwise[parquet]'") from None
    file = io.BytesIO()
    frame.to_parquet(file, index=False)
    return file.getvalue()
