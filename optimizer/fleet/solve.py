"""From a fleet's question to its answer. This file only wires the steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.calibration_used import calibration_used, calibration_warnings
from optimizer.check.fleet import check_fleet
from optimizer.errors import AuditError
from optimizer.fleet.answer import class_answers, describe
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.problem import FleetProblem, pose
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.reasons import compared, conflict
from optimizer.plan import PriceBasis, SolverRun
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_conflict import conflicting_rules
from optimizer.programs.fleet_instance import FleetAnswer
from optimizer.programs.layout import Settings
from optimizer.version import __version__


def solve_fleet(
    scenario: FleetScenario,
    *,
    models: Mapping[str, ModelSpec] | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
    settings: Settings | None = None,
    compare: bool = True,
) -> FleetPlan:
    """Return the cheapest fleet, proved, or why there is none.

    Args:
        scenario: the question.
        models: models by the name that the question gives, where the caller has them already.
        catalog: offers at list prices, where the caller has them already.
        today: the day that price ages count from; the real one when not given.
        settings: how the solver runs.
        compare: also say what the same traffic costs with one kind only, without commitments and so on.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
        AuditError: the checker found a rule broken in the answer; nothing is shown then.
    """
    problem = pose(scenario, models=models, catalog=catalog, today=today)
    answer = cheapest_fleet(problem.instance, settings)
    plan = _plan(problem, answer, settings, compare=compare)
    violations = check_fleet(
        plan,
        {one.model: kinds.spec for one, kinds in zip(scenario.traffic, problem.models, strict=True)},
        problem.listed.frame,
        today=problem.today,
    )
    if violations:
        raise AuditError(violations)
    return plan


def _plan(problem: FleetProblem, answer: FleetAnswer, settings: Settings | None, *, compare: bool) -> FleetPlan:
    common = _common(problem, answer)
    if answer.status == "infeasible":
        rules = conflicting_rules(problem.instance, settings)
        summary = "no fleet in the catalog keeps every rule"
        return FleetPlan(status="infeasible", summary=summary, conflict=conflict(problem, rules), **common)
    if answer.cost_micro_usd is None:
        return FleetPlan(status="unknown", summary="the solver found no fleet within its time limit", **common)
    found = describe(problem, answer)
    basis = common["prices"]
    seen = min(purchase.price_seen_on for site in found["sites"] for purchase in site.purchases)
    basis = _basis(problem, seen)
    warnings = (*_stale(basis), *found.pop("warnings"), *common["warnings"])
    others = compared(problem, answer, settings) if compare else ()
    return FleetPlan(**{**common, **found, "prices": basis, "warnings": warnings, "compared": others})


def _common(problem: FleetProblem, answer: FleetAnswer) -> dict[str, Any]:
    """Fields that every plan has, feasible or not."""
    scenario = problem.scenario
    return {
        "shardwise_version": __version__,
        "scenario": scenario.model_dump(mode="json"),
        "hours": problem.traffic.hours,
        "classes": class_answers(problem),
        "prices": _basis(problem, None),
        "calibration": calibration_used(),
        "notes": problem.traffic.notes,
        "warnings": tuple(calibration_warnings()),
        "solver": SolverRun(
            name="HiGHS",
            status=answer.status,
            seconds=answer.seconds,
            candidates=sum(len(kinds.candidates.frame) for kinds in problem.models),
            choices=len(problem.instance.kinds),
        ),
    }


def _basis(problem: FleetProblem, seen_on: date | None) -> PriceBasis:
    catalog, prices = problem.catalog, problem.scenario.prices
    newest = seen_on or catalog.frame["seen_on"].max().date()
    age = max((problem.today - newest).days, 0)
    return PriceBasis(
        as_of=catalog.as_of,
        seen_on=seen_on,
        age_days=age,
        stale=age > prices.stale_after_days,
        sources=catalog.sources,
        offers_considered=len(catalog.frame),
        offers_set_aside=catalog.set_aside,
    )


def _stale(basis: PriceBasis) -> list[str]:
    if not basis.stale:
        return []
    return [f"prices are up to {basis.age_days} days old (seen {basis.seen_on}): check them before you rent"]
