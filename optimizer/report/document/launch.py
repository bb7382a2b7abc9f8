"""How to start what a report describes: the engine's own command, and the other forms that launch files come in."""

from __future__ import annotations

from catalogs.errors import CatalogError
from optimizer.engines import ENGINE_NAMES
from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, LaunchFile
from optimizer.export.plans import deployments
from optimizer.export.targets import TARGETS, launch_files
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.report.document.html import Piece, bullets, section, tag

MOST_LINES = 60  # of a launch file that a report shows


def launch_section(plan: Plan | FleetPlan) -> Piece:
    """Return the launch files of the plan's engine; nothing where there is nothing to start."""
    if plan.cost is None:
        return ()
    others = ", ".join(name for name in TARGETS if name not in ENGINE_NAMES)
    command = tag("pre", "shardwise export plan.json --to TARGET")
    other_forms = (tag("p", f"Other forms, with this plan saved as plan.json; TARGET is one of {others}."), command)
    try:
        found = deployments(plan)
        files = [file for engine in dict.fromkeys(one.launch.engine for one in found) for file in _files(engine, found)]
    except (QuestionError, CatalogError) as error:
        return section("How to start it", tag("p", f"No launch file can be written here: {error}", class_="note"))
    notes = dict.fromkeys(note for one in found for note in one.launch.notes)
    shown = [(tag("h3", file.name), tag("pre", _shortened(file.text))) for file in files]
    return section("How to start it", shown, bullets(notes), other_forms)


def _files(engine: str, found: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    return launch_files(engine, tuple(one for one in found if one.launch.engine == engine))


def _shortened(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= MOST_LINES:
        return text
    return "\n".join([*lines[:MOST_LINES], f"# ... {len(lines) - MOST_LINES} lines more: shardwise export writes them"])
