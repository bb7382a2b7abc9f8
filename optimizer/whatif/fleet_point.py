"""One point of a what-if over fleets: a question solved, as one flat row; audited, and without comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.solve import solve_fleet
from optimizer.programs.layout import Settings
from optimizer.wording import split_words

# Columns of a row, in the order in which files have them, and what they hold.
FLEET_COLUMNS: dict[str, str] = {
    "status": "optimal, feasible or unknown (not proved in time), infeasible, invalid (values are refused) or failed",
    "usd_per_hour": "cost of the fleet, on average over the cycle",
    "usd_per_million_output_tokens": "cost of a million output tokens at this traffic",
    "bound_usd_per_hour": "proved: no fleet costs less",
    "gap": "(usd_per_hour - bound_usd_per_hour) / usd_per_hour",
    "peak_usd_per_hour": "cost of the dearest hour",
    "committed_usd_per_hour": "the part of the cost that is paid whatever runs",
    "upfront_usd": "due on signing, or for machines that are bought",
    "gpu": "GPU types, joined by +",
    "provider": "who rents them out, joined by +",
    "nodes": "nodes paid for in the hour with the most",
    "gpus": "GPUs paid for in the hour with the most",
    "replicas": "copies of all models in the hour with the most",
    "utilization": "of what the targets allow, of the fullest pool in its busiest hour",
    "kinds": "what is rented and what runs, without how many",
    "summary": "the fleet in one line",
    "conflict": "of an infeasible point: rules that cannot hold together, joined by +",
    "message": "of an invalid or failed point: what is wrong",
}


def solve_fleet_point(
    scenario: FleetScenario,
    *,
    models: Mapping[str, ModelSpec],
    catalog: OfferTable,
    today: date,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Solve one question and return its row: every column of FLEET_COLUMNS, None where there is nothing to say.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
    """
    plan = solve_fleet(scenario, models=models, catalog=catalog, today=today, settings=settings, compare=False)
    return fleet_row(plan)


def fleet_row(plan: FleetPlan) -> dict[str, Any]:
    """Return an answer as a row."""
    row: dict[str, Any] = dict.fromkeys(FLEET_COLUMNS) | {"status": plan.status}
    cost = plan.cost
    if cost is None:
        said = "the solver found no fleet within its time limit" if plan.status == "unknown" else None
        return row | {"conflict": "+".join(conflict.rule for conflict in plan.conflict), "message": said}
    periods = range(len(plan.hours))
    nodes = {site.id: [sum(one.nodes_by_period[at] for one in site.purchases) for at in periods] for site in plan.sites}
    money = ("usd_per_hour", "usd_per_million_output_tokens", "bound_usd_per_hour", "gap", "peak_usd_per_hour")
    return row | {
        **{name: getattr(cost, name) for name in (*money, "committed_usd_per_hour", "upfront_usd")},
        "gpu": "+".join(dict.fromkeys(site.gpu for site in plan.sites)),
        "provider": "+".join(dict.fromkeys(site.provider for site in plan.sites)),
        "nodes": max(sum(nodes[site.id][at] for site in plan.sites) for at in periods),
        "gpus": max(sum(nodes[site.id][at] * site.gpus_per_node for site in plan.sites) for at in periods),
        "replicas": max(sum(pool.replicas_by_period[at] for pool in plan.pools) for at in periods),
        "utilization": max(pool.utilization for pool in plan.pools),
        "kinds": _kinds(plan),
        "summary": plan.summary,
    }


def _kinds(plan: FleetPlan) -> str:
    """Say what is rented and what runs on it, without how many, in an order that does not depend on their numbers."""
    found = []
    for site in plan.sites:
        terms = [one.term for one in site.purchases if one.term != "on-demand"]
        where = " ".join([site.provider, *dict.fromkeys(terms)])
        runs = [f"{pool.model} {split_words(pool)}" for pool in plan.pools if pool.site == site.id]
        found.append(f"{site.gpus_per_node}x {site.gpu} ({where}): {', '.join(sorted(dict.fromkeys(runs)))}")
    return "; ".join(sorted(dict.fromkeys(found)))
