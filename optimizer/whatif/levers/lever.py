"""What every lever answers, and the layout behind an answer. Money is in whole micro-dollars an hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from optimizer.answer import Answer
from optimizer.plan import Cost, Layout, Performance, Plan
from optimizer.whatif.ground import Ground


@dataclass(frozen=True, slots=True)
class Rented:
    """The layout behind an answer, and what confirmed it: a whole solve, or the audit of a layout from the table."""

    layout: Layout
    cost: Cost
    performance: Performance
    by: str


class Lever(Protocol):
    """One thing that money buys more of."""

    @property
    def name(self) -> str:
        """What it is called: traffic, context, tpot, ttft or precision."""
        ...

    @property
    def unit(self) -> str:
        """The unit of its values; empty where that is the workload's own."""
        ...

    def best(self, ground: Ground, budget: int) -> float | None:
        """Return the best value within a budget; None where it buys none at all."""
        ...

    def next(self, ground: Ground, budget: int, value: float) -> tuple[int, float] | None:
        """Return the least budget that buys a better value, and the best value there; None where no money does."""
        ...

    def least(self, ground: Ground) -> int | None:
        """Return the least budget that buys anything; None where none does."""
        ...

    def better(self, ground: Ground, budget: int, value: float) -> float | None:
        """Return a value better than this on a relaxed ground, nan for one that is not worked out; None for none."""
        ...

    def rented(self, ground: Ground, budget: int, value: float) -> Rented:
        """Return the layout that reaches the value within the budget, confirmed."""
        ...

    def said(self, ground: Ground, value: float) -> str:
        """Say a value."""
        ...


def of_plan(plan: Plan) -> Rented:
    """Return the layout of a plan that a lever's value was asked back with."""
    if plan.layout is None or plan.cost is None or plan.performance is None:
        raise RuntimeError(f"a value found within the budget is {plan.status} when it is solved")
    return Rented(plan.layout, plan.cost, plan.performance, "solve")


def of_answer(answer: Answer, by: str) -> Rented:
    """Return the layout of an audited answer, and what confirmed it."""
    return Rented(answer.layout, answer.cost, answer.performance, by)
