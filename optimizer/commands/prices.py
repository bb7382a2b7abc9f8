"""`shardwise prices ...`: prices of a day, their history, what was set aside, files in and out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optimizer.cli_options import OUTPUT, AsOf, Csv, Json, Plot, Text, option
from optimizer.commands.common import EPILOG, check_plot, draw

if TYPE_CHECKING:
    from optimizer.report.plots.history import Mark

prices_app = typer.Typer(help="Prices: of a day, over time, what changed, files in and out.", no_args_is_help=True)

_PATTERN = "Only this {}; * and ? stand for anything."
Gpu = Annotated[Text, option("--gpu", help=_PATTERN.format("GPU type"), metavar="NAME")]
Provider = Annotated[Text, option("--provider", help=_PATTERN.format("provider"), metavar="NAME")]
Region = Annotated[Text, option("--region", help=_PATTERN.format("region"), metavar="NAME")]
Term = Annotated[Text, option("--term", help=_PATTERN.format("term"), metavar="TERM")]
InstanceType = Annotated[Text, option("--instance-type", help=_PATTERN.format("instance type"), metavar="NAME")]
Source = Annotated[Text, option("--source", help="Only this source.", metavar="NAME")]
Limit = Annotated[
    Text, option("--limit", help="Most rows in a table; 0 shows all.", metavar="N", default="50", panel=OUTPUT)
]


@prices_app.command(
    "refresh",
    epilog="Exit codes: 0 every source asked gave its whole list; 4 some failed or gave a part; 5 all failed; 2 bad "
    "input. A source whose credentials are not set is left out.",
)
def refresh(
    source: Annotated[
        list[str] | None,
        option("--source", help="Only this source (repeatable).", metavar="NAME", default="all that can be asked"),
    ] = None,
    dry_run: Annotated[bool, option("--dry-run", help="Ask and check, but write nothing.")] = False,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Ask the sources for today's prices, check them, and keep them."""
    from optimizer.commands.refresh import run  # noqa: PLC0415

    raise typer.Exit(run(tuple(source or ()), dry_run=dry_run, json=json, csv=csv))


@prices_app.command("list", epilog=EPILOG)
def list_(
    gpu: Gpu = None,
    provider: Provider = None,
    region: Region = None,
    term: Term = None,
    instance_type: InstanceType = None,
    as_of: AsOf = None,
    sort: Annotated[
        str, option("--sort", help="usd_per_gpu_hour, usd_per_node_hour, gpu, provider or seen_on.", metavar="COLUMN",
                    default="usd_per_gpu_hour", panel=OUTPUT)
    ] = "usd_per_gpu_hour",
    limit: Limit = None,
    json: Json = False,
    csv: Csv = False,
) -> None:  # fmt: skip
    """List the offers of a day, the cheapest first."""
    from optimizer.flags import PricesFlags, read_flags  # noqa: PLC0415
    from optimizer.report import prices  # noqa: PLC0415
    from optimizer.report.catalog import print_table  # noqa: PLC0415

    flags = read_flags(PricesFlags, {"as_of": as_of, "limit": limit})
    wanted = {"gpu": gpu, "provider": provider, "region": region, "term": term, "instance_type": instance_type}
    print_table(prices.offers(flags.as_of, wanted, sort), json=json, csv=csv, limit=flags.limit)


