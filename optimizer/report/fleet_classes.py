"""A fleet's classes of traffic: what each asks, and what it gets on each pool that serves it."""

from __future__ import annotations

from rich.console import Console

from optimizer.fleet.plan import ClassAnswer, FleetPlan, Served
from optimizer.report.fleet_words import LEAST_SHARE
from optimizer.report.text import count, heading, make_table, milliseconds

MOST_CLASSES = 24  # shown; --json has all
LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


def print_classes(out: Console, plan: FleetPlan) -> None:
    """Print what each class asks and what each pool does for it."""
    levels = {str(one.targets.get("at") or "mean") for one in plan.classes}
    at = levels.pop() if len(levels) == 1 else "at the level of each target"
    heading(out, f"Traffic, and what is predicted for it on each pool at its own mix ({at})")
    largest = sorted(plan.classes, key=lambda one: -max(one.requests_per_second_by_period))[:MOST_CLASSES]
    models = list(dict.fromkeys(one.model for one in plan.classes if one in largest))
    for model in models:
        if len(models) > 1:
            out.print(f"{model}:")
        table = make_table(
            ("class", "left"), ("requests/s", "right"), ("", "right"), ("TTFT", "right"), ("TPOT", "right"),
            ("end to end", "right"), ("", "left"),
        )  # fmt: skip
        table.columns[0].overflow = "fold"  # a name may be one long word
        for one in plan.classes:
            if one in largest and one.model == model:
                for row in _class_rows(plan, one):
                    table.add_row(*row)
        out.print(table)
    if len(plan.classes) > MOST_CLASSES:
        out.print(f"The {MOST_CLASSES} largest of {len(plan.classes)} classes; --json has all.")


def _class_rows(plan: FleetPlan, one: ClassAnswer) -> list[list[str]]:
    """Return a row with what a class asks, and one for each pool with what it gets there."""
    asked = [milliseconds(one.targets.get(name)) for name in LATENCIES]
    rows = [["", _rates(one), "asked", *asked, ""]]
    for pool in plan.pools:
        for served in pool.serves:
            if (pool.model, served.class_name) == (one.model, one.name) and served.share >= LEAST_SHARE:
                got = [milliseconds(getattr(served, name)) for name in LATENCIES]
                rows.append(["", "", pool.id, *got, _verdict(one, served)])
    # What is said of the class goes on beside what the pools do.
    lines = _class_words(one)
    for position, row in enumerate(rows):
        row[0] = "\n".join(lines[position:] if position == len(rows) - 1 else lines[position : position + 1])
    return rows


def _class_words(one: ClassAnswer) -> list[str]:
    lines = [one.name]
    if not (" in, " in one.name and one.name.endswith(" out")):  # a name that says the lengths already
        lines.append(f"{one.input_tokens:,} in, {one.output_tokens:,} out")
    return lines + ([f"only in {', '.join(one.regions)}"] if one.regions else [])


def _verdict(one: ClassAnswer, served: Served) -> str:
    if all(one.targets.get(name) is None for name in LATENCIES):
        return ""
    return "holds" if served.holds else "MISSED"


def _rates(one: ClassAnswer) -> str:
    low, high = min(one.requests_per_second_by_period), max(one.requests_per_second_by_period)
    return count(high) if low == high else f"{count(low)}-{count(high)}"
