"""Some offers whose prices change by one factor: at which prices they hold the answer, by the table of choices.

The cost of a choice is its nodes times its price in whole micro-dollars, so what holds the answer at a price follows
from the table: the cheapest choice of the group against the cheapest of the others, and between equal costs the order
of the table. The group holds the answer up to some price and above it never again, so that price is found by halving
over whole micro-dollars; rounding and ties count as they do in a solve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd

from optimizer.candidates import node_shapes
from optimizer.choices import MICRO, build_choices, offer_rows
from optimizer.rules import bit
from optimizer.solve import Problem, holding
from optimizer.whatif.prices import Mask, scaled_prices

Select = Callable[[pd.DataFrame], Mask]

_TIE_COLUMNS = ["gpus_rented", "precision", "pp", "load_permille", "gpus"]
_NAMES = ["provider", "region", "instance_type", "term"]


class Group:
    """Some offers of a question.

    Attributes:
        problem: the question, with choices in which offers of the group and others do not stand in for one another.
        offers: which offers are of the group (rows of the problem's offers).
        rows: choices of the group that keep every rule, the budget aside; cheapest first.
        others: choices of the others that keep every rule, cheapest first.
    """

    def __init__(self, problem: Problem, today: date, select: Select):
        offers = problem.offers
        self.offers = select(offers)
        rows = offer_rows(problem.scenario, offers, node_shapes(offers)[1], today, self.offers)
        choices = build_choices(problem.scenario, problem.candidates.frame, rows)
        self.problem = replace(problem, choices=choices)
        frame = choices.frame
        broken, mine = frame["broken"].to_numpy(), self.offers[frame["offer"].to_numpy()]
        self.rows = holding(self.problem, frame[mine & ((broken & ~bit("budget")) == 0)])
        self.others = holding(self.problem, frame[~mine & (broken == 0)])
        self._prices = offers["price_usd_per_node_hour"].to_numpy()
        self._names = [offers[name].to_numpy() for name in _NAMES]
        self._row_offers, self._nodes = (self.rows[name].to_numpy() for name in ("offer", "nodes"))
        budget = problem.scenario.limits.budget_usd_per_hour
        self._most = None if budget is None else round(budget * MICRO)

    @property
    def price_micro_usd(self) -> float:
        """Today's node price of the offer that the group's best layout rents; not rounded."""
        return float(self._prices[self._row_offers[0]] * MICRO)

    def factor(self, price_micro_usd: float) -> float:
        """Return the factor on all prices of the group at which that offer costs this much."""
        return price_micro_usd / self.price_micro_usd

    def holds_at(self, factor: float) -> bool:
        """Whether the answer is of the group when its prices are so many times today's."""
        if self.rows.empty:
            return False
        prices = scaled_prices(self._prices[self._row_offers], factor)
        cost = self._nodes * np.rint(prices * MICRO).astype(np.int64)
        least = int(cost.min())
        if self._most is not None and least > self._most:
            return False
        if self.others.empty:
            return True
        other = int(self.others["cost_micro_usd"].iloc[0])
        if least != other:
            return least < other
        tied = np.nonzero(cost == least)[0]
        return min(self._key(self.rows, int(at), float(prices[at])) for at in tied) < self._key(self.others, 0, None)

    def _key(self, rows: pd.DataFrame, position: int, price_usd: float | None) -> tuple[object, ...]:
        """Return what orders choices of equal cost (see optimizer.choices.TIE_BREAK); offers are sorted by price."""
        offer = int(rows["offer"].iloc[position])
        ranks = (int(rows[name].iloc[position]) for name in _TIE_COLUMNS)
        price = float(self._prices[offer]) if price_usd is None else price_usd
        return (*ranks, price, *(names[offer] for names in self._names), int(rows["split"].iloc[position]))

    @property
    def any_price(self) -> bool:
        """Whether the group holds the answer whatever it costs: nothing else is feasible, and there is no budget."""
        return not self.rows.empty and self.others.empty and self._most is None

    def highest_price_micro_usd(self) -> int | None:
        """Return the highest node price of the group's best layout at which it is the answer; None where there is none.

        In whole micro-dollars; the others of the group change by the same factor. Not to be asked where `any_price`.
        """
        if not self.holds_at(self.factor(1)):
            return None
        low, high = 1, 2 * max(int(self.price_micro_usd), 1)
        while self.holds_at(self.factor(high)):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.holds_at(self.factor(middle)) else (low, middle)
        return low
