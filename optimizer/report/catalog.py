"""The catalogs as tables, JSON or CSV."""

from __future__ import annotations

import csv as csv_module
import json as json_module
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalogs.errors import UnknownNameError
from catalogs.gpus import get_gpu, load_gpus
from catalogs.models import bundled_models, load_model
from catalogs.nodes import load_nodes
from optimizer.errors import QuestionError
from optimizer.report.columns import Column, line_width, render

if TYPE_CHECKING:
    from catalogs.offers import OfferTable

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows to show: all fields go to JSON and CSV, those of `columns` to the table."""

    rows: list[Row]
    columns: dict[str, Column]
    note: str = ""


def print_table(listing: Listing, *, json: bool, csv: bool, limit: int = 0) -> None:
    """Print a listing as JSON, CSV, or a table of at most `limit` rows (0: all).

    Raises:
        QuestionError: both formats are asked for.
    """
    if json and csv:
        raise QuestionError("--json and --csv exclude each other; give one of them")
    if json:
        sys.stdout.write(json_module.dumps(listing.rows, indent=2, default=str) + "\n")
    elif csv:
        _print_csv(listing)
    else:
        _print_text(listing, limit)


def _print_csv(listing: Listing) -> None:
    fields = list(listing.rows[0]) if listing.rows else list(listing.columns)
    writer = csv_module.DictWriter(sys.stdout, fields, lineterminator="\n")
    writer.writeheader()
    for row in listing.rows:
        writer.writerow({name: safe_cell(_flat(value)) for name, value in row.items()})


def _flat(value: Any) -> Any:
    return ";".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, dict) else value


def safe_cell(value: Any) -> Any:
    """Keep a spreadsheet from reading a text as a formula: an apostrophe goes before what would begin one."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _print_text(listing: Listing, limit: int) -> None:
    shown = listing.rows[:limit] if limit else listing.rows
    width = line_width()
    table, left_out = render(shown, listing.columns, width)
    all_rows = f" of {len(listing.rows):,}" if len(shown) < len(listing.rows) else ""
    notes = [f"{len(shown):,}{all_rows} {'row' if len(listing.rows) == 1 else 'rows'}.", listing.note]
    notes += [f"No room for: {', '.join(left_out)} (a wider terminal, --csv or --json)."] if left_out else []
    lines = " ".join(filter(None, notes)).split("\n")
    said = "\n".join(
        textwrap.fill(line, width or 120, break_on_hyphens=False, break_long_words=False) for line in lines
    )
    sys.stdout.write(f"{table}\n\n{said}\n")


def _holds(match: str | None, *names: str) -> bool:
    return match is None or any(match.lower() in name.lower() for name in names)


def gpus(match: str | None) -> Listing:
    """GPU types whose name or family holds `match`."""
    rows = [gpu.model_dump() for gpu in load_gpus().values() if _holds(match, gpu.name, gpu.family)]
    for row in rows:
        flops = row["dense_tflops"]
        row["tflops_16bit"] = flops.get("bf16", flops.get("fp16"))
        row["tflops_8bit"] = flops.get("fp8", flops.get("int8"))
    columns = {
        "name": Column("GPU"),
        "memory_gib": Column("GiB", digits=1),
        "memory_bandwidth_gb_per_s": Column("GB/s", digits=0),
        "tflops_16bit": Column("16-bit", digits=0),
        "tflops_8bit": Column("8-bit", digits=0),
        "scale_up_gpus": Column("domain", digits=0),
        "scale_up_gb_per_s": Column("link GB/s", 1, digits=0),
        "scale_up_kind": Column("joined by", 2),
        "family": Column("family", 3),
    }
    return Listing(
        rows,
        columns,
        "GiB as the driver reports them; dense TFLOP/s; GPUs in a scale-up domain, and its GB/s per GPU each way. "
        "--json has every figure with its source.",
    )


