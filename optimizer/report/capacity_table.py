"""The answer to a capacity table, as tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from optimizer.fleet.capacity_table import CapacityAnswer, KindUse, ShareUse
from optimizer.report.text import amount_of, dollars, heading, make_console, make_table, packed, share

SHARES_ARE = {
    "continuous": "any share of a class may go to a kind",
    "slices": "each slice of a class goes to one kind",
    "one kind": "each model runs on one kind",
}


def print_capacity_answer(answer: CapacityAnswer, console: Console | None = None) -> None:
    """Print an answer: what to run, what it costs and whether that is proved, and where the traffic goes."""
    out = console or make_console()
    name = f"{answer.name}: " if answer.name else ""
    if answer.usd_per_hour is None:
        _print_nothing(out, answer, name)
        return
    replicas = sum(use.replicas for use in answer.kinds)
    kinds = len(answer.kinds)
    out.print(
        f"{answer.status.upper()}  {name}{amount_of(replicas, 'replica')} of {amount_of(kinds, 'kind')}, "
        f"{dollars(answer.usd_per_hour)}/hour",
        style="bold green",
    )
    out.print(_proof(answer))
    _print_kinds(out, answer.kinds)
    _print_shares(out, answer.shares)


def _proof(answer: CapacityAnswer) -> str:
    several = answer.shares_are == "continuous" and any(use.model for use in answer.kinds)
    how = "a model may run on several kinds" if several else SHARES_ARE[answer.shares_are]
    if answer.status == "optimal":
        return f"Proved in {answer.seconds:.2f} s: no choice of replicas costs less, where {how}."
    known = "nothing is known of the least cost"
    if answer.bound_usd_per_hour is not None and answer.gap is not None:
        known = f"the cheapest may cost down to {dollars(answer.bound_usd_per_hour)}/hour (gap {answer.gap:.1%})"
    return f"Not proved within the time limit: {known}, where {how}."


def _print_nothing(out: Console, answer: CapacityAnswer, name: str) -> None:
    if answer.status == "unknown":
        out.print(f"UNKNOWN  {name}the solver found no answer within the time limit", style="bold yellow")
        return
    out.print(f"INFEASIBLE  {name}no replicas carry this traffic", style="bold red")
    if answer.conflict:
        out.print("These cannot hold together:")
        packed(out, answer.conflict, indent=2)


def _print_kinds(out: Console, kinds: Iterable[KindUse]) -> None:
    several, counted = any(use.model for use in kinds), any(use.units for use in kinds)
    heading(out, "Replicas")
    columns = [("kind", "left"), ("replicas", "right"), ("busy", "right"), ("$/hour", "right")]
    columns = [("model", "left"), *columns] if several else columns
    columns += [("units", "right"), ("of", "left")] if counted else []
    table = make_table(*columns)
    for use in kinds:
        cells = [use.kind, f"{use.replicas:,}", share(use.busy_replicas / use.replicas), dollars(use.usd_per_hour)]
        cells = [use.model, *cells] if several else cells
        cells += [f"{use.units:,}", use.gpu] if counted else []
        table.add_row(*cells)
    out.print(table)


def _print_shares(out: Console, shares: Iterable[ShareUse]) -> None:
    cells = {(use.row, use.column) for use in shares}
    if len(cells) <= 1:
        return
    heading(out, "Where each class goes (row and column of class_shares, from 0)")
    of_kind: dict[str, list[str]] = {}
    for use in shares:
        part = "" if use.share > 1 - 1e-9 else f" {use.share:.1%}"
        of_kind.setdefault(use.kind, []).append(f"{use.row}/{use.column}{part}")
    for kind, classes in of_kind.items():
        out.print(f"- {kind}:")
        packed(out, classes, indent=4)
