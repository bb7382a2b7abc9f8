"""What budgets buy of a fleet: the most traffic, the same factor on every class in every hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.choices import MICRO
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.problem import FleetProblem, pose
from optimizer.fleet.question import FleetScenario, ModelTraffic
from optimizer.fleet.solve import solve_fleet
from optimizer.fleet.traffic import Traffic
from optimizer.plan import AnswerPart
from optimizer.programs.fleet import most_traffic
from optimizer.programs.layout import Settings

JUST_LESS = 1 - 1e-9  # of the traffic, when it is asked back: what floating-point numbers cannot tell apart


class FleetBought(AnswerPart):
    """What one budget buys.

    Attributes:
        budget_usd_per_hour: the hard budget, on average over the hours.
        times: how many times the traffic asked it carries; null where it buys nothing.
        times_bound: no fleet within the budget carries more.
        requests_per_second: of all classes in the busiest hour.
        usd_per_hour: what the fleet for that much costs at the least.
        proved: whether `times` is the most.
        extra_requests_per_second_per_usd: on average from the budget before, of the busiest hour; null for the first.
        plan: the fleet, asked back at that traffic and audited.
    """

    budget_usd_per_hour: float
    times: float | None
    times_bound: float | None
    requests_per_second: float
    usd_per_hour: float | None
    proved: bool
    extra_requests_per_second_per_usd: float | None
    plan: FleetPlan | None


class FleetBudgets(AnswerPart):
    """What budgets buy.

    Attributes:
        asked_requests_per_second: of all classes in the busiest hour, as the question has it.
        least_usd_per_hour: what that costs; null where no fleet serves it.
        budgets: what each budget buys.
    """

    asked_requests_per_second: float
    least_usd_per_hour: float | None
    budgets: tuple[FleetBought, ...]


def what_budgets_buy(
    scenario: FleetScenario,
    budgets_usd_per_hour: Sequence[float],
    *,
    models: Mapping[str, ModelSpec] | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
    settings: Settings | None = None,
) -> FleetBudgets:
    """Return the most traffic that each budget carries, proved, and asked back as a question of its own.

    Args:
        scenario: the question; its own budget is set aside.
        budgets_usd_per_hour: hard budgets, on average over the hours.
        models: models by the name that the question gives, where the caller has them already.
        catalog: offers at list prices, where the caller has them already.
        today: the day that price ages count from.
        settings: how the solver runs.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
        AuditError: the checker found a rule broken in an answer.
    """
    free = scenario.model_copy(update={"limits": scenario.limits.model_copy(update={"budget_usd_per_hour": None})})
    problem = pose(free, models=models, catalog=catalog, today=today)
    specs = {one.model: kinds.spec for one, kinds in zip(free.traffic, problem.models, strict=True)}
    asked = solve_fleet(free, models=specs, catalog=problem.listed, today=today, settings=settings, compare=False)
    peak = _peak(problem)
    found: list[FleetBought] = []
    for budget in sorted(budgets_usd_per_hour):
        found.append(_bought(free, problem, budget, found[-1] if found else None, peak, settings))
    least = None if asked.cost is None else asked.cost.usd_per_hour
    return FleetBudgets(asked_requests_per_second=peak, least_usd_per_hour=least, budgets=tuple(found))


def _peak(problem: FleetProblem) -> float:
    """Requests per second of all classes in the busiest hour."""
    return float(max(map(sum, zip(*(one.rates for one in problem.traffic.demands), strict=True))))


def _bought(
    scenario: FleetScenario,
    problem: FleetProblem,
    budget: float,
    before: FleetBought | None,
    peak: float,
    settings: Settings | None,
) -> FleetBought:
    most = most_traffic(replace(problem.instance, budget_micro_usd=round(budget * MICRO)), settings)
    plan = None
    if most.scale:
        limits = scenario.limits.model_copy(update={"budget_usd_per_hour": budget})
        question = with_traffic_times(scenario, problem.traffic, most.scale * JUST_LESS).model_copy(
            update={"limits": limits}
        )
        specs = {one.model: kinds.spec for one, kinds in zip(scenario.traffic, problem.models, strict=True)}
        plan = solve_fleet(
            question, models=specs, catalog=problem.listed, today=problem.today, settings=settings, compare=False
        )
    carried = plan is not None and plan.cost is not None
    times = most.scale if carried else None
    rate = peak * (times or 0.0)
    extra = None
    if before is not None and budget > before.budget_usd_per_hour:
        extra = (rate - before.requests_per_second) / (budget - before.budget_usd_per_hour)
    return FleetBought(
        budget_usd_per_hour=budget,
        times=times,
        times_bound=most.scale_bound,
        requests_per_second=rate,
        usd_per_hour=plan.cost.usd_per_hour if plan is not None and plan.cost is not None else None,
        proved=most.status in ("optimal", "infeasible"),
        extra_requests_per_second_per_usd=extra,
        plan=plan,
    )


def with_traffic_times(scenario: FleetScenario, traffic: Traffic, times: float) -> FleetScenario:
    """Return the question for so many times the traffic, with every class spelled out as it was read."""
    models = []
    for position, model in enumerate(scenario.traffic):
        classes = []
        for one in traffic.demands:
            if one.model != position:
                continue
            profile = tuple(rate / one.traffic.request_rate for rate in one.rates) if len(one.rates) > 1 else ()
            update = {
                "request_rate": one.traffic.request_rate * times,
                "targets": one.targets,
                "regions": one.regions,
                "profile": profile,
            }
            classes.append(one.traffic.model_copy(update=update))
        changed = {"name": model.label, "classes": tuple(classes), "histogram": None, "log": None, "profile": ()}
        models.append(ModelTraffic.model_validate(model.model_dump() | changed))
    cleared = {"model": None, "classes": (), "histogram": None, "log": None, "profile": ()}
    return scenario.model_copy(update={**cleared, "models": tuple(models)})
