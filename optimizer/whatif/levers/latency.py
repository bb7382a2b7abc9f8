"""The least latency that a budget reaches at the scenario's traffic."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from optimizer.answer import answers
from optimizer.relax import round_up
from optimizer.solve import audit_answers
from optimizer.whatif.ground import Ground
from optimizer.whatif.levers.lever import Rented, of_answer
from optimizer.whatif.operating import DIGITS, as_choices, layouts_up_to, operating_table
from optimizer.wording import milliseconds

BETTER = 1e-3  # share by which a latency has to fall to count as better
TARGET_SLACK = 1e-4  # of a target that is asked back: the load behind a latency is bisected
DOUBLINGS = 4  # of the budget, in search of a better latency
MOST_LAYOUTS = 300_000  # that are looked at in that search


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
        return of_answer(found, "solve" if self.name == "ttft" and self._solves(ground, budget, value) else "audit")

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
