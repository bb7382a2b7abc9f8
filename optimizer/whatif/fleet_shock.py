"""Prices change, providers go: does a fleet still stand, what does it cost to stay, and what else would one rent?

Every fleet is solved anew at the prices after, each part of the shock alone and all together; the fleet from before is
priced anew and audited. Where the solver stops at its time limit, the least cost after the shock is known only down to
what it proved: what staying costs more within that distance is not called a saving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from catalogs.models import ModelSpec, load_model
from catalogs.offers import Discount, OfferTable, discounted, sorted_offers
from optimizer.calibration_used import calibration_used
from optimizer.check import by_rule
from optimizer.check.fleet import check_fleet
from optimizer.choices import MICRO
from optimizer.errors import QuestionError
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.repriced import fleet_at_prices, purchase_words
from optimizer.fleet.solve import solve_fleet
from optimizer.owned import USD_PER_PORT, OwnedHardware
from optimizer.owned_offers import SOURCE, listed_offers
from optimizer.plan import HOURS_PER_MONTH
from optimizer.programs.layout import Settings
from optimizer.whatif.fleet_changes import nodes_changed, pools_changed
from optimizer.whatif.fleet_shock_answer import FleetEffect, FleetShock, FleetStaying, FleetVerdict, PricedFleet
from optimizer.whatif.prices import Mask
from optimizer.whatif.shock import NOTHING_CHANGES, Change, count_touched

SAME_USD = 1e-6  # money is counted in whole micro-dollars
LEAST_OWNED_USD = 0.01  # hardware that costs nothing still counts a cent


@dataclass(frozen=True)
class _Market:
    """A fleet's question at some prices: hardware of one's own is part of the question, all else of the offers."""

    scenario: FleetScenario
    listed: OfferTable


@dataclass(frozen=True)
class _Solver:
    """What all solves of a shock have in common."""

    models: Mapping[str, ModelSpec]
    today: date
    settings: Settings | None

    def best(self, market: _Market) -> FleetPlan:
        """Return the cheapest fleet."""
        return solve_fleet(
            market.scenario,
            models=self.models,
            catalog=market.listed,
            today=self.today,
            settings=self.settings,
            compare=False,
        )


def find_fleet_shock(
    scenario: FleetScenario,
    changes: Sequence[Change],
    *,
    models: Mapping[str, ModelSpec] | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
    settings: Settings | None = None,
) -> FleetShock:
    """Solve a fleet before and after a shock, each part of it alone and all together, and say whether to move.

    Args:
        scenario: the question.
        changes: the parts of the shock; where several touch an offer, their factors multiply.
        models: models by the name that the question gives, where the caller has them already.
        catalog: offers at list prices, likewise.
        today: the day that price ages count from; the real one when not given.
        settings: how the solver runs; the time limit is that of each solve.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong; a part that touches no offer is.
        AuditError: the checker found a rule broken in an answer.
    """
    if not changes:
        raise QuestionError(NOTHING_CHANGES)
    day = today or date.today()
    specs = {one.model: (models or {}).get(one.model) or load_model(one.model) for one in scenario.traffic}
    solver = _Solver(specs, day, settings)
    now = _Market(scenario, listed_offers(scenario.prices, day, catalog))
    touched = [int(change.of(now.listed).sum()) for change in changes]
    before = solver.best(now)
    shocked = now
    for change in changes:
        shocked = _applied(shocked, change)
    after = solver.best(shocked)
    effects = []
    for change, count in zip(changes, touched, strict=True):
        alone = _applied(now, change)
        answer = after if len(changes) == 1 else solver.best(alone)
        effects.append(_effect(change.said, count, before, answer, alone, solver))
    if len(changes) > 1:
        effects.append(_effect("all together", count_touched(changes, now.listed), before, after, shocked, solver))
    staying = _staying(before, after, shocked, solver)
    verdict = _verdict(before, after, staying)
    moves = verdict == "move"
    return FleetShock(
        question=scenario.description or f"a fleet for {', '.join(one.label for one in scenario.traffic)}",
        verdict=verdict,
        proved=_is_proved(before) and _is_proved(after),
        open_usd_per_hour=_open(after),
        before=_priced(before),
        staying=staying,
        effects=tuple(effects),
        nodes=nodes_changed(before, after) if moves else (),
        pools=pools_changed(before, after) if moves else (),
        after=after,
        prices_as_of=now.listed.as_of,
        calibration=calibration_used(),
    )


def _applied(market: _Market, change: Change) -> _Market:
    """Return the market after one part of a shock.

    Hardware of one's own has no list price: dearer or cheaper, all that it costs is.
    """
    offers = change.of(market.listed)
    listed = change.applied(market.listed)
    own = _own_named(market.listed, offers)
    if change.factor is None or not own:
        return replace(market, listed=listed)
    hardware = tuple(_times(one, change.factor) if one.label in own else one for one in market.scenario.prices.owned)
    prices = market.scenario.prices.model_copy(update={"owned": hardware})
    scenario = market.scenario.model_copy(update={"prices": prices})
    return _Market(scenario, _with_prices_of(listed, hardware))


def _own_named(table: OfferTable, offers: Mask) -> set[str]:
    rows = table.frame[offers]
    return set(rows.loc[rows["source"] == SOURCE, "instance_type"])


def _times(hardware: OwnedHardware, factor: float) -> OwnedHardware:
    """Return hardware of which everything costs so many times as much."""
    port = USD_PER_PORT[hardware.network] if hardware.usd_per_port is None else hardware.usd_per_port
    return hardware.model_copy(
        update={
            "capital_usd_per_node": hardware.capital_usd_per_node * factor,
            "usd_per_port": port * factor,
            "usd_per_kwh": hardware.usd_per_kwh * factor,
            "hosting_usd_per_kw_month": hardware.hosting_usd_per_kw_month * factor,
        }
    )


def _with_prices_of(table: OfferTable, owned: Sequence[OwnedHardware]) -> OfferTable:
    """Return the table with hardware of one's own at what it costs, to the micro-dollar."""
    price = {one.label: max(round(one.usd_per_node_hour, 6), LEAST_OWNED_USD) for one in owned}
    frame = table.frame.copy()
    own = frame["source"] == SOURCE
    frame.loc[own, "price_usd_per_node_hour"] = frame.loc[own, "instance_type"].map(price)
    return replace(table, frame=sorted_offers(frame))


