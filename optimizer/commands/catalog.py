"""`shardwise catalog`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from optimizer.cli_options import OUTPUT, AsOf, Csv, Json, Match, OffersFile, OfGpu, OfProvider, Text, option

catalog_app = typer.Typer(help="List what the catalog holds.", no_args_is_help=True)


@catalog_app.command("gpus")
def catalog_gpus(match: Match = None, json: Json = False, csv: Csv = False) -> None:
    """List GPU types: usable memory, bandwidth, dense FLOP/s, scale-up domain."""
    from optimizer.report import catalog  # noqa: PLC0415

    catalog.print_table(catalog.gpus(match), json=json, csv=csv)


@catalog_app.command("models")
def catalog_models(match: Match = None, json: Json = False, csv: Csv = False) -> None:
    """List bundled models: parameters, KV bytes per token, context, checkpoint format."""
    from optimizer.report import catalog  # noqa: PLC0415

    catalog.print_table(catalog.models(match), json=json, csv=csv)


@catalog_app.command("nodes")
def catalog_nodes(
    match: Match = None, provider: OfProvider = None, gpu: OfGpu = None, json: Json = False, csv: Csv = False
) -> None:
    """List rentable node shapes: GPUs, fabric, network."""
    from optimizer.report import catalog  # noqa: PLC0415

    catalog.print_table(catalog.nodes(match, provider, gpu), json=json, csv=csv)


@catalog_app.command("offers")
def catalog_offers(
    match: Match = None,
    provider: OfProvider = None,
    gpu: OfGpu = None,
    term: Annotated[Text, option("--term", help="Only this term.", metavar="TERM")] = None,
    region: Annotated[Text, option("--region", help="Only this region.", metavar="NAME")] = None,
    as_of: AsOf = None,
    offers_file: OffersFile = None,
    limit: Annotated[
        Text, option("--limit", help="Most rows in a table; 0 shows all.", metavar="N", default="50", panel=OUTPUT)
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List priced offers, cheapest per GPU first."""
    from optimizer.flags import OffersFlags, read_flags  # noqa: PLC0415
    from optimizer.report import catalog  # noqa: PLC0415

    flags = read_flags(OffersFlags, {"as_of": as_of, "limit": limit})
    table = catalog.offers(match, provider, gpu, term, region, flags.as_of, tuple(offers_file or ()))
    catalog.print_table(table, json=json, csv=csv, limit=flags.limit)
