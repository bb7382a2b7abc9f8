"""The sections that say why: what lost and by how much, what would be cheaper, what rules keep out."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.plan import Alternative, Cost, Layout, Plan
from optimizer.report.document.html import Piece, bullets, drawing, section, table, tag
from optimizer.report.drawings import Bar, draw_costs
from optimizer.report.text import dollars
from optimizer.rules import get_rule
from optimizer.wording import node_words

MOST_BARS, MOST_ALTERNATIVES = 10, 12


def alternatives_section(plan: Plan, layout: Layout, cost: Cost) -> Piece:
    """Set the answer against the cheapest layout on each other GPU type."""
    priced = [one for one in plan.alternatives if one.usd_per_hour is not None]
    none = [one for one in plan.alternatives if one.usd_per_hour is None]
    if not plan.alternatives:
        return ()
    dearer = [f"{one.gpu} {dollars(one.usd_per_hour)}" for one in priced[MOST_ALTERNATIVES:]]
    bars = [Bar(node_words(layout.nodes, layout.gpus_per_node, layout.gpu), cost.usd_per_hour, chosen=True)]
    bars += [Bar(one.summary.partition(":")[0], one.usd_per_hour or 0.0) for one in priced[: MOST_BARS - 1]]
    return section(
        "Alternatives, and why they lost",
        _priced(priced, bars) if priced else (),
        tag("p", f"Dearer still, an hour: {', '.join(dearer)}.", class_="note") if dearer else (),
        (tag("h3", "No layout on"), bullets(f"{one.gpu}: {one.why}" for one in none)) if none else (),
    )


def _priced(priced: Sequence[Alternative], bars: Sequence[Bar]) -> Piece:
    title, caption = (
        "Cost of the cheapest layout on each GPU type",
        "The cheapest layout on each GPU type, USD an hour.",
    )
    return (
        drawing(lambda width: draw_costs(bars, title=title, width=width), caption),
        table(
            ("an hour", "more", "$/M tokens when full", "layout, and why it is not the answer"),
            [_alternative_row(one) for one in priced[:MOST_ALTERNATIVES]],
            right=(0, 1, 2),
        ),
    )


def _alternative_row(one: Alternative) -> list[Piece]:
    return [
        dollars(one.usd_per_hour),
        f"+{dollars(one.extra_usd_per_hour)}",
        dollars(one.usd_per_million_output_tokens_at_saturation),
        (one.summary, tag("small", one.why)),
    ]


def cheaper_section(plan: Plan) -> Piece:
    """Say which changes to the question would make it cheaper."""
    if not plan.cheaper_if:
        return ()
    rows: list[list[Piece]] = [
        [one.change, tag("code", one.flag), dollars(one.usd_per_hour), dollars(one.saving_usd_per_hour), one.summary]
        for one in plan.cheaper_if
    ]
    heads = ("with", "flag", "an hour", "saves", "layout then")
    return section("What would be cheaper", table(heads, rows, right=(2, 3)))


def ladder_section(plan: Plan) -> Piece:
    """Tell the steps from the question to the answer."""
    if not plan.explanation:
        return ()
    return section("How one gets there", [(tag("h3", step.title), bullets(step.lines)) for step in plan.explanation])


def least_changes_section(plan: Plan) -> Piece:
    """Say what an infeasible question would have to give."""
    if not plan.least_changes:
        return ()
    rows: list[list[Piece]] = [
        [one.change, tag("code", one.flag), dollars(one.usd_per_hour), one.summary] for one in plan.least_changes
    ]
    return section(
        "The least change that would do", table(("change", "flag", "an hour", "layout then"), rows, right=(2,))
    )


def nearest_misses_section(plan: Plan) -> Piece:
    """List layouts that break few rules by little."""
    if not plan.nearest_misses:
        return ()
    rows: list[list[Piece]] = [
        [
            dollars(one.usd_per_hour),
            (one.summary, [tag("small", f"{rule}: {said}") for rule, said in one.breaks.items()]),
        ]
        for one in plan.nearest_misses
    ]
    return section("Nearest misses", table(("an hour", "layout, and what it breaks"), rows, right=(0,)))


def ruled_out_section(plan: Plan) -> Piece:
    """Count what broke each rule."""
    if not plan.ruled_out:
        return ()
    total = sum(plan.ruled_out.values())
    rows = [(name, f"{amount:,}", get_rule(name).meaning) for name, amount in plan.ruled_out.items()]
    return section(
        "What was ruled out",
        tag("p", f"{total:,} of {plan.solver.candidates:,} layouts, each under the first rule that it breaks."),
        table(("rule", "layouts", "what it asks"), rows, right=(1,)),
    )
