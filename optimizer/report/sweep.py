"""A sweep as a table: what the cheapest layout is at each value, and where it changes."""

from __future__ import annotations

import itertools
from typing import Any

from rich.console import Console

from optimizer.report.text import amount_of, dollars, heading, make_console, make_table, share
from optimizer.split import Split
from optimizer.whatif.chunks import Row
from optimizer.whatif.sweep import Sweep
from optimizer.wording import split_words

SOLVED = ("optimal", "feasible")
MOST_ROWS = 40
MOST_COLUMNS = 6  # values of a second field that stand beside each other
COLUMN_WIDTH = 13
LAYOUT = ("gpu", "gpus_per_node", "weights", "kv_cache", "tp", "pp", "ep", "attention_dp")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def print_sweep(found: Sweep, *, most_rows: int = MOST_ROWS, console: Console | None = None) -> None:
    """Print a sweep.

    Args:
        found: the sweep.
        most_rows: the most rows of a table; 0 shows all.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    _print_head(out, found)
    rows = found.table()
    most = most_rows or len(rows)
    fields = [varied.field for varied in found.varied]
    if len(fields) == 1 and len(rows) > most:
        _print_stretches(out, rows, fields[0], most)
    elif len(fields) == 1:
        _print_list(out, rows, fields, most)
    elif len(fields) == 2 and _fits_across(out, found):
        _print_across(out, rows, found, most)
    elif len(fields) == 2:
        _print_list(out, rows, fields, most)
    else:
        _print_by_value(out, rows, found, most)
    _print_refused(out, rows, fields)
    out.print()
    if unproved := [row["gap"] for row in rows if row["status"] == "feasible"]:
        said = f"{amount_of(len(unproved), 'point')} not proved within the time limit, by a gap of at most"
        out.print(f"{said} {max(unproved):.2%}: differences within it are no savings.")
    for what, mark in found.marks.items():
        if what.startswith("prices of"):
            out.print(f"{what.capitalize()}: {mark.partition(', ')[2]}.")
    out.print(f"{amount_of(len(rows), 'row')} in {found.file}", style="bold")


def _print_head(out: Console, found: Sweep) -> None:
    counts = ", ".join(f"{number:,} {status}" for status, number in found.counts.items())
    kept = f", {found.kept:,} of them kept from an interrupted run" if found.kept else ""
    over = " x ".join(f"{varied.field} ({len(varied.values):,})" for varied in found.varied)
    out.print(f"{amount_of(len(found.rows), 'point')} over {over}: {counts}{kept}")


def _noun(rows: list[Row]) -> str:
    return "fleet" if "kinds" in rows[0] else "layout"


def layout_of(row: Row) -> tuple[Any, ...] | None:
    """Return what makes one layout another: where it is rented, on what, and how the model is split; not how many."""
    if row["status"] not in SOLVED:
        return None
    if "kinds" in row:
        return (row["kinds"],)
    return tuple(row[name] for name in ("provider", "region", "instance_type", "term", *LAYOUT) if name in row)


def layout_words(row: Row) -> str:
    """Say a layout, or a fleet, without how many of it."""
    if "kinds" in row:
        return str(row["kinds"])
    split = split_words(Split(row["weights"], row["kv_cache"], row["tp"], row["pp"], row["ep"], row["attention_dp"]))
    per_node = row["gpus"] // row["nodes"]
    term = "" if row["term"] == "on-demand" else f" {row['term']}"
    return f"{per_node}x {row['gpu']} ({row['provider']}{term}), {split}"


def shown(value: Any) -> str:
    """Say a value of a varied field."""
    if value is None:
        return "none"
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)


def _why_not(row: Row) -> str:
    if row["status"] == "infeasible":
        return f"infeasible: {str(row['conflict']).replace('+', ' + ')}"
    return f"{row['status']}: {row['message']}"


def _print_list(out: Console, rows: list[Row], fields: list[str], most: int) -> None:
    """A line a point: its cost and its layout, said where it changes."""
    heading(out, f"Cheapest {_noun(rows)} by value (* where it is another than in the row above)")
    table = make_table(
        *((field.rpartition(".")[2], "right") for field in fields),
        ("$/hour", "right"),
        ("$/M out", "right"),
        ("GPUs", "right"),
        ("load", "right"),
        ("", "left"),
        (_noun(rows), "left"),
    )
    before: tuple[Any, ...] | None = ()
    for row in rows[:most]:
        values = [shown(row[field]) for field in fields]
        now, changed = layout_of(row), layout_of(row) != before
        if now is None:
            table.add_row(*values, "-", "-", "-", "-", "", _why_not(row))
        else:
            table.add_row(
                *values,
                dollars(row["usd_per_hour"]),
                dollars(row["usd_per_million_output_tokens"]),
                f"{row['gpus']:,}",
                share(row["utilization"]),
                "*" if changed and before != () else "",
                layout_words(row) if changed else "same",
            )
        before = now
    out.print(table)
    _say_more(out, len(rows), most)


def _print_stretches(out: Console, rows: list[Row], field: str, most: int) -> None:
    """A line for each stretch of values that have one layout, where there are too many values for a line each."""
    heading(out, f"Cheapest {_noun(rows)} by stretch of values")
    table = make_table(
        (field.rpartition(".")[2], "right"), ("$/hour", "right"), ("GPUs", "right"), ("", "left"), (_noun(rows), "left")
    )
    stretches = [list(same) for _, same in itertools.groupby(rows, lambda row: (layout_of(row), row["conflict"]))]
    for place, same in enumerate(stretches[:most]):
        values = _from_to([shown(row[field]) for row in same])
        if layout_of(same[0]) is None:
            table.add_row(values, "-", "-", "", _why_not(same[0]))
            continue
        costs = _from_to([dollars(row["usd_per_hour"]) for row in same])
        gpus = _from_to([f"{row['gpus']:,}" for row in same])
        table.add_row(values, costs, gpus, "*" if place else "", layout_words(same[0]))
    out.print(table)
    _say_more(out, len(stretches), most)


def _from_to(said: list[str]) -> str:
    return said[0] if said[0] == said[-1] else f"{said[0]} - {said[-1]}"


def _fits_across(out: Console, found: Sweep) -> bool:
    amount = len(found.varied[1].values)
    return amount <= MOST_COLUMNS and COLUMN_WIDTH * (amount + 1) <= out.width


def _print_across(out: Console, rows: list[Row], found: Sweep, most: int) -> None:
    """A line for each value of the first field, a column for each of the second: cost and a letter for the layout."""
    first, second = (varied.field for varied in found.varied)
    across = found.varied[1].values
    what = _noun(rows)
    heading(out, f"$/hour of the cheapest {what}, by {second}; letters are {what}s, * where it changes down a column")
    table = make_table((first.rpartition(".")[2], "right"), *((shown(value), "right") for value in across))
    letters: dict[tuple[Any, ...], str] = {}
    words: dict[str, str] = {}
    above: list[Any] = [()] * len(across)
    lines = range(min(most, len(found.varied[0].values)))
    for line in lines:
        cells = []
        for column in range(len(across)):
            row = rows[line * len(across) + column]
            now = layout_of(row)
            if now is None:
                cells.append(row["status"])
            else:
                letter = letters.setdefault(now, _letter(len(letters)))
                words.setdefault(letter, layout_words(row))
                star = "*" if above[column] not in ((), now) else " "
                cells.append(f"{dollars(row['usd_per_hour'])} {letter}{star}")
            above[column] = now
        table.add_row(shown(found.varied[0].values[line]), *cells)
    out.print(table)
    _say_more(out, len(found.varied[0].values), most)
    for letter, said in words.items():
        out.print(f"{letter}: {said}")


def _letter(number: int) -> str:
    more, place = divmod(number, len(LETTERS))
    return (LETTERS[more - 1] if more else "") + LETTERS[place]


def _print_by_value(out: Console, rows: list[Row], found: Sweep, most: int) -> None:
    """For each value of each field, the cheapest of all points that have it."""
    for varied in found.varied:
        heading(out, f"Cheapest point by {varied.field}")
        table = make_table(
            (varied.field.rpartition(".")[2], "right"), ("solved", "right"), ("$/hour", "right"), (_noun(rows), "left")
        )
        for value in varied.values[:most]:
            having = [row for row in rows if row[varied.field] == value]
            solved = [row for row in having if row["status"] in SOLVED]
            best = min(solved, key=lambda row: row["usd_per_hour"], default=None)
            cost, said = (dollars(best["usd_per_hour"]), layout_words(best)) if best else ("-", _why_not(having[0]))
            table.add_row(shown(value), f"{len(solved):,}/{len(having):,}", cost, said)
        out.print(table)
        _say_more(out, len(varied.values), most)


def _say_more(out: Console, rows: int, most: int) -> None:
    if rows > most:
        out.print(f"... and {rows - most:,} more (--limit 0 shows all)")


def _print_refused(out: Console, rows: list[Row], fields: list[str]) -> None:
    """Say which points could not be solved at all, by what was wrong."""
    said: dict[str, list[Row]] = {}
    for row in rows:
        if row["status"] in ("invalid", "failed"):
            said.setdefault(f"{row['status']}: {row['message']}", []).append(row)
    for message, having in list(said.items())[:5]:
        first = ", ".join(f"{field}={shown(having[0][field])}" for field in fields)
        out.print(f"{amount_of(len(having), 'point')} {message} (first: {first})", style="yellow")
