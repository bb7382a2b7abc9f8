"""Prices change, providers go: does the answer still stand, and what does it cost to stay where one is?"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from catalogs.models import ModelSpec, load_model
from catalogs.offers import OfferTable
from optimizer.answer import Answer
from optimizer.calibration_used import calibration_used
from optimizer.check import check_layout
from optimizer.choices import MICRO
from optimizer.errors import QuestionError
from optimizer.owned_offers import listed_offers
from optimizer.plan import HOURS_PER_MONTH, Cost, Layout, Plan
from optimizer.scenario import Scenario
from optimizer.solve import at_own_prices, cheapest_answer, pose, solve
from optimizer.whatif.breakeven import Repriced, break_even
from optimizer.whatif.breakeven_answer import BreakEven, priced_layout
from optimizer.whatif.prices import Mask, matching, same_offer, scaled, withdrawn
from optimizer.whatif.shock_answer import Effect, Shock, Staying, Tipping, Verdict
from optimizer.wording import rate

_FACTOR = re.compile(r"(?:(?P<sign>[+-])(?P<percent>\d+(?:\.\d+)?)%|x(?P<times>\d+(?:\.\d+)?))", re.IGNORECASE)
MOST_TIMES = 1000.0  # a price that rises more is a mistake
NOTHING_CHANGES = "nothing changes: give --price, --remove-provider, --remove-gpu or --remove-offer"


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a shock: offers that a pattern names, at a factor, or withdrawn (factor None)."""

    said: str
    pattern: str
    factor: float | None

    def of(self, table: OfferTable) -> Mask:
        """Return the offers that it touches."""
        try:
            return matching(table.frame, self.pattern)
        except QuestionError as error:
            raise QuestionError(f"{self.said}: {error}") from None

    def applied(self, table: OfferTable) -> OfferTable:
        """Return the table after it."""
        offers = self.of(table)
        return withdrawn(table, offers) if self.factor is None else scaled(table, offers, self.factor)


def price_change(text: str) -> Change:
    """Read "spot=+40%", "H100*=-20%" or "aws=x1.5": offers named by a pattern, and what their prices do.

    Raises:
        QuestionError: it is none of these, or leaves no price above nothing.
    """
    pattern, equals, change = text.rpartition("=")
    found = _FACTOR.fullmatch(change.strip())
    if not equals or not pattern.strip() or found is None:
        raise QuestionError(f"--price {text!r}: expected PATTERN=+40%, PATTERN=-20% or PATTERN=x1.5")
    if found["times"] is not None:
        factor = float(found["times"])
    else:
        factor = 1 + float(f"{found['sign']}{found['percent']}") / 100
    if not 0 < factor <= MOST_TIMES:
        raise QuestionError(f"--price {text!r}: expected a change above -100% and at most x{MOST_TIMES:g}")
    return Change(f"--price {text}", pattern.strip(), factor)


def removal(flag: str, field: str | None, pattern: str) -> Change:
    """Return the withdrawal of what a flag names: a pattern, of one field where the flag says which."""
    return Change(f"{flag} {pattern}", pattern if field is None else f"{field}={pattern}", None)


def read_changes(
    price: Sequence[str] = (),
    remove_provider: Sequence[str] = (),
    remove_gpu: Sequence[str] = (),
    remove_offer: Sequence[str] = (),
) -> list[Change]:
    """Return the parts of a shock as its flags name them.

    Raises:
        QuestionError: a price change is none.
    """
    changes = [price_change(text) for text in price]
    changes += [removal("--remove-provider", "provider", text) for text in remove_provider]
    changes += [removal("--remove-gpu", "gpu", text) for text in remove_gpu]
    return changes + [removal("--remove-offer", None, text) for text in remove_offer]


def find_shock(
    scenario: Scenario,
    changes: Sequence[Change],
    *,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
) -> Shock:
    """Solve before and after a shock, each part of it alone and all together, and say whether to move.

    Args:
        scenario: the question.
        changes: the parts of the shock; where several touch an offer, their factors multiply.
        model: where the caller has it already; else the scenario's is loaded.
        catalog: offers at list prices, likewise.
        today: the day that price ages count from; the real one when not given.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong; a part that touches no offer is.
        AuditError: the checker found a rule broken in an answer.
    """
    if not changes:
        raise QuestionError(NOTHING_CHANGES)
    day = today or date.today()
    model = model or load_model(scenario.model)
    listed = listed_offers(scenario.prices, day, catalog)
    touched = [int(change.of(listed).sum()) for change in changes]
    asked = partial(cheapest_answer, scenario, model=model, today=day)
    before = asked(catalog=listed)
    shocked = listed
    for change in changes:
        shocked = change.applied(shocked)
    after = solve(scenario, model=model, catalog=shocked, today=day)
    effects = [
        _effect(change.said, count, before, asked(catalog=change.applied(listed)))
        for change, count in zip(changes, touched, strict=True)
    ]
    if len(changes) > 1:
        effects.append(_effect("all together", count_touched(changes, listed), before, asked(catalog=shocked)))
    staying = None if before is None else _staying(scenario, model, before, after, shocked, day)
    single = changes[0] if len(changes) == 1 and changes[0].factor not in (None, 1.0) else None
    problem = pose(scenario, model=model, catalog=listed, today=day)
    return Shock(
        question=f"{model.name}, {rate(scenario)}",
        verdict=_verdict(before, after, staying),
        before=None if before is None else priced_layout(before),
        staying=staying,
        effects=tuple(effects),
        tipping=None if before is None or single is None else _tipping(Repriced(problem, day), single),
        after=after,
        prices_as_of=listed.as_of,
        calibration=calibration_used(),
    )


