"""A user's own benchmarks as a calibration of their own: read, judge, keep, fit, and say how far off predictions were.

All runs that were ever given are kept and fitted together on top of the bundled coefficients. Runs that cannot be, or
that look wrong, are set aside with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from optimizer.benchmarks.read import read_benchmark
from optimizer.benchmarks.run import OPEN
from optimizer.errors import QuestionError
from optimizer.flags import CalibrateFlags
from optimizer.own_runs.answer import CalibrationReport, ErrorChange, Figures, RunUse, SourceUse
from optimizer.own_runs.complete import complete, rows_of, table_of
from optimizer.own_runs.store import Source, keep, load_sources, to_toml
from optimizer.own_runs.suspect import set_aside, without_far_ttft
from optimizer.performance.calibration.overlay import OwnFit, fit_own, left_out_groups
from optimizer.performance.efficiency import DEFAULT_ENGINE, bundled_digest, bundled_efficiencies
from optimizer.performance.own_calibration import calibration_file
from optimizer.validate.speed_predict import QUANTITIES, predict_table
from optimizer.version import __version__

Array = npt.NDArray[np.float64]

FEWEST_LEFT_OUT = 4  # runs from which on each is predicted by a fit without it


def calibrate(files: Sequence[Path], given: CalibrateFlags, *, dry_run: bool = False) -> CalibrationReport:
    """Add benchmark files to the user's own runs, and calibrate with all of them.

    Args:
        files: benchmark files; none fits the kept runs anew.
        given: what the files do not say of the server.
        dry_run: work everything out and write nothing.

    Raises:
        QuestionError: a file cannot be read, does not say enough, or none of its runs can be used.
    """
    new = [_source(path, given) for path in files]
    kept = {source.sha256: source for source in (*load_sources(), *new)}
    if not kept:
        raise QuestionError(
            "no runs are kept yet; give benchmark files, as in `shardwise calibrate bench.json --gpu ...`"
        )
    return _refit(list(kept.values()), fresh=[source.sha256 for source in new], dry_run=dry_run)


def remove(name: str, *, dry_run: bool = False) -> CalibrationReport:
    """Forget the runs of one file, and calibrate with what is left.

    Args:
        name: of the file, or the beginning of its hash.
        dry_run: write nothing.

    Raises:
        QuestionError: no file of that name is kept, or more than one is.
    """
    sources = load_sources()
    named = [one for one in sources if one.name == name or (len(name) >= 6 and one.sha256.startswith(name))]
    if not named:
        known = ", ".join(sorted({source.name for source in sources})) or "none"
        raise QuestionError(f"--remove {name!r}: no such file is kept (kept: {known})")
    if len(named) > 1:
        hashes = ", ".join(source.sha256[:12] for source in named)
        raise QuestionError(
            f"--remove {name!r}: {len(named)} files of that name are kept; name one by its hash: {hashes}"
        )
    return _refit([source for source in sources if source != named[0]], dry_run=dry_run)


def reset(*, dry_run: bool = False) -> CalibrationReport:
    """Forget all runs and the calibration; damaged files too."""
    if not dry_run:
        keep([], None)
    return _report([], None, written=False)


def kept_calibration() -> CalibrationReport:
    """Return what is kept, and the calibration as a fit of it is today, no run left out; writes nothing.

    Raises:
        QuestionError: a kept file is damaged.
    """
    return _refit(load_sources(), dry_run=True, leave_out=False)


def _source(path: Path, given: CalibrateFlags) -> Source:
    found = read_benchmark(path, given.format)
    runs = tuple(complete(run, given, path) for run in found.runs)
    name = path.name.encode("utf-8", "replace").decode()
    return Source(name=name, sha256=found.sha256, format=found.format, added=_today(), forced=given.force, runs=runs)


def _today() -> date:
    return date.today()


def _refit(
    sources: Sequence[Source], *, fresh: Sequence[str] = (), dry_run: bool, leave_out: bool = True
) -> CalibrationReport:
    if not sources:
        if not dry_run:
            keep([], None)
        return _report([], None, written=False)
    table = table_of(sources)
    why = set_aside(table)
    new = table["sha256"].isin(fresh)
    if fresh and (why[new] != "").all():
        said = [f"  - {_place(table.loc[at])}: {why[at]}" for at in table.index[new]]
        raise QuestionError(
            "none of these runs can be used, and nothing was kept (--force uses what only looks wrong):\n"
            + "\n".join(said[:20])
        )
    used = (why == "").to_numpy()
    if not used.any():
        if not dry_run:
            keep(sources, None)
        return _report(sources, _Judged(table, why, None, None), written=False)
    found = _Judged(table, why, *_fit(table[used], leave_out))
    report = _report(sources, found, written=not dry_run)
    if not dry_run:
        keep(sources, _toml(report, found))
    return report


class _Fitted:
    """A fit of the used runs, and the runs as they were fitted: far-off TTFTs left out."""

    def __init__(self, rows: pd.DataFrame, notes: pd.Series, fit: OwnFit, *, leave_out: bool) -> None:
        self.rows, self.notes, self.fit = rows, notes, fit
        self.before = predict_table(rows, efficiencies=bundled_efficiencies())
        self.after = predict_table(rows, efficiencies=fit.efficiencies())
        self.left_out = self._left_out() if leave_out and len(rows) >= FEWEST_LEFT_OUT else None

    def _left_out(self) -> pd.DataFrame:
        plain = self.rows.reset_index(drop=True)
        parts = [
            predict_table(plain[group], efficiencies=fit_own(plain, ~group).efficiencies())
            for group in left_out_groups(len(plain))
        ]
        return pd.concat(parts).sort_index().set_axis(self.rows.index)


class _Judged:
    """All runs, why some are not used, and the fit of the others."""

    def __init__(self, table: pd.DataFrame, why: pd.Series, fitted: _Fitted | None, measured: pd.DataFrame | None):
        self.table, self.why, self.fitted, self.measured = table, why, fitted, measured


def _fit(table: pd.DataFrame, leave_out: bool) -> tuple[_Fitted, pd.DataFrame]:
    rows = rows_of(table)
    rows, notes = without_far_ttft(rows, table)
    measured = table[list(QUANTITIES)].astype(float)
    measured["ttft_ms"] = rows["ttft_s"] * 1e3
    return _Fitted(rows, notes, fit_own(rows.reset_index(drop=True)), leave_out=leave_out), measured


def _place(row: pd.Series) -> str:
    return f"{row['source']}, {row['where']}" if row["where"] else str(row["source"])


def _report(sources: Sequence[Source], found: _Judged | None, *, written: bool) -> CalibrationReport:
    table, why = (found.table, found.why) if found else (pd.DataFrame({"sha256": []}), pd.Series(dtype=object))
    fitted = found.fitted if found else None
    used = table["sha256"][why == ""].value_counts()
    return CalibrationReport(
        file=str(calibration_file()),
        written=written,
        date=_today(),
        sources=tuple(
            SourceUse(
                name=source.name,
                sha256=source.sha256,
                format=source.format,
                added=source.added,
                runs=len(source.runs),
                used=int(used.get(source.sha256, 0)),
            )
            for source in sources
        ),
        runs_used=int((why == "").sum()) if found else 0,
        runs=tuple(_run_use(found, at) for at in table.index) if found else (),
        errors=_errors(found, fitted) if found and fitted else (),
        factors={level: dict(row) for level, row in fitted.fit.factors.items()} if fitted else {},
        notes=_notes(found) if found else (),
    )


def _run_use(found: _Judged, at: Any) -> RunUse:
    row, fitted = found.table.loc[at], found.fitted
    used = found.why[at] == "" and fitted is not None
    figures = {}
    for name in QUANTITIES:
        predicted = (fitted.before, fitted.after) if used and fitted is not None else ()
        before, after = (_known(part.loc[at, f"predicted_{name}"]) for part in predicted) if predicted else (None, None)
        figures[name] = Figures(measured=_known(row[name]), before=before, after=after)
    notes = [str(fitted.notes[at])] if used and fitted is not None and fitted.notes[at] else []
    if not isinstance(row["engine_version"], str):
        notes.append(f"no engine version was given: taken to be {row['engine']} of today")
    return RunUse(
        source=str(row["source"]),
        where=str(row["where"]),
        model=str(row["model"]),
        engine=f"{row['engine']} {row['engine_version']}" if isinstance(row["engine_version"], str) else row["engine"],
        gpu=str(row["gpu"]),
        layout=_layout(row),
        load=f"{row['request_rate']:g}/s" if row["scenario"] == OPEN else _in_flight(row),
        tokens=f"{row['isl']:,.0f} + {row['osl']:,.0f}",
        used=bool(used),
        why=str(found.why[at]),
        notes=tuple(notes),
        **figures,
    )


def _known(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _layout(row: pd.Series) -> str:
    sizes = [f"{name}{row[field]}" for name, field in (("TP", "tp"), ("PP", "pp"), ("EP", "ep"), ("DP", "attn_dp"))]
    shown = [size for size in sizes if size.startswith("TP") or not size.endswith(("P1", "EP1"))]
    replicas = row["n_gpus"] // (row["tp"] * row["pp"] * row["attn_dp"])
    return f"{row['weight_precision']} {' '.join(shown)}" + (f" x {replicas}" if replicas > 1 else "")


def _in_flight(row: pd.Series) -> str:
    at_once = row["concurrency"] if np.isfinite(row["concurrency"]) else row["batch"]
    return f"{at_once:g} at once" if np.isfinite(at_once) else "full load"


def _errors(found: _Judged, fitted: _Fitted) -> tuple[ErrorChange, ...]:
    changes = []
    for name in QUANTITIES:
        measured = found.measured[name] if found.measured is not None else pd.Series(dtype=float)
        known = (measured > 0).to_numpy()
        if not known.any():
            continue
        parts = (fitted.before, fitted.after, fitted.left_out)
        off = [None if part is None else _off(part[f"predicted_{name}"], measured, known) for part in parts]
        figures = [None if one is None else (float(one.mean()), float(np.median(one))) for one in off]
        before, after, left_out = figures
        changes.append(
            ErrorChange(
                quantity=name,
                runs=int(known.sum()),
                before_mean_percent=before[0] if before else 0.0,
                before_median_percent=before[1] if before else 0.0,
                after_mean_percent=after[0] if after else 0.0,
                after_median_percent=after[1] if after else 0.0,
                left_out_mean_percent=left_out[0] if left_out else None,
                left_out_median_percent=left_out[1] if left_out else None,
            )
        )
    return tuple(changes)


def _off(predicted: pd.Series, measured: pd.Series, known: npt.NDArray[np.bool_]) -> Array:
    off: Array = np.abs(predicted[known].to_numpy(dtype=np.float64) / measured[known].to_numpy() - 1.0) * 100.0
    return off


def _notes(found: _Judged) -> tuple[str, ...]:
    engines = sorted(set(found.table["engine"][found.why == ""]) - {DEFAULT_ENGINE})
    if not engines:
        return ()
    return (
        f"solve and predict speak of {DEFAULT_ENGINE}: of runs of {', '.join(engines)} they take over what all engines "
        "on that GPU share",
    )


def _toml(report: CalibrationReport, found: _Judged) -> str:
    fitted = found.fitted
    own = fitted.fit.own if fitted else {}
    head = {
        "date": report.date,
        "shardwise": __version__,
        "bundled_sha256": bundled_digest(),
        "runs": report.runs_used,
        "gpus": sorted({run.gpu for run in report.runs if run.used}),
    }
    runs = [
        {
            "source": run.source,
            "where": run.where or None,
            **{f"{name}_before_percent": _percent(one.before, one.measured) for name, one in _figures(run)},
            **{f"{name}_after_percent": _percent(one.after, one.measured) for name, one in _figures(run)},
        }
        for run in report.runs
        if run.used
    ]
    sources = [one.model_dump() for one in report.sources]
    errors = [_rounded(one.model_dump()) for one in report.errors]
    return to_toml(head, sources, runs, errors, own, report.factors)


def _figures(run: RunUse) -> tuple[tuple[str, Figures], ...]:
    return (("tpot", run.tpot_ms), ("ttft", run.ttft_ms), ("output_tok_s", run.output_tok_s_total))


def _percent(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or measured is None else round((predicted / measured - 1.0) * 100.0, 1)


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in values.items()}
