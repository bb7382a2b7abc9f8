"""The summary of a speed validation as tables."""

from __future__ import annotations

from rich.console import Console

from optimizer.report.text import calibration_words, heading, make_console, make_table
from optimizer.validate.speed import Errors, SpeedValidation
from optimizer.validate.speed_decisions import Decisions

LABELS = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "output_tok_s_total": "output tokens/s"}


def print_speed_validation(found: SpeedValidation, console: Console | None = None) -> None:
    """Print errors over all runs and by group, and how many runs were left out for which reason."""
    out = console or make_console()
    out.print(f"{found.judged:,} of {found.rows:,} runs judged; errors in percent of what was measured.", style="bold")
    out.print("Covered: share of runs within the predicted 80% interval.")
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))
    _print(out, [("all but bursts", found.overall)])
    for by in dict.fromkeys(group.by for group in found.groups):
        heading(out, f"By {by}")
        _print(out, [(group.name, group.errors) for group in found.groups if group.by == by])
    if found.not_judged:
        heading(out, "Not judged")
        table = make_table(("why", "left"), ("runs", "right"))
        for text, count in found.not_judged.items():
            table.add_row(text, f"{count:,}")
        out.print(table)


def print_decisions(found: Decisions, console: Console | None = None) -> None:
    """Print how good the choices are that predictions make."""
    out = console or make_console()
    out.print(f"{found.questions:,} choices of a layout, each for a model, lengths and a TPOT target.", style="bold")
    table = make_table(("", "left"), ("", "right"))
    table.add_row("the cheapest is chosen", f"{found.same:,}")
    table.add_row("the chosen layout really misses the target", f"{found.missed:,}")
    table.add_row("no layout is seen to meet the target", f"{found.unanswered:,}")
    table.add_row("regret, mean", f"{found.mean_regret_percent:.1f}%")
    table.add_row("regret, median", f"{found.median_regret_percent:.1f}%")
    table.add_row("regret, worst", f"{found.worst_regret_percent:.1f}%")
    out.print(table)


def _print(out: Console, groups: list[tuple[str, tuple[Errors, ...]]]) -> None:
    names = ("runs", "mean", "median", "bias", "covered")
    table = make_table(("", "left"), ("of", "left"), *((name, "right") for name in names))
    for name, errors in groups:
        for position, one in enumerate(errors):
            table.add_row(
                "" if position else name,
                LABELS[one.quantity],
                f"{one.rows:,}",
                f"{one.mean_percent:.1f}",
                f"{one.median_percent:.1f}",
                f"{one.bias_percent:+.1f}",
                f"{one.covered:.0%}",
            )
    out.print(table)
