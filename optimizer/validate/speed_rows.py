"""Measured runs of a file, as replicas to predict, and why some cannot be predicted or judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from catalogs.errors import CatalogError
from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.performance.calibration.observations import (
    CLOSED_LOOP,
    FULL_LOAD,
    OPEN_LOOP,
    STATIC,
    benchmark_rows,
    canonical_gpu,
    model_name,
)
from optimizer.performance.calibration.slots import with_slots

CLOSED, OPEN, BURST = CLOSED_LOOP, OPEN_LOOP, "offline_burst_all_requests"
PREDICTED = (CLOSED, STATIC, FULL_LOAD, OPEN, BURST)
# What tells layouts of a file apart.
LAYOUT = ("engine", "gpu", "n_gpus", "tp", "pp", "ep", "attn_dp", "weight_precision")
FAR_BELOW = 0.6
NEEDED = ("engine", "model", "gpu", "n_gpus", "tp", "isl", "osl", "scenario")
# Columns that a file may lack: text, and numbers.
TEXT = ("set", "engine_version", "weight_precision", "kv_precision", "len_dist")
NUMBERS = ("pp", "ep", "attn_dp", "concurrency", "batch", "request_rate", "ttft_ms", "tpot_ms", "output_tok_s_total")


def read_runs(path: Path) -> pd.DataFrame:
    """Read a file in the columns of a serving benchmark.

    Raises:
        QuestionError: the file cannot be read, holds no rows, or lacks columns that every prediction needs.
    """
    try:
        table = pd.read_csv(path, low_memory=False)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise QuestionError(f"{path}: cannot be read as CSV ({error})") from None
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise QuestionError(f"{path}: no column {', '.join(missing)}; needed: {', '.join(NEEDED)}")
    if table.empty:
        raise QuestionError(f"{path}: no rows")
    for name in TEXT:
        table[name] = table.get(name, np.nan)
    for name in ("n_gpus", "tp", "isl", "osl", *NUMBERS):
        given = table[name] if name in table else pd.Series(np.nan, index=table.index)
        table[name] = pd.to_numeric(given, errors="coerce")
    return table


def unpredictable(table: pd.DataFrame) -> pd.Series:
    """Return why each run cannot be predicted; empty where it can."""
    reason = pd.Series("", index=table.index, dtype=object)
    gpus = {name: _gpu_problem(name) for name in table["gpu"].unique()}
    models = {name: _model_problem(name) for name in table["model"].unique()}
    batch = table["concurrency"].fillna(table["batch"])
    waits = table["scenario"].isin((CLOSED, STATIC))
    parts = table["tp"] * table["pp"].fillna(1) * table["attn_dp"].fillna(1)
    checks = {
        "scenario is none that is predicted": ~table["scenario"].isin(PREDICTED),
        "no lengths": ~((table["isl"] >= 1) & (table["osl"] >= 1)),
        "no GPUs or tensor parallel size": ~((table["n_gpus"] >= 1) & (table["tp"] >= 1)),
        "more GPUs in a replica than there are": parts > table["n_gpus"],
        "no concurrency": waits & ~(batch > 0),
        "no request rate": (table["scenario"] == OPEN) & ~(table["request_rate"] > 0),
    }
    for text, broken in checks.items():
        reason = reason.where((reason != "") | ~broken, text)
    reason = reason.where(reason != "", table["gpu"].map(gpus))
    return reason.where(reason != "", table["model"].map(models) if len(models) > 1 else models[table["model"].iloc[0]])


def runs_to_predict(table: pd.DataFrame) -> pd.DataFrame:
    """Return predictable runs as replicas, with `slots`, and `batch` filled in where the engine picks it."""
    rows = benchmark_rows(table)
    rows["rate"] = table["request_rate"] / rows["replicas"]
    rows["batch"] = rows["batch"].where(rows["scenario"].isin((CLOSED, STATIC)))
    return with_slots(rows)


def _gpu_problem(name: object) -> str:
    try:
        canonical_gpu(str(name))
    except CatalogError:
        return f"unknown GPU {name}"
    return ""


def _model_problem(name: object) -> str:
    if not isinstance(name, str):
        return "no model named"
    try:
        load_model(model_name(name, ""))
    except CatalogError:
        return f"unknown model {name}"
    return ""


def contradicted(table: pd.DataFrame) -> pd.Series:
    """Return which closed loops say a TPOT far below that of fewer requests on the same layout.

    More requests in flight make no step shorter. A run below FAR_BELOW of two runs that had fewer requests measured
    something else, such as requests that ended early; two, so that one slow run does not condemn those after it.
    """
    found = pd.Series(False, index=table.index)
    loops = table[(table["scenario"] == CLOSED) & (table["tpot_ms"] > 0) & (table["concurrency"] > 0)]
    names = [name for name in (*LAYOUT, "model", "isl", "osl") if name in loops]
    for _, cell in loops.groupby(names, dropna=False):
        by_load = cell.groupby("concurrency")["tpot_ms"].median()
        for position in range(2, len(by_load)):
            second = float(by_load.iloc[:position].nlargest(2).iloc[1])
            at = cell.index[cell["concurrency"] == by_load.index[position]]
            found[at] = cell.loc[at, "tpot_ms"] < FAR_BELOW * second
    return found
