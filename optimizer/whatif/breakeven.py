"""At which price an offer starts or stops being the answer, exactly, each shown by two solves on either side of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from functools import partial

import numpy as np
import pandas as pd

from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable, load_offers
from optimizer.answer import Answer, answers
from optimizer.calibration_used import calibration_used, calibration_warnings
from optimizer.candidates import node_shapes
from optimizer.choices import MICRO, broken_offer_rules
from optimizer.explain import why_no_candidate, why_none
from optimizer.infeasible import find_nearest_misses
from optimizer.rules import bits_of_kind
from optimizer.scenario import Scenario
from optimizer.solve import Problem, cheapest_answer, conflict_table, pose, with_targets_given_up
from optimizer.whatif.breakeven_answer import BreakEven, BreakEvens, Resolved, priced_layout
from optimizer.whatif.group import Group, Select
from optimizer.whatif.prices import Mask, matching, same_offer, scaled, scaled_prices
from optimizer.wording import rate

MOST_NUDGES = 3  # micro-dollars by which rounding of a product of prices and discounts can be off


@dataclass
class Repriced:
    """A question that is solved again at other prices.

    Attributes:
        solves: how often it was.
    """

    problem: Problem
    today: date
    solves: int = field(default=0)

    def answer(self, select: Select, factor: float) -> Answer | None:
        """Return the answer when the prices of some offers are so many times today's."""
        self.solves += 1
        listed = self.problem.listed
        table = scaled(listed, select(listed.frame), factor)
        return cheapest_answer(self.problem.scenario, model=self.problem.model, catalog=table, today=self.today)


def find_break_evens(
    scenario: Scenario,
    offer: str | None = None,
    *,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
) -> BreakEvens:
    """Return the price at which each GPU type, and an offer asked for, starts or stops being the answer.

    Args:
        scenario: the question.
        offer: a pattern of offers (see optimizer.whatif.prices.matching); None asks for none in particular.
        model: where the caller has it already; else the scenario's is loaded.
        catalog: offers at list prices, likewise.
        today: the day that price ages count from; the real one when not given.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
        AuditError: the checker found a rule broken in an answer.
    """
    day = today or date.today()
    model = model or load_model(scenario.model)
    listed = catalog or load_offers(scenario.prices.as_of, scenario.prices.offers_files)
    problem = pose(scenario, model=model, catalog=listed, today=day)
    again = Repriced(problem, day)
    chosen = partial(matching, pattern=offer) if offer is not None else None
    asked = None if offer is None or chosen is None else _with_reason(again, break_even(again, offer, chosen), chosen)
    now = cheapest_answer(scenario, model=model, catalog=listed, today=day)
    own = () if now is None else _own(again, now)
    rest = [one for one in sorted(set(problem.offers["gpu"])) if now is None or one != now.layout.gpu]
    found = [break_even(again, gpu, partial(_of_gpu, gpu=gpu)) for gpu in rest]
    able = [one for one in found if one.status != "no_price"]
    return BreakEvens(
        question=f"{model.name}, {rate(scenario)}",
        answer=None if now is None else priced_layout(now),
        asked=asked,
        own=own,
        alternatives=tuple(sorted(able, key=lambda one: (abs(one.change or 0.0), one.offer))),
        no_layout=why_none(problem, {one.offer for one in able} | ({now.layout.gpu} if now is not None else set())),
        prices_as_of=listed.as_of,
        solves=again.solves,
        calibration=calibration_used(),
        warnings=tuple(calibration_warnings()),
    )


def _of_gpu(frame: pd.DataFrame, gpu: str) -> Mask:
    return (frame["gpu"] == gpu).to_numpy()


def _own(again: Repriced, now: Answer) -> tuple[BreakEven, ...]:
    """Return how far the answer's price may rise: of its own offer alone, and of every offer of its GPU type."""
    layout = now.layout
    name = "/".join((layout.provider, layout.instance_type, layout.region, layout.term))
    alone = break_even(again, name, partial(same_offer, layout=layout))
    return alone, break_even(again, layout.gpu, partial(_of_gpu, gpu=layout.gpu))


