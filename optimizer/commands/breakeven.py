"""`shardwise whatif breakeven`: the price at which an offer starts or stops being the answer."""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer import completion
from optimizer.cli_options import AsOf, Json, NoCalibration, Text, Texts, limit, option
from optimizer.commands.common import EPILOG, print_json

OfferPattern = Annotated[
    Text,
    option(
        "--offer",
        help="GPU type, provider, term, or PROVIDER/INSTANCE_TYPE/REGION/TERM; * stands for any text.",
        metavar="PATTERN",
        default="only the table of all GPU types",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to a group of commands."""
    app.command(epilog=EPILOG)(breakeven)


def breakeven(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO.yaml", help="A scenario file.", autocompletion=completion.SCENARIO)
    ],
    offer: OfferPattern = None,
    gpu: Annotated[Texts, limit("--gpu", "Only these GPU types.")] = None,
    as_of: AsOf = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Say at which price an offer, and each GPU type, starts or stops being the answer: exactly, by re-solves."""
    from optimizer.flags import read_question  # noqa: PLC0415
    from optimizer.whatif.breakeven import find_break_evens  # noqa: PLC0415

    found = find_break_evens(read_question(scenario, {"gpu": gpu, "as_of": as_of}), offer)
    if json:
        print_json(found)
    else:
        from optimizer.report.breakeven import print_break_evens  # noqa: PLC0415

        print_break_evens(found)
