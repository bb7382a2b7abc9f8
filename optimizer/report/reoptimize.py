"""Saved plans at today's prices, as a table and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from optimizer.reoptimize.answer import PlanVerdict, Reoptimization
from optimizer.reoptimize.decide import hours_words
from optimizer.report.text import amount_of, bullet_line, dollars, heading, make_console, make_table

WORDS = {"keep": "keep", "switch": "switch", "invalid": "NOT VALID", "infeasible": "NO ANSWER", "failed": "failed"}
COLUMNS = ("plan", "verdict", "then $/h", "now $/h", "best $/h", "saves/month", "pays back")


def print_reoptimization(found: Reoptimization) -> None:
    """Print verdicts as a table, then what there is to do about each plan that should not be kept."""
    console = make_console()
    console.print(_title(found), style="bold")
    for source in found.sources:
        if source.status not in ("fresh", "unchanged"):
            bullet_line(console, f"source {source.name} {source.status}: {source.message}")
    table = make_table((COLUMNS[0], "left"), (COLUMNS[1], "left"), *((name, "right") for name in COLUMNS[2:]))
    for name, verdict in zip(_names(found), found.plans, strict=True):
        table.add_row(name, *_cells(verdict))
    console.print(table)
    if said := [(name, one) for name, one in zip(_names(found), found.plans, strict=True) if _is_news(one)]:
        heading(console, "Why")
        for name, one in said:
            bullet_line(console, f"{name}: {one.why}")
            for note in () if one.figures is None else one.figures.notes:
                bullet_line(console, f"{name}: {note}")
    for warning in found.warnings:
        console.print(f"Warning: {warning}")
    console.print()
    console.print(_rules_words(found))


def _title(found: Reoptimization) -> str:
    solved = sum(one.resolved for one in found.plans)
    unchanged = sum(not one.resolved and one.verdict != "failed" for one in found.plans)
    counts = ", ".join(f"{count} {WORDS[name].lower()}" for name, count in found.counts.items() if count)
    what = f"{amount_of(len(found.plans), 'plan')} at the prices of {found.as_of}: {counts}"
    return f"{what} ({solved} solved anew, {unchanged} with no price changed that matters)"


def _names(found: Reoptimization) -> list[str]:
    """Return plan files by the shortest names that tell them apart: without the folder that they share."""
    files = [one.file for one in found.plans]
    folders = {str(Path(name).parent) for name in files}
    shared = os.path.commonpath(folders) if len({Path(name).is_absolute() for name in folders}) == 1 else ""
    names = [Path(name).relative_to(shared) if shared not in ("", ".") else Path(name) for name in files]
    return [str(name.with_suffix("") if name.suffix == ".json" else name) for name in names]


def _cells(verdict: PlanVerdict) -> Sequence[str]:
    said = WORDS[verdict.verdict] + (" (waiting)" if verdict.waiting else "")
    if verdict.figures is None:
        return (said, "-", "-", "-", "-", "-")
    figures = verdict.figures
    back = verdict.payback_hours if verdict.saving_usd_per_hour else None
    return (
        said,
        dollars(figures.usd_per_hour_then),
        dollars(figures.usd_per_hour_now),
        dollars(figures.best_usd_per_hour),
        dollars(verdict.saving_usd_per_month if verdict.saving_usd_per_hour else None),
        "-" if back is None or back <= 0 else hours_words(back),
    )


def _is_news(verdict: PlanVerdict) -> bool:
    return verdict.verdict != "keep" or bool(verdict.saving_usd_per_hour)


def _rules_words(found: Reoptimization) -> str:
    rules = found.rules
    words = (
        f"A switch is worth it where it saves {100 * rules.min_saving:.3g}% or more and earns its cost of "
        f"{dollars(rules.switch_cost_usd)} back within {hours_words(rules.horizon_hours)}"
    )
    if rules.at_once:
        return f"{words}, at the first look."
    return f"{words}, seen at two looks in a row (or at once where it saves {200 * rules.min_saving:.3g}%)."


def markdown(found: Reoptimization) -> str:
    """Return the same as a Markdown document."""
    lines = [f"# {_cell(_title(found))}", ""]
    lines += [f"| {' | '.join(COLUMNS)} |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    for name, verdict in zip(_names(found), found.plans, strict=True):
        lines.append(f"| {' | '.join(map(_cell, (name, *_cells(verdict))))} |")
    lines += [""]
    for name, verdict in zip(_names(found), found.plans, strict=True):
        if _is_news(verdict):
            lines.append(f"- **{_cell(name)}**: {_cell(verdict.why)}")
            lines += [f"  - {_cell(note)}" for note in (() if verdict.figures is None else verdict.figures.notes)]
    asked = [f"- source {one.name} {one.status}: {_cell(one.message)}" for one in found.sources if one.message]
    lines += [*asked, *(f"- Warning: {_cell(one)}" for one in found.warnings), "", _rules_words(found), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
