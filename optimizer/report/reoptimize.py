"""Saved plans at today's prices, as a table and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from optimizer.reoptimize.answer import PlanVerdict, Reoptimization, SourceOutcome
from optimizer.reoptimize.decide import hours_words
from optimizer.report.text import amount_of, bullet_line, dollars, heading, make_console, make_table

WORDS = {"keep": "keep", "switch": "switch", "invalid": "NOT VALID", "infeasible": "NO ANSWER", "failed": "failed"}
COLUMNS = ("plan", "verdict", "then $/h", "now $/h", "best $/h", "saves/month", "pays back")


def print_reoptimization(found: Reoptimization) -> None:
    """Print verdicts as a table, then what there is to do about each plan that should not be kept."""
    console = make_console()
    console.print(_title(found), style="bold")
    if found.sources:
        console.print(_sources_words(found.sources))
    table = make_table((COLUMNS[0], "left"), (COLUMNS[1], "left"), *((name, "right") for name in COLUMNS[2:]))
    table.columns[0].overflow = "fold"
    for name, verdict in zip(_names(found), found.plans, strict=True):
        table.add_row(name, *_cells(verdict))
    console.print(table)
    if said := [(name, one) for name, one in zip(_names(found), found.plans, strict=True) if _is_news(one)]:
        heading(console, "Why")
        for name, one in said:
            bullet_line(console, f"{name}: {one.why}")
            for note in _notes(one):
                bullet_line(console, f"{name}: {note}")
    if old := _ages_words(found):
        console.print()
        console.print(old)
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


def _notes(verdict: PlanVerdict) -> tuple[str, ...]:
    return () if verdict.figures is None else verdict.figures.notes


def _sources_words(sources: Sequence[SourceOutcome]) -> str:
    """Say what pulling prices came to; why each failed is in the JSON and in `shardwise prices sources`."""
    by: dict[str, list[str]] = {}
    for one in sources:
        by.setdefault(one.status, []).append(one.name)
    good = len(by.get("fresh", ())) + len(by.get("unchanged", ()))
    words = [f"Prices of {good} of {amount_of(len(sources), 'source')} pulled"]
    words += [
        f"{status}: {', '.join(sorted(by[status]))}" for status in ("partial", "failed", "skipped") if status in by
    ]
    return "; ".join(words) + "."


def _ages_words(found: Reoptimization) -> str:
    """Warn of old prices among those that verdicts rest on; empty where there are none."""
    days = [one.figures.seen_on for one in found.plans if one.figures is not None and one.figures.stale]
    if not (seen := [day for day in days if day is not None]):
        return ""
    age = (found.as_of - min(seen)).days
    what = f"{amount_of(len(seen), 'verdict')} {'rests' if len(seen) == 1 else 'rest'}"
    return f"{what} on prices that are up to {age} days old (seen {min(seen)}): check them before you switch."


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
            lines += [f"  - {_cell(note)}" for note in _notes(verdict)]
    said = [_sources_words(found.sources) if found.sources else "", _ages_words(found)]
    lines += [f"- {_cell(one)}" for one in said if one]
    lines += [*(f"- Warning: {_cell(one)}" for one in found.warnings), "", _rules_words(found), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
