"""`shardwise whatif api`: self-hosting against a managed API."""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer import completion
from optimizer.cli_options import Json, NoCalibration, Text, Texts, option
from optimizer.commands.common import EPILOG, EXIT_INFEASIBLE, EXIT_OK, print_json

DUTY = "When traffic arrives"


def register(whatif_app: typer.Typer) -> None:
    """Add the command to `shardwise whatif`."""
    whatif_app.command("api", epilog=EPILOG)(whatif_api)


def whatif_api(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO.yaml",
            help="The question; its traffic is that of the busiest hours.",
            autocompletion=completion.SCENARIO,
        ),
    ],
    against: Annotated[
        str, option("--against", help="As in deepseek/deepseek-chat, by genai-prices.", metavar="PROVIDER/MODEL")
    ],
    cached_share: Annotated[
        Text, option("--cached-share", help="Input tokens that the API has cached.", metavar="SHARE", default="0")
    ] = None,
    duty_cycle: Annotated[
        Text,
        option("--duty-cycle", help="Share of hours with traffic.", metavar="SHARE", default="1", panel=DUTY),
    ] = None,
    profile: Annotated[
        Text,
        option(
            "--profile",
            help="Traffic by hour, 24 or 168 values; the largest is the scenario's.",
            metavar="V,V,...",
            panel=DUTY,
        ),
    ] = None,
    hours_per_day: Annotated[
        Text,
        option("--hours-per-day", help="Hours a day that GPUs are rented.", metavar="N", default="24", panel=DUTY),
    ] = None,
    settings: Annotated[
        Texts, option("--set", help="Set a field of the scenario (repeat it).", metavar="FIELD=VALUE")
    ] = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Compare self-hosting with a managed API, and find the traffic from which it pays."""
    from optimizer.flags import ApiFlags, read_flags, read_question  # noqa: PLC0415
    from optimizer.whatif.api import compare  # noqa: PLC0415
    from optimizer.whatif.fields import apply, read_settings  # noqa: PLC0415
    from optimizer.whatif.price_factors import factors_among  # noqa: PLC0415

    values = {"against": against, "cached_share": cached_share, "duty_cycle": duty_cycle, "profile": profile}
    flags = read_flags(ApiFlags, {**values, "hours_per_day": hours_per_day})
    changes = read_settings(settings)
    found = compare(
        apply(read_question(scenario, {}), changes),
        flags.against,
        cached_share=flags.cached_share,
        duty_cycle=flags.duty_cycle,
        profile=flags.profile or None,
        hours_per_day=flags.hours_per_day,
        price_factors=factors_among(changes),
    )
    if json:
        print_json(found)
    else:
        from optimizer.report.api import print_api  # noqa: PLC0415

        print_api(found)
    raise typer.Exit(EXIT_INFEASIBLE if found.self_hosted is None else EXIT_OK)