@prices_app.command("history", epilog=EPILOG)
def history(
    gpu: Gpu = None,
    provider: Provider = None,
    region: Region = None,
    term: Term = None,
    instance_type: InstanceType = None,
    source: Source = None,
    since: Annotated[Text, option("--since", help="From this day on.", metavar="DATE")] = None,
    until: Annotated[Text, option("--until", help="Up to this day.", metavar="DATE")] = None,
    plan: Annotated[
        Path | None,
        option(
            "--plan", help="--plot marks the offer of this plan; of its GPU when none is named.", metavar="PLAN.json"
        ),
    ] = None,
    plot: Plot = None,
    limit: Limit = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show how prices moved: a row for each time that a price stood."""
    from optimizer.flags import PricesFlags, read_flags  # noqa: PLC0415
    from optimizer.report import prices  # noqa: PLC0415
    from optimizer.report.catalog import print_table  # noqa: PLC0415

    check_plot(plot)
    flags = read_flags(PricesFlags, {"since": since, "until": until, "limit": limit})
    marks = _offers_of(plan) if plan is not None else []
    gpu = gpu or (marks[0].gpu if marks else None)
    wanted = {"gpu": gpu, "provider": provider, "region": region, "term": term, "instance_type": instance_type}
    listing, frame = prices.periods(wanted, flags.since, flags.until, source)
    if plot is not None:
        from optimizer.report.plots.history import history_picture  # noqa: PLC0415

        draw(history_picture(frame, marks), plot)
    print_table(listing, json=json, csv=csv, limit=flags.limit)


def _offers_of(path: Path) -> list[Mark]:
    from optimizer.export.plans import read_plan_of  # noqa: PLC0415
    from optimizer.report.plots.history import marks_of  # noqa: PLC0415

    return marks_of(read_plan_of(str(path)))


@prices_app.command("diff", epilog=EPILOG)
def diff(
    before: Annotated[str, typer.Argument(metavar="DATE", help="The earlier day.")],
    after: Annotated[str, typer.Argument(metavar="DATE", help="The later day.")],
    gpu: Gpu = None,
    provider: Provider = None,
    region: Region = None,
    term: Term = None,
    limit: Limit = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show what changed between two days, the largest moves first."""
    from optimizer.errors import QuestionError  # noqa: PLC0415
    from optimizer.flags import PricesFlags, read_flags  # noqa: PLC0415
    from optimizer.report import prices  # noqa: PLC0415
    from optimizer.report.catalog import print_table  # noqa: PLC0415

    flags = read_flags(PricesFlags, {"before": before, "after": after, "limit": limit})
    if flags.before is None or flags.after is None or flags.before > flags.after:
        raise QuestionError(f"{before} is after {after}; expected the earlier day first")
    wanted = {"gpu": gpu, "provider": provider, "region": region, "term": term}
    print_table(prices.changes(flags.before, flags.after, wanted), json=json, csv=csv, limit=flags.limit)


@prices_app.command("quarantine", epilog=EPILOG)
def quarantine(
    source: Source = None,
    everything: Annotated[bool, option("--all", help="Those that were decided as well.")] = False,
    confirm: Annotated[list[int] | None, option("--confirm", help="Let this row in.", metavar="ROW")] = None,
    reject: Annotated[list[int] | None, option("--reject", help="Refuse this row for good.", metavar="ROW")] = None,
    limit: Limit = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List rows that checks set aside, with their reasons; let them in or refuse them."""
    from catalogs.history import open_history  # noqa: PLC0415
    from optimizer.flags import PricesFlags, read_flags  # noqa: PLC0415
    from optimizer.report import prices  # noqa: PLC0415
    from optimizer.report.catalog import print_table  # noqa: PLC0415

    flags = read_flags(PricesFlags, {"limit": limit})
    with open_history() as kept:
        kept.confirm(confirm or [])
        kept.reject(reject or [])
    print_table(prices.quarantine(source, None if everything else "waiting"), json=json, csv=csv, limit=flags.limit)


@prices_app.command("sources", epilog=EPILOG)
def sources(json: Json = False, csv: Csv = False) -> None:
    """Show how old the prices of each source of the history are, and what failed."""
    from optimizer.report import prices  # noqa: PLC0415
    from optimizer.report.catalog import print_table  # noqa: PLC0415

    print_table(prices.sources(), json=json, csv=csv)


@prices_app.command("export", epilog=EPILOG)
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv|FILE.parquet", help="Where to write.")],
    as_of: Annotated[
        Text, option("--as-of", help="The offers of this day.", metavar="DATE", default="every period of the history")
    ] = None,
) -> None:
    """Write the whole history, or the offers of a day, to a CSV or Parquet file."""
    from optimizer.flags import PricesFlags, read_flags  # noqa: PLC0415
    from optimizer.report.price_export import export_prices  # noqa: PLC0415

    flags = read_flags(PricesFlags, {"as_of": as_of})
    rows = export_prices(file, flags.as_of)
    typer.echo(f"{file}: {rows:,} {'periods' if flags.as_of is None else 'offers'}")


@prices_app.command("import", epilog=EPILOG)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A dated price file.")],
    form: Annotated[
        str,
        option(
            "--format",
            help="shardwise (columns as --offers-file), skypilot, gpuhunt, or a tracker's: gpurentalprices, "
            "cherielilili, hemgo, machine-prices, aws-series.",
            metavar="NAME",
        ),
    ],
    provider: Annotated[Text, option("--provider", help="Whose prices (skypilot, gpuhunt).", metavar="NAME")] = None,
    date: Annotated[Text, option("--date", help="The day they were seen.", metavar="DATE")] = None,
    source: Annotated[
        Text, option("--source", help="Its name in the history.", metavar="NAME", default="by format and provider")
    ] = None,
    limit: Limit = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Record a dated price file in the history; the same file twice changes nothing."""
    from catalogs.history import open_history  # noqa: PLC0415
    from fetchers.price_import import import_file  # noqa: PLC0415
    from optimizer.flags import PricesFlags, read_flags  # noqa: PLC0415
    from optimizer.report import prices  # noqa: PLC0415
    from optimizer.report.catalog import print_table  # noqa: PLC0415

    flags = read_flags(PricesFlags, {"date": date, "limit": limit})
    with open_history() as kept:
        looks = list(import_file(kept, file, form, provider=provider, day=flags.date, source=source))
    print_table(prices.imported(looks), json=json, csv=csv, limit=flags.limit)
