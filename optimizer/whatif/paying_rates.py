"""At which rates renting costs no more than something that is charged in proportion to the traffic: exactly.

Renting is a step function of the traffic: one choice on m groups (a node that holds some replicas, or the nodes that
one replica spans) costs m times a price and carries m times a capacity. What is charged in proportion is a line. The
choice pays on m groups from the rate at which the line reaches its cost up to the most that it carries:

    m x price / slope  <=  rate  <=  m x capacity

and renting pays on the union of these intervals over all choices and numbers of groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, inf

import pandas as pd

from optimizer.choices import MICRO, UNLIMITED
from optimizer.infeasible import COUNTING
from optimizer.scenario import Limits


@dataclass(frozen=True, slots=True)
class Rental:
    """One choice, by groups.

    Attributes:
        price: USD per hour of one group.
        capacity: traffic that one group carries.
        most: groups that can be had.
    """

    price: float
    capacity: float
    most: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Rates from `low` to `high`, both included."""

    low: float
    high: float


def rentals_of(choices: pd.DataFrame, limits: Limits) -> list[Rental]:
    """Return the choices that keep every rule but those that count, as groups; those that others outdo are left out.

    Args:
        choices: the frame of optimizer.choices.Choices.
        limits: the limits of the question: budget and allowed numbers of replicas.
    """
    able = choices[((choices["broken"] & ~COUNTING) == 0) & (choices["capacity"] > 0)]
    budget = inf if limits.budget_usd_per_hour is None else round(limits.budget_usd_per_hour * MICRO)
    found = []
    columns = ["price_micro_usd", "nodes_per_replica", "replicas_per_node", "node_cap", "capacity"]
    for price, spans, per_node, cap, capacity in able[columns].itertuples(index=False):
        if limits.replicas:
            found += _counted(int(price), int(spans), int(per_node), int(cap), float(capacity), limits.replicas, budget)
            continue
        group = int(price) * int(spans)
        most = min(int(cap), UNLIMITED) // int(spans)
        most = most if budget == inf else min(most, floor(budget / group))
        if most >= 1:
            found.append(Rental(group / MICRO, float(capacity) * int(per_node), most))
    return _not_outdone(found)


def _counted(
    price: int, spans: int, per_node: int, cap: int, capacity: float, allowed: Sequence[int], budget: float
) -> list[Rental]:
    """Return each allowed number of replicas as one group of its own."""
    found = []
    for replicas in allowed:
        nodes = replicas * spans if spans > 1 else -(-replicas // per_node)
        if nodes <= min(cap, UNLIMITED) and nodes * price <= budget:
            found.append(Rental(nodes * price / MICRO, replicas * capacity, 1))
    return found


def _not_outdone(rentals: Iterable[Rental]) -> list[Rental]:
    """Leave out rentals that another is at most as dear as, carries as much as, and can be had as much of."""
    kept: list[Rental] = []
    for one in sorted(set(rentals), key=lambda rental: (rental.price, -rental.capacity, -rental.most)):
        if not any(other.capacity >= one.capacity and other.most >= one.most for other in kept):
            kept.append(one)
    return kept


def paying(rentals: Iterable[Rental], slope: float) -> list[Interval]:
    """Return the rates at which the cheapest rental costs at most `slope` x rate, as intervals that do not touch.

    Args:
        rentals: what can be rented.
        slope: USD per hour and unit of traffic.
    """
    found: list[Interval] = []
    for rental in rentals:
        if slope <= 0 or rental.price > slope * rental.capacity:
            continue  # it would cost more even with every group full
        spare = slope * rental.capacity - rental.price
        # From this number of groups on, one interval reaches to the next: the rest is a single one.
        joined = rental.most if spare <= 0 else min(rental.most, int(rental.price / spare) + 1)
        found += [Interval(m * rental.price / slope, m * rental.capacity) for m in range(1, joined)]
        found.append(Interval(joined * rental.price / slope, rental.most * rental.capacity))
    return _united(found)


def _united(intervals: list[Interval]) -> list[Interval]:
    united: list[Interval] = []
    for one in sorted(intervals, key=lambda interval: (interval.low, interval.high)):
        if united and one.low <= united[-1].high:
            united[-1] = Interval(united[-1].low, max(united[-1].high, one.high))
        else:
            united.append(one)
    return united


def cost_at(rentals: Iterable[Rental], rate: float) -> float:
    """Return what the cheapest rental that carries this rate costs, USD per hour; infinite where none does."""
    least = inf
    for rental in rentals:
        groups = max(-floor(-rate / rental.capacity * (1 - 1e-12)), 1)
        if groups <= rental.most:
            least = min(least, groups * rental.price)
    return least
