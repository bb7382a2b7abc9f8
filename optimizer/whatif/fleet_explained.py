"""A fleet's plan explained: audited and solved again at its own prices, what binds, where the money goes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable, load_offers
from optimizer.calibration_used import calibration_used
from optimizer.capacity import latency_factors
from optimizer.check.fleet import check_fleet
from optimizer.choices import MICRO
from optimizer.errors import QuestionError
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.problem import pose
from optimizer.fleet.question import FleetScenario, build_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from optimizer.owned_offers import with_owned
from optimizer.programs.layout import Settings
from optimizer.version import __version__
from optimizer.whatif.explained import day_of
from optimizer.whatif.fleet_bounds import limits_kept, pools_explained
from optimizer.whatif.fleet_explain_answer import FleetExplained
from optimizer.whatif.fleet_given_up import given_up
from optimizer.whatif.fleet_money import fleet_money

MOST_SAID = 5  # broken rules that are named
MALFORMED = ("question", "well_formed")  # of the audit: what is no plan at all
SAME_USD = 0.5 / MICRO
WHY_NOT = (
    "a layout in words is no fleet; it is accepted of the plan of one layout. What a fleet costs otherwise: `shardwise "
    "whatif shock FLEET.yaml --remove-gpu NAME`, or `solve` with other limits"
)


def explain_fleet(
    plan: FleetPlan, *, where: str = "plan", catalog: OfferTable | None = None, settings: Settings | None = None
) -> FleetExplained:
    """Explain a fleet's plan that is at hand.

    Args:
        plan: what `solve` answered.
        where: what messages call it.
        catalog: offers at list prices of the plan's day, where the caller has them already.
        settings: how the solver runs; the time limit is that of solving it again.

    Raises:
        QuestionError: its figures do not go together, or its question is not one any more.
        CatalogError: one of its models is not there, or no prices of its day are.
    """
    scenario = build_fleet_scenario(plan.scenario, f"{where}: scenario")
    models = {one.model: load_model(one.model) for one in scenario.traffic}
    listed = catalog or load_offers(plan.prices.as_of, scenario.prices.offers_files, today=day_of(plan))
    return fleet_explained(plan, scenario, models=models, catalog=listed, where=where, settings=settings)


def fleet_explained(
    plan: FleetPlan,
    scenario: FleetScenario,
    *,
    models: Mapping[str, ModelSpec],
    catalog: OfferTable,
    where: str = "the plan",
    settings: Settings | None = None,
) -> FleetExplained:
    """Explain a fleet's plan; arguments and errors as of `explain_fleet`, with its question, models and offers."""
    today = day_of(plan)

    def solved(question: FleetScenario, how: Settings | None) -> FleetPlan:
        return solve_fleet(question, models=models, catalog=catalog, today=today, settings=how, compare=False)

    broken = _broken(plan, models, scenario, catalog, today, where)
    again = solved(scenario, settings)
    differences = [*broken[:MOST_SAID], *_other_answer(plan, again)]
    about: dict[str, Any] = {
        "plan": where,
        "summary": plan.summary,
        "status": plan.status,
        "usd_per_hour": None if plan.cost is None else plan.cost.usd_per_hour,
        "reproduced": not differences,
        "differences": tuple(differences + (_causes(plan, again) if differences else [])),
        "solved_again_usd_per_hour": None if again.cost is None else again.cost.usd_per_hour,
        "conflict": plan.conflict,
        "prices_as_of": plan.prices.as_of,
        "calibration": calibration_used(),
    }
    if plan.cost is None:
        return FleetExplained(**about)
    return FleetExplained(
        **about,
        limits=limits_kept(plan, scenario),
        pools=pools_explained(plan, scenario, _factors(plan, scenario, models, catalog, today)),
        given_up=given_up(plan, scenario, solved, settings),
        money=fleet_money(plan),
    )


def _broken(
    plan: FleetPlan,
    models: Mapping[str, ModelSpec],
    scenario: FleetScenario,
    catalog: OfferTable,
    today: date,
    where: str,
) -> list[str]:
    """Return what the audit of the plan says at its own prices."""
    listed = with_owned(catalog, scenario.prices.owned, today)
    found = check_fleet(plan, models, listed.frame, today=today)
    if malformed := [one.message for one in found if one.rule in MALFORMED]:
        raise QuestionError(
            f"{where}: its figures do not go together ({malformed[0]}); expected what `shardwise solve --json` prints"
        )
    return [f"the plan breaks {one.rule}: {one.message}" for one in found]


def _other_answer(plan: FleetPlan, again: FleetPlan) -> list[str]:
    """Say where solving again contradicts the plan; two fleets of the same cost do not, nor what is not proved."""
    if plan.cost is None or again.cost is None:
        known = {plan.status, again.status} <= {"infeasible", "optimal", "feasible"}
        return (
            [f"the plan is {plan.status}; solved again it is {again.status}"]
            if known and plan.status != again.status
            else []
        )
    mine, other = plan.cost, again.cost
    if mine.usd_per_hour < other.bound_usd_per_hour - SAME_USD:
        return [f"solved again, no fleet costs less than ${other.bound_usd_per_hour:,.6f}/hour: {again.summary}"]
    if other.usd_per_hour < mine.bound_usd_per_hour - SAME_USD:
        return [f"solved again, a fleet costs ${other.usd_per_hour:,.6f}/hour: {again.summary}"]
    return []


def _causes(plan: FleetPlan, again: FleetPlan) -> list[str]:
    version, offers, now = plan.shardwise_version, plan.prices.offers_considered, again.prices.offers_considered
    causes = [
        (version != __version__, f"made by version {version}, this is {__version__}"),
        (offers != now, f"of that day {offers:,} offers were known, and now {now:,}"),
        (plan.calibration != calibration_used(), "another calibration of your own was in use, or none"),
    ]
    return [f"possible cause: {said}" for holds, said in causes if holds]


def _factors(
    plan: FleetPlan,
    scenario: FleetScenario,
    models: Mapping[str, ModelSpec],
    catalog: OfferTable,
    today: date,
) -> dict[str, dict[str, float]]:
    """Return, of pools whose targets have to hold with a probability, what a prediction stays below with it."""
    asked = [pool for pool in plan.pools if pool.targets.get("confidence") is not None]
    if not asked:
        return {}
    problem = pose(scenario, models=models, catalog=catalog, today=today)
    position = {one.label: number for number, one in enumerate(scenario.traffic)}
    gpus = {site.id: site.gpu for site in plan.sites}
    found = {}
    for pool in asked:
        kinds = problem.models[position[pool.model]]
        table = kinds.candidates.frame
        mine = (table["gpu"] == gpus[pool.site]).to_numpy()
        for name in ("weights", "kv_cache", "tp", "pp", "ep", "attention_dp"):
            mine = mine & (table[name] == getattr(pool, name)).to_numpy()
        if not mine.any():
            continue
        row = int(np.flatnonzero(mine)[0])
        speed = kinds.candidates.speed.take(np.array([int(table["replica"].iloc[row])]))
        question = next(one for one in kinds.scenarios[0] if one is not None)
        question = question.changed("targets", confidence=pool.targets["confidence"])
        found[pool.id] = {name: float(values[0]) for name, values in latency_factors(question, speed).items()}
    return found
