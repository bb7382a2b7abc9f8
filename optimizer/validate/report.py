"""A validation as tables: errors by column, rows that are off or were decided wrongly, rows not judged and why."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from optimizer.report.text import make_console, make_table
from optimizer.validate.outcome import Validation

LABELS = {"weights_gib_per_gpu": "weights", "kv_tokens": "KV tokens", "max_concurrency": "concurrency"}
OFF = {"weights_error": 0.02, "kv_tokens_error": 0.12, "max_concurrency_error": 0.12}


def print_validation(found: Validation, console: Console | None = None) -> None:
    """Print a validation: summary, rows outside the limits, rows not judged."""
    out = console or make_console()
    out.print(f"{len(found.rows)} reports of {found.file}")
    out.print(_summary(found))
    fits = found.fits
    agreement = f"{fits.agreement:.1%}" if fits.agreement is not None else "-"
    out.print(f"fits: {fits.right} of {fits.judged} right ({agreement}); {fits.observed} reports say yes or no.")
    if fits.wrong:
        out.print(f"Wrong: {', '.join(fits.wrong)}.")
    off = [row for row in found.rows if any(abs(getattr(row, name) or 0) > most for name, most in OFF.items())]
    if off:
        out.print()
        out.print("Outside 2% (weights) or 12% (KV tokens, concurrency):")
        table = make_table(("case", "left"), ("weights", "right"), ("KV tokens", "right"), ("concurrency", "right"))
        for row in off:
            table.add_row(row.case_id, *(_signed(getattr(row, name)) for name in OFF))
        out.print(table)
    left = [row for row in found.rows if row.not_judged]
    if left:
        out.print()
        out.print("Not judged:")
        for row in left:
            out.print(f"  {row.case_id}: {'; '.join(row.not_judged)}", markup=False)


def _summary(found: Validation) -> Table:
    table = make_table(
        ("column", "left"), ("reports", "right"), ("judged", "right"), ("median", "right"), ("p90", "right"),
        ("largest", "right"), ("<= 2%", "right"), ("<= 5%", "right"), ("<= 12%", "right"),
    )  # fmt: skip
    for column in found.columns:
        table.add_row(
            LABELS[column.column], str(column.observed), str(column.judged), _share(column.median_error),
            _share(column.p90_error), _share(column.largest_error), _share(column.within_2_percent),
            _share(column.within_5_percent), _share(column.within_12_percent),
        )  # fmt: skip
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"
