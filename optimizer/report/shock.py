"""A price shock as text: keep or move, what each part does alone, how far until it moves."""

from __future__ import annotations

from rich.console import Console

from optimizer.report.plan import print_plan
from optimizer.report.text import (
    bullet_line,
    calibration_words,
    dollars,
    exact_dollars,
    heading,
    make_console,
    make_table,
)
from optimizer.whatif.shock_answer import Effect, Shock, Staying, Tipping

STYLES = {"keep": "bold green", "move": "bold yellow", "start": "bold green", "infeasible": "bold red"}


def print_shock(found: Shock, console: Console | None = None) -> None:
    """Print what a shock does to an answer.

    Args:
        found: what there is to say.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    out.print(f"{found.verdict.upper()}  {_verdict(found)}", style=STYLES[found.verdict])
    if found.before is not None:
        out.print(f"Before: {found.before.summary}, {dollars(found.before.usd_per_hour)}/hour")
    if found.staying is not None:
        out.print(_staying(found.staying))
    if found.after.cost is not None:
        out.print(
            f"After: {found.after.summary}, {dollars(found.after.cost.usd_per_hour)}/hour, "
            f"{dollars(found.after.cost.usd_per_million_output_tokens)} per million output tokens at this traffic"
        )
    _print_effects(out, found.effects)
    if found.tipping is not None:
        _print_tipping(out, found.tipping)
    out.print()
    out.print(f"{found.question}; list prices as of {found.prices_as_of}, changed; every answer proved and audited.")
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))
    if found.after.layout is None:
        heading(out, "After the shock")
        print_plan(found.after, console=out)


def _verdict(found: Shock) -> str:
    if found.verdict == "infeasible":
        return "nothing is feasible after the shock"
    if found.verdict == "start":
        return "nothing was feasible before; now there is an answer"
    if found.verdict == "keep":
        return "the layout from before still costs the least"
    extra = found.staying.extra_usd_per_hour if found.staying is not None else None
    if extra is None:
        return "the layout from before cannot stay"
    month = found.staying.extra_usd_per_month if found.staying is not None else None
    return f"staying costs {dollars(extra)}/hour more, {dollars(month)}/month"


def _staying(staying: Staying) -> str:
    if not staying.available:
        return "Staying: not possible, its offer is gone"
    broken = "; ".join(f"breaks {rule}: {said}" for rule, said in staying.breaks.items())
    return f"Staying: {dollars(staying.usd_per_hour)}/hour at the new prices{f', but {broken}' if broken else ''}"


def _print_effects(out: Console, effects: tuple[Effect, ...]) -> None:
    heading(out, "What each part does" if len(effects) > 1 else "What it does")
    table = make_table(("change", "left"), ("offers", "right"), ("$/hour", "right"), ("the answer then", "left"))
    for one in effects:
        cost = None if one.answer is None else one.answer.usd_per_hour
        then = "nothing is feasible" if one.answer is None else one.answer.summary if one.moves else "the same layout"
        table.add_row(one.change, f"{one.offers:,}", dollars(cost), then)
    out.print(table)


def _print_tipping(out: Console, tipping: Tipping) -> None:
    heading(out, "How far until it moves")
    if tipping.change is None or tipping.price_usd_per_node_hour is None:
        out.print(f"Never in this direction: {tipping.why}.")
        return
    price = exact_dollars(tipping.price_usd_per_node_hour)
    out.print(f"At {tipping.change:+.4%}, where the best layout on them pays {price} a node hour. Shown by two solves:")
    for solve in tipping.verified:
        said = "nothing is feasible" if solve.answer is None else solve.answer.summary
        bullet_line(out, f"at {exact_dollars(solve.price_usd_per_node_hour)}: {said}")
