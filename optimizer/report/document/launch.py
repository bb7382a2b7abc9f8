"""How to start what a report describes."""

from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.report.document.html import Piece


def launch_section(plan: Plan | FleetPlan) -> Piece:
    """Return nothing."""
    return ()
