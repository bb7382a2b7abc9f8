"""A whole file of reports: predicted, compared, summarized, and written back with its predictions beside it."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from optimizer.errors import QuestionError
from optimizer.validate.cases import PREDICTED, Reports, read_reports
from optimizer.validate.predict import predict
from optimizer.validate.score import ColumnSummary, FitsSummary, RowOutcome, outcome, summarize, summarize_fits


class Validation(BaseModel):
    """What `shardwise validate memory --json` prints.

    Attributes:
        file: the file that was read.
        rows: every report, in the file's order.
        columns: errors by column.
        fits: how often fits was right.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    rows: tuple[RowOutcome, ...]
    columns: tuple[ColumnSummary, ...]
    fits: FitsSummary


def validate_file(path: Path) -> Validation:
    """Predict every report of a file and compare.

    Raises:
        DataFileError: the file is no file of reports; names every problem.
    """
    reports = read_reports(path)
    rows = tuple(outcome(row, predict(row)) for row in reports.rows)
    return Validation(file=str(path), rows=rows, columns=summarize(rows), fits=summarize_fits(rows))


def write_predictions(path: Path, out: Path, found: Validation) -> None:
    """Write the reports of `path` with their predictions to `out`: every column, in order, then the predicted ones.

    Whole or not at all: a file beside it is written first and then takes its place.

    Raises:
        DataFileError: `path` cannot be read any more.
        QuestionError: `out` cannot be written.
    """
    reports = read_reports(path)
    handle, beside = -1, ""
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{out.name}.", suffix=".part", dir=out.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            _write(reports, found, file)
        # mkstemp makes a private file; what the user asked for is an ordinary one.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(beside, 0o666 & ~umask)
        os.replace(beside, out)
    except OSError as error:
        if beside:
            Path(beside).unlink(missing_ok=True)
        raise QuestionError(f"--out {out}: cannot be written: {error.strerror or error}") from None


def _write(reports: Reports, found: Validation, file: object) -> None:
    writer = csv.writer(file, lineterminator="\n")  # type: ignore[arg-type]
    writer.writerow([*reports.columns, *PREDICTED])
    for row, one in zip(reports.rows, found.rows, strict=True):
        writer.writerow([*(row[name] for name in reports.columns), *_cells(one)])


def _cells(row: RowOutcome) -> list[str]:
    weights, tokens, most = row.predicted_weights_gib_per_gpu, row.predicted_kv_tokens, row.predicted_max_concurrency
    return [
        "" if weights is None else f"{weights:.4f}",
        "" if tokens is None else str(tokens),
        "" if most is None else f"{most:.2f}",
        row.predicted_fits,
        row.reason,
        "; ".join(row.not_judged),
    ]