def break_even(again: Repriced, name: str, select: Select) -> BreakEven:
    """Return the price at which some offers start or stop being the answer, shown by two solves.

    Args:
        again: the question.
        name: what the offers are called.
        select: which offers they are.

    Raises:
        QuestionError: none is named.
        RuntimeError: the solves and the table of choices disagree.
    """
    problem = again.problem
    group = Group(problem, again.today, select)
    allowed = group.offers & (broken_offer_rules(problem.scenario, problem.offers, again.today) == 0)
    about = {"offer": name, "offers": int(group.offers.sum()), "allowed_offers": int(allowed.sum())}
    if group.rows.empty:
        return BreakEven(**about, status="no_price", why="no layout on it keeps every rule, whatever it costs")
    now = answers(problem.scenario, problem.model, group.rows.head(1), problem.candidates.speed, problem.offers)
    about["now"] = priced_layout(now[0])
    if group.any_price:
        return BreakEven(**about, status="any_price", why="no other offer in the catalog keeps every rule")
    price = group.highest_price_micro_usd()
    if price is None:
        return BreakEven(**about, status="no_price", why="even at a micro-dollar a node hour something else is cheaper")
    price, below, above = _verified(again, select, group, price)
    factor = group.factor(price)
    then = problem.offers[allowed]
    prices = scaled_prices(then["price_usd_per_node_hour"].to_numpy(), factor)
    return BreakEven(
        **about,
        status="may_rise" if group.holds_at(1.0) else "must_fall",
        at=below.answer,
        factor=factor,
        change=factor - 1,
        cheapest_usd_per_node_hour=float(prices.min()),
        cheapest_usd_per_gpu_hour=float((prices / then["gpus_per_node"].to_numpy()).min()),
        takes_over=above.answer,
        verified=(below, above),
    )


def _with_reason(again: Repriced, found: BreakEven, select: Select) -> BreakEven:
    """Say of offers that have no layout what the one nearest to keeping every rule breaks."""
    if found.now is not None:
        return found
    problem = again.problem
    found = found.model_copy(update={"why": "; ".join((found.why, *_reasons(problem, select)))})
    group = Group(with_targets_given_up(problem), again.today, select)
    rows = group.problem.choices.frame
    mine = rows[group.offers[rows["offer"].to_numpy()]]
    if mine.empty:
        shapes = np.unique(node_shapes(problem.offers)[1][group.offers])
        return found.model_copy(update={"why": f"{found.why}: {why_no_candidate(problem, shapes)}"})
    within = mine[(mine["broken"].to_numpy() & bits_of_kind("limit", "offer")) == 0]
    table = conflict_table(group.problem, again.today, mine if within.empty else within)
    (nearest,) = find_nearest_misses(problem.scenario, table, most=1)
    return found.model_copy(update={"nearest": nearest})


def _reasons(problem: Problem, select: Select) -> list[str]:
    """Return why GPU types of which every offer is named have no layout within the question's limits."""
    gpus, named = problem.offers["gpu"], select(problem.offers)
    whole = set(gpus[named]) - set(gpus[~named])
    return [f"{one.gpu}: {one.why}" for one in why_none(problem, set(gpus) - whole)]


def _verified(again: Repriced, select: Select, group: Group, price: int) -> tuple[int, Resolved, Resolved]:
    """Solve at a price and one micro-dollar above; return the break-even, moved where rounding asks for it."""
    for _ in range(MOST_NUDGES):
        below, above = (_resolve(again, select, group, at) for at in (price, price + 1))
        if below.of_group and not above.of_group:
            return price, below, above
        price += 1 if above.of_group else -1
    raise RuntimeError(f"solves at {price} micro-dollars a node hour do not agree with the table of choices")


def _resolve(again: Repriced, select: Select, group: Group, price_micro_usd: int) -> Resolved:
    answer = again.answer(select, group.factor(price_micro_usd))
    if answer is None:
        return Resolved(price_usd_per_node_hour=price_micro_usd / MICRO, of_group=False, answer=None)
    rented = same_offer(again.problem.offers, answer.layout)
    return Resolved(
        price_usd_per_node_hour=price_micro_usd / MICRO,
        of_group=bool((rented & group.offers).any()),
        answer=priced_layout(answer),
    )
