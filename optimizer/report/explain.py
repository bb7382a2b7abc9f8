"""A plan explained, as text: what binds, where the money goes, and why not the layout that was named."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding

from optimizer.plan import LadderStep, LeastChange, Miss
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
from optimizer.whatif.explain_answer import Bound, Comparison, Explained, Money, Side, WhyNot

NAMES = {"vram_headroom": "memory per GPU", "ttft": "TTFT", "tpot": "TPOT", "e2e": "end to end"}


def print_explained(found: Explained, console: Console | None = None) -> None:
    """Print an explanation.

    Args:
        found: what there is to say.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    cost = "" if found.usd_per_hour is None else f", {dollars(found.usd_per_hour)}/hour"
    out.print(
        f"{found.status.upper()}  {found.summary}{cost}", style="bold green" if found.usd_per_hour else "bold red"
    )
    _print_reproduced(out, found)
    if found.why_not is not None:
        _print_why_not(out, found.why_not)
    elif found.usd_per_hour is None:
        _print_infeasible(out, found)
    else:
        _print_bounds(out, found)
        if found.money is not None:
            _print_money(out, found.money)
        _print_ladder(out, found.ladder)
    if found.calibration is not None:
        out.print(calibration_words(found.calibration))


def _print_reproduced(out: Console, found: Explained) -> None:
    if found.reproduced:
        out.print(f"Solved again at prices as of {found.prices_as_of}: the plan stands.")
        return
    out.print(f"Warning: at prices as of {found.prices_as_of} the plan could not be reproduced.", style="yellow")
    for said in found.differences:
        bullet_line(out, said)


def _print_infeasible(out: Console, found: Explained) -> None:
    heading(out, "These rules cannot hold together")
    for conflict in found.conflict:
        bullet(out, f"{conflict.rule}: {conflict.meaning}", conflict.needs)
    if found.nearest_misses:
        heading(out, "Nearest misses")
    for miss in found.nearest_misses:
        _print_miss(out, miss)
    _print_changes(out, found.least_changes)


def _print_miss(out: Console, miss: Miss) -> None:
    cost = "" if miss.usd_per_hour is None else f", {dollars(miss.usd_per_hour)}/hour"
    bullet_line(out, f"{miss.summary}{cost}")
    for rule, said in miss.breaks.items():
        out.print(Padding(f"breaks {rule}: {said}", (0, 0, 0, 4)))


def _print_changes(out: Console, changes: tuple[LeastChange, ...]) -> None:
    if not changes:
        return
    heading(out, "The least change to the question that admits it")
    for change in changes:
        bullet(out, f"{change.change} ({change.flag}): {dollars(change.usd_per_hour)}/hour", change.summary)


def _print_bounds(out: Console, found: Explained) -> None:
    heading(out, "What binds, the tightest first")
    table = make_table(
        ("", "left"), ("used", "right"), ("limit", "right"), ("left", "right"), ("given up, it would cost", "left")
    )
    for one in found.bounds:
        name = NAMES.get(one.name, one.name)
        amounts = (_amount(one, one.used), _amount(one, one.limit), share(one.left_share))
        table.add_row(f"{name} {one.where}".strip(), *amounts, _given_up(one))
    out.print(table)
    out.print(found.sized_by)


def _amount(bound: Bound, amount: float) -> str:
    if bound.unit == "ms":
        return milliseconds(amount)
    return dollars(amount) if bound.unit == "USD/h" else f"{count(amount)} {bound.unit}"


def _given_up(bound: Bound) -> str:
    if bound.without_usd_per_hour is None:
        return ""
    if not bound.binds:
        return f"as much ({bound.given_up})"
    return f"{dollars(bound.without_usd_per_hour)}/hour: it binds ({bound.given_up})"


def _print_money(out: Console, money: Money) -> None:
    heading(out, "Where the money goes")
    table = make_table(("", "left"), ("$/hour", "right"), ("share", "right"), ("", "left"))
    for name, amount, said in _money_rows(money):
        table.add_row(name, dollars(amount), share(amount / money.usd_per_hour), said)
    out.print(table)
    out.print(
        f"Memory: {money.memory_needed_gib:,.0f} of {money.memory_rented_gib:,.0f} GiB rented are used with every "
        f"replica full; {share(money.memory_stranded_share)} is stranded ({dollars(money.memory_stranded_usd)} of the "
        "hour by memory, headroom included)."
    )


def _money_rows(money: Money) -> list[tuple[str, float, str]]:
    return [
        ("work", money.work, "computing and reading memory"),
        ("communication", money.communication, f"{share(money.communication_share)} of a decode step at this traffic"),
        ("idle capacity", money.idle_capacity, f"replicas are {share(money.utilization)} used"),
        ("idle GPUs", money.idle_gpus, "rented, and hold no replica"),
    ]


