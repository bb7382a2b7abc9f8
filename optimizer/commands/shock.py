"""`shardwise whatif shock`: prices change, offers go; keep the layout, or move?"""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer import completion
from optimizer.cli_options import AsOf, Json, NoCalibration, Texts, option
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, EXIT_OK, print_json

SHOCK = "The shock (repeat a flag for more parts)"
EXAMPLES = "Patterns: a GPU type (H100*), a term (spot), a provider, or PROVIDER/INSTANCE_TYPE/REGION/TERM."


def register(app: typer.Typer) -> None:
    """Add the command to a group of commands."""
    app.command(epilog=EPILOG)(shock)


def shock(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO.yaml", help="A scenario file.", autocompletion=completion.SCENARIO)
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
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Solve before and after prices change: keep or move, what staying costs, and which part changes the answer."""
    from optimizer.flags import read_question  # noqa: PLC0415
    from optimizer.whatif.shock import find_shock, price_change, removal  # noqa: PLC0415

    changes = [price_change(text) for text in price or ()]
    changes += [removal("--remove-provider", "provider", text) for text in remove_provider or ()]
    changes += [removal("--remove-gpu", "gpu", text) for text in remove_gpu or ()]
    changes += [removal("--remove-offer", None, text) for text in remove_offer or ()]
    found = find_shock(read_question(scenario, {"as_of": as_of}), changes)
    if json:
        print_json(found)
    else:
        from optimizer.report.shock import print_shock  # noqa: PLC0415

        print_shock(found)
    raise typer.Exit(EXIT_INFEASIBLE if found.verdict == "infeasible" else EXIT_OK)
