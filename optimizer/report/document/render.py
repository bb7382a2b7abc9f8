"""From a plan to the whole page."""

from __future__ import annotations

from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Plan
from optimizer.report.document.answer import answer_sections, answer_title
from optimizer.report.document.fleet import fleet_sections, fleet_title
from optimizer.report.document.html import Markup, tag
from optimizer.report.document.style import style

# Nothing is asked for over the network and no script runs, whatever a name in the plan says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def report_title(plan: Plan | FleetPlan) -> str:
    """Say the answer in one sentence."""
    return fleet_title(plan) if isinstance(plan, FleetPlan) else answer_title(plan)


def report_html(plan: Plan | FleetPlan) -> str:
    """Return a plan as one page of HTML that holds all it needs."""
    sections = fleet_sections(plan) if isinstance(plan, FleetPlan) else answer_sections(plan)
    title = report_title(plan)
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="generator", content=f"shardwise {plan.shardwise_version}"),
        tag("title", title),
        tag("style", Markup(style())),
    )
    eyebrow = f"GPU layout report, prices as of {plan.prices.as_of}, made with shardwise {plan.shardwise_version}"
    footer = tag(
        "footer", "Predictions are estimates with the bands shown; prices are dated and move. Figures are USD."
    )
    body = tag("main", tag("p", eyebrow, class_="eyebrow"), tag("h1", title), *sections, footer)
    return f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', body), lang='en')}\n"
