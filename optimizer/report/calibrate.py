"""A calibration as tables: runs and what became of them, and how far off predictions were, are, and would have been."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console

from optimizer.own_runs.answer import CalibrationReport, ErrorChange, Figures, RunUse
from optimizer.report.text import amount_of, bullet_of_items, count, heading, make_console, make_table

LABELS = {"tpot_ms": "TPOT, ms", "ttft_ms": "TTFT, ms", "output_tok_s_total": "output tokens/s"}
MOST_RUNS = 20


def print_calibration(found: CalibrationReport, console: Console | None = None) -> None:
    """Print the runs that are used and set aside, errors before and after, and where the calibration is."""
    out = console or make_console()
    used = [run for run in found.runs if run.used]
    if not found.runs:
        out.print(f"No runs of your own are kept in {found.file}.", soft_wrap=True)
        return
    kept = amount_of(len(found.runs), "run")
    out.print(f"{len(used)} of {kept} used, of {amount_of(len(found.sources), 'file')}", style="bold")
    if used:
        _print_runs(out, used)
    _print_set_aside(out, found)
    _print_notes(out, found)
    if found.errors:
        _print_errors(out, found)
    out.print()
    out.print(_ending(found), soft_wrap=True)


def print_sources(found: CalibrationReport, console: Console | None = None) -> None:
    """Print the files whose runs are kept."""
    out = console or make_console()
    if not found.sources:
        out.print(f"No runs of your own are kept in {found.file}.", soft_wrap=True)
        return
    columns = (("file", "left"), ("format", "left"), ("added", "left"), ("runs", "right"), ("used", "right"))
    table = make_table(*columns, ("hash", "left"))
    for source in found.sources:
        figures = (f"{source.runs:,}", f"{source.used:,}", source.sha256[:12])
        table.add_row(source.name, source.format, str(source.added), *figures)
    out.print(table)
    if found.errors:
        _print_errors(out, found)


def _print_runs(out: Console, used: list[RunUse]) -> None:
    heading(out, "Runs used: measured, and predicted before and after")
    for server, runs in groupby(sorted(used, key=_server_words)[:MOST_RUNS], _server_words):
        out.print(f"{server}:")
        names = ("measured", "before", "after")
        table = make_table(("", "left"), ("", "left"), *((name, "right") for name in names))
        for run in runs:
            said = f"{_place(run)}: {run.load}, {run.tokens} tokens"
            for name, label in LABELS.items():
                one: Figures = getattr(run, name)
                if one.measured is None or one.before is None or one.after is None:
                    continue
                table.add_row(said, label, *map(count, (one.measured, one.before, one.after)))
                said = ""
        out.print(table)
    if len(used) > MOST_RUNS:
        out.print(f"... and {len(used) - MOST_RUNS:,} more; --json has all.")


def _place(run: RunUse) -> str:
    return f"{run.source}, {run.where}" if run.where else run.source


def _server_words(run: RunUse) -> str:
    return f"{run.model}, {run.layout}, {run.gpu}, {run.engine}"


def _print_set_aside(out: Console, found: CalibrationReport) -> None:
    aside = sorted((run for run in found.runs if not run.used), key=lambda run: run.why)
    if not aside:
        return
    heading(out, "Set aside")
    for why, runs in groupby(aside, lambda run: run.why):
        bullet_of_items(out, why, map(_place, runs))


def _print_notes(out: Console, found: CalibrationReport) -> None:
    of_runs = {note: run for run in reversed(found.runs) if run.used for note in run.notes}
    for note, run in reversed(of_runs.items()):
        out.print(f"Note: {_place(run)}: {note}.")
    for note in found.notes:
        out.print(f"Note: {note}.")


def _print_errors(out: Console, found: CalibrationReport) -> None:
    heading(out, "Off by, in percent of what was measured, mean / median")
    shows = any(error.left_out_mean_percent is not None for error in found.errors)
    left = (("runs left out of the fit", "right"),) if shows else ()
    table = make_table(("", "left"), ("runs", "right"), ("before", "right"), ("after", "right"), *left)
    for error in found.errors:
        pairs = [
            (error.before_mean_percent, error.before_median_percent),
            (error.after_mean_percent, error.after_median_percent),
        ]
        table.add_row(LABELS[error.quantity], f"{error.runs:,}", *map(_pair, pairs), *_left_out(error, shows))
    out.print(table)
    if shows:
        out.print("After: runs that the fit has seen. Left out: each predicted by a fit that had not seen it.")
    else:
        out.print("After: runs that the fit has seen, which flatters it; from 4 runs on, others are shown as well.")


def _pair(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.1f} / {pair[1]:.1f}"


def _left_out(error: ErrorChange, shows: bool) -> tuple[str, ...]:
    if not shows:
        return ()
    if error.left_out_mean_percent is None or error.left_out_median_percent is None:
        return ("-",)
    return (_pair((error.left_out_mean_percent, error.left_out_median_percent)),)


def _ending(found: CalibrationReport) -> str:
    if not found.runs_used:
        return "No run is left to calibrate with: the bundled coefficients count alone."
    if found.written:
        return (
            f"Written to {found.file}. Answers use it from now on and say so; SHARDWISE_CALIBRATION=off or "
            "--no-calibration does without it."
        )
    return "Nothing was written."
