"""Predicted against measured speed of a file of runs: errors by group, coverage of the interval, what was left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from optimizer.calibration_used import calibration_used
from optimizer.errors import QuestionError
from optimizer.performance.backends.protocol import ROOFLINE
from optimizer.plan import Calibration
from optimizer.scenario import SpeedSource
from optimizer.validate.speed_predict import QUANTITIES, predict_table
from optimizer.validate.speed_rows import BURST, CLOSED, contradicted, read_runs, runs_to_predict, unpredictable

GROUPS = ("scenario", "gpu", "engine", "model")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Errors(_Part):
    """How far off one quantity is over some runs.

    Attributes:
        quantity: "ttft_ms", "tpot_ms" or "output_tok_s_total".
        rows: runs that measured it.
        mean_percent, median_percent: of the absolute errors, relative to what was measured.
        bias_percent: median of the signed errors; above 0 predictions are too high.
        covered: share of runs within the 80% interval.
    """

    quantity: str
    rows: int
    mean_percent: float
    median_percent: float
    bias_percent: float
    covered: float


class Group(_Part):
    """The errors of one group of runs."""

    by: str
    name: str
    errors: tuple[Errors, ...]


class SpeedValidation(_Part):
    """What `shardwise validate speed --json` prints.

    Attributes:
        file: the file of runs.
        rows, judged: runs in it, and those predicted that measured something.
        overall: errors of all judged runs but bursts, whose TTFT is all queueing; `groups` has those apart.
        not_judged: {why: runs}.
        calibration: the user's own, where predictions rest on one.
        performance: the backend asked for; `groups` then has closed loops by the backend that answered,
            and our own model (roofline) on the very same runs.
    """

    file: str
    rows: int
    judged: int
    overall: tuple[Errors, ...]
    groups: tuple[Group, ...]
    not_judged: dict[str, int]
    calibration: Calibration | None = None
    performance: str = ROOFLINE


def validate_speed(path: Path, performance: SpeedSource | None = None) -> tuple[SpeedValidation, pd.DataFrame]:
    """Predict each run of a file, and compare; returns the summary, and the input's rows with predictions added.

    Args:
        path: the file of runs.
        performance: where speed figures come from; our own model when not given.

    Raises:
        QuestionError: the file is none of runs.
    """
    table = read_runs(path)
    reason = unpredictable(table)
    asked = performance or SpeedSource()
    rows = runs_to_predict(table[reason == ""]) if (reason == "").any() else pd.DataFrame()
    predicted = pd.DataFrame() if rows.empty else predict_table(rows, asked)
    measured = table[list(QUANTITIES)].where(table[list(QUANTITIES)] > 0)
    reason = reason.where((reason != "") | measured.notna().any(axis=1), "nothing measured")
    reason = reason.where((reason != "") | ~contradicted(table), "TPOT far below that of fewer requests on its layout")
    full = predicted.reindex(table.index)
    result = pd.concat([_as_given(path), full, reason.rename("not_judged")], axis=1)
    judged = table.join(full)[reason == ""]
    found = SpeedValidation(
        file=str(path),
        rows=len(table),
        judged=len(judged),
        overall=_errors(judged[judged["scenario"] != BURST]),
        groups=tuple(
            Group(by=by, name=str(name), errors=_errors(part))
            for by in GROUPS
            for name, part in judged.groupby(by, dropna=False)
        )
        + _by_backend(asked, rows, table, judged),
        calibration=calibration_used(),
        not_judged={str(text): int(count) for text, count in reason[reason != ""].value_counts().items()},
        performance=asked.backend,
    )
    return found, result


def _by_backend(asked: SpeedSource, rows: pd.DataFrame, table: pd.DataFrame, judged: pd.DataFrame) -> tuple[Group, ...]:
    """Return closed loops by the backend that answered, and our own model on the same runs."""
    loops = judged[judged["scenario"] == CLOSED]
    if asked == SpeedSource() or loops.empty:
        return ()
    ours = table.join(predict_table(rows.loc[loops.index]))
    found = []
    for name, part in loops.groupby("answered_by"):
        found.append(Group(by="answered_by", name=f"{name}, closed loops", errors=_errors(part)))
        if name != ROOFLINE:
            found.append(Group(by="answered_by", name=f"{ROOFLINE}, the same", errors=_errors(ours.loc[part.index])))
    return tuple(found)


def write_predicted(result: pd.DataFrame, out: Path) -> None:
    """Write rows with predictions as CSV.

    Raises:
        QuestionError: the file cannot be written.
    """
    try:
        result.to_csv(out, index=False)
    except OSError as error:
        raise QuestionError(f"{out}: cannot be written ({error})") from None


def _as_given(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _errors(judged: pd.DataFrame) -> tuple[Errors, ...]:
    found = []
    for name in QUANTITIES:
        part = judged[(judged[name] > 0) & np.isfinite(judged[f"predicted_{name}"].astype(float))]
        if part.empty:
            continue
        off = part[f"predicted_{name}"] / part[name] - 1.0
        inside = (part[name] >= part[f"predicted_{name}_low"]) & (part[name] <= part[f"predicted_{name}_high"])
        found.append(
            Errors(
                quantity=name,
                rows=len(part),
                mean_percent=float(off.abs().mean() * 100),
                median_percent=float(off.abs().median() * 100),
                bias_percent=float(off.median() * 100),
                covered=float(inside.mean()),
            )
        )
    return tuple(found)
