"""One look at one plan: what it costs today and what would be best, solved anew where anything that matters changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.solve import solve_fleet
from optimizer.plan import Plan
from optimizer.programs.layout import Settings
from optimizer.reoptimize.answer import Figures
from optimizer.reoptimize.plans import SavedPlan
from optimizer.reoptimize.prices import Asked, Catalogs, ask, mark
from optimizer.reoptimize.standing import own_offers, standing
from optimizer.reoptimize.state import Kept
from optimizer.scenario import Scenario
from optimizer.solve import solve
from optimizer.whatif.shock import same_layout
from optimizer.wording import rate


@dataclass(frozen=True)
class Look:
    """What a look found, under which mark, and whether it took solving."""

    mark: str
    figures: Figures
    resolved: bool


def look_at(
    saved: SavedPlan,
    catalogs: Catalogs,
    today: date,
    kept: Kept | None = None,
    settings: Settings | None = None,
    max_age_days: int | None = None,
) -> Look:
    """Look at a saved plan at the prices of the day.

    Args:
        saved: the plan.
        catalogs: the offers of the day.
        today: the day that price ages count to.
        kept: what is kept of the look before; where nothing that matters has changed since, it is the answer.
        settings: how the solver runs.
        max_age_days: refuse older prices than this, whatever the question says.

    Raises:
        QuestionError, CatalogError: something that the question names is not usable any more.
        AuditError: the checker found a rule broken in the new answer.
    """
    asked = ask(saved, catalogs, today, max_age_days)
    found = mark(saved, asked, own_offers(saved.plan))
    if kept is not None and kept.mark == found:
        return Look(found, _dated(kept.figures, saved, asked), resolved=False)
    return Look(found, _dated(_figures(saved, asked, settings), saved, asked), resolved=True)


def _dated(figures: Figures, saved: SavedPlan, asked: Asked) -> Figures:
    """Return figures with the age of the prices behind them, which may be seen again without any change."""
    wanted = set(own_offers(saved.plan))
    if figures.replacement is not None:
        wanted |= set(own_offers(figures.replacement))
    keys = zip(*(asked.own[name] for name in ("provider", "region", "instance_type", "term")), strict=True)
    days = asked.own["seen_on"][[key in wanted for key in keys]]
    seen_on = None if days.empty else days.min().date()
    stale = seen_on is not None and (asked.today - seen_on).days > asked.scenario.prices.stale_after_days
    return figures.model_copy(update={"seen_on": seen_on, "stale": stale})


def _figures(saved: SavedPlan, asked: Asked, settings: Settings | None) -> Figures:
    plan = saved.plan
    then = None if plan.cost is None else plan.cost.usd_per_hour
    stands = None if then is None else standing(plan, asked)
    best = None if asked.no_offers else _solved(asked, settings)
    found = {
        "question": question_words(saved.scenario),
        "summary": plan.summary,
        "usd_per_hour_then": then,
        "usd_per_hour_now": None if stands is None else stands.usd_per_hour,
        "committed_usd_per_hour": 0.0 if stands is None else stands.committed_usd_per_hour,
        "breaks": {} if stands is None else stands.breaks,
        "notes": (*asked.notes, *_committed_words(0.0 if stands is None else stands.committed_usd_per_hour)),
    }
    if best is None or best.cost is None:
        conflict = (asked.no_offers,) if best is None else tuple(one.needs or one.meaning for one in best.conflict)
        proved = best is None or best.status == "infeasible"
        return Figures(**found, best_summary=None, best_usd_per_hour=None, proved=proved, conflict=conflict)
    return Figures(
        **found,
        best_summary=best.summary,
        best_usd_per_hour=best.cost.usd_per_hour,
        proved=best.status == "optimal",
        replacement=None if same_answer(plan, best) else best,
    )


def _solved(asked: Asked, settings: Settings | None) -> Plan | FleetPlan:
    scenario, today = asked.scenario, asked.today
    if isinstance(scenario, FleetScenario):
        return solve_fleet(
            scenario, models=asked.models, catalog=asked.listed, today=today, settings=settings, compare=False
        )
    model = asked.models[scenario.model]
    return solve(scenario, model=model, catalog=asked.listed, today=today, settings=settings, reasons=False)


def same_answer(saved: Plan | FleetPlan, best: Plan | FleetPlan) -> bool:
    """Say whether two plans are the same but for what they cost and when that was seen."""
    if isinstance(saved, Plan) and isinstance(best, Plan):
        if saved.layout is None or best.layout is None:
            return saved.layout is best.layout
        return same_layout(saved.layout, best.layout)
    if isinstance(saved, FleetPlan) and isinstance(best, FleetPlan):
        return _what_runs(saved) == _what_runs(best)
    return False


def _what_runs(plan: FleetPlan) -> tuple[object, ...]:
    """Return a fleet without money and predictions, in an order that does not depend on how things are called."""
    sites = {site.id: (site.provider, site.region, site.gpu, site.gpus_per_node, site.spot) for site in plan.sites}
    bought = sorted(
        (*map(str, sites[site.id]), one.instance_type, one.term, str(one.contract), one.nodes_by_period)
        for site in plan.sites
        for one in site.purchases
    )
    pools = sorted(
        (
            *map(str, sites[one.site]),
            one.model,
            one.weights,
            one.kv_cache,
            (one.tp, one.pp, one.ep, one.attention_dp),
            str(sorted(one.targets.items())),
            one.replicas_by_period,
        )
        for one in plan.pools
    )
    return tuple(bought), tuple(pools)


def question_words(scenario: Scenario | FleetScenario) -> str:
    """Say a question in one line."""
    if isinstance(scenario, Scenario):
        return f"{scenario.model}, {rate(scenario)}"
    return scenario.description or f"a fleet for {', '.join(one.label for one in scenario.traffic)}"


def _committed_words(committed: float) -> tuple[str, ...]:
    if committed <= 0:
        return ()
    return (
        f"${committed:,.2f}/hour of the plan is committed: where that is signed or bought already, it is paid on after "
        "a switch (--signed counts it so)",
    )
