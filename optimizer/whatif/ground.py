"""A question that is asked again and again with one thing changed: what it is asked on, and the answers kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

import pandas as pd

from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.choices import MICRO
from optimizer.plan import Plan
from optimizer.scenario import Scenario
from optimizer.solve import Problem, holding, pose, pose_on, solve
from optimizer.whatif.operating import operating_table


@dataclass(frozen=True)
class Ground:
    """A scenario without a budget, and everything that it is asked on.

    Attributes:
        listed: offers at list prices.
    """

    scenario: Scenario
    model: ModelSpec
    listed: OfferTable
    today: date
    _least: dict[tuple[str, Any], int | None] = field(default_factory=dict, repr=False, compare=False)
    _tables: dict[int, pd.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def problem(self) -> Problem:
        """The question, posed."""
        return self.pose(self.scenario)

    def pose(self, scenario: Scenario) -> Problem:
        """Pose a changed question on the same ground."""
        return pose(scenario, model=self.model, catalog=self.listed, today=self.today)

    @cached_property
    def _within_limits(self) -> OfferTable:
        """The offers that could be rented under the scenario's limits, at the user's own prices."""
        offers = self.problem.choices.shape_offers
        kept = sorted(offers.loc[offers["broken"] == 0, "offer"])
        return replace(self.problem.catalog, frame=self.problem.offers.iloc[kept].reset_index(drop=True))

    def least_micro_usd(self, section: str, name: str, value: Any) -> int | None:
        """Return the least cost with one field changed; None where nothing is feasible. Answers are kept.

        The field must be none that says which offers may be rented.
        """
        key = (f"{section}.{name}", value)
        if key not in self._least:
            offers = self._within_limits
            changed = self.scenario.changed(section, **{name: value})
            again = pose_on(changed, self.model, offers, offers, self.today) if len(offers.frame) else None
            costs = [] if again is None else holding(again, again.feasible)["cost_micro_usd"].head(1).tolist()
            self._least[key] = int(costs[0]) if costs else None
        return self._least[key]

    def known(self, section: str, name: str) -> dict[Any, int | None]:
        """Return the least costs that were worked out with this field changed, by its value."""
        return {value: cost for (field_name, value), cost in self._least.items() if field_name == f"{section}.{name}"}

    def layouts(self, most_micro_usd: int) -> pd.DataFrame:
        """Return the operating table up to a cost; the last one is kept."""
        if most_micro_usd not in self._tables:
            self._tables.clear()
            self._tables[most_micro_usd] = operating_table(self.problem, most_micro_usd)
        return self._tables[most_micro_usd]

    def solve(self, budget_micro_usd: int, **changes: dict[str, Any]) -> Plan:
        """Solve the scenario under a budget, with fields of sections changed: the whole answer, proved and audited."""
        changed = self.scenario.changed("limits", budget_usd_per_hour=budget_micro_usd / MICRO)
        for section, fields in changes.items():
            changed = changed.changed(section, **fields)
        return solve(changed, model=self.model, catalog=self.listed, today=self.today)

    def with_scenario(self, scenario: Scenario) -> Ground:
        """Return the same ground under another scenario."""
        return Ground(scenario, self.model, self.listed, self.today)

    def without_stock(self) -> Ground:
        """Return the same ground with as many nodes of every offer as one likes."""
        frame = self.listed.frame.assign(max_nodes=float("nan"))
        return Ground(self.scenario, self.model, replace(self.listed, frame=frame), self.today)

    def with_context(self, most_tokens: int) -> Ground:
        """Return the same ground for a model that takes a context of so many tokens."""
        model = self.model.model_copy(update={"max_context_tokens": most_tokens})
        return Ground(self.scenario, model, self.listed, self.today)
