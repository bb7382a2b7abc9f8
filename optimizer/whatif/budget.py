"""What budgets buy: the most of each lever, what holds it back, and what the next dollar adds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable, load_offers
from optimizer.choices import MICRO
from optimizer.scenario import Scenario
from optimizer.version import __version__
from optimizer.whatif.budget_report import MAXIMIZED, Binding, Bought, BudgetAnswer, BudgetReport, Margin, Maximized
from optimizer.whatif.ground import Ground
from optimizer.whatif.levers.context import Context
from optimizer.whatif.levers.latency import Latency
from optimizer.whatif.levers.lever import Lever, Rented
from optimizer.whatif.levers.precision import Precision
from optimizer.whatif.levers.traffic import Traffic
from optimizer.whatif.operating import micro
from optimizer.whatif.relaxations import Relaxation, longer_context, relaxations
from optimizer.wording import summarize

OWN_RULES = {"precision": "weights_allowed"}  # what a lever moves is no limit on it


@dataclass
class _Found:
    """One lever at one budget, while its answer is put together."""

    lever: Lever
    budget: int
    value: float | None
    rented: Rented | None
    next: Margin | None
    binds: list[Binding]


def what_budgets_buy(
    scenario: Scenario,
    budgets_usd_per_hour: Sequence[float],
    maximize: Sequence[Maximized] = MAXIMIZED,
    *,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
) -> BudgetReport:
    """Return the most that each budget buys of each thing named, exact over the catalog.

    Args:
        scenario: the question; its own budget is left out.
        budgets_usd_per_hour: hard budgets.
        maximize: of what.
        model: the model, where the caller has it already; else the scenario's is loaded.
        catalog: offers at list prices, likewise.
        today: the day that price ages count from; the real one when not given.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
        AuditError: the checker found a rule broken in an answer.
    """
    unlimited = scenario.changed("limits", budget_usd_per_hour=None)
    ground = Ground(
        unlimited,
        model or load_model(scenario.model),
        catalog or load_offers(scenario.prices.as_of, scenario.prices.offers_files),
        today or date.today(),
    )
    budgets = sorted({micro(usd) for usd in budgets_usd_per_hour})
    wanted = tuple(name for name in MAXIMIZED if name in maximize)
    found = [_bought(ground, lever, budget) for budget in budgets for lever in _levers(wanted, budgets[-1])]
    _find_bindings(ground, found)
    least = ground.problem.feasible["cost_micro_usd"].min()
    answers = [
        BudgetAnswer(
            usd_per_hour=budget / MICRO,
            enough=bool(least <= budget),
            bought=tuple(_said(ground, one, found) for one in found if one.budget == budget),
        )
        for budget in budgets
    ]
    return BudgetReport(
        shardwise_version=__version__,
        scenario=scenario.model_dump(mode="json"),
        maximize=wanted,
        at=scenario.targets.at,
        confidence=scenario.targets.confidence,
        least_usd_per_hour=None if math.isnan(least) else int(least) / MICRO,
        budgets=tuple(answers),
    )


def _levers(maximize: Sequence[Maximized], most_micro_usd: int) -> list[Lever]:
    levers: dict[Maximized, list[Lever]] = {
        "traffic": [Traffic()],
        "context": [Context()],
        "latency": [Latency("tpot", most_micro_usd), Latency("ttft", most_micro_usd)],
        "precision": [Precision()],
    }
    return [lever for name in maximize for lever in levers[name]]


def _bought(ground: Ground, lever: Lever, budget: int) -> _Found:
    value = lever.best(ground, budget)
    if value is None:
        return _Found(lever, budget, None, None, None, [])
    rented = lever.rented(ground, budget, value)
    more = lever.next(ground, budget, value)
    margin = None if more is None else _margin(ground, lever, budget, value, rented, more)
    found = _Found(lever, budget, value, rented, margin, [])
    if margin is not None:
        words = f"the budget of ${budget / MICRO:,.2f} an hour"
        found.binds.append(Binding(rule="budget", words=words, value=margin.value, said=margin.said))
    return found


def _margin(ground: Ground, lever: Lever, budget: int, value: float, rented: Rented, more: tuple[int, float]) -> Margin:
    cost, better = more
    extra = (cost - budget) / MICRO
    tokens = None
    if lever.name == "traffic":
        gained = lever.rented(ground, cost, better).performance.output_tokens_per_second
        tokens = (gained - rented.performance.output_tokens_per_second) * 3600 / extra
    return Margin(
        usd_per_hour=cost / MICRO,
        value=better,
        said=lever.said(ground, better),
        gain_per_usd=abs(better - value) / extra,
        tokens_per_usd=tokens,
    )


def _find_bindings(ground: Ground, found: Sequence[_Found]) -> None:
    """Add to each answer the rules without which alone the same budget buys more."""
    able = [one for one in found if one.value is not None]
    for relaxation in relaxations(ground):
        _bind(relaxation.give_up(ground), relaxation, able)
    longest = [one for one in able if one.lever.name == "context" and one.value == ground.model.max_context_tokens]
    if longest:
        relaxation = longer_context(ground)
        _bind(relaxation.give_up(ground), relaxation, longest)


def _bind(relaxed: Ground, relaxation: Relaxation, found: Sequence[_Found]) -> None:
    for one in found:
        if one.value is None or relaxation.rule == OWN_RULES.get(one.lever.name):
            continue
        better = one.lever.better(relaxed, one.budget, one.value)
        if better is not None:
            known = not math.isnan(better)
            said = one.lever.said(relaxed, better) if known else "more"
            value = better if known else None
            one.binds.append(Binding(rule=relaxation.rule, words=relaxation.words, value=value, said=said))


def _said(ground: Ground, one: _Found, all_found: Sequence[_Found]) -> Bought:
    lever, rented = one.lever, one.rented
    unit = ground.scenario.workload.kind if lever.name == "traffic" else lever.unit
    least = lever.least(ground)
    least_usd = None if least is None else least / MICRO
    if one.value is None or rented is None:
        said = "nothing" if least is not None else "nothing at any budget"
        return Bought(what=lever.name, value=None, unit=unit, said=said, least_usd_per_hour=least_usd)
    return Bought(
        what=lever.name,
        value=one.value,
        unit=unit,
        said=lever.said(ground, one.value),
        usd_per_hour=rented.cost.usd_per_hour,
        summary=summarize(rented.layout),
        layout=rented.layout,
        tokens_per_usd=rented.performance.output_tokens_per_second * 3600 / rented.cost.usd_per_hour,
        confirmed_by=rented.by,
        same_as_usd_per_hour=_same_as(one, all_found),
        binds=tuple(one.binds),
        next=one.next,
        least_usd_per_hour=least_usd,
    )


def _same_as(one: _Found, all_found: Sequence[_Found]) -> float | None:
    """Return the smallest budget below this one that buys the same."""
    same = [
        other.budget
        for other in all_found
        if other.lever.name == one.lever.name and other.budget < one.budget and other.value == one.value
    ]
    return min(same) / MICRO if same else None
