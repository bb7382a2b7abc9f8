"""Self-hosting against an API as tables: the verdict, what each costs, and from which rate self-hosting pays."""

from __future__ import annotations

from rich.console import Console

from optimizer.report.text import count, dollars, heading, make_console, make_table
from optimizer.whatif.api import ApiComparison, BreakEven, Check, Side
from optimizer.whatif.duty import ALWAYS

MOST_STRETCHES = 6


def print_api(found: ApiComparison, console: Console | None = None) -> None:
    """Print a comparison; the terminal is where to when no console is given."""
    out = console or make_console()
    out.print(_verdict(found), style="bold green" if found.cheaper == "self-hosted" else "bold")
    work = found.scenario["workload"]
    out.print(
        f"{found.scenario['model']} at {count(found.requests_per_second)} requests/s of {work['input_tokens']:,} "
        f"tokens in and {work['output_tokens']:,} out; {found.duty.said}."
    )
    _print_sides(out, found)
    _print_price(out, found)
    for one in found.break_evens:
        _print_break_even(out, found, one)
    if not found.break_evens and found.self_hosted is None:
        out.print("There is no break-even: no layout is feasible at any rate.")
    if found.notes:
        heading(out, "Notes")
        for note in found.notes:
            out.print(f"- {note}")


def _name(found: ApiComparison) -> str:
    return f"{found.price.provider}/{found.price.model}"


def _verdict(found: ApiComparison) -> str:
    if found.self_hosted is None or found.saving_usd_per_month is None:
        return f"Self-hosting is infeasible: {', '.join(found.conflict)} cannot hold together (see `shardwise solve`)"
    sides = {"api": found.api.usd_per_month, "self-hosted": found.self_hosted.usd_per_month}
    less, more = min(sides.values()), max(sides.values())
    who = "Self-hosting" if found.cheaper == "self-hosted" else f"The API {_name(found)}"
    times = f", {more / less:,.1f} times less" if less > 0 else ""
    return f"{who} is cheaper by {dollars(found.saving_usd_per_month, 0)} a month{times}"


def _print_sides(out: Console, found: ApiComparison) -> None:
    heading(out, "What each costs ($/M: per million tokens at the real duty)")
    table = make_table(
        ("", "left"), ("$/busy hour", "right"), ("$/month", "right"), ("$/M output", "right"), ("$/M all", "right")
    )
    for said, side in ((f"API {_name(found)}", found.api), ("self-hosted", found.self_hosted)):
        table.add_row(said, *(_figures(side) if side is not None else ("-",) * 4))
    out.print(table)
    if found.layout:
        out.print(f"Self-hosted: {found.layout}")


def _figures(side: Side) -> tuple[str, ...]:
    return (
        dollars(side.usd_per_busy_hour),
        dollars(side.usd_per_month, 0),
        dollars(side.usd_per_million_output_tokens),
        dollars(side.usd_per_million_tokens),
    )


def _print_price(out: Console, found: ApiComparison) -> None:
    price = found.price
    heading(out, f"Prices of the API on {price.day}")
    prices = ", ".join(f"{kind} ${value:,.4g}" for kind, value in price.usd_per_million.items())
    cached = f", {found.cached_share:.0%} of input cached" if found.cached_share else ""
    out.print(f"Per million tokens: {prices}; ${price.usd_per_request:,.4g} a request{cached}.")
    if price.usd_per_request_most > price.usd_per_request_least:
        out.print(
            f"By time of day a request costs ${price.usd_per_request_least:,.4g} to ${price.usd_per_request_most:,.4g}."
        )
    for said in price.used:
        out.print(f"- used: {said}")
    for said in price.ignored:
        out.print(f"- not counted: {said}")
    out.print(f"Source: {price.data}.")


def _print_break_even(out: Console, found: ApiComparison, one: BreakEven) -> None:
    when = "with traffic at all hours" if one.duty == ALWAYS else f"at the real duty ({one.duty.said})"
    heading(out, f"Break-even {when}")
    if one.pays_from is not None:
        out.print(f"Self-hosting pays from {_rate(one.pays_from)} requests/s on, at these lengths and targets.")
    elif one.stretches:
        out.print("Self-hosting pays at some rates only, and not at the highest that the limits allow.")
    else:
        out.print(f"Self-hosting pays at no rate: even a full layout costs more than {_name(found)}.")
    earlier = [
        f"{_rate(stretch.from_request_rate)} to {_rate(stretch.to_request_rate)}"
        for stretch in one.stretches
        if stretch.from_request_rate != one.pays_from
    ]
    if earlier:
        more = f" and {len(earlier) - MOST_STRETCHES} more stretches" if len(earlier) > MOST_STRETCHES else ""
        before = "Before that it pays" if one.pays_from is not None else "It pays"
        out.print(f"{before} in between, at {', '.join(earlier[:MOST_STRETCHES])}{more} requests/s.")
    if one.checks:
        table = make_table(
            ("requests/s", "right"),
            ("self-hosted $/h", "right"),
            ("API $/h", "right"),
            ("pays", "left"),
            ("layout", "left"),
        )
        for check in one.checks:
            table.add_row(*_check(check))
        out.print(table)
        out.print(
            "Each row was solved anew, proved and audited."
            if one.verified
            else "A re-solve (!) differs from the steps that the choices say: the break-even is not exact.",
            style="" if one.verified else "yellow",
        )


def _check(check: Check) -> tuple[str, ...]:
    return (
        _rate(check.request_rate, 8),
        dollars(check.self_hosted_usd_per_hour),
        f"${check.api_usd_per_hour:,.6f}",
        ("yes" if check.pays else "no") + ("" if check.as_expected else " !"),
        check.summary or "none",
    )


def _rate(value: float, digits: int = 4) -> str:
    return f"{value:,.{digits}g}"
