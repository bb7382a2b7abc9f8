"""What `shardwise whatif shock --json` prints: the answer before and after prices change, and whether to move."""

from __future__ import annotations

from datetime import date
from typing import Literal

from optimizer.plan import AnswerPart, Calibration, Plan
from optimizer.whatif.breakeven_answer import PricedLayout, Resolved

Verdict = Literal["keep", "move", "start", "infeasible"]


class Effect(AnswerPart):
    """One part of the shock alone, or all of it.

    Attributes:
        change: the part, as it was given.
        offers: how many it touches.
        moves: whether the answer is another layout than before, prices aside.
        answer: the answer then; null where nothing is feasible.
    """

    change: str
    offers: int
    moves: bool
    answer: PricedLayout | None


class Staying(AnswerPart):
    """The answer from before at the prices after.

    Attributes:
        available: whether its offer is still to be had.
        usd_per_hour: at the prices after; null where it is gone.
        breaks: rules of the question that it breaks then, with their numbers.
        extra_usd_per_hour, extra_usd_per_month: what staying costs more than moving; null where either is not possible.
    """

    layout: PricedLayout | None
    available: bool
    usd_per_hour: float | None
    breaks: dict[str, str]
    extra_usd_per_hour: float | None
    extra_usd_per_month: float | None


class Tipping(AnswerPart):
    """How far a single price change has to go until the answer is another one.

    Attributes:
        change: the least change, in the direction of the shock, at which the answer is another layout; null where none
            in that direction is enough.
        price_usd_per_node_hour: what the best layout on the changed offers pays for a node then.
        verified: the two solves that show it: one micro-dollar a node hour apart.
        why: where nothing tips it, why.
    """

    change: float | None
    price_usd_per_node_hour: float | None
    verified: tuple[Resolved, ...]
    why: str


class Shock(AnswerPart):
    """What a change of prices does to an answer.

    Attributes:
        verdict: "keep" the layout from before, "move" to another, "start" where nothing was feasible before, or
            "infeasible" where nothing is now.
        effects: each part alone, then all together where there are several.
        tipping: for a single price change; null for several, or where nothing was feasible before.
        after: the whole answer after the shock.
        before: the answer before the shock; null where nothing was feasible.
        staying: what keeping that layout comes to; null where nothing was feasible before.
    """

    schema_version: Literal["1"] = "1"
    question: str
    verdict: Verdict
    before: PricedLayout | None
    staying: Staying | None
    effects: tuple[Effect, ...]
    tipping: Tipping | None
    after: Plan
    prices_as_of: date
    calibration: Calibration | None = None
