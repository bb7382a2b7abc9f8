"""`shardwise whatif shock`: prices change, offers go; keep the layout, or the fleet, or move?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from optimizer import completion
from optimizer.cli_options import OUTPUT, AsOf, Json, NoCalibration, Text, Texts, option
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, EXIT_OK, EXIT_OTHER, print_json
from optimizer.errors import QuestionError

if TYPE_CHECKING:
    from optimizer.fleet.question import FleetScenario
    from optimizer.whatif.shock import Change

SHOCK = "The shock (repeat a flag for more parts)"
EXAMPLES = "Patterns: a GPU type (H100*), a term (spot), a provider, or PROVIDER/INSTANCE_TYPE/REGION/TERM."


def register(app: typer.Typer) -> None:
    """Add the command to a group of commands."""
    app.command(epilog=EPILOG)(shock)


def shock(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO.yaml",
            help="A scenario file, of one layout or of a fleet.",
            autocompletion=completion.SCENARIO,
        ),
    ],
    price: Annotated[
        Texts,
        option("--price", help=f"spot=+40%, H100*=-20%, aws=x1.5. {EXAMPLES}", metavar="PATTERN=CHANGE", panel=SHOCK),
    ] = None,
    remove_provider: Annotated[
        Texts, option("--remove-provider", help="Nothing of it is to be had.", metavar="NAME", panel=SHOCK)
    ] = None,
    remove_gpu: Annotated[
        Texts, option("--remove-gpu", help="None of this GPU type is to be had.", metavar="NAME", panel=SHOCK)
    ] = None,
    remove_offer: Annotated[
        Texts, option("--remove-offer", help="None of these offers is to be had.", metavar="PATTERN", panel=SHOCK)
    ] = None,
    as_of: AsOf = None,
    time_limit: Annotated[
        Text,
        option(
            "--time-limit",
            help="Of a fleet: most time for each solve.",
            metavar="SECONDS",
            default="20",
            panel=OUTPUT,
        ),
    ] = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Solve before and after prices change: keep or move, what staying costs, and which part changes the answer."""
    from optimizer.flags import RunFlags, read_flags, read_fleet_question, read_question  # noqa: PLC0415
    from optimizer.whatif.shock import find_shock, read_changes  # noqa: PLC0415

    changes = read_changes(price or (), remove_provider or (), remove_gpu or (), remove_offer or ())
    run = read_flags(RunFlags, {"time_limit": time_limit})
    fleet = read_fleet_question(scenario, {"as_of": as_of})
    if fleet is not None:
        _shock_of_fleet(fleet, changes, run.time_limit, json)
    if time_limit is not None:
        raise QuestionError("--time-limit: is for fleets; one layout is solved to the end, in less than a second")
    found = find_shock(read_question(scenario, {"as_of": as_of}), changes)
    if json:
        print_json(found)
    else:
        from optimizer.report.shock import print_shock  # noqa: PLC0415

        print_shock(found)
    raise typer.Exit(EXIT_INFEASIBLE if found.verdict == "infeasible" else EXIT_OK)


def _shock_of_fleet(fleet: FleetScenario, changes: Sequence[Change], time_limit_s: float, json: bool) -> None:
    """Answer for a fleet, and leave."""
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.whatif.fleet_shock import find_fleet_shock  # noqa: PLC0415

    found = find_fleet_shock(fleet, changes, settings=Settings(time_limit_s=time_limit_s))
    if json:
        print_json(found)
    else:
        from optimizer.report.fleet_shock import print_fleet_shock  # noqa: PLC0415

        print_fleet_shock(found)
    raise typer.Exit({"infeasible": EXIT_INFEASIBLE, "unknown": EXIT_OTHER}.get(found.verdict, EXIT_OK))
