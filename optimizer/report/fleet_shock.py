"""A fleet's price shock as text: keep or move, what each part does alone, which nodes and pools change."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from optimizer.report.fleet import print_fleet
from optimizer.report.fleet_words import range_words
from optimizer.report.text import calibration_words, dollars, heading, make_console, make_table
from optimizer.whatif.fleet_shock_answer import (
    FleetEffect,
    FleetShock,
    FleetStaying,
    NodesChange,
    PoolChange,
    PricedFleet,
)
from optimizer.wording import place_words

STYLES = {
    "keep": "bold green",
    "move": "bold yellow",
    "start": "bold green",
    "infeasible": "bold red",
    "unknown": "bold red",
}

LEAST_SAID_USD = 1e-6


def print_fleet_shock(found: FleetShock, console: Console | None = None) -> None:
    """Print what a shock does to a fleet.

    Args:
        found: what there is to say.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    out.print(f"{found.verdict.upper()}  {_verdict(found)}", style=STYLES[found.verdict])
    if found.before is not None:
        out.print(f"Before: {_fleet_words(found.before)}")
    if found.staying is not None:
        out.print(_staying(found.staying))
    if (after := found.after).cost is not None:
        out.print(
            f"After: {after.summary}, {dollars(after.cost.usd_per_hour)}/hour{_proof(after.cost.gap)}, "
            f"{dollars(after.cost.usd_per_million_output_tokens)} per million output tokens at this traffic"
        )
    for said in _notes(found):
        out.print(said)
    _print_effects(out, found.effects)
    _print_nodes(out, found.nodes)
    _print_pools(out, found.pools)
    out.print()
    how = (
        "every answer proved and audited" if _all_proved(found) else "every answer audited, those without a gap proved"
    )
    out.print(f"{found.question}; list prices as of {found.prices_as_of}, changed; {how}.")
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))
    if found.after.cost is None:
        heading(out, "After the shock")
        print_fleet(found.after, console=out)


def _all_proved(found: FleetShock) -> bool:
    return found.proved and all(one.proved for one in found.effects)


def _verdict(found: FleetShock) -> str:
    staying = found.staying
    if found.verdict == "infeasible":
        return "no fleet is feasible after the shock"
    if found.verdict == "unknown":
        return "the solver found no fleet within its time limit, and the one from before cannot stay"
    if found.verdict == "start":
        return "no fleet was found before; now there is one"
    if found.verdict == "keep":
        return _why_keep(found)
    extra = None if staying is None else staying.extra_usd_per_hour
    if staying is None or extra is None:
        return "the fleet from before cannot stay"
    return f"staying costs {dollars(extra)}/hour more, {dollars(staying.extra_usd_per_month)}/month"


def _why_keep(found: FleetShock) -> str:
    staying = found.staying
    if staying is not None and staying.within_open:
        return (
            f"the fleet from before: one {dollars(staying.extra_usd_per_hour)}/hour cheaper was found, which is within "
            f"the {dollars(found.open_usd_per_hour)}/hour that the solver left open"
        )
    if found.after.status == "optimal":
        return "the fleet from before still costs the least"
    return "no fleet cheaper than the one from before was found within the time limit"


def _fleet_words(fleet: PricedFleet) -> str:
    return f"{fleet.summary}, {dollars(fleet.usd_per_hour)}/hour{_proof(fleet.gap)}"


def _proof(gap: float) -> str:
    return f" (not proved: gap {gap:.2%})" if gap > 0 else ""


def _staying(staying: FleetStaying) -> str:
    if not staying.available:
        return f"Staying: not possible, {'; '.join(staying.gone)} cannot be had"
    broken = "; ".join(f"breaks {rule}: {said}" for rule, said in staying.breaks.items())
    return f"Staying: {dollars(staying.usd_per_hour)}/hour at the new prices{f', but {broken}' if broken else ''}"


def _notes(found: FleetShock) -> list[str]:
    said = []
    staying, before = found.staying, found.before
    if staying is not None and staying.most_usd_per_hour and not found.proved:
        said.append(f"Proved: no move saves more than {dollars(staying.most_usd_per_hour)}/hour.")
    if found.verdict == "move" and before is not None and before.gap > 0:
        left = before.usd_per_hour - before.bound_usd_per_hour
        said.append(
            f"The fleet from before is not proved the cheapest: up to {dollars(left)}/hour may have been to save "
            "before the shock."
        )
    if found.verdict == "move" and before is not None and before.committed_usd_per_hour > 0:
        said.append(
            f"{dollars(before.committed_usd_per_hour)}/hour of the fleet from before is committed: where that is "
            "signed or bought already, it is paid on after a move, at the old prices."
        )
    return said


def _print_effects(out: Console, effects: tuple[FleetEffect, ...]) -> None:
    heading(out, "What each part does" if len(effects) > 1 else "What it does")
    table = make_table(
        ("change", "left"),
        ("offers", "right"),
        ("staying", "right"),
        ("best", "right"),
        ("the answer then", "left"),
    )
    for one in effects:
        cost = None if one.answer is None else one.answer.usd_per_hour
        whole = one is effects[-1]
        table.add_row(
            one.change, f"{one.offers:,}", dollars(one.staying_usd_per_hour), dollars(cost), _then(one, whole)
        )
    out.print(table)
    out.print("Staying, best: $/hour of the fleet from before, and of the best one that was found.")


def _then(one: FleetEffect, whole: bool) -> str:
    """Say what the answer is after one part; after all of them it stands above already."""
    if one.answer is None:
        if one.verdict == "keep":
            return "the same fleet: none was found in time"
        return "no fleet is feasible" if one.verdict == "infeasible" else "none was found in time"
    proof = _proof(one.answer.gap)
    if one.verdict == "keep":
        cheaper = (one.staying_usd_per_hour or 0.0) - one.answer.usd_per_hour > LEAST_SAID_USD
        return f"the same fleet{': the difference is within what is left open' if cheaper else ''}{proof}"
    return f"the fleet after the shock{proof}" if whole else f"{one.answer.summary}{proof}"


def _print_nodes(out: Console, nodes: Sequence[NodesChange]) -> None:
    if not nodes:
        return
    heading(out, "What is rented otherwise")
    table = make_table(
        ("before", "right"), ("after", "right"), ("$/hour", "right"), ("$/hour then", "right"), ("", "left")
    )
    for one in nodes:
        place = place_words(one.model_dump())
        contract = "" if one.contract is None else f", your contract {one.contract + 1}"
        table.add_row(
            range_words(one.before_by_period),
            range_words(one.after_by_period),
            dollars(one.before_usd_per_hour),
            dollars(one.after_usd_per_hour),
            f"{one.gpus_per_node}x {one.gpu} ({place}){contract}",
        )
    out.print(table)


def _print_pools(out: Console, pools: Sequence[PoolChange]) -> None:
    if not pools:
        return
    heading(out, "What runs otherwise")
    table = make_table(("before", "right"), ("after", "right"), ("replicas of", "left"))
    for one in pools:
        where = f"{one.gpus_per_node}x {one.gpu} ({one.provider}{'' if one.region == 'global' else f' {one.region}'})"
        table.add_row(
            range_words(one.before_by_period),
            range_words(one.after_by_period),
            f"{one.model} in {one.replica} on {where}{_targets(one)}",
        )
    out.print(table)


def _targets(one: PoolChange) -> str:
    kept = [(name, one.targets.get(f"{name}_ms")) for name in ("ttft", "tpot", "e2e")]
    said = [f"{name.upper()} {value:g} ms" for name, value in kept if isinstance(value, (int, float))]
    return f", within {', '.join(said)}" if said else ""
