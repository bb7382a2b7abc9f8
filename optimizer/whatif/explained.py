"""A plan explained: its question solved again at its own prices, what binds, where the money goes, why not another."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable, load_offers
from optimizer.answer import answers
from optimizer.calibration_used import calibration_used
from optimizer.choices import MICRO
from optimizer.errors import QuestionError
from optimizer.explain import limited_by, what_demands
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Layout, Plan
from optimizer.plan_file import read_plan
from optimizer.scenario import Scenario, build_scenario
from optimizer.solve import Problem, cheapest_answer, choose, holding, pose
from optimizer.version import __version__
from optimizer.whatif.account import money_of
from optimizer.whatif.asked import read_layout
from optimizer.whatif.bounds import find_bounds
from optimizer.whatif.explain_answer import Explained
from optimizer.whatif.matches import Chosen
from optimizer.whatif.why_not import why_not
from optimizer.wording import rate_words


def explain_plan(path: Path, layout: str | None = None, *, catalog: OfferTable | None = None) -> Explained:
    """Explain a plan that `shardwise solve --json` printed.

    Args:
        path: the plan.
        layout: a layout in the user's words (see optimizer.whatif.asked) to say why the plan is not.
        catalog: offers at list prices of the plan's day, where the caller has them already.

    Raises:
        QuestionError: the file is no plan, or the layout's words mean nothing.
        CatalogError: the plan's model is not there, or no prices of its day are.
    """
    return explain_answer(read_plan(path), layout, where=str(path), catalog=catalog)


def explain_answer(
    plan: Plan, layout: str | None = None, *, where: str = "plan", catalog: OfferTable | None = None
) -> Explained:
    """Explain a plan that is at hand; arguments and errors as of `explain_plan`, `where` names it in messages."""
    scenario = build_scenario(plan.scenario, f"{where}: scenario")
    listed = catalog or load_offers(plan.prices.as_of, scenario.prices.offers_files, today=day_of(plan))
    return explained(plan, scenario, layout, model=load_model(scenario.model), catalog=listed, where=where)


def explained(
    plan: Plan,
    scenario: Scenario,
    layout: str | None = None,
    *,
    model: ModelSpec,
    catalog: OfferTable,
    where: str = "the plan",
) -> Explained:
    """Explain a plan.

    Args:
        plan: an answer of `solve`.
        scenario: its question.
        layout: a layout in the user's words (see optimizer.whatif.asked) to say why the plan is not.
        model: the question's.
        catalog: offers at list prices of the plan's day.
        where: what messages call the plan.

    Raises:
        QuestionError: the layout's words mean nothing, or the question cannot be answered.
    """
    today, listed = day_of(plan), catalog
    problem = pose(scenario, model=model, catalog=listed, today=today)
    chosen = chosen_of(problem, today)
    about: dict[str, Any] = {
        "plan": where,
        "summary": plan.summary,
        "status": plan.status,
        "usd_per_hour": None if plan.cost is None else plan.cost.usd_per_hour,
        "ladder": plan.explanation,
        "conflict": plan.conflict,
        "nearest_misses": plan.nearest_misses,
        "least_changes": plan.least_changes,
        "prices_as_of": plan.prices.as_of,
        "calibration": calibration_used(),
    }
    differences = _differences(plan, chosen, problem)
    about |= {"reproduced": not differences, "differences": tuple(differences)}
    asked = None if layout is None else read_layout(layout, problem.offers)
    if chosen is None:
        if asked is not None:
            raise QuestionError(
                f"{where}: nothing is feasible for its question, so there is no plan to compare {layout!r} with; "
                "`shardwise explain` without --why-not says what it would take"
            )
        return Explained(**about)
    if plan.layout is not None and plan.memory is not None and plan.performance is not None and plan.cost is not None:
        about["money"] = money_of(plan.layout, plan.memory, plan.performance, plan.cost.usd_per_hour)

    def cost_of(changed: Scenario) -> float | None:
        found = cheapest_answer(changed, model=model, catalog=listed, today=today)
        return None if found is None else found.cost.usd_per_hour

    speed = problem.candidates.speed.take(np.array([int(chosen.row["replica"])]))
    prefill_s = float(speed.prefill_seconds(scenario.workload.input_tokens)[0])
    capacity = float(chosen.row["capacity"])
    return Explained(
        **about,
        bounds=find_bounds(scenario, chosen.answer, capacity, prefill_s, cost_of),
        sized_by=_sized_by(problem, chosen),
        why_not=None if asked is None else why_not(chosen, asked),
    )


def day_of(plan: Plan | FleetPlan) -> date:
    """Return the day on which a plan was made, which ages of prices count to."""
    if plan.prices.seen_on is None:
        return plan.prices.as_of
    return plan.prices.seen_on + timedelta(days=plan.prices.age_days)


def chosen_of(problem: Problem, today: date) -> Chosen | None:
    """Solve the question; return its answer with the row it comes from, or None where nothing is feasible."""
    feasible = holding(problem, problem.feasible)
    if feasible.empty:
        return None
    run, kept = choose(feasible, problem.scenario, None)
    if run.choice is None:
        raise RuntimeError(f"the layout program ended {run.outcome.status} on choices that keep every rule")
    rows = kept.iloc[[run.choice]]
    answer = answers(problem.scenario, problem.model, rows, problem.candidates.speed, problem.offers)[0]
    return Chosen(problem.scenario, problem.model, problem.listed, today, rows.iloc[0], answer)


def _differences(plan: Plan, chosen: Chosen | None, problem: Problem) -> list[str]:
    """Say what came out otherwise than the plan says, and what that may be due to; empty where nothing did."""
    found = _other_answer(plan, chosen)
    if not found:
        return []
    version, offers = plan.shardwise_version, plan.prices.offers_considered
    causes = [
        (version != __version__, f"made by version {version}, this is {__version__}"),
        (offers != len(problem.offers), f"of that day {offers:,} offers were known, and now {len(problem.offers):,}"),
        (plan.calibration != calibration_used(), "another calibration of your own was in use, or none"),
    ]
    return found + [f"possible cause: {said}" for holds, said in causes if holds]


def _other_answer(plan: Plan, chosen: Chosen | None) -> list[str]:
    if chosen is None or plan.layout is None or plan.cost is None:
        if (chosen is None) == (plan.layout is None):
            return []
        return [f"the plan is {plan.status}; solved again it is {'infeasible' if chosen is None else 'feasible'}"]
    now, cost = chosen.answer.layout, chosen.answer.cost.usd_per_hour
    found = []
    if _compared(now) != _compared(plan.layout):
        found.append(f"solved again, the answer is {chosen.side.summary}")
    if abs(cost - plan.cost.usd_per_hour) > 0.5 / MICRO:
        found.append(f"solved again, it costs ${cost:,.6f}/hour, not ${plan.cost.usd_per_hour:,.6f}")
    return found


def _compared(layout: Layout) -> dict[str, object]:
    """Return what must be the same for a plan to be reproduced: all but where its price comes from."""
    return layout.model_dump(exclude={"price_source", "price_seen_on"})


def _sized_by(problem: Problem, chosen: Chosen) -> str:
    """Say what sets the number of GPUs."""
    layout = chosen.answer.layout
    carried = rate_words(problem.scenario, float(chosen.row["capacity"]))
    one = f"One replica carries up to {carried} ({limited_by(problem.scenario, chosen.row)})"
    if layout.replicas > 1:
        return f"{one}, so {layout.replicas} are needed."
    return f"{one}; {what_demands(problem, chosen.row, chosen.answer)}."
