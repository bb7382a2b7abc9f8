"""One point of a what-if: a question solved, as one flat row. Reasons are left out; the audit is not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.plan import Plan
from optimizer.programs.layout import Settings
from optimizer.scenario import Scenario
from optimizer.solve import solve

# Columns of a row, in the order in which files have them, and what they hold.
RESULT_COLUMNS: dict[str, str] = {
    "status": "optimal, feasible (not proved in time), infeasible, invalid (the values are refused) or failed",
    "usd_per_hour": "cost of the layout",
    "usd_per_million_output_tokens": "cost of a million output tokens at this traffic",
    "bound_usd_per_hour": "proved: no layout costs less",
    "gap": "(usd_per_hour - bound_usd_per_hour) / usd_per_hour",
    "gpu": "GPU type",
    "provider": "who rents it out",
    "region": "where",
    "instance_type": "the provider's name of the node",
    "term": "on-demand, spot, reserved-1y, reserved-3y",
    "nodes": "nodes rented",
    "gpus": "GPUs rented",
    "replicas": "copies of the model",
    "tp": "tensor parallel size",
    "pp": "pipeline stages",
    "ep": "expert parallel size",
    "attention_dp": "attention data parallel ranks",
    "weights": "weight format",
    "kv_cache": "KV cache dtype",
    "ttft_ms": "mean time to first token",
    "tpot_ms": "mean time per output token",
    "e2e_ms": "mean time from arrival to the last token",
    "utilization": "share of the layout's capacity in use",
    "summary": "the layout in one line",
    "conflict": "of an infeasible point: rules that cannot hold together, joined by +",
    "message": "of an invalid or failed point: what is wrong",
}
_OF_LAYOUT = ["gpu", "provider", "region", "instance_type", "term", "nodes", "replicas", "tp", "pp", "ep"]
_OF_LAYOUT += ["attention_dp", "weights", "kv_cache"]
_OF_PERFORMANCE = ("ttft_ms", "tpot_ms", "e2e_ms", "utilization")


def solve_point(
    scenario: Scenario,
    *,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Solve one question and return its row: every column of RESULT_COLUMNS, None where there is nothing to say.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong (see `refused_row`).
    """
    plan = solve(scenario, model=model, catalog=catalog, today=today, settings=settings, reasons=False)
    return plan_row(plan)


def plan_row(plan: Plan) -> dict[str, Any]:
    """Return an answer as a row."""
    row: dict[str, Any] = dict.fromkeys(RESULT_COLUMNS) | {"status": plan.status}
    if plan.layout is None or plan.cost is None or plan.performance is None:
        return row | {"conflict": "+".join(conflict.rule for conflict in plan.conflict)}
    layout, cost = plan.layout, plan.cost
    return (
        row
        | {
            "usd_per_hour": cost.usd_per_hour,
            "usd_per_million_output_tokens": cost.usd_per_million_output_tokens,
            "bound_usd_per_hour": cost.bound_usd_per_hour,
            "gap": cost.gap,
            "gpus": layout.nodes * layout.gpus_per_node,
            "summary": plan.summary,
        }
        | {name: getattr(layout, name) for name in _OF_LAYOUT}
        | {name: getattr(plan.performance, name) for name in _OF_PERFORMANCE}
    )


def refused_row(status: str, error: Exception, columns: Iterable[str] = RESULT_COLUMNS) -> dict[str, Any]:
    """Return the row of a point that could not be solved: "invalid" where its values are refused, else "failed"."""
    return dict.fromkeys(columns) | {"status": status, "message": " ".join(str(error).split())}
