"""What keeps an answer: a link to its question, and the plan as a file."""

from __future__ import annotations

from nicegui import ui

from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.web.page.elements import announce, box, button


def keep_buttons(plan: Plan | FleetPlan, link: str | None = None) -> None:
    """Show the buttons.

    Args:
        plan: the answer.
        link: the question as the text of a link (see link.py), where it is short enough for one.
    """
    name = "fleet-plan.json" if isinstance(plan, FleetPlan) else "plan.json"
    with box("div", "actions"):
        if link is not None:
            button("Copy link to this question", lambda: _copy_link(link))
        button("Download the plan (JSON)", lambda: ui.download.content(plan.to_json(), name))


async def _copy_link(text: str) -> None:
    origin = await ui.run_javascript("window.location.origin", timeout=5.0)
    ui.clipboard.write(f"{origin}/?q={text}")
    announce("The link is copied.", "positive")
