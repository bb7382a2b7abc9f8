"""The longest context that a budget has room for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optimizer.whatif.ground import Ground
from optimizer.whatif.levers.lever import Rented, of_plan


@dataclass(frozen=True)
class Context:
    """The longest context at the scenario's traffic: by halving, for more context never fits where less does not."""

    name: str = "context"
    unit: str = "tokens"

    def best(self, ground: Ground, budget: int) -> float | None:
        """Return the most tokens of context that the budget has room for."""
        low, high = self._range(ground)
        if low > high or not self._fits(ground, low, budget):
            return None
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(ground, middle, budget) else (low, middle - 1)
        return float(low)

    def next(self, ground: Ground, budget: int, value: float) -> tuple[int, float] | None:
        """Return the least cost of one token more, and the longest context at that cost."""
        longer = int(value) + 1
        if longer > self._range(ground)[1] or (cost := self._cost(ground, longer)) is None:
            return None
        found = self.best(ground, cost)
        return None if found is None else (cost, found)

    def least(self, ground: Ground) -> int | None:
        """Return the least cost of a context that holds one request of the workload."""
        low, high = self._range(ground)
        return self._cost(ground, low) if low <= high else None

    def better(self, ground: Ground, budget: int, value: float) -> float | None:
        """Say whether one token more fits there."""
        longer = int(value) + 1
        return math.nan if longer <= self._range(ground)[1] and self._fits(ground, longer, budget) else None

    def rented(self, ground: Ground, budget: int, value: float) -> Rented:
        """Solve the scenario with this context."""
        return of_plan(ground.solve(budget, workload={"context_tokens": int(value)}))

    def said(self, _: Ground, value: float) -> str:
        """Say the tokens."""
        return f"{value:,.0f} tokens"

    def _range(self, ground: Ground) -> tuple[int, int]:
        work = ground.scenario.workload
        return work.input_tokens + work.output_tokens, ground.model.max_context_tokens

    def _cost(self, ground: Ground, tokens: int) -> int | None:
        return ground.least_micro_usd("workload", "context_tokens", tokens)

    def _fits(self, ground: Ground, tokens: int, budget: int) -> bool:
        for known, cost in ground.known("workload", "context_tokens").items():
            within = cost is not None and cost <= budget
            if (within and known >= tokens) or (not within and known <= tokens):
                return within
        cost = self._cost(ground, tokens)
        return cost is not None and cost <= budget
