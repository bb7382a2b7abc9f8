"""The answer about a fleet: what the command line says of it, and its nodes drawn."""

from __future__ import annotations

import io

from rich.console import Console

from optimizer.fleet.plan import FleetPlan
from optimizer.report.drawings import draw_fleet_nodes
from optimizer.web.page.answer import badge, both_widths
from optimizer.web.page.elements import Words, card, with_attributes
from optimizer.web.page.keep import keep_buttons

COLUMNS = 110


def report_text(plan: FleetPlan) -> str:
    """Return what the command line prints of a fleet."""
    from optimizer.report.fleet import print_fleet  # noqa: PLC0415

    out = io.StringIO()
    console = Console(file=out, width=COLUMNS, highlight=False, markup=False, emoji=False, color_system=None)
    print_fleet(plan, console=console)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def show_fleet(plan: FleetPlan) -> None:
    """Show a fleet, or why there is none."""
    with card("Fleet", "headline"):
        badge(plan.status)
        Words(plan.summary, "p", "summary")
        report = Words(report_text(plan), "pre", "code report")
        with_attributes(report, tabindex="0", role="region", aria_label="Fleet report")
        keep_buttons(plan)
    if plan.cost is not None:
        with card("Nodes"):
            both_widths(lambda width: draw_fleet_nodes(plan, width=width))
