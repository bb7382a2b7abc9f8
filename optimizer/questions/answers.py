"""From each question to its answer: the library's own functions, on models and offers that no request can point at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Any, TypeVar

from catalogs.models import ModelSpec, names_only
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import AnswerPart, Plan
from optimizer.questions import requests as ask
from optimizer.questions.asked import AskedFleet, AskedScenario, names_of
from optimizer.questions.facts import models_of, offers_on
from optimizer.questions.refusal import FieldProblem, Refusal, invalid, is_ours

AskedOne = TypeVar("AskedOne", AskedScenario, AskedFleet)
_DISTORTED = "its figures do not go together; expected a plan as `solve` answered it"


def solve(question: ask.SolveQuestion) -> Plan | FleetPlan:
    """Solve one layout, or a fleet."""
    from optimizer.programs.layout import Settings  # noqa: PLC0415

    scenario, today = question.scenario, date.today()
    models = models_of(names_of(scenario), question.models)
    settings, offers = Settings(time_limit_s=question.time_limit_s), offers_on(scenario.prices.as_of, today)
    if isinstance(scenario, AskedFleet):
        from optimizer.fleet.solve import solve_fleet  # noqa: PLC0415

        return solve_fleet(
            scenario, models=models, catalog=offers, today=today, settings=settings, compare=question.reasons
        )
    from optimizer.solve import solve as solve_layout  # noqa: PLC0415

    model = models[scenario.model]
    return solve_layout(scenario, model=model, catalog=offers, today=today, settings=settings, reasons=question.reasons)


def fit(question: ask.FitQuestion) -> AnswerPart:
    """Work out the memory of one replica."""
    from optimizer.fit import fit as fit_replica  # noqa: PLC0415
    from optimizer.memory import MemoryPolicy  # noqa: PLC0415

    policy = MemoryPolicy(
        name=question.memory_policy,
        headroom=question.headroom,
        overhead=question.overhead,
        gpu_memory_utilization=question.gpu_memory_utilization,
        engine=question.engine,
    )
    return fit_replica(
        _replica(question), context_tokens=question.context, concurrency=question.concurrency, policy=policy
    )


def predict(question: ask.PredictQuestion) -> AnswerPart:
    """Predict the speed of one replica."""
    from optimizer.predict import predict as predict_replica  # noqa: PLC0415
    from optimizer.scenario import SpeedSource  # noqa: PLC0415

    return predict_replica(
        _replica(question),
        concurrency=question.concurrency,
        input_tokens=question.input_tokens,
        output_tokens=question.output_tokens,
        performance=SpeedSource(backend=question.performance),
    )


def _replica(question: ask.ReplicaQuestion) -> Any:
    from optimizer.replica import name_replica  # noqa: PLC0415

    model = models_of([question.model], question.models, "model")[question.model]
    split = {name: getattr(question, name) for name in ("tp", "pp", "ep", "attention_dp", "weights", "kv_cache")}
    return name_replica(model, question.gpu, **split)


def explain(question: ask.ExplainQuestion) -> AnswerPart:
    """Explain a plan, or the answer to a scenario."""
    from optimizer.solve import solve as solve_layout  # noqa: PLC0415
    from optimizer.whatif.explained import day_of, explained  # noqa: PLC0415

    if isinstance(question.plan, FleetPlan) or isinstance(question.scenario, AskedFleet):
        return _explain_fleet(question)
    if question.plan is None:
        given = _given(question)
        scenario: AskedScenario = question.scenario  # type: ignore[assignment]  # one of both is there
        plan = solve_layout(scenario, **given)
        return explained(plan, scenario, question.why_not, model=given["model"], catalog=given["catalog"])
    plan = question.plan
    scenario = _scenario_of(plan, AskedScenario)
    model = models_of([scenario.model], question.models, "plan.scenario.model")[scenario.model]
    with _undistorted():
        offers = offers_on(plan.prices.as_of, day_of(plan))
        return explained(plan, scenario, question.why_not, model=model, catalog=offers)


def _explain_fleet(question: ask.ExplainQuestion) -> AnswerPart:
    from optimizer.fleet.solve import solve_fleet  # noqa: PLC0415
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.whatif.explained import day_of  # noqa: PLC0415
    from optimizer.whatif.fleet_explained import fleet_explained  # noqa: PLC0415

    if question.why_not is not None:
        raise Refusal([FieldProblem("why_not", "a layout in words is no fleet; leave it out, or ask of one layout")])
    settings = Settings(time_limit_s=question.time_limit_s)
    if isinstance(question.plan, FleetPlan):
        plan = question.plan
        scenario = _scenario_of(plan, AskedFleet)
        models = models_of(names_of(scenario), question.models, "plan.scenario.model")
        with _undistorted():
            offers = offers_on(plan.prices.as_of, day_of(plan))
            return fleet_explained(plan, scenario, models=models, catalog=offers, settings=settings)
    scenario, today = question.scenario, date.today()  # type: ignore[assignment]  # one of both is there
    models, offers = models_of(names_of(scenario), question.models), offers_on(scenario.prices.as_of, today)
    plan = solve_fleet(scenario, models=models, catalog=offers, today=today, settings=settings, compare=False)
    return fleet_explained(plan, scenario, models=models, catalog=offers, settings=settings)


def export(question: ask.ExportQuestion) -> AnswerPart:
    """Write launch files of a plan, or of the answer to a scenario."""
    from optimizer.engines import ENGINE_NAMES  # noqa: PLC0415
    from optimizer.export.answer import exported  # noqa: PLC0415
    from optimizer.export.options import ExportOptions  # noqa: PLC0415
    from optimizer.export.plans import deployments  # noqa: PLC0415
    from optimizer.export.targets import launch_files  # noqa: PLC0415
    from optimizer.flags import read_flags  # noqa: PLC0415

    names = ("engine", "engine_version", "model", "port", "name", "image", "trust_remote_code")
    given = {name: getattr(question, name) for name in names}
    if question.to in ENGINE_NAMES:
        if question.engine not in (None, question.to):
            raise Refusal([FieldProblem("engine", f"to is {question.to}, another engine; give one of them")])
        given["engine"] = question.to
    options = read_flags(ExportOptions, given)
    plan = question.plan or _solved(question)
    scenario = _scenario_of(plan, AskedScenario) if isinstance(plan, Plan) else _scenario_of(plan, AskedFleet)
    models = models_of(names_of(scenario), question.models, "plan.scenario.model")
    with names_only(models), _undistorted():
        found = deployments(plan, options)
        return exported(question.to, found, launch_files(question.to, found))


def _solved(question: ask.ExportQuestion) -> Plan | FleetPlan:
    if question.scenario is None:
        raise TypeError("a question without a plan has a scenario")
    return solve(ask.SolveQuestion(scenario=question.scenario, models=question.models, reasons=False))


@contextmanager
def _undistorted() -> Iterator[None]:
    """Refuse a plan that was changed by hand, and divides by zero somewhere; all else that is wrong is said as such."""
    try:
        yield
    except Exception as error:
        if is_ours(error) or not isinstance(
            error, (ArithmeticError, LookupError, StopIteration, TypeError, ValueError)
        ):
            raise
        raise Refusal([FieldProblem("plan", _DISTORTED)]) from None


def _scenario_of(plan: Plan | FleetPlan, asked: type[AskedOne]) -> AskedOne:
    """Return the question of a plan, which may name no file either."""
    from pydantic import ValidationError  # noqa: PLC0415

    try:
        return asked.model_validate(plan.scenario)
    except ValidationError as error:
        found = invalid(error, asked)
        raise Refusal([replace(one, field=f"plan.scenario.{one.field}") for one in found.problems]) from None


def pareto(question: ask.ParetoQuestion) -> AnswerPart:
    """Find the front of cost against latency."""
    from optimizer.whatif.front import find_front  # noqa: PLC0415
    from optimizer.whatif.front_points import BY_DEFAULT  # noqa: PLC0415

    objectives = question.objectives or BY_DEFAULT
    return find_front(question.scenario, objectives, up_to_usd_per_hour=question.up_to_usd_per_hour, **_given(question))


def budget(question: ask.BudgetQuestion) -> AnswerPart:
    """Say what each budget buys at most."""
    from optimizer.whatif.budget import what_budgets_buy  # noqa: PLC0415
    from optimizer.whatif.budget_report import MAXIMIZED  # noqa: PLC0415

    scenario, today = question.scenario, date.today()
    if isinstance(scenario, AskedScenario):
        maximize = question.maximize or MAXIMIZED
        return what_budgets_buy(scenario, question.usd_per_hour, maximize, **_given(question))
    from optimizer.fleet.budget import what_budgets_buy as what_of_a_fleet  # noqa: PLC0415

    if set(question.maximize) - {"traffic"}:
        raise Refusal([FieldProblem("maximize", "of a fleet, budgets are spent on traffic alone; leave it out")])
    models = models_of(names_of(scenario), question.models)
    offers = offers_on(scenario.prices.as_of, today)
    return what_of_a_fleet(scenario, question.usd_per_hour, models=models, catalog=offers, today=today)


def shock(question: ask.ShockQuestion) -> AnswerPart:
    """Solve before and after prices change."""
    from optimizer.whatif.shock import find_shock, read_changes  # noqa: PLC0415

    changes = read_changes(question.price, question.remove_provider, question.remove_gpu, question.remove_offer)
    scenario, today = question.scenario, date.today()
    if isinstance(scenario, AskedScenario):
        return find_shock(scenario, changes, **_given(question))
    from optimizer.programs.layout import Settings  # noqa: PLC0415
    from optimizer.whatif.fleet_shock import find_fleet_shock  # noqa: PLC0415

    models = models_of(names_of(scenario), question.models)
    offers, settings = offers_on(scenario.prices.as_of, today), Settings(time_limit_s=question.time_limit_s)
    return find_fleet_shock(scenario, changes, models=models, catalog=offers, today=today, settings=settings)


def breakeven(question: ask.BreakEvenQuestion) -> AnswerPart:
    """Find the prices at which offers start or stop being the answer."""
    from optimizer.whatif.breakeven import find_break_evens  # noqa: PLC0415

    return find_break_evens(question.scenario, question.offer, **_given(question))


def api(question: ask.ApiQuestion) -> AnswerPart:
    """Compare self-hosting with a managed API."""
    from optimizer.whatif.api import compare  # noqa: PLC0415

    return compare(
        question.scenario,
        question.against,
        cached_share=question.cached_share,
        duty_cycle=question.duty_cycle,
        profile=question.profile or None,
        hours_per_day=question.hours_per_day,
        **_given(question),
    )


def sweep(question: ask.SweepQuestion) -> AnswerPart:
    """Solve a question over a small grid of values."""
    from optimizer.whatif.points import read_grid  # noqa: PLC0415
    from optimizer.whatif.sweep import sweep_here  # noqa: PLC0415

    grid = read_grid(question.vary)
    if len(grid) > ask.MOST_SWEPT:
        said = f"the grid has {len(grid):,} points; at most {ask.MOST_SWEPT} are solved in one request"
        raise Refusal([FieldProblem("vary", said)])
    return sweep_here(question.scenario, grid, **_given(question))


def _given(question: Any) -> dict[str, Any]:
    """Return model, offers and day of a question about one layout, as the library's functions take them."""
    scenario, today = question.scenario, date.today()
    model: ModelSpec = models_of([scenario.model], question.models)[scenario.model]
    return {"model": model, "catalog": offers_on(scenario.prices.as_of, today), "today": today}
