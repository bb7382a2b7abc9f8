"""The answer as a whole: status, bound, alternatives, and every layout it shows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pandas as pd

from catalogs.models import ModelSpec
from optimizer.check.audit import SPEED_TOLERANCE, Audit, Violation, close
from optimizer.check.checks import check_all, offers_of
from optimizer.check.predict import Prediction
from optimizer.errors import ScenarioError
from optimizer.plan import Alternative, Plan
from optimizer.scenario import Scenario, build_scenario

MICRO_DOLLAR = 1e-6  # prices are counted in whole ones
OPTIMAL_GAP = 1e-9  # what dividing two equal prices can leave


def check_plan(plan: Plan, model: ModelSpec, offers: pd.DataFrame | None = None) -> tuple[Violation, ...]:
    """Audit an answer: its layout, every layout among its alternatives, and whether it agrees with itself.

    Args:
        plan: the answer.
        model: the model of its question.
        offers: the catalog (OfferTable.frame) at LIST prices: the checker takes the user's discounts off by itself.
            Prices are not compared when not given.

    Returns:
        What is wrong; empty for a sound answer. What an alternative breaks is said with its GPU.
    """
    try:
        scenario = build_scenario(plan.scenario)
    except ScenarioError as error:
        return (Violation("question", str(error)),)
    shown = [alternative for alternative in plan.alternatives if alternative.layout is not None]
    layouts = [one for one in (plan.layout, *(one.layout for one in shown)) if one is not None]
    rows = offers_of(layouts, offers)
    today = plan.prices.as_of
    if plan.prices.seen_on is not None:
        today = plan.prices.seen_on + timedelta(days=plan.prices.age_days)
    parts = {"cost": plan.cost, "memory": plan.memory, "performance": plan.performance, "targets": plan.targets}
    audits = [
        Audit(scenario, model, layout, today, offers=rows, **(parts if layout is plan.layout else {}))  # type: ignore[arg-type]
        for layout in layouts
    ]
    found = check_all(audits)
    own, others = (found[:1], found[1:]) if plan.layout is not None else ([], found)
    violations = [violation for audited in own for violation in audited.violations]
    violations += [Violation("status", message) for message in _status(plan)]
    violations += [Violation("targets", message) for message in _targets(plan, scenario)]
    for alternative, audited in zip(shown, others, strict=True):
        on = f"alternative on {alternative.gpu}"
        violations += [Violation(one.rule, f"{on}: {one.message}") for one in audited.violations]
        wrong = _figures(alternative, audited.predicted)
        violations += [Violation("alternatives", f"{on}: {message}") for message in wrong]
    violations += [Violation("alternatives", message) for message in _alternatives(plan)]
    return tuple(violations)


def _status(plan: Plan) -> Iterator[str]:
    """The status is what the parts of the answer say."""
    parts = {"layout": plan.layout, "cost": plan.cost, "memory": plan.memory, "performance": plan.performance}
    if plan.status == "infeasible":
        yield from (f"infeasible, and yet there is a {name}" for name, part in parts.items() if part is not None)
        if not plan.conflict:
            yield "infeasible, and no rule is named in the conflict"
        return
    yield from (f"{plan.status}, and yet there is no {name}" for name, part in parts.items() if part is None)
    if plan.conflict:
        yield f"{plan.status}, and yet rules conflict: {', '.join(one.rule for one in plan.conflict)}"
    if plan.status == "optimal" and plan.cost is not None:
        if abs(plan.cost.gap) > OPTIMAL_GAP:
            yield f"optimal with a gap of {plan.cost.gap:g}"
        if abs(plan.cost.bound_usd_per_hour - plan.cost.usd_per_hour) > MICRO_DOLLAR:
            yield f"optimal at ${plan.cost.usd_per_hour:.6f} with a bound of ${plan.cost.bound_usd_per_hour:.6f}"
    if plan.layout is not None and plan.prices.seen_on != plan.layout.price_seen_on:
        yield f"prices are of {plan.prices.seen_on}, the layout's is of {plan.layout.price_seen_on}"


def _targets(plan: Plan, scenario: Scenario) -> Iterator[str]:
    """Each target of the question is answered, once, and holds."""
    if plan.layout is None:
        return
    asked = [name for name in ("ttft", "tpot", "e2e") if getattr(scenario.targets, f"{name}_ms") is not None]
    if [target.name for target in plan.targets] != asked:
        yield f"targets {', '.join(asked) or 'none'} were asked for, {len(plan.targets)} are answered"
    yield from (f"{target.name} is said not to hold" for target in plan.targets if not target.holds)


def _alternatives(plan: Plan) -> Iterator[str]:
    """Alternatives cost what they say, and not less than the answer."""
    answer = plan.cost.usd_per_hour if plan.cost is not None else None
    for one in plan.alternatives:
        if one.layout is None:
            if one.usd_per_hour is not None:
                yield f"{one.gpu} has a price and no layout"
            continue
        if one.layout.gpu != one.gpu:
            yield f"{one.gpu} is answered with {one.layout.gpu}"
        costs = one.layout.nodes * one.layout.price_usd_per_node_hour
        if one.usd_per_hour is None or not close(one.usd_per_hour, costs):
            yield f"{one.gpu} is said to cost ${one.usd_per_hour}, its nodes cost ${costs:.6f}"
        if answer is None:
            yield f"{one.gpu} is feasible, and yet there is no answer"
        elif costs < answer - MICRO_DOLLAR and plan.status == "optimal":
            yield f"{one.gpu} costs ${costs:.6f}, less than the optimal ${answer:.6f}"
        if answer is not None and (
            one.extra_usd_per_hour is None or abs(one.extra_usd_per_hour - (costs - answer)) > 1e-5
        ):
            yield f"{one.gpu} is said to cost ${one.extra_usd_per_hour} more, it costs ${costs - answer:.6f} more"


def _figures(said: Alternative, predicted: Prediction | None) -> Iterator[str]:
    """An alternative's speed is what is predicted for it."""
    if predicted is None:
        return
    expected = {
        "ttft_ms": predicted.ttft_s * 1e3,
        "tpot_ms": predicted.tpot_s * 1e3,
        "utilization": predicted.utilization,
    }
    for name, value in expected.items():
        figure = getattr(said, name)
        if figure is None or not close(figure, value, SPEED_TOLERANCE):
            yield f"{name} is {figure}, not {value:.6g}"
