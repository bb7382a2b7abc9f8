"""A fleet's plan explained, as text: what binds in each pool and in the whole, and where the money goes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from optimizer.report.explain import NAMES
from optimizer.report.text import (
    bullet,
    bullet_line,
    calibration_words,
    count,
    dollars,
    heading,
    make_console,
    make_table,
    milliseconds,
    share,
)
from optimizer.whatif.explain_answer import Bound
from optimizer.whatif.fleet_explain_answer import ClassMoney, FleetExplained, FleetMoney, GivenUp, Paid, PoolExplained

LEAST_USD = 5e-5  # an hour; what is less is not named
MOST_CLASSES = 12

Row = tuple[float, str]  # dollars an hour, and what for


def print_fleet_explained(found: FleetExplained, console: Console | None = None) -> None:
    """Print an explanation.

    Args:
        found: what there is to say.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    cost = "" if found.usd_per_hour is None else f", {dollars(found.usd_per_hour)}/hour"
    style = "bold green" if found.usd_per_hour else "bold red"
    out.print(f"{found.status.upper()}  {found.summary}{cost}", style=style)
    _print_reproduced(out, found)
    if found.conflict:
        heading(out, "These rules cannot hold together")
    for conflict in found.conflict:
        bullet(out, f"{conflict.rule}: {conflict.meaning}", conflict.needs)
    for pool in found.pools:
        _print_pool(out, pool)
    if found.limits:
        heading(out, "The fleet as a whole, the tightest first")
        out.print(_bounds(found.limits))
    _print_given_up(out, found.given_up)
    if found.money is not None:
        _print_money(out, found.money)
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))


def _print_reproduced(out: Console, found: FleetExplained) -> None:
    if found.reproduced:
        again = found.solved_again_usd_per_hour
        same = again is None or found.usd_per_hour is None or abs(again - found.usd_per_hour) < LEAST_USD
        other = "" if same else f" (found again: {dollars(again)}/hour; neither is proved to be the least)"
        out.print(f"Audited and solved again at prices as of {found.prices_as_of}: the plan stands{other}.")
        return
    out.print(f"Warning: at prices as of {found.prices_as_of} the plan could not be reproduced.", style="yellow")
    for said in found.differences:
        bullet_line(out, said)


def _print_pool(out: Console, pool: PoolExplained) -> None:
    heading(out, f"What binds in {pool.id}, the tightest first")
    out.print(f"{pool.replicas}: {pool.limited_by}; {pool.sized_by}.")
    out.print(_bounds(pool.bounds))


def _bounds(bounds: Sequence[Bound]) -> Table:
    table = make_table(("used", "right"), ("limit", "right"), ("left", "right"), ("", "left"))
    for one in bounds:
        name = NAMES.get(one.name, one.name.replace("_", " "))
        table.add_row(
            _amount(one, one.used), _amount(one, one.limit), share(one.left_share), f"{name} {one.where}".strip()
        )
    return table


def _amount(bound: Bound, amount: float) -> str:
    if bound.unit == "ms":
        return milliseconds(amount)
    if bound.unit == "USD/h":
        return dollars(amount)
    if bound.unit.startswith("of "):
        return f"{amount:.1%}"
    return f"{count(amount)} {bound.unit}"


def _print_given_up(out: Console, found: Sequence[GivenUp]) -> None:
    if not found:
        return
    heading(out, "What holds the cost up: given up, it would cost")
    table = make_table(("$/hour", "right"), ("less", "right"), ("", "left"))
    for one in found:
        if one.usd_per_hour is None:
            table.add_row("-", "-", f"{one.rule}: none was found in time")
            continue
        proof = "" if one.proved else " (at most: not proved)"
        less = f"-{dollars(one.saves_usd_per_hour)}" if one.saves_usd_per_hour > 0 else "$0.00"
        within = "" if one.binds or one.saves_usd_per_hour == 0 else ", within what the plan left open"
        cost = one.usd_per_hour
        table.add_row(dollars(cost), less, f"{one.rule}{': it binds' if one.binds else ''}{within}{proof}")
    out.print(table)


def _print_money(out: Console, money: FleetMoney) -> None:
    heading(out, "Where the money goes, an hour on average")
    table = make_table(("$/hour", "right"), ("share", "right"), ("", "left"))
    for block in _blocks(money):
        for number, (amount, said) in enumerate(block, start=1):
            table.add_row(dollars(amount), share(amount / money.usd_per_hour), said, end_section=number == len(block))
    out.print(table)
    out.print(
        f"Each block adds up to the {dollars(money.usd_per_hour)}; pools and classes include their idle capacity."
    )
    if money.committed_usd_per_hour > 0:
        out.print(f"{dollars(money.committed_usd_per_hour)}/hour is committed, whatever runs.")


def _blocks(money: FleetMoney) -> list[list[Row]]:
    """Return the ways in which the dollars are split: by what is done, by pool, by class, by site, by payment."""
    spent = [row for row in _spent(money) if row[0] > LEAST_USD]
    outside = [(amount, said.partition(":")[0]) for amount, said in _spent(money)[3:] if amount > LEAST_USD]
    pools = [(one.usd_per_hour, f"{one.id}: {share(one.utilization)} used over the hours") for one in money.pools]
    sites = [(one.usd_per_hour, f"{one.id}: {one.what}") for one in money.sites]
    paid = [(one.usd_per_hour, _paid_words(one)) for one in money.paid]
    by_site = [sites] if len(paid) > len(sites) else []  # where each is paid for in one way, that says it all
    return [spent, pools + outside, _of_classes(money) + outside, *by_site, paid]


def _of_classes(money: FleetMoney) -> list[Row]:
    found = []
    for one in money.classes[:MOST_CLASSES]:
        each = one.usd_per_million_output_tokens
        tokens = "" if each is None else f": {dollars(each)} per million output tokens"
        found.append((one.usd_per_hour, f"class {one.class_name}{_of_model(money, one)}{tokens}"))
    if more := money.classes[MOST_CLASSES:]:
        found.append((sum(one.usd_per_hour for one in more), f"{len(more)} more classes"))
    if money.standing_by > LEAST_USD:
        found.append((money.standing_by, "replicas in hours in which they serve nothing"))
    return found


def _of_model(money: FleetMoney, one: ClassMoney) -> str:
    several = len({each.model for each in money.classes}) > 1
    return f" of {one.model}" if several and one.model != one.class_name else ""


def _spent(money: FleetMoney) -> list[Row]:
    hours = sum(one.idle_node_hours for one in money.sites)
    return [
        (money.work, "work: computing and reading memory"),
        (money.communication, "communication between GPUs"),
        (money.idle_capacity, "idle capacity: what replicas could carry and do not"),
        (money.idle_gpus, "idle GPUs, on nodes that hold a replica"),
        (money.idle_nodes, f"idle nodes: {hours:,.3g} node-hours of the cycle, paid for and empty"),
        (money.starts, "start-ups: nodes switched on"),
    ]


def _paid_words(paid: Paid) -> str:
    contract = "" if paid.contract is None else f", your contract {paid.contract + 1}"
    nodes = f"{paid.nodes:,.3g} {'node' if paid.nodes == 1 else 'nodes'} of {paid.site} ({paid.what})"
    besides = [
        f"{dollars(amount)} {said}"
        for amount, said in ((paid.beyond_price, "beyond the price billed"), (paid.starts, "start-ups"))
        if amount > LEAST_USD
    ]
    of = f", of it {' and '.join(besides)}" if besides else ""
    return f"{paid.term}{contract}: {nodes}{of}"
