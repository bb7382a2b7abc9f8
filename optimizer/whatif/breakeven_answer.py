"""What `shardwise whatif breakeven --json` prints: prices at which offers start or stop being the answer."""

from __future__ import annotations

from datetime import date
from typing import Literal

from optimizer.answer import Answer
from optimizer.plan import Alternative, AnswerPart, Calibration, Miss
from optimizer.wording import summarize


class PricedLayout(AnswerPart):
    """A layout with what it costs at some price.

    Attributes:
        price_usd_per_node_hour: after the user's own discounts, as everywhere; whole micro-dollars.
        usd_per_million_output_tokens: at this traffic; `_at_saturation` with every replica full.
    """

    summary: str
    provider: str
    gpu: str
    nodes: int
    gpus_per_node: int
    price_usd_per_node_hour: float
    price_usd_per_gpu_hour: float
    usd_per_hour: float
    usd_per_million_output_tokens: float
    usd_per_million_output_tokens_at_saturation: float


class Resolved(AnswerPart):
    """One solve of the question at changed prices, from the beginning, with proof and audit.

    Attributes:
        price_usd_per_node_hour: of the offer that the best layout of the group rents.
        of_group: whether the answer rents an offer of the group.
        answer: the answer then; null where nothing is feasible.
    """

    price_usd_per_node_hour: float
    of_group: bool
    answer: PricedLayout | None


class BreakEven(AnswerPart):
    """At which price some offers, whose prices all change by one factor, start or stop being the answer.

    Attributes:
        offer: what names the offers.
        offers: how many it names.
        allowed_offers: how many of them the question's limits allow.
        status: "may_rise": it is the answer up to the price; "must_fall": it becomes the answer there; "any_price": it
            is the answer whatever it costs; "no_price": none makes it the answer, and `why` says so.
        now: its best layout at today's prices; null where it has none.
        at: its best layout at the break-even: the highest price, to the micro-dollar of a node hour, at which it is the
            answer.
        factor: price at the break-even over today's.
        change: factor - 1; the share by which the price may rise, or (negative) has to fall.
        cheapest_usd_per_node_hour, cheapest_usd_per_gpu_hour: of all allowed offers named, at the break-even.
        takes_over: the answer one micro-dollar a node hour above the break-even; null where nothing is feasible then.
        verified: the two solves that show it: at the break-even, and one micro-dollar above.
        nearest: where it has no layout, the one that breaks the fewest rules, with what it breaks.
    """

    offer: str
    offers: int
    allowed_offers: int
    status: Literal["may_rise", "must_fall", "any_price", "no_price"]
    now: PricedLayout | None = None
    at: PricedLayout | None = None
    factor: float | None = None
    change: float | None = None
    cheapest_usd_per_node_hour: float | None = None
    cheapest_usd_per_gpu_hour: float | None = None
    takes_over: PricedLayout | None = None
    verified: tuple[Resolved, ...] = ()
    why: str = ""
    nearest: Miss | None = None


class BreakEvens(AnswerPart):
    """Every break-even of a question.

    Attributes:
        answer: at today's prices; null where nothing is feasible.
        asked: the one asked for by name.
        own: the answer's own offer alone, then every offer of its GPU type.
        alternatives: every other GPU type that some price makes the answer, the nearest to its break-even first.
        no_layout: GPU types that no price makes the answer, and why.
        solves: how often the question was solved from the beginning.
    """

    schema_version: Literal["1"] = "1"
    question: str
    answer: PricedLayout | None
    asked: BreakEven | None
    own: tuple[BreakEven, ...]
    alternatives: tuple[BreakEven, ...]
    no_layout: tuple[Alternative, ...]
    prices_as_of: date
    solves: int
    calibration: Calibration | None = None
    warnings: tuple[str, ...] = ()


def priced_layout(answer: Answer) -> PricedLayout:
    """Return an answer as a layout with its price."""
    layout, cost = answer.layout, answer.cost
    return PricedLayout(
        summary=summarize(layout),
        provider=layout.provider,
        gpu=layout.gpu,
        nodes=layout.nodes,
        gpus_per_node=layout.gpus_per_node,
        price_usd_per_node_hour=layout.price_usd_per_node_hour,
        price_usd_per_gpu_hour=layout.price_usd_per_node_hour / layout.gpus_per_node,
        usd_per_hour=cost.usd_per_hour,
        usd_per_million_output_tokens=cost.usd_per_million_output_tokens,
        usd_per_million_output_tokens_at_saturation=cost.usd_per_million_output_tokens_at_saturation,
    )
