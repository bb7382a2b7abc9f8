"""`shardwise reoptimize PLANS...`: saved plans at today's prices: keep, switch, or no longer valid."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimizer.cli_options import OUTPUT, PRICES, AsOf, Json, NoCalibration, Text, Texts, option
from optimizer.commands.common import print_json

if TYPE_CHECKING:
    from optimizer.flags import ReoptimizeFlags
    from optimizer.reoptimize.answer import Reoptimization, Rules, SourceOutcome

EPILOG = (
    "Exit codes: 0 every plan stands; 10 a switch is worth it; 11 a plan is no longer valid; 2 bad input; "
    "1 anything else."
)
WEIGHING = "When a switch is worth it"

Plans = Annotated[
    list[Path], typer.Argument(metavar="PLANS...", help="Files that `solve --json` printed, or folders of them.")
]
SwitchCost = Annotated[
    Text, option("--switch-cost-usd", help="What a switch costs, once.", metavar="USD", default="200", panel=WEIGHING)
]
MinSaving = Annotated[
    Text, option("--min-saving", help="Least that it has to save.", metavar="PERCENT", default="5%", panel=WEIGHING)
]
Horizon = Annotated[
    Text,
    option("--horizon", help="It has to pay back within this.", metavar="DURATION", default="30d", panel=WEIGHING),
]
AtOnce = Annotated[bool, option("--at-once", help="Do not wait for a second look that finds the same.", panel=WEIGHING)]
Signed = Annotated[
    bool,
    option("--signed", help="Commitments of the plans are signed: they are paid on after a switch.", panel=WEIGHING),
]
MaxPriceAge = Annotated[
    Text, option("--max-price-age", help="Refuse prices older than this, as in 24h.", metavar="DURATION", panel=PRICES)
]
MaxPriceAgeDays = Annotated[
    Text, option("--max-price-age-days", help="Refuse prices older than this.", metavar="N", panel=PRICES)
]
Notify = Annotated[
    Texts,
    option(
        "--notify", help="Where to send a changed verdict (an Apprise URL; repeat for more).", metavar="URL",
        default="SHARDWISE_NOTIFY_URLS", panel=OUTPUT,
    ),
]  # fmt: skip
TimeLimit = Annotated[
    Text,
    option("--time-limit", help="Most time for the solver, a plan.", metavar="SECONDS", default="20", panel=OUTPUT),
]
Out = Annotated[
    Path | None, option("--out", help="Also write the report to a file.", metavar="FILE.md|FILE.json", panel=OUTPUT)
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(reoptimize)


def reoptimize(
    plans: Plans,
    refresh: Annotated[bool, option("--refresh", help="Pull prices first.", panel=PRICES)] = False,
    as_of: AsOf = None,
    max_price_age: MaxPriceAge = None,
    max_price_age_days: MaxPriceAgeDays = None,
    switch_cost_usd: SwitchCost = None,
    min_saving: MinSaving = None,
    horizon: Horizon = None,
    at_once: AtOnce = False,
    signed: Signed = False,
    no_state: Annotated[
        bool, option("--no-state", help="Neither read nor write what the last look found.", panel=OUTPUT)
    ] = False,
    notify: Notify = None,
    out: Out = None,
    time_limit: TimeLimit = None,
    no_calibration: NoCalibration = False,
    json: Json = False,
) -> None:
    """Solve saved plans again at today's prices: keep, switch, or no longer valid."""
    from optimizer.errors import QuestionError  # noqa: PLC0415
    from optimizer.notify import announcer  # noqa: PLC0415
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.reoptimize.decide import exit_code  # noqa: PLC0415
    from optimizer.reoptimize.plans import find_plans  # noqa: PLC0415
    from optimizer.reoptimize.run import reoptimize as look  # noqa: PLC0415

    flags = read_rules(locals())
    if refresh and flags.as_of is not None:
        raise QuestionError("--refresh pulls the prices of now, --as-of asks for those of a day; give one of them")
    check_out(out)
    find_plans(plans)  # wrong paths are said before anything is pulled
    found = look(
        plans,
        rules_of(flags, at_once, signed),
        as_of=flags.as_of,
        max_age_days=flags.most_days,
        settings=Settings(time_limit_s=flags.time_limit),
        sources=pulled() if refresh else (),
        keep_state=not no_state,
        announce=announcer(notify),
    )
    show(found, out, json)
    raise typer.Exit(exit_code([one.verdict for one in found.plans]))


def pulled() -> tuple[SourceOutcome, ...]:
    """Pull prices from every source."""
    from optimizer.commands.pulling import pull  # noqa: PLC0415  needs the network's libraries

    return pull()


def read_rules(given: dict[str, Any]) -> ReoptimizeFlags:
    """Check the flags of a command by their names."""
    from optimizer.flags import ReoptimizeFlags, read_flags  # noqa: PLC0415

    return read_flags(ReoptimizeFlags, {name: given.get(name) for name in ReoptimizeFlags.model_fields})


def rules_of(flags: ReoptimizeFlags, at_once: bool, signed: bool) -> Rules:
    """Return when a switch is worth it."""
    from optimizer.reoptimize.answer import Rules  # noqa: PLC0415

    return Rules(
        switch_cost_usd=flags.switch_cost_usd,
        min_saving=flags.min_saving,
        horizon_hours=flags.horizon,
        at_once=at_once,
        signed=signed,
    )


def check_out(out: Path | None) -> None:
    """Refuse a report of a kind that there is none of."""
    from optimizer.errors import QuestionError  # noqa: PLC0415

    if out is not None and out.suffix.lower() not in (".md", ".json"):
        raise QuestionError(f"--out {out}: expected a file that ends in .md or .json")


def show(found: Reoptimization, out: Path | None, json: bool) -> None:
    """Print a report, and write it to a file where one is named."""
    from optimizer.report.reoptimize import markdown, print_reoptimization  # noqa: PLC0415
    from optimizer.user_files import write_whole  # noqa: PLC0415

    if out is not None:
        is_json = out.suffix.lower() == ".json"
        write_whole(out, found.model_dump_json(indent=2) + "\n" if is_json else markdown(found))
    if json:
        print_json(found)
    else:
        print_reoptimization(found)
    for one in found.plans:
        if one.verdict == "failed":
            sys.stderr.write(f"shardwise: {one.why}\n")
