"""Break-evens as text: the one asked for, the answer's own, and a table of every other GPU type."""

from __future__ import annotations

from rich.console import Console

from optimizer.report.plan import print_gpus_without_layout
from optimizer.report.text import (
    amount_of,
    bullet,
    bullet_line,
    calibration_words,
    dollars,
    exact_dollars,
    heading,
    make_console,
    make_table,
)
from optimizer.whatif.breakeven_answer import BreakEven, BreakEvens, PricedLayout


def print_break_evens(found: BreakEvens, console: Console | None = None) -> None:
    """Print every break-even of a question.

    Args:
        found: what there is to say.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    if found.asked is not None:
        _print_asked(out, found.asked)
        out.print()
    _print_answer(out, found)
    _print_alternatives(out, found)
    print_gpus_without_layout(out, found.no_layout)
    out.print()
    out.print(
        f"Prices as of {found.prices_as_of}. Each break-even is the highest price, to the micro-dollar of a node hour, "
        f"and shown by two solves: there, and one micro-dollar above ({found.solves} solves in all, each audited)."
    )
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))
    for warning in found.warnings:
        out.print(f"Warning: {warning}", style="yellow")


def _print_asked(out: Console, one: BreakEven) -> None:
    out.print(f"BREAK-EVEN  {headline(one)}", style="bold green")
    if one.status == "no_price":
        if one.nearest is not None:
            cost = "" if one.nearest.usd_per_hour is None else f", {dollars(one.nearest.usd_per_hour)}/hour"
            breaks = "; ".join(f"{rule} ({said})" for rule, said in one.nearest.breaks.items())
            out.print(f"Nearest: {one.nearest.summary}{cost}. It breaks {breaks}.")
        return
    if one.at is None:
        return
    out.print(f"{one.at.summary}: {_costs(one.at)}")
    if one.status == "must_fall" and one.now is not None:
        out.print(f"Today: {_costs(one.now)}")
    out.print(
        f"Of {amount_of(one.offers, 'offer')} named, {one.allowed_offers:,} are within the limits; the cheapest then: "
        f"{exact_dollars(one.cheapest_usd_per_node_hour or 0.0)} a node hour, "
        f"{exact_dollars(one.cheapest_usd_per_gpu_hour or 0.0)} a GPU hour."
    )
    for solve in one.verified:
        said = "nothing is feasible" if solve.answer is None else _answered(solve.answer)
        bullet_line(out, f"solved at {exact_dollars(solve.price_usd_per_node_hour)} a node hour: {said}")


def headline(one: BreakEven) -> str:
    """Say in one line at which price offers start or stop being the answer."""
    if one.status == "no_price" or (one.at is None and one.status != "any_price"):
        return f"{one.offer} is the answer at no price: {one.why}"
    if one.status == "any_price" or one.at is None:
        return f"{one.offer} is the answer whatever it costs: {one.why}"
    price = f"{_price(one.at)}, {abs(one.change or 0.0):.1%}"
    if one.status == "must_fall":
        return f"{one.offer} becomes the answer at {price} below today's {_today(one)}"
    then = one.takes_over.gpu if one.takes_over is not None else "nothing at all"
    if one.takes_over is not None and one.at.gpu == one.takes_over.gpu:
        then = f"{one.takes_over.gpus_per_node}x {then} of {one.takes_over.provider}"
    return f"{one.offer} stays the answer up to {price} above today's {_today(one)}; then it is {then}"


def _price(layout: PricedLayout) -> str:
    each = f" ({exact_dollars(layout.price_usd_per_gpu_hour)} a GPU hour)" if layout.gpus_per_node > 1 else ""
    return f"{exact_dollars(layout.price_usd_per_node_hour)} a node hour{each}"


def _today(one: BreakEven) -> str:
    return exact_dollars(one.now.price_usd_per_node_hour) if one.now is not None else "-"


def _costs(layout: PricedLayout) -> str:
    return (
        f"{dollars(layout.usd_per_hour)}/hour, {dollars(layout.usd_per_million_output_tokens)} per million output "
        f"tokens at this traffic, {dollars(layout.usd_per_million_output_tokens_at_saturation)} at saturation"
    )


def _answered(layout: PricedLayout) -> str:
    return f"{layout.summary}, {exact_dollars(layout.usd_per_hour)}/hour"


def _print_answer(out: Console, found: BreakEvens) -> None:
    if found.answer is None:
        out.print(f"Nothing is feasible at today's prices ({found.question}).", style="bold red")
        return
    out.print(f"The answer today ({found.question}):")
    out.print(f"{found.answer.summary}: {dollars(found.answer.usd_per_hour)}/hour")
    heading(out, "How far its own price may rise")
    for one in found.own:
        if one.takes_over is None:
            bullet_line(out, headline(one))
        else:
            bullet(out, headline(one), f"then {_answered(one.takes_over)}")


def _print_alternatives(out: Console, found: BreakEvens) -> None:
    if not found.alternatives:
        return
    heading(out, "How far each other GPU has to fall, all its offers alike ($ per GPU-hour); the nearest first")
    table = make_table(
        *(("GPU", "right"), ("nodes", "right"), ("now", "right"), ("then", "right"), ("change", "right")),
        *(("$/node-h", "right"), ("$/M", "right")),
    )
    table.columns[0].justify = "left"
    for one in found.alternatives:
        if one.now is None:
            continue
        at = one.at or one.now
        table.add_row(
            one.offer,
            f"{at.nodes} of {at.gpus_per_node}",
            dollars(one.now.price_usd_per_gpu_hour),
            dollars(at.price_usd_per_gpu_hour, 4) if one.at is not None else "any",
            f"{one.change:+.1%}" if one.change is not None else "-",
            dollars(at.price_usd_per_node_hour, 4),
            dollars(at.usd_per_million_output_tokens_at_saturation),
        )
    out.print(table)
    same = "" if found.answer is None else "; at this traffic all cost as the answer does"
    out.print(f"$/M: per million output tokens then, with every replica full{same}.")
