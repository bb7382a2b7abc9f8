"""Saved plans: files that `solve --json` printed, found in folders and read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.answer_file import MAX_BYTES, checked, json_of
from optimizer.errors import QuestionError
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario, build_fleet_scenario
from optimizer.plan import Plan
from optimizer.scenario import Scenario, build_scenario
from optimizer.user_files import read_bounded

MOST_PLANS = 10_000
OWN_KINDS = {"reoptimization", "watch"}  # reports that may lie beside plans


@dataclass(frozen=True)
class SavedPlan:
    """A plan file.

    Attributes:
        sha256: of its content.
        scenario: its question, at the prices of any day.
    """

    path: Path
    sha256: str
    plan: Plan | FleetPlan
    scenario: Scenario | FleetScenario


def find_plans(paths: Sequence[Path]) -> list[Path]:
    """Return plan files, and of folders the .json files in them, each once, in order; hidden files are left out.

    Raises:
        QuestionError: a path does not exist, or there are no plans, or too many.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.glob("*.json") if not one.name.startswith(".") and one.is_file())
            found |= dict.fromkeys(one for one in inside if not _is_report(one))
        elif path.exists():
            found[path] = None
        else:
            raise QuestionError(f"{path}: there is no such file or folder; expected plans that `solve --json` printed")
    if not found:
        where, how = ", ".join(map(str, paths)), "shardwise solve SCENARIO.yaml --json > PLAN.json"
        raise QuestionError(f"{where}: holds no plans; save one with `{how}`")
    if len(found) > MOST_PLANS:
        raise QuestionError(f"{len(found):,} plans; expected at most {MOST_PLANS:,}")
    return list(found)


def _is_report(path: Path) -> bool:
    """Say whether a file is a report of ours that was written beside the plans."""
    try:
        with path.open("rb") as file:
            head = file.read(400).decode("utf-8", "replace")
    except OSError:
        return False  # said where it is read
    return any(f'"kind": "{kind}"' in head for kind in OWN_KINDS)


def read_saved(path: Path) -> SavedPlan:
    """Read a plan of one layout or of a fleet.

    Raises:
        QuestionError: the file cannot be read, is no plan, or its question is not one any more.
    """
    data = read_bounded(path, MAX_BYTES, "what `solve --json` prints")
    plan = parse_plan(data, path)
    asked = _at_any_day(plan.scenario)
    build: Any = build_fleet_scenario if isinstance(plan, FleetPlan) else build_scenario
    return SavedPlan(path, hashlib.sha256(data).hexdigest(), plan, build(asked, f"{path}: scenario"))


def parse_plan(data: bytes, path: Path | str) -> Plan | FleetPlan:
    """Read what `solve --json` printed, of one layout or of a fleet.

    Args:
        data: the text.
        path: where it comes from, for messages.

    Raises:
        QuestionError: it is no plan.
    """
    fields = json_of(data, str(path))
    if not isinstance(fields, dict) or "scenario" not in fields:
        raise QuestionError(f"{path}: is not a plan; expected what `shardwise solve --json` prints")
    kind: Any = FleetPlan if fields.get("kind") == "fleet" else Plan
    plan: Plan | FleetPlan = checked(kind, json.dumps(fields).encode(), str(path))
    return plan


def _at_any_day(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return a question without the day that it asked for."""
    prices = scenario.get("prices")
    return {**scenario, "prices": {**prices, "as_of": None}} if isinstance(prices, dict) else scenario
