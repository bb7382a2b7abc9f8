"""Shared pieces of the reports: the console, tables that fit its width, numbers as people write them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from optimizer import wording
from optimizer.plan import Calibration, PriceBasis

CAUSES = {"kv_cache": "KV cache", "all_reduce": "all-reduce"}
LEAST_SHOWN_MS = 0.005  # causes of a step below it would read as 0.00
_TRAILING_BLANKS = re.compile(r"[ \t]+(?=\n|\Z)")


class _WithoutTrailingBlanks:
    """Standard output that drops the blanks with which rich fills lines up to the console's width."""

    def __init__(self, file: TextIO):
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(_TRAILING_BLANKS.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def make_console() -> Console:
    """Return the console of a report: as wide as the terminal, and plain text where there is none."""
    out: Any = _WithoutTrailingBlanks(sys.stdout)
    return Console(file=out, highlight=False, soft_wrap=False, emoji=False, markup=False)


def make_table(*columns: tuple[str, str]) -> Table:
    """Return a light table; each column is (heading, "left" or "right"), and figures on the right are never broken."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=False)
    for title, side in columns:
        table.add_column(title, justify="right" if side == "right" else "left", no_wrap=side == "right")
    return table


def heading(console: Console, text: str) -> None:
    """Print a section heading after a blank line."""
    console.print()
    console.print(text, style="bold")


def bullet(console: Console, first: str, second: str) -> None:
    """Print an item of a list: a line, and what belongs to it indented below."""
    _hanging(console, "- ", first)
    console.print(Padding(second, (0, 0, 0, 4)))


def bullet_line(console: Console, text: str) -> None:
    """Print an item of a list that is one text; its further lines start where its first one does."""
    _hanging(console, "- ", text)


def bullet_of_items(console: Console, first: str, items: Iterable[str]) -> None:
    """Print an item of a list: a line, and items packed into lines below it."""
    _hanging(console, "- ", f"{first}:")
    packed(console, items, indent=4)


def _hanging(console: Console, mark: str, text: str) -> None:
    """Print a text behind a mark; its further lines start where its first one does."""
    lines = Text(text).wrap(console, max(console.width - len(mark), 20))
    for number, line in enumerate(lines):
        console.print(Text(mark if number == 0 else " " * len(mark)) + line)


def packed(console: Console, items: Iterable[str], indent: int) -> None:
    """Print items one behind the other, separated by commas, as many to a line as go without breaking one."""
    line = ""
    pending = list(items)
    for position, item in enumerate(pending):
        piece = item + ("," if position < len(pending) - 1 else "")
        if line and indent + len(line) + 1 + len(piece) > console.width:
            console.print(" " * indent + line)
            line = piece
        else:
            line = f"{line} {piece}" if line else piece
    if line:
        console.print(" " * indent + line)


def amount_of(number: int, noun: str) -> str:
    """Return a number with its noun: "1 request", "1,000 requests"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def dollars(amount: float | None, digits: int = 2) -> str:
    """Return money as people write it; a dash where it is not known."""
    return "-" if amount is None else wording.dollars(amount, digits)


def exact_dollars(amount: float) -> str:
    """Return a price to the last micro-dollar, with at least two decimals."""
    whole, _, decimals = f"{amount:,.6f}".partition(".")
    return f"${whole}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def milliseconds(amount: float | None) -> str:
    """Return a time as people write it; a dash where it is not known."""
    return "-" if amount is None else wording.milliseconds(amount)


def share(amount: float | None) -> str:
    """Return a share in percent."""
    return "-" if amount is None else f"{amount:.0%}"


def count(amount: float) -> str:
    """Return a large figure with separators and no needless digits."""
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def offers_words(prices: PriceBasis) -> str:
    """Say which offers were compared."""
    set_aside = sum(prices.offers_set_aside.values())
    return f"As of {prices.as_of}: {prices.offers_considered:,} offers, {set_aside:,} rows set aside."


def age_words(prices: PriceBasis) -> str:
    """Say how old the oldest price is that counts, or, where none does, the newest there is."""
    age = amount_of(prices.age_days, "day")
    return f"seen {prices.seen_on}, {age} ago" if prices.seen_on else f"at best {age} old"


def calibration_words(own: Calibration | None) -> str:
    """Say that speeds rest on the user's own calibration; "" where they do not."""
    if own is None:
        return ""
    return f"Own calibration of {own.date} used: {amount_of(own.runs, 'run')} on {', '.join(own.gpus)}."


def speed_basis(basis: str, error_band: float | None) -> str:
    """Say what the speed figures stand on, and how far TPOT is off on average where that is known."""
    words = {
        "fitted": "Speed figures are fitted to measured runs of this GPU family",
        "borrowed": "Speed figures are borrowed from a similar GPU family: no run on this one was measured",
        "aiconfigurator": "Decode steps are sums of operators that NVIDIA timed (aiconfigurator)",
        "table": "Decode steps are interpolated in your measured table; intervals are those of our own model",
    }
    band = f"; expect TPOT to be off by {error_band:.0%} on average" if error_band is not None else ""
    return f"{words.get(basis, f'Speed figures are {basis}')}{band}."


def proof_words(status: str, bound_usd_per_hour: float, gap: float, what: str = "layout", besides: str = "") -> str:
    """Say what is proved of an answer.

    Args:
        status: "optimal", or "feasible" where time ran out.
        bound_usd_per_hour: nothing that keeps every rule costs less.
        gap: how far the bound is below the cost, as a share of it.
        what: "layout" or "fleet".
        besides: words that go into the brackets at the end.
    """
    if status == "optimal":
        end = f" ({besides})" if besides else ""
        return f"Proved: no {what} in this catalog that keeps every rule costs less{end}."
    end = f"; {besides}" if besides else ""
    return (
        f"Not proved within the time limit: the cheapest may cost down to {dollars(bound_usd_per_hour)}/hour "
        f"(gap {gap:.1%}{end})."
    )


def step_words(step_ms: Mapping[str, float]) -> str:
    """Say what a step spends its milliseconds on, without what would read as 0.00."""
    return ", ".join(
        f"{CAUSES.get(cause, cause)} {value:.2f}" for cause, value in step_ms.items() if value >= LEAST_SHOWN_MS
    )


def sources_words(decode_from: str, prefill_from: str) -> str:
    """Say where decode steps and prefills come from; empty where both are our own model's."""
    if decode_from == prefill_from == "roofline":
        return ""
    names = {"roofline": "our own model", "table": "your measured table"}
    decode, prefill = (names.get(name, name) for name in (decode_from, prefill_from))
    shares = "the causes of a step are shares as our own model sees them"
    return f"Decode steps come from {decode}, prefills from {prefill}; {shares}."
