"""What budgets buy, as tables: one over all budgets, then what holds each answer back and what more money adds."""

from __future__ import annotations

from rich.console import Console

from optimizer.report.text import bullet, count, dollars, heading, make_console, make_table
from optimizer.whatif.budget_report import Bought, BudgetReport

TITLES = {
    "traffic": "most traffic",
    "context": "longest context",
    "tpot": "least TPOT",
    "ttft": "least TTFT",
    "precision": "highest precision",
}
UNITS = {
    "request_rate": "requests/s",
    "concurrency": "requests in flight",
    "output_tokens_per_second": "output tokens/s",
    "tokens": "tokens",
    "ms": "ms",
}


def print_budgets(report: BudgetReport) -> None:
    """Print what each budget buys."""
    out = make_console()
    model = report.scenario["model"]
    out.print(f"WHAT BUDGETS BUY  {model}", style="bold green")
    if report.least_usd_per_hour is None:
        out.print("As it is asked, the scenario has no answer at any budget; `shardwise solve` says why.")
    else:
        out.print(f"As it is asked, the scenario costs {dollars(report.least_usd_per_hour)}/hour at the least.")
    at = "means" if report.at == "mean" else f"{report.at} of requests"
    out.print(
        f"Each is the most over the whole catalog with every rule kept. Latencies are {at}, at the traffic asked."
    )
    for answer in report.budgets:
        enough = "" if answer.enough else " (not enough for the scenario as it is asked)"
        heading(out, f"{dollars(answer.usd_per_hour)}/hour{enough}")
        table = make_table(("", "left"), ("buys", "left"), ("$/hour", "right"), ("layout", "left"))
        for one in answer.bought:
            table.add_row(TITLES[one.what], _said(one), dollars(one.usd_per_hour), _layout(one))
        out.print(table)
        for one in answer.bought:
            if one.value is not None and one.same_as_usd_per_hour is None:
                _print_reasons(out, one)


def _said(one: Bought) -> str:
    if one.same_as_usd_per_hour is None:
        return one.said
    return f"{one.said}, the same as {dollars(one.same_as_usd_per_hour)} buys"


def _layout(one: Bought) -> str:
    if one.summary is not None:
        return one.summary
    if one.least_usd_per_hour is None:
        return "no budget buys any"
    return f"{dollars(one.least_usd_per_hour)}/hour is the least that buys any"


def _print_reasons(out: Console, one: Bought) -> None:
    """Say what holds an answer back, and what more money buys."""
    bullet(out, f"{TITLES[one.what]}: {_bound(one)}", _next(one))


def _bound(one: Bought) -> str:
    rules = [f"{binding.words} (else {binding.said})" for binding in one.binds if binding.rule != "budget"]
    by_budget = any(binding.rule == "budget" for binding in one.binds)
    if not one.binds and one.what == "precision":
        return "the checkpoint itself is no wider"
    if not one.binds:
        return "no rule given up alone gives more"
    parts = (["the budget"] if by_budget else []) + rules
    return f"bound by {'; '.join(parts)}"


def _next(one: Bought) -> str:
    average = ""
    if one.what == "traffic" and one.tokens_per_usd is not None:
        average = f" On average a dollar buys {count(one.tokens_per_usd)} output tokens."
    if one.next is None:
        return f"More money buys no more.{average}"
    unit = UNITS.get(one.unit, one.unit)
    gain = "" if one.what == "precision" else f": {_figure(one.next.gain_per_usd)} {unit} a dollar more"
    less = gain.replace("a dollar more", "less a dollar") if one.unit == "ms" else gain
    tokens = ""
    if one.next.tokens_per_usd is not None:
        tokens = f", or {count(one.next.tokens_per_usd)} output tokens"
    return f"The next step is {dollars(one.next.usd_per_hour)}/hour for {one.next.said}{less}{tokens}.{average}"


def _figure(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.2g}"