def _print_ladder(out: Console, ladder: tuple[LadderStep, ...]) -> None:
    if not ladder:
        return
    heading(out, "How one gets there")
    for step in ladder:
        out.print(step.title, style="bold")
        for line in step.lines:
            out.print(Padding(line, (0, 0, 0, 3)))


def _print_why_not(out: Console, found: WhyNot) -> None:
    heading(out, f"Why not {found.asked!r}")
    read = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.understood.items())
    out.print(f"Read as {read}.")
    out.print(_verdict(found))
    if found.nearest is not None:
        _print_miss(out, found.nearest)
    _print_changes(out, found.least_changes)
    if found.ways_out:
        heading(out, "The same but for one part, and it works")
        for way in found.ways_out:
            sign = "-" if way.extra_usd_per_hour < 0 else "+"
            extra = f"{sign}{dollars(abs(way.extra_usd_per_hour))}"
            bullet(out, f"{way.instead}: {dollars(way.usd_per_hour)}/hour ({extra})", way.summary)
    if found.comparison is not None and found.verdict != "is_the_plan":
        _print_comparison(out, found.comparison)


def _verdict(found: WhyNot) -> str:
    extra = found.comparison.extra_usd_per_hour if found.comparison is not None else 0.0
    reason = found.comparison.reason if found.comparison is not None else ""
    return {
        "is_the_plan": "It is the plan.",
        "dearer": f"It keeps every rule and costs {dollars(extra)}/hour more.",
        "same_cost": f"It keeps every rule and costs the same; {reason}.",
        "cheaper": f"It keeps every rule and costs {dollars(-extra)}/hour less than the plan: solve anew.",
        "breaks_rules": f"None of {found.matches:,} choices that fit keeps every rule. The nearest:",
        "cannot_run": "The model or the hardware rules it out. The nearest:",
        "not_on_offer": "It is not on offer:",
    }[found.verdict]


def _print_comparison(out: Console, compared: Comparison) -> None:
    heading(out, "Side by side")
    table = make_table(("", "left"), ("plan", "right"), ("other", "right"), ("difference $/h", "right"))
    costs = dollars(compared.plan.usd_per_hour), dollars(compared.other.usd_per_hour)
    together = ("together", *costs, _signed(compared.extra_usd_per_hour))
    for row, difference in zip(_bought_rows(compared.plan, compared.other), compared.bought, strict=True):
        table.add_row(*row, _signed(difference.usd_per_hour))
    table.add_row(*together, end_section=True)
    sides = zip(_money_rows(compared.plan.money), _money_rows(compared.other.money), compared.spent, strict=True)
    for (name, mine, _), (_, theirs, _), part in sides:
        table.add_row(f"spent on {name}", dollars(mine), dollars(theirs), _signed(part.usd_per_hour))
    table.add_row(*together, end_section=True)
    for name, plan, other in _other_rows(compared.plan, compared.other):
        table.add_row(name, plan, other, "")
    out.print(table)
    out.print(f"plan: {compared.plan.summary}")
    out.print(f"other: {compared.other.summary}")
    for name, side in (("plan", compared.plan), ("other", compared.other)):
        out.print(f"- {name}: a replica carries {side.capacity_per_replica} ({side.limited_by})")


def _signed(amount: float) -> str:
    if abs(amount) < 5e-7:
        return "$0.00"
    return f"{'-' if amount < 0 else '+'}{dollars(abs(amount))}"


def _bought_rows(plan: Side, other: Side) -> list[tuple[str, str, str]]:
    def of(name: str) -> tuple[str, str]:
        return str(getattr(plan, name)), str(getattr(other, name))

    return [
        ("price per GPU-hour", dollars(plan.price_usd_per_gpu_hour), dollars(other.price_usd_per_gpu_hour)),
        ("GPUs per replica", *of("gpus_per_replica")),
        ("replicas", *of("replicas")),
        ("idle GPUs", *of("gpus_idle")),
    ]


def _other_rows(plan: Side, other: Side) -> list[tuple[str, str, str]]:
    rows = [
        ("GPUs rented", f"{plan.gpus_rented}", f"{other.gpus_rented}"),
        ("utilization", share(plan.money.utilization), share(other.money.utilization)),
        ("communication in a step", share(plan.money.communication_share), share(other.money.communication_share)),
        ("memory stranded", share(plan.money.memory_stranded_share), share(other.money.memory_stranded_share)),
        ("TTFT", milliseconds(plan.ttft_ms), milliseconds(other.ttft_ms)),
        ("TPOT", milliseconds(plan.tpot_ms), milliseconds(other.tpot_ms)),
    ]
    mine, theirs = (dollars(side.usd_per_million_output_tokens) for side in (plan, other))
    return [*rows, ("$ per million tokens", mine, theirs)]