def count_touched(changes: Sequence[Change], table: OfferTable) -> int:
    """Return how many offers any part of a shock touches."""
    return int(sum(change.of(table) for change in changes).astype(bool).sum())  # type: ignore[union-attr]


def _effect(said: str, count: int, before: Answer | None, answer: Answer | None) -> Effect:
    same = answer is not None and before is not None and same_layout(answer.layout, before.layout)
    return Effect(
        change=said,
        offers=count,
        moves=not same and not (answer is None and before is None),
        answer=None if answer is None else priced_layout(answer),
    )


def same_layout(one: Layout, other: Layout) -> bool:
    """Whether two layouts are the same but for what they cost and when that was seen."""
    prices = {"price_usd_per_node_hour", "price_seen_on", "price_source", "max_nodes"}
    return one.model_dump(exclude=prices) == other.model_dump(exclude=prices)


def _verdict(before: Answer | None, after: Plan, staying: Staying | None) -> Verdict:
    if after.cost is None:
        return "infeasible"
    if before is None or staying is None:
        return "start"
    stays = staying.available and not staying.breaks and staying.usd_per_hour is not None
    return "keep" if stays and not (staying.extra_usd_per_hour or 0.0) > 0.0 else "move"


def _staying(
    scenario: Scenario, model: ModelSpec, before: Answer, after: Plan, shocked: OfferTable, today: date
) -> Staying:
    """Return what the layout from before costs and breaks at the prices after."""
    own = at_own_prices(scenario, shocked).frame
    rows = own[same_offer(own, before.layout)]
    price = round(float(rows["price_usd_per_node_hour"].iloc[0]) * MICRO) / MICRO
    stock = float(rows["max_nodes"].iloc[0])
    layout = before.layout.model_copy(
        update={"price_usd_per_node_hour": price, "max_nodes": None if math.isnan(stock) else int(stock)}
    )
    cost = _at_price(before, layout)
    if stock == 0:
        return Staying(
            layout=None,
            available=False,
            usd_per_hour=None,
            breaks={},
            extra_usd_per_hour=None,
            extra_usd_per_month=None,
        )
    broken = check_layout(scenario, model, layout, cost=cost, offers=shocked.frame, today=today)
    extra = None
    if after.cost is not None and not broken:
        extra = round((cost.usd_per_hour - after.cost.usd_per_hour) * MICRO) / MICRO
    kept = Answer(layout, cost, before.memory, before.performance, before.targets, before.factors)
    return Staying(
        layout=priced_layout(kept),
        available=True,
        usd_per_hour=cost.usd_per_hour,
        breaks={one.rule: one.message for one in broken},
        extra_usd_per_hour=extra,
        extra_usd_per_month=None if extra is None else extra * HOURS_PER_MONTH,
    )


def _at_price(before: Answer, layout: Layout) -> Cost:
    """Return the cost of an answer's layout at another price: everything in proportion, to the micro-dollar an hour."""
    hourly = round(layout.nodes * layout.price_usd_per_node_hour * MICRO) / MICRO
    times = hourly / before.cost.usd_per_hour
    return Cost(
        usd_per_hour=hourly,
        usd_per_month=hourly * HOURS_PER_MONTH,
        usd_per_million_output_tokens=before.cost.usd_per_million_output_tokens * times,
        usd_per_million_output_tokens_at_saturation=before.cost.usd_per_million_output_tokens_at_saturation * times,
        bound_usd_per_hour=hourly,
        gap=0.0,
    )


def _tipping(again: Repriced, change: Change) -> Tipping:
    """Return how far a single price change has to go, in its direction, until the answer is another one."""
    found = break_even(again, change.pattern, partial(matching, pattern=change.pattern))
    rises = (change.factor or 1.0) > 1
    if rises and found.status == "may_rise":
        return _tips(found, above=True)
    if not rises and found.status == "must_fall":
        return _tips(found, above=False)
    return Tipping(change=None, price_usd_per_node_hour=None, verified=(), why=_why_never(found, change, rises))


def _tips(found: BreakEven, above: bool) -> Tipping:
    """Return the first price on the far side of a break-even."""
    if found.now is None:
        raise ValueError("a break-even without a layout tips nothing")
    below, beyond = found.verified
    price = (beyond if above else below).price_usd_per_node_hour
    return Tipping(
        change=(found.factor or 1.0) * price / below.price_usd_per_node_hour - 1,
        price_usd_per_node_hour=price,
        verified=found.verified,
        why="",
    )


def _why_never(found: BreakEven, change: Change, rises: bool) -> str:
    if found.status == "no_price":
        return f"no price of {change.pattern} matters: {found.why}"
    if found.status == "any_price":
        return f"{change.pattern} is the answer whatever it costs: {found.why}"
    if rises:
        return f"the answer rents none of {change.pattern}: dearer, they are even less of an answer"
    return f"the answer rents one of {change.pattern} already: cheaper, it is all the more the answer"
