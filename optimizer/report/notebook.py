"""Answers as notebooks show them: a sentence, its figures, a drawing, a table. HTML that brings its own style along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from optimizer.fit import Fit
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.predict import Speed
from optimizer.report.document.answer import answer_title
from optimizer.report.document.fleet import fleet_title
from optimizer.report.document.html import Markup, Piece, bullets, content, facts, table, tag
from optimizer.report.document.parts import tiles
from optimizer.report.drawings import colours_css, draw_fleet_nodes, draw_latency, draw_layout, draw_memory
from optimizer.report.drawings.svg import FONT
from optimizer.report.fleet_words import busiest_period, range_words, site_words
from optimizer.report.plots.memory import stage_words
from optimizer.report.sweep import SOLVED, layout_words, shown
from optimizer.report.text import count, dollars, milliseconds, share
from optimizer.whatif.budget_report import BudgetReport
from optimizer.whatif.explain_answer import Bound, Explained
from optimizer.whatif.front_points import Front
from optimizer.whatif.sweep import Sweep
from optimizer.wording import split_words

WIDTH = 720.0
MOST_ROWS = 12
# JupyterLab and VS Code say on the body which ground they have; elsewhere it is light.
DARK = '[data-jp-theme-light="false"] .shardwise, body.vscode-dark .shardwise'
_RULES = (
    f".shardwise{{background:var(--sw-ground);color:var(--sw-ink);font:14px/1.45 {FONT};max-width:760px;padding:10px}}"
    ".shardwise h4{font-size:16px;margin:0 0 6px}.shardwise h5{font-size:14px;margin:14px 0 4px}"
    ".shardwise p{margin:0 0 6px}.shardwise .good{color:var(--sw-good)}.shardwise .bad{color:var(--sw-bad)}"
    ".shardwise small{color:var(--sw-muted);display:block}"
    ".shardwise .tiles{display:flex;flex-wrap:wrap;gap:8px;margin:8px 0}"
    ".shardwise .tile{background:var(--sw-panel);border-radius:6px;padding:8px 12px}"
    ".shardwise .tile b{display:block;font-size:18px}.shardwise .tile span{color:var(--sw-muted);font-size:12px}"
    ".shardwise table{border-collapse:collapse;margin:6px 0}.shardwise th{color:var(--sw-muted);font-weight:500}"
    ".shardwise th,.shardwise td{text-align:left;padding:3px 14px 3px 0;vertical-align:top;background:none}"
    ".shardwise table{font-size:13px}.shardwise .r{text-align:right;white-space:nowrap}"
    ".shardwise .scroll{overflow-x:auto}"
    ".shardwise dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:0}"
    ".shardwise dt{color:var(--sw-muted);font-weight:400}.shardwise dd{margin:0}"
)


def html_of(answer: BaseModel) -> str:
    """Return an answer as HTML for a notebook; one without a form of its own shows its fields."""
    form = next((form for kind, form in FORMS if isinstance(answer, kind)), _fields)
    style = tag("style", Markup(colours_css(".shardwise", DARK) + _RULES))
    return content(tag("div", style, form(answer), class_="shardwise"))


def _plan(plan: Plan) -> Piece:
    head = tag("h4", answer_title(plan))
    if plan.layout is None or plan.cost is None or plan.memory is None or plan.performance is None:
        rows = [(one.rule, one.needs) for one in plan.conflict]
        changes = [f"{one.change} ({one.flag}): {dollars(one.usd_per_hour)} an hour" for one in plan.least_changes]
        return (
            head,
            table(("rules that cannot hold together", "here"), rows),
            tag("h5", "It would take"),
            bullets(changes),
        )
    cost = plan.cost
    priced = [one for one in plan.alternatives if one.usd_per_hour is not None][:4]
    others = [(dollars(one.usd_per_hour), f"+{dollars(one.extra_usd_per_hour)}", one.summary) for one in priced]
    named = table(("an hour", "more", "layout"), others, right=(0, 1))
    return (
        head,
        tag("p", plan.summary, tag("span", ", proved optimal" if plan.status == "optimal" else "", class_="good")),
        tiles(
            [
                (dollars(cost.usd_per_hour), "an hour"),
                (dollars(cost.usd_per_million_output_tokens), "per million output tokens"),
                (share(plan.performance.utilization), "of capacity used"),
            ]
        ),
        Markup(draw_layout(plan.layout, width=WIDTH)),
        tag("h5", "Memory of the fullest GPU"),
        Markup(draw_memory(plan.memory, width=WIDTH)),
        tag("h5", "Predicted latency"),
        Markup(draw_latency(plan.performance, plan.targets, width=WIDTH)),
        (tag("h5", "Cheapest on other GPUs"), named) if others else (),
        [tag("p", f"Warning: {text}", class_="bad") for text in plan.warnings],
    )


def _fleet(plan: FleetPlan) -> Piece:
    head = tag("h4", fleet_title(plan))
    if plan.cost is None:
        rows = [(one.rule, one.needs) for one in plan.conflict]
        return head, tag("p", plan.summary), table(("rules that cannot hold together", "here"), rows) if rows else ()
    bought = [
        (range_words(one.nodes_by_period), f"{site_words(site, one)}, {one.term}", dollars(one.usd_per_hour))
        for site in plan.sites
        for one in site.purchases
    ]
    return (
        head,
        tag("p", plan.summary),
        table(("nodes", "what, and where", "an hour"), bought, right=(0, 2)),
        Markup(draw_fleet_nodes(plan, busiest_period(plan), width=WIDTH)),
        [tag("p", f"Warning: {text}", class_="bad") for text in plan.warnings],
    )


def _fit(found: Fit) -> Piece:
    split = split_words(found)
    verdict = tag("span", "fits" if found.fits else "does not fit", class_="good" if found.fits else "bad")
    head = tag("h4", f"{found.model} in {split} on {found.gpus}x {found.gpu} ", verdict)
    if found.memory is None:
        return head, bullets(f"{rule}: needs {needs}" for rule, needs in found.refusals.items())
    bars = [(stage_words(stage), stage.memory) for stage in found.stages]
    return (
        head,
        Markup(draw_memory(bars if len(bars) > 1 else found.memory, width=WIDTH)),
        tag("p", f"At most {count(found.max_concurrency)} requests of {found.memory.context_tokens:,} tokens, or "
                 f"{found.concurrency:,} of up to {found.max_context_tokens:,}."),
    )  # fmt: skip


def _speed(found: Speed) -> Piece:
    split = split_words(found)
    return (
        tag("h4", f"{found.model} in {split} on {found.gpus}x {found.gpu}, {found.concurrency:,} requests in flight"),
        tag("p", f"{count(found.output_tokens_per_second)} output tokens/s, "
                 f"{count(found.requests_per_second)} requests/s"),
        Markup(draw_latency(found, width=WIDTH)),
    )  # fmt: skip


def _front(front: Front) -> Piece:
    rows = [
        (dollars(one.usd_per_hour), milliseconds(one.tpot_ms), milliseconds(one.ttft_ms),
         one.summary + (" (knee)" if one.knee else ""))
        for one in front.points[:MOST_ROWS]
    ]  # fmt: skip
    return (
        tag("h4", f"{len(front.points)} layouts that no other beats, of {front.compared:,} compared"),
        table(("an hour", "TPOT", "TTFT", "layout"), rows, right=(0, 1, 2)),
        _more(len(front.points)),
    )


def _sweep(found: Sweep) -> Piece:
    fields = [varied.field for varied in found.varied]
    rows = [
        [
            *(shown(row[field]) for field in fields),
            dollars(row["usd_per_hour"]) if row["status"] in SOLVED else str(row["status"]),
            layout_words(row) if row["status"] in SOLVED else "",
        ]
        for row in found.table()[:MOST_ROWS]
    ]
    return (
        tag("h4", f"Cheapest layout by {' and '.join(fields)}"),
        table((*fields, "an hour", "layout"), rows, right=range(len(fields) + 1)),
        _more(len(found.rows)),
    )


def _budgets(report: BudgetReport) -> Piece:
    rows = [
        (dollars(answer.usd_per_hour), one.what, one.said, one.summary or "-")
        for answer in report.budgets
        for one in answer.bought
    ]
    return (
        tag("h4", f"What budgets buy: {report.scenario['model']}"),
        table(("budget an hour", "", "buys at most", "layout"), rows, right=(0,)),
    )


def _explained(found: Explained) -> Piece:
    bounds = bullets(_bound_words(one) for one in found.bounds)
    rules = bullets(f"{one.rule}: {one.needs}" for one in found.conflict)
    return tag("h4", found.summary), tag("p", found.sized_by or ""), bounds, rules


def _bound_words(one: Bound) -> str:
    without = one.without_usd_per_hour if one.binds else None
    saves = f": without it {dollars(without)} an hour" if without else ""
    where = f"{one.name} {one.where}".strip()
    return f"{where}: {one.used:,.4g} of {one.limit:,.4g} {one.unit}{', binds' if one.binds else ''}{saves}"


def _more(rows: int) -> Piece:
    return tag("small", f"and {rows - MOST_ROWS:,} more: .to_frame() has all") if rows > MOST_ROWS else ()


def _fields(answer: BaseModel) -> Piece:
    """Return the fields of an answer that are no answers of their own."""
    pairs: list[tuple[str, Piece]] = []
    for name in type(answer).model_fields:
        value = getattr(answer, name)
        if not isinstance(value, BaseModel) and value not in (None, (), {}):
            pairs.append((name, _said(value)))
    return tag("h4", type(answer).__name__), facts(pairs)


def _said(value: Any) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        return f"{len(value):,} of {type(value[0]).__name__}"
    text = f"{value:,.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 300 else text[:299] + "\u2026"


FORMS: tuple[tuple[type[BaseModel], Callable[[Any], Piece]], ...] = (
    (Plan, _plan),
    (FleetPlan, _fleet),
    (Fit, _fit),
    (Speed, _speed),
    (Front, _front),
    (Sweep, _sweep),
    (BudgetReport, _budgets),
    (Explained, _explained),
)
