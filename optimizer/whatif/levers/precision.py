"""The widest weights that a budget pays for."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.candidates import PRECISION_GROUPS
from optimizer.whatif.ground import Ground
from optimizer.whatif.levers.lever import Rented, of_plan

BITS = (32, 16, 8, 4)  # a weight, by precision group


@dataclass(frozen=True)
class Precision:
    """The widest weights at the scenario's traffic, none wider than the checkpoint's own: that would add nothing."""

    name: str = "precision"
    unit: str = "bits"

    def best(self, ground: Ground, budget: int) -> float | None:
        """Return the bits of the widest group of formats that the budget pays for."""
        for group in self._groups(ground):
            cost = self._cost(ground, group)
            if cost is not None and cost <= budget:
                return float(BITS[group])
        return None

    def next(self, ground: Ground, budget: int, value: float) -> tuple[int, float] | None:
        """Return the least cost of wider weights, and the widest at that cost."""
        costs = [cost for group in self._wider(ground, value) if (cost := self._cost(ground, group)) is not None]
        if not costs:
            return None
        found = self.best(ground, min(costs))
        return None if found is None else (min(costs), found)

    def least(self, ground: Ground) -> int | None:
        """Return the least cost over all formats."""
        costs = [cost for group in self._groups(ground) if (cost := self._cost(ground, group)) is not None]
        return min(costs, default=None)

    def better(self, ground: Ground, budget: int, value: float) -> float | None:
        """Return the widest weights there, where they are wider."""
        for group in self._wider(ground, value):
            cost = self._cost(ground, group)
            if cost is not None and cost <= budget:
                return float(BITS[group])
        return None

    def rented(self, ground: Ground, budget: int, value: float) -> Rented:
        """Solve the scenario with the formats of this width."""
        return of_plan(ground.solve(budget, limits={"weights": PRECISION_GROUPS[BITS.index(int(value))]}))

    def said(self, _: Ground, value: float) -> str:
        """Say the formats of this width."""
        return f"{value:g}-bit weights ({' or '.join(PRECISION_GROUPS[BITS.index(int(value))])})"

    def _groups(self, ground: Ground) -> list[int]:
        own = ground.model.checkpoint.weights
        widest = next(index for index, group in enumerate(PRECISION_GROUPS) if own in group)
        return list(range(widest, len(PRECISION_GROUPS)))

    def _wider(self, ground: Ground, value: float) -> list[int]:
        return [group for group in self._groups(ground) if BITS[group] > value]

    def _cost(self, ground: Ground, group: int) -> int | None:
        return ground.least_micro_usd("limits", "weights", PRECISION_GROUPS[group])
