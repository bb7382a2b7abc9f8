"""The library: what `from optimizer import ...` gives. The same words as scenario files and the command line.

Whatever is said as a number of the command line's is so here, with the same units; errors are QuestionError and
CatalogError, whose messages name what was wrong and what is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable, load_offers
from optimizer.errors import QuestionError
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario
from optimizer.plan import Plan
from optimizer.scenario import Memory, Scenario

if TYPE_CHECKING:
    from optimizer.fit import Fit
    from optimizer.fleet.budget import FleetBudgets
    from optimizer.predict import Speed
    from optimizer.reoptimize.answer import Reoptimization, Rules
    from optimizer.replica import Replica
    from optimizer.whatif.budget_report import BudgetReport, Maximized
    from optimizer.whatif.explain_answer import Explained
    from optimizer.whatif.fleet_explain_answer import FleetExplained
    from optimizer.whatif.front_points import Front, Objective
    from optimizer.whatif.sweep import Sweep

__all__ = [
    "explain",
    "fit",
    "front",
    "load_model",
    "load_offers",
    "load_plan",
    "predict",
    "reoptimize",
    "solve",
    "sweep",
    "what_budgets_buy",
]


@overload
def solve(
    scenario: Scenario, *, offers: OfferTable | None = None, today: date | None = None, time_limit_s: float = 20.0
) -> Plan: ...
@overload
def solve(
    scenario: FleetScenario, *, offers: OfferTable | None = None, today: date | None = None, time_limit_s: float = 20.0
) -> FleetPlan: ...
def solve(
    scenario: Scenario | FleetScenario,
    *,
    offers: OfferTable | None = None,
    today: date | None = None,
    time_limit_s: float = 20.0,
) -> Plan | FleetPlan:
    """Return the cheapest layout, or fleet, that keeps every rule, proved; or why there is none.

    Args:
        scenario: the question.
        offers: offers at list prices; those of the scenario's day when not given (see `load_offers`).
        today: the day that ages of prices count to; the real one when not given.
        time_limit_s: the most time for the solver, in seconds.

    Raises:
        QuestionError, CatalogError: something in the question is wrong.
        AuditError: the answer did not pass its own check, and is not given.
    """
    from optimizer.programs.layout import Settings  # noqa: PLC0415  as light as it is asked for

    settings = Settings(time_limit_s=time_limit_s)
    if isinstance(scenario, FleetScenario):
        from optimizer.fleet.solve import solve_fleet  # noqa: PLC0415

        return solve_fleet(scenario, catalog=offers, today=today, settings=settings)
    from optimizer.solve import solve as solve_layout  # noqa: PLC0415

    return solve_layout(scenario, catalog=offers, today=today, settings=settings)


def fit(
    model: str | ModelSpec,
    gpu: str,
    *,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    attention_dp: int = 1,
    weights: str | None = None,
    kv_cache: str | None = None,
    context_tokens: int = 8192,
    concurrency: int = 1,
    memory: Memory | Mapping[str, Any] | None = None,
) -> Fit:
    """Say whether one replica fits in memory, and how much more it would hold.

    Args:
        model: a bundled model's Hub name, a config.json or its folder, or a model that `load_model` gave.
        gpu: GPU type, as in `shardwise catalog gpus`.
        tp: tensor parallel size.
        pp: pipeline stages.
        ep: expert parallel size: 1, or all GPUs of a stage.
        attention_dp: attention data-parallel ranks.
        weights: weight format; the checkpoint's own when not given.
        kv_cache: KV cache dtype, likewise.
        context_tokens: tokens kept for each request.
        concurrency: requests at once.
        memory: how memory is counted, as in a scenario: {"policy": "engine", "engine": "sglang"}.
    """
    from optimizer.fit import fit as fit_replica  # noqa: PLC0415
    from optimizer.memory import memory_policy  # noqa: PLC0415

    counted = memory if isinstance(memory, Memory) else Memory(**(memory or {}))
    replica = _replica(model, gpu, tp, pp, ep, attention_dp, weights, kv_cache)
    return fit_replica(replica, context_tokens=context_tokens, concurrency=concurrency, policy=memory_policy(counted))


def predict(
    model: str | ModelSpec,
    gpu: str,
    *,
    concurrency: int,
    input_tokens: int,
    output_tokens: int,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    attention_dp: int = 1,
    weights: str | None = None,
    kv_cache: str | None = None,
) -> Speed:
    """Predict latency and throughput of one replica with so many requests always in flight.

    Args:
        model: as of `fit`, like all that is not named here.
        gpu: GPU type.
        concurrency: requests always in flight.
        input_tokens: length of a prompt.
        output_tokens: length of an answer.
        tp: tensor parallel size.
        pp: pipeline stages.
        ep: expert parallel size.
        attention_dp: attention data-parallel ranks.
        weights: weight format.
        kv_cache: KV cache dtype.
    """
    from optimizer.predict import predict as predict_replica  # noqa: PLC0415

    replica = _replica(model, gpu, tp, pp, ep, attention_dp, weights, kv_cache)
    return predict_replica(replica, concurrency=concurrency, input_tokens=input_tokens, output_tokens=output_tokens)


def _replica(
    model: str | ModelSpec,
    gpu: str,
    tp: int,
    pp: int,
    ep: int,
    attention_dp: int,
    weights: str | None,
    kv_cache: str | None,
) -> Replica:
    from optimizer.replica import name_replica  # noqa: PLC0415

    spec = load_model(model) if isinstance(model, str) else model
    return name_replica(spec, gpu, tp=tp, pp=pp, ep=ep, attention_dp=attention_dp, weights=weights, kv_cache=kv_cache)


def load_plan(path: Path | str) -> Plan | FleetPlan:
    """Read a plan, of one layout or of a fleet, that `save` or `shardwise solve --json` wrote."""
    from optimizer.export.plans import read_plan_of  # noqa: PLC0415

    return read_plan_of(str(path))


@overload
def explain(plan: Plan, why_not: str | None = None, *, offers: OfferTable | None = None) -> Explained: ...
@overload
def explain(plan: FleetPlan, why_not: None = None, *, offers: OfferTable | None = None) -> FleetExplained: ...
def explain(
    plan: Plan | FleetPlan, why_not: str | None = None, *, offers: OfferTable | None = None
) -> Explained | FleetExplained:
    """Say what binds in a plan and where its money goes, or why it is not another layout.

    Args:
        plan: the plan.
        why_not: a layout in your words, as in "4x A100-SXM-80GB tp=4"; not of a fleet.
        offers: offers at list prices of the plan's day; loaded when not given.
    """
    if isinstance(plan, FleetPlan):
        from optimizer.whatif.fleet_explained import WHY_NOT, explain_fleet  # noqa: PLC0415

        if why_not is not None:
            raise QuestionError(f"why_not {why_not!r}: {WHY_NOT}")
        return explain_fleet(plan, catalog=offers)
    from optimizer.whatif.explained import explain_answer  # noqa: PLC0415

    return explain_answer(plan, why_not, catalog=offers)


def front(
    scenario: Scenario,
    by: Sequence[Objective] = ("cost", "tpot", "ttft"),
    *,
    up_to_usd_per_hour: float | None = None,
    offers: OfferTable | None = None,
    today: date | None = None,
) -> Front:
    """Return every layout that no other one beats.

    Args:
        scenario: the question.
        by: what layouts are compared by, two at least of cost, tpot, ttft, e2e and throughput.
        up_to_usd_per_hour: the front ends at this cost; at ten times the least when not given.
        offers: offers at list prices; those of the scenario's day when not given.
        today: the day that ages of prices count to.
    """
    from optimizer.whatif.front import find_front  # noqa: PLC0415

    return find_front(scenario, by, up_to_usd_per_hour=up_to_usd_per_hour, catalog=offers, today=today)


@overload
def what_budgets_buy(
    scenario: Scenario,
    usd_per_hour: Sequence[float],
    maximize: Sequence[Maximized] = ("traffic", "context", "latency", "precision"),
    *,
    offers: OfferTable | None = None,
    today: date | None = None,
) -> BudgetReport: ...
@overload
def what_budgets_buy(
    scenario: FleetScenario,
    usd_per_hour: Sequence[float],
    maximize: Sequence[Maximized] = ("traffic",),
    *,
    offers: OfferTable | None = None,
    today: date | None = None,
) -> FleetBudgets: ...
def what_budgets_buy(
    scenario: Scenario | FleetScenario,
    usd_per_hour: Sequence[float],
    maximize: Sequence[Maximized] = ("traffic", "context", "latency", "precision"),
    *,
    offers: OfferTable | None = None,
    today: date | None = None,
) -> BudgetReport | FleetBudgets:
    """Say what each budget buys at most, and what the next dollar adds.

    Args:
        scenario: the question; of a fleet, traffic alone is maximized.
        usd_per_hour: hard budgets.
        maximize: traffic, context, latency, precision.
        offers: offers at list prices; those of the scenario's day when not given.
        today: the day that ages of prices count to.
    """
    if isinstance(scenario, FleetScenario):
        from optimizer.fleet.budget import what_budgets_buy as of_fleet  # noqa: PLC0415

        return of_fleet(scenario, usd_per_hour, catalog=offers, today=today)
    from optimizer.whatif.budget import what_budgets_buy as of_layout  # noqa: PLC0415

    return of_layout(scenario, usd_per_hour, maximize, catalog=offers, today=today)


def sweep(
    scenario: Scenario | FleetScenario,
    vary: Mapping[str, str | Sequence[Any]],
    out: Path | str,
    *,
    jobs: int = 1,
    today: date | None = None,
) -> Sweep:
    """Solve a question over a grid of values; interrupted, call it again to go on.

    Args:
        scenario: the question.
        vary: field -> values, as a list or as --vary has them: {"workload.request_rate": "1:64:x2"}, or of a fleet
            {"traffic": "0.5:2:n4"}.
        out: where rows go: .csv or .parquet.
        jobs: processes.
        today: the day that ages of prices count to.
    """
    from optimizer.whatif.engines import choose_engine  # noqa: PLC0415
    from optimizer.whatif.points import read_grid  # noqa: PLC0415
    from optimizer.whatif.sweep import sweep as sweep_grid  # noqa: PLC0415

    texts = [
        f"{field}={values if isinstance(values, str) else ','.join(map(str, values))}" for field, values in vary.items()
    ]
    engine, _ = choose_engine(jobs, None)
    return sweep_grid(scenario, read_grid(texts, type(scenario)), Path(out), engine, today=today)


def reoptimize(
    plans: Path | str | Sequence[Path | str],
    rules: Rules | None = None,
    *,
    as_of: date | None = None,
    keep_state: bool = False,
) -> Reoptimization:
    """Look at saved plans at today's prices: keep, switch, or no longer valid.

    Args:
        plans: files that `save` wrote, or folders of them.
        rules: when a switch is worth it (see optimizer.reoptimize.answer.Rules).
        as_of: the day whose prices count; today when not given.
        keep_state: read and write what the last look found, beside the plans.
    """
    from optimizer.reoptimize.answer import Rules  # noqa: PLC0415
    from optimizer.reoptimize.run import reoptimize as look  # noqa: PLC0415

    paths = [plans] if isinstance(plans, (Path, str)) else plans
    return look([Path(path) for path in paths], rules or Rules(), as_of=as_of, keep_state=keep_state)
