"""`shardwise whatif budget`: what each budget buys at most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimizer.cli_options import Json, NoCalibration, Plot, Text, option
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, EXIT_OK, check_plot, draw, print_json
from optimizer.commands.pareto import ScenarioFile, Set

if TYPE_CHECKING:
    from optimizer.flags import BudgetFlags
    from optimizer.fleet.question import FleetScenario


def register(whatif_app: typer.Typer) -> None:
    """Add the command to those that ask what if."""
    whatif_app.command("budget", epilog=EPILOG)(budget)


def budget(
    scenario: ScenarioFile,
    usd_per_hour: Annotated[str, option("--usd-per-hour", help="Hard budgets, as in 20,40,80.", metavar="USD,...")],
    maximize: Annotated[
        Text,
        option("--maximize", help="traffic, context, latency, precision.", metavar="NAME,...", default="all of them"),
    ] = None,
    set_: Set = None,
    plot: Plot = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Say what each budget buys at most, what holds it back, and what the next dollar adds.

    Traffic, context, latency and precision are each maximized alone, over the whole catalog, with every rule and target
    of the scenario kept; all but traffic at the scenario's traffic. Of a fleet, traffic alone is.
    """
    from optimizer.flags import BudgetFlags, read_flags, read_fleet_question, read_question  # noqa: PLC0415
    from optimizer.whatif.fields import with_settings  # noqa: PLC0415

    check_plot(plot)
    flags = read_flags(BudgetFlags, {"usd_per_hour": usd_per_hour, "maximize": maximize})
    fleet = read_fleet_question(scenario, {})
    if fleet is not None:
        _budgets_of_fleet(fleet, flags, set_, maximize, plot, json)
    question = with_settings(read_question(scenario, {}), set_)
    from optimizer.whatif.budget import what_budgets_buy  # noqa: PLC0415
    from optimizer.whatif.budget_report import MAXIMIZED  # noqa: PLC0415

    wanted = [name for name in MAXIMIZED if name in flags.maximize]
    found = what_budgets_buy(question, flags.usd_per_hour, wanted)
    if plot is not None:
        from optimizer.report.plots.budget import budget_picture  # noqa: PLC0415

        draw(budget_picture(found), plot)
    if json:
        print_json(found)
    else:
        from optimizer.report.budget import print_budgets  # noqa: PLC0415

        print_budgets(found)
    bought = any(one.value is not None for answer in found.budgets for one in answer.bought)
    raise typer.Exit(EXIT_OK if bought else EXIT_INFEASIBLE)


def _budgets_of_fleet(
    fleet: FleetScenario,
    flags: BudgetFlags,
    set_: list[str] | None,
    maximize: str | None,
    plot: Path | None,
    json: bool,
) -> None:
    from optimizer.errors import QuestionError  # noqa: PLC0415
    from optimizer.fleet.budget import what_budgets_buy  # noqa: PLC0415

    if set_ or (maximize is not None and tuple(flags.maximize) != ("traffic",)):
        raise QuestionError("of a fleet, budgets are spent on traffic alone; leave out --maximize and --set")
    found = what_budgets_buy(fleet, flags.usd_per_hour)
    if plot is not None:
        from optimizer.report.plots.budget import fleet_budget_picture  # noqa: PLC0415

        draw(fleet_budget_picture(found), plot)
    if json:
        print_json(found)
    else:
        from optimizer.report.fleet_budget import print_fleet_budgets  # noqa: PLC0415

        print_fleet_budgets(found)
    raise typer.Exit(EXIT_OK if any(one.times for one in found.budgets) else EXIT_INFEASIBLE)
