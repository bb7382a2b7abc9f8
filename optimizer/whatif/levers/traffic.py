"""The most traffic that a budget carries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.choices import NEVER, allowed_replicas, most_replicas, nodes_needed
from optimizer.infeasible import COUNTING
from optimizer.relax import round_down
from optimizer.whatif.ground import Ground
from optimizer.whatif.levers.lever import Rented, of_plan
from optimizer.whatif.operating import DIGITS
from optimizer.wording import rate_words

Floats = NDArray[np.float64]

SHAVED = (0.0, 1e-4, 1e-3, 1e-2)  # off a traffic whose percentile misses its target at the very edge
MOST_TRIED = 24  # choices, where percentiles rule the first ones out
MOST_IN_FLIGHT = 1_000_000  # the field's own bound


@dataclass(frozen=True)
class Traffic:
    """The most traffic, in the unit of the workload's kind: for each choice, all nodes that can be had and paid for."""

    name: str = "traffic"
    unit: str = ""

    def best(self, ground: Ground, budget: int) -> float | None:
        """Return the most traffic that some layout within the budget carries, rounded down to DIGITS digits."""
        rows = _able(ground)
        nodes = np.minimum(rows["node_cap"].to_numpy(), budget // rows["price_micro_usd"].to_numpy())
        replicas = most_replicas(ground.scenario, nodes, *_packing(rows))
        carried = np.sort(replicas * rows["capacity"].to_numpy())[::-1]
        if ground.scenario.targets.at == "mean":
            most = self._rounded(ground, float(carried.max(initial=0.0)))
            return most if most > 0 else None
        # The closed form of a percentile is not quite monotone: what a choice carries is looked at where it would run.
        tried = {self._rounded(ground, value * (1 - off)) for value in carried[:MOST_TRIED] for off in SHAVED}
        for value in sorted(tried, reverse=True):
            if value > 0 and (cost := self._cost(ground, value)) is not None and cost <= budget:
                return value
        return None

    def next(self, ground: Ground, budget: int, value: float) -> tuple[int, float] | None:
        """Return the least cost at which some choice carries more, and the most traffic there."""
        rows, scenario = _able(ground), ground.scenario
        above = value + 1 if scenario.workload.kind == "concurrency" else value * (1 + 10.0 ** (1 - DIGITS))
        if above > MOST_IN_FLIGHT and scenario.workload.kind == "concurrency":
            return None
        costs = _costs(ground, rows, above)
        for cost in np.unique(costs[np.isfinite(costs) & (costs > budget)])[:MOST_TRIED]:
            found = self.best(ground, int(cost))
            if found is not None and found > value:
                return int(cost), found
        return None

    def least(self, ground: Ground) -> int | None:
        """Return the cost of the cheapest layout that carries any traffic."""
        costs = _costs(ground, _able(ground), 0.0)
        return int(costs.min()) if len(costs) and np.isfinite(costs.min()) else None

    def better(self, ground: Ground, budget: int, value: float) -> float | None:
        """Return the most traffic there, where it is more."""
        found = self.best(ground, budget)
        return found if found is not None and found > value * (1 + 1e-4) else None

    def rented(self, ground: Ground, budget: int, value: float) -> Rented:
        """Solve the scenario at this traffic."""
        return of_plan(ground.solve(budget, workload={ground.scenario.workload.kind: value}))

    def said(self, ground: Ground, value: float) -> str:
        """Say the traffic."""
        return rate_words(ground.scenario, value)

    def _rounded(self, ground: Ground, value: float) -> float:
        if ground.scenario.workload.kind == "concurrency":
            return min(math.floor(value * (1 + 1e-9)), MOST_IN_FLIGHT)
        return round_down(value, DIGITS)

    def _cost(self, ground: Ground, value: float) -> int | None:
        return ground.least_micro_usd("workload", ground.scenario.workload.kind, value)


def _able(ground: Ground) -> pd.DataFrame:
    """Return the choices that break no rule whatever the count, and carry something."""
    rows = ground.problem.choices.frame
    found: pd.DataFrame = rows[((rows["broken"] & ~COUNTING) == 0) & (rows["capacity"] > 0)]
    return found


def _packing(rows: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return rows["replicas_per_node"].to_numpy(), rows["nodes_per_replica"].to_numpy()


def _costs(ground: Ground, rows: pd.DataFrame, traffic: float) -> Floats:
    """Return what each choice costs that carries so much; infinite where it cannot be had in such a number."""
    exact = np.minimum(np.ceil(traffic / rows["capacity"].to_numpy() * (1 - 1e-12)), NEVER)
    replicas = allowed_replicas(ground.scenario, np.maximum(exact, 1).astype(np.int64))
    nodes = nodes_needed(replicas, *_packing(rows))
    allowed = np.isin(replicas, ground.scenario.limits.replicas) if ground.scenario.limits.replicas else True
    can_be_had = (replicas < NEVER) & (nodes <= rows["node_cap"].to_numpy()) & allowed
    return np.where(can_be_had, (nodes * rows["price_micro_usd"].to_numpy()).astype(np.float64), np.inf)