def models(match: str | None) -> Listing:
    """Bundled models whose name holds `match`."""
    specs = [load_model(name) for name in bundled_models() if _holds(match, name)]
    names = [name for name in bundled_models() if _holds(match, name)]
    rows: list[Row] = [
        {
            "name": name,
            "architecture": spec.architecture,
            "total_parameters": spec.total_parameters,
            "active_parameters": spec.active_parameters,
            "total_billions": spec.total_parameters / 1e9,
            "active_billions": spec.active_parameters / 1e9,
            "layers": len(spec.layers),
            "attention": "+".join(f"{amount} {kind}" for kind, amount in spec.attention_kinds.items()),
            "kv_bytes_per_token": int(spec.kv_bytes_per_token("bf16")),
            "max_context_tokens": spec.max_context_tokens,
            "checkpoint": str(spec.checkpoint.weights),
            "weights_gib": spec.weight_bytes() / 2**30,
            "source": spec.source,
        }
        for name, spec in zip(names, specs, strict=True)
    ]
    columns = {
        "name": Column("model"),
        "total_billions": Column("B params", 1, digits=1),
        "active_billions": Column("active", 4, digits=1),
        "checkpoint": Column("weights", 2),
        "weights_gib": Column("GiB", 5, digits=1),
        "kv_bytes_per_token": Column("KV B/token", 6, digits=0),
        "max_context_tokens": Column("context", 3, digits=0),
    }
    return Listing(
        rows, columns, "KV bytes per token in bf16, windows not applied. A config.json of your own works too."
    )


def nodes(match: str | None, provider: str | None, gpu: str | None) -> Listing:
    """Node shapes, by provider and GPU."""
    known = load_nodes().values()
    provider = _known("provider", provider, {node.provider for node in known})
    gpu = None if gpu is None else get_gpu(gpu).name
    rows = [
        node.model_dump()
        for node in known
        if _holds(match, node.instance_type) and provider in (None, node.provider) and gpu in (None, node.gpu)
    ]
    columns = {
        "provider": Column("provider"),
        "instance_type": Column("instance type"),
        "gpu": Column("GPU", 1),
        "gpus_per_node": Column("GPUs", 2, digits=0),
        "fabric": Column("fabric", 4),
        "scale_up_gpus": Column("domain", 6, digits=0),
        "network": Column("network", 3),
        "network_gbit_per_s": Column("Gbit/s", 5, digits=0),
    }
    return Listing(rows, columns)


def _known(kind: str, name: str | None, known: Iterable[str]) -> str | None:
    names = sorted(set(known))
    if name is not None and name not in names:
        raise UnknownNameError(kind, name, names)
    return name


def offers(
    match: str | None,
    provider: str | None,
    gpu: str | None,
    term: str | None,
    region: str | None,
    as_of: date | None,
    files: tuple[Path, ...],
    table: OfferTable | None = None,
) -> Listing:
    """Priced offers on a day, the cheapest per GPU-hour first; of `table`, where the caller has it already."""
    import pandas as pd  # noqa: PLC0415  the other listings need no pandas

    from catalogs.offers import load_offers  # noqa: PLC0415

    table = table or load_offers(as_of, files)
    frame = table.frame
    for column, wanted in (("provider", provider), ("term", term), ("region", region)):
        if wanted is not None:
            frame = frame[frame[column] == _known(column, wanted, frame[column].astype(str).unique())]
    if gpu is not None:
        frame = frame[frame["gpu"] == get_gpu(gpu).name]
    if match is not None:
        frame = frame[frame["instance_type"].astype(str).str.contains(match, case=False, regex=False)]
    frame = frame.assign(price_usd_per_gpu_hour=frame["price_usd_per_node_hour"] / frame["gpus_per_node"])
    frame = frame.sort_values("price_usd_per_gpu_hour", kind="stable")
    frame = frame.assign(seen_on=frame["seen_on"].dt.date)
    rows = [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    columns = {
        "price_usd_per_gpu_hour": Column("$/GPU-h", digits=3),
        "price_usd_per_node_hour": Column("$/node-h", digits=2),
        "gpus_per_node": Column("GPUs", digits=0),
        "gpu": Column("GPU"),
        "provider": Column("provider"),
        "region": Column("region", 2),
        "term": Column("term", 1),
        "instance_type": Column("instance type", 3),
        "seen_on": Column("seen on", 4),
    }
    return Listing(rows, columns, f"Prices as of {table.as_of}.")
