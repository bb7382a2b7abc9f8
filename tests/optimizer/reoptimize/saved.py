"""Plans saved from small catalogs, and looks at them at other prices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from catalogs.offers import OfferTable
from optimizer.fleet.question import build_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from optimizer.reoptimize.answer import PlanVerdict, Reoptimization, Rules
from optimizer.reoptimize.run import reoptimize
from optimizer.solve import solve
from tests.optimizer.catalogs import SMALL, TODAY, Fields, catalog, offer, question

NOON = datetime(2026, 8, 20, 12, tzinfo=UTC)
RULES = Rules(switch_cost_usd=20.0)


def at(l4: float | None = 1.0, l40s: float | None = 1.4, **facts: Any) -> OfferTable:
    """Two GPUs at these prices an hour, of acme and of bolt; None where there is none. Facts are of the L4."""
    offers = [] if l4 is None else [offer("L4-24GB", l4, **facts)]
    offers += [] if l40s is None else [offer("L40S-48GB", l40s, provider="bolt")]
    return catalog(*offers)


def save(folder: Path, table: OfferTable, sections: Fields | None = None, name: str = "plan.json") -> Path:
    """Solve a question at the prices of a table and save its plan, as `solve --json` prints it."""
    asked = {"workload": {"request_rate": 0.5}} | (sections or {})
    folder.mkdir(exist_ok=True)
    path = folder / name
    plan = solve(question(asked), catalog=table, today=TODAY)
    path.write_text(plan.model_dump_json(indent=2))
    return path


def save_fleet(folder: Path, table: OfferTable, name: str = "fleet.json", **fields: Any) -> Path:
    """The same of a fleet for one class of traffic."""
    traffic = [{"name": "chat", "input_tokens": 1000, "output_tokens": 100, "request_rate": 0.5}]
    asked = build_fleet_scenario({"model": SMALL, "classes": traffic} | fields)
    path = folder / name
    path.write_text(solve_fleet(asked, catalog=table, today=TODAY, compare=False).model_dump_json(indent=2))
    return path


def look(
    paths: Path | Sequence[Path], table: OfferTable, hours: float = 0.0, rules: Rules = RULES, **more: Any
) -> Reoptimization:
    """Look at plans at the prices of a table, so many hours after noon."""
    asked = [paths] if isinstance(paths, Path) else list(paths)
    now = NOON + timedelta(hours=hours)
    return reoptimize(asked, rules, load=lambda _day, _files: table, now=now, **more)


def verdict(path: Path, table: OfferTable, hours: float = 0.0, rules: Rules = RULES, **more: Any) -> PlanVerdict:
    """The verdict on a single plan."""
    (one,) = look(path, table, hours, rules, **more).plans
    return one


def changed(path: Path, **fields: Any) -> None:
    """Change fields of a saved plan."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
