"""What money can buy: traffic, context, latency, precision. Each lever says exactly how far it goes at a budget.

The answers of every lever are the best over the whole catalog. Money is in whole micro-dollars an hour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.answer import Answer, answers
from optimizer.candidates import PRECISION_GROUPS
from optimizer.choices import NEVER, allowed_replicas, most_replicas, nodes_needed
from optimizer.infeasible import COUNTING
from optimizer.plan import Cost, Layout, Performance, Plan
from optimizer.relax import round_down, round_up
from optimizer.solve import audit_answers
from optimizer.whatif.ground import Ground
from optimizer.whatif.operating import DIGITS, as_choices, layouts_up_to, operating_table
from optimizer.wording import milliseconds, rate_words

Floats = NDArray[np.float64]

BETTER = 1e-3  # share by which a latency has to fall to count as better
TARGET_SLACK = 1e-4  # of a target that is asked back: the load behind a latency is bisected
SHAVED = (0.0, 1e-4, 1e-3, 1e-2)  # off a traffic whose percentile misses its target at the very edge
MOST_TRIED = 24  # choices, where percentiles rule the first ones out
DOUBLINGS = 4  # of the budget, in search of a better latency
MOST_LAYOUTS = 300_000
MOST_IN_FLIGHT = 1_000_000  # the field's own bound
BITS = (32, 16, 8, 4)  # a weight, by precision group


@dataclass(frozen=True, slots=True)
class Rented:
    """The layout behind an answer, and what confirmed it: a whole solve, or the audit of a layout from the table."""

    layout: Layout
    cost: Cost
    performance: Performance
    by: str


class Lever(Protocol):
    """One thing that money buys more of."""

    name: str
    unit: str

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
        return _of_plan(ground.solve(budget, workload={ground.scenario.workload.kind: value}))

    def said(self, ground: Ground, value: float) -> str:
        """Say the traffic."""
        return rate_words(ground.scenario, value)

    def _rounded(self, ground: Ground, value: float) -> float:
        if ground.scenario.workload.kind == "concurrency":
            return min(math.floor(value * (1 + 1e-9)), MOST_IN_FLIGHT)
        return round_down(value, DIGITS)

    def _cost(self, ground: Ground, value: float) -> int | None:
        return ground.least_micro_usd("workload", ground.scenario.workload.kind, value)


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
        return _of_plan(ground.solve(budget, workload={"context_tokens": int(value)}))

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


@dataclass(frozen=True)
class Latency:
    """The least TTFT or TPOT at the scenario's traffic: every number of every replica within the budget is looked at.

    Attributes:
        name: "ttft" or "tpot".
        most_micro_usd: the largest budget that will be asked about.
    """

    name: str
    most_micro_usd: int
    unit: str = "ms"

    def best(self, ground: Ground, budget: int) -> float | None:
        """Return the least latency, in ms, as it is held against targets."""
        values = self._within(ground.layouts(max(budget, self.most_micro_usd)), budget)[self._column]
        return float(values.min()) if len(values) else None

    def next(self, ground: Ground, budget: int, value: float) -> tuple[int, float] | None:
        """Return the least cost of a latency lower by more than BETTER, and the least latency at that cost."""
        for doubling in range(1, DOUBLINGS + 1):
            most = budget << doubling
            if layouts_up_to(ground.problem, most) > MOST_LAYOUTS:
                return None
            rows = self._below(ground, most, value)
            if len(rows):
                cost = int(rows["cost_micro_usd"].min())
                return cost, float(self._within(rows, cost)[self._column].min())
        return None

    def least(self, ground: Ground) -> int | None:
        """Return the least cost of the scenario."""
        costs = ground.problem.feasible["cost_micro_usd"]
        return int(costs.min()) if len(costs) else None

    def better(self, ground: Ground, budget: int, value: float) -> float | None:
        """Return the least latency there, where it is lower."""
        rows = self._below(ground, budget, value)
        return float(rows[self._column].min()) if len(rows) else None

    def rented(self, ground: Ground, budget: int, value: float) -> Rented:
        """Return the cheapest layout of this latency, audited; a TTFT is asked back from `solve` as a target, too.

        A TPOT target holds at the concurrency limit as well, where it asks for more than this latency at the traffic.
        """
        rows = self._within(ground.layouts(max(budget, self.most_micro_usd)), budget)
        row = rows[rows[self._column] <= value].head(1)
        problem = ground.problem
        choices = as_choices(problem, row)
        (found,) = answers(ground.scenario, ground.model, choices, problem.candidates.speed, problem.offers)
        audit_answers(problem, [found], ground.today)
        return _of_answer(found, "solve" if self.name == "ttft" and self._solves(ground, budget, value) else "audit")

    def said(self, _: Ground, value: float) -> str:
        """Say the time."""
        return milliseconds(value)

    @property
    def _column(self) -> str:
        return f"{self.name}_ms"

    def _within(self, rows: pd.DataFrame, budget: int) -> pd.DataFrame:
        found: pd.DataFrame = rows[rows["cost_micro_usd"] <= budget]
        return found

    def _below(self, ground: Ground, budget: int, value: float) -> pd.DataFrame:
        below = value * (1 - BETTER)
        rows = operating_table(ground.problem, budget, below_ms={self.name: below})
        found: pd.DataFrame = rows[rows[self._column] < below]
        return found

    def _solves(self, ground: Ground, budget: int, value: float) -> bool:
        target = round_up(value * (1 + TARGET_SLACK), DIGITS)
        return ground.solve(budget, targets={"ttft_ms": target}).status == "optimal"


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
        return _of_plan(ground.solve(budget, limits={"weights": PRECISION_GROUPS[BITS.index(int(value))]}))

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


def _of_plan(plan: Plan) -> Rented:
    if plan.layout is None or plan.cost is None or plan.performance is None:
        raise RuntimeError(f"a value found within the budget is {plan.status} when it is solved")
    return Rented(plan.layout, plan.cost, plan.performance, "solve")


def _of_answer(answer: Answer, by: str) -> Rented:
    return Rented(answer.layout, answer.cost, answer.performance, by)
