"""`shardwise schema`: the JSON schemas of questions and answers."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Annotated

import typer

from optimizer import completion
from optimizer.commands.common import EPILOG

# Name -> module and class; imported only when asked for.
SCHEMAS = {
    "scenario": ("optimizer.scenario", "Scenario"),
    "plan": ("optimizer.plan", "Plan"),
    "fleet-scenario": ("optimizer.fleet.question", "FleetScenario"),
    "fleet-plan": ("optimizer.fleet.plan", "FleetPlan"),
    "capacity-answer": ("optimizer.fleet.capacity_table", "CapacityAnswer"),
    "fit": ("optimizer.fit", "Fit"),
    "speed": ("optimizer.predict", "Speed"),
    "calibration": ("optimizer.own_runs.answer", "CalibrationReport"),
    "explain": ("optimizer.whatif.explain_answer", "Explained"),
    "explain-fleet": ("optimizer.whatif.fleet_explain_answer", "FleetExplained"),
    "export": ("optimizer.export.answer", "Export"),
    "import": ("optimizer.export.served_answer", "ServedPrice"),
    "reoptimization": ("optimizer.reoptimize.answer", "Reoptimization"),
    "pareto": ("optimizer.whatif.front_points", "Front"),
    "whatif-api": ("optimizer.whatif.api", "ApiComparison"),
    "whatif-breakeven": ("optimizer.whatif.breakeven_answer", "BreakEvens"),
    "whatif-budget": ("optimizer.whatif.budget_report", "BudgetReport"),
    "whatif-fleet-budget": ("optimizer.fleet.budget", "FleetBudgets"),
    "whatif-fleet-shock": ("optimizer.whatif.fleet_shock_answer", "FleetShock"),
    "whatif-shock": ("optimizer.whatif.shock_answer", "Shock"),
    "whatif-sweep": ("optimizer.whatif.sweep", "Sweep"),
}


def register(app: typer.Typer) -> None:
    """Add the command to the others."""
    app.command("schema", epilog=EPILOG)(schema)


def schema(
    of: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=f"Which schema to print: {', '.join(SCHEMAS)}.", autocompletion=completion.SCHEMA
        ),
    ],
) -> None:
    """Print the JSON schema of a question or an answer."""
    from optimizer.errors import QuestionError  # noqa: PLC0415

    if of not in SCHEMAS:
        raise QuestionError(f"schema {of!r}: expected one of {', '.join(SCHEMAS)}")
    module, name = SCHEMAS[of]
    found = getattr(import_module(module), name).model_json_schema()
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
