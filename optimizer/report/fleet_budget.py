"""What budgets buy of a fleet, as a table."""

from __future__ import annotations

from rich.console import Console

from optimizer.fleet.budget import FleetBudgets
from optimizer.report.text import bullet, count, dollars, heading, make_console, make_table


def print_fleet_budgets(found: FleetBudgets, console: Console | None = None) -> None:
    """Print the most traffic that each budget carries."""
    out = console or make_console()
    out.print("WHAT BUDGETS BUY  the most traffic, every class alike", style="bold green")
    asked = f"{count(found.asked_requests_per_second)} requests/s in the busiest hour"
    least = "no fleet serves it" if found.least_usd_per_hour is None else f"{dollars(found.least_usd_per_hour)}/hour"
    out.print(f"As it is asked, {asked}: {least}.")
    heading(out, "By budget, on average over the hours")
    table = make_table(
        ("budget", "right"), ("traffic", "right"), ("requests/s", "right"), ("$/hour", "right"), ("$1 more", "right"),
        ("", "left"),
    )  # fmt: skip
    for one in found.budgets:
        if one.times is None:
            table.add_row(dollars(one.budget_usd_per_hour), "-", "-", "-", "-", "buys nothing")
            continue
        extra = one.extra_requests_per_second_per_usd
        proved = "proved" if one.proved else f"at most {one.times_bound or 0:.3g}x"
        table.add_row(
            dollars(one.budget_usd_per_hour),
            f"{one.times:.3g}x",
            count(one.requests_per_second),
            dollars(one.usd_per_hour),
            "-" if extra is None else f"+{count(extra)}",
            proved,
        )
    out.print(table)
    out.print("$1 more: requests/s of the busiest hour, on average since the budget before.")
    for one in found.budgets:
        if one.plan is not None and one.times is not None:
            bullet(out, f"{dollars(one.budget_usd_per_hour)}/hour", one.plan.summary)