def _effect(
    said: str, count: int, before: FleetPlan, answer: FleetPlan, market: _Market, solver: _Solver
) -> FleetEffect:
    staying = _staying(before, answer, market, solver)
    stays = staying is not None and not staying.breaks
    return FleetEffect(
        change=said,
        offers=count,
        verdict=_verdict(before, answer, staying),
        proved=_is_proved(answer),
        staying_usd_per_hour=staying.usd_per_hour if staying is not None and stays else None,
        answer=_priced(answer),
    )


def _verdict(before: FleetPlan, after: FleetPlan, staying: FleetStaying | None) -> FleetVerdict:
    stays = staying is not None and staying.available and not staying.breaks
    if stays and staying is not None:
        extra = staying.extra_usd_per_hour
        return "keep" if extra is None or extra <= SAME_USD / 2 or staying.within_open else "move"
    if after.cost is None:
        return "infeasible" if after.status == "infeasible" else "unknown"
    return "start" if before.cost is None else "move"


def _is_proved(plan: FleetPlan) -> bool:
    return plan.status in ("optimal", "infeasible")


def _open(plan: FleetPlan) -> float:
    """Return the distance from a fleet's cost to what is proved of it."""
    return 0.0 if plan.cost is None else _micro(plan.cost.usd_per_hour - plan.cost.bound_usd_per_hour)


def _micro(amount: float) -> float:
    return round(amount * MICRO) / MICRO


def _priced(plan: FleetPlan) -> PricedFleet | None:
    cost = plan.cost
    if cost is None:
        return None
    return PricedFleet(
        summary=plan.summary,
        status=plan.status,
        usd_per_hour=cost.usd_per_hour,
        bound_usd_per_hour=cost.bound_usd_per_hour,
        gap=cost.gap,
        committed_usd_per_hour=cost.committed_usd_per_hour,
        upfront_usd=cost.upfront_usd,
    )


def _staying(before: FleetPlan, after: FleetPlan, market: _Market, solver: _Solver) -> FleetStaying | None:
    """Return what the fleet from before costs and breaks at the prices after; None where there was none."""
    if before.cost is None:
        return None
    discounts = [Discount(**terms.model_dump()) for terms in market.scenario.prices.discounts]
    kept = fleet_at_prices(before, market.scenario, discounted(market.listed, discounts).frame)
    if isinstance(kept, str) or kept.cost is None:
        raise ValueError("a shock takes no offer off the list: it leaves it with no nodes to be had")
    gone = [purchase_words(site, one) for site in kept.sites for one in site.purchases if one.max_nodes == 0]
    if gone:
        nothing: dict[str, Any] = dict.fromkeys(
            ("usd_per_hour", "usd_per_month", "committed_usd_per_hour", "upfront_usd")
        )
        return FleetStaying(available=False, gone=tuple(dict.fromkeys(gone)), breaks={}, **nothing)
    broken = by_rule(check_fleet(kept, solver.models, market.listed.frame, today=solver.today))
    hourly = kept.cost.usd_per_hour
    return FleetStaying(
        available=True,
        gone=(),
        usd_per_hour=hourly,
        usd_per_month=hourly * HOURS_PER_MONTH,
        committed_usd_per_hour=kept.cost.committed_usd_per_hour,
        upfront_usd=kept.cost.upfront_usd,
        breaks=broken,
        **({} if broken else _beside(hourly, after)),
    )


def _beside(hourly: float, after: FleetPlan) -> dict[str, Any]:
    """Return how a fleet that may stay compares with the one that was found after the shock."""
    if after.cost is None:
        return {}
    extra = _micro(hourly - after.cost.usd_per_hour)
    return {
        "extra_usd_per_hour": extra,
        "extra_usd_per_month": extra * HOURS_PER_MONTH,
        "within_open": 0 < extra <= _open(after),
        "most_usd_per_hour": max(_micro(hourly - after.cost.bound_usd_per_hour), 0.0),
    }
