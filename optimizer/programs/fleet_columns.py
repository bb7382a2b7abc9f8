"""A fleet of several models, by sets of replicas: proved where the mixed-integer program as it stands is not.

Each model has many sets of replicas that carry it at nearly the same cost, and models only meet where they share
nodes, quotas and the budget. At given prices of room (the duals of the linear relaxation) the cheapest sets bound the
cost from below, and a set that costs more than the cheapest of its model by d cannot be part of a fleet that costs less
than the bound plus d. So: list all sets within d, choose one per model with whole nodes, and stop when the fleet that
is found costs no more than the bound plus d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from optimizer.programs.fleet_blocks import Block, Counts, Floats, TooManyError, as_replicas
from optimizer.programs.fleet_counts import Counts as FleetCounts
from optimizer.programs.fleet_model import FleetModel
from optimizer.programs.fleet_table import FleetTable
from optimizer.programs.layout import Settings
from optimizer.programs.mathopt_outcome import Deadline, run_highs, run_lp

FIRST_WINDOW, WIDEN = 2e-4, 2.0  # of the bound
VARIED, SPREAD, VARY_SECONDS = 6, 0.3, 0.3
MOST_ROUNDS, PRICES_GAP = 30, 1e-4
LEAST_PRICE = 0.1  # of the cheapest room that is not free

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Found:
    """A fleet with the bound that was proved, in the unit of the model's objective; no fleet where none was found."""

    counts: FleetCounts | None
    objective: float
    bound: float


@dataclass(frozen=True, slots=True)
class Point:
    """Prices of room, of replicas by block, the least cost of each block at them, and the bound on the whole."""

    room_prices: Floats
    prices: list[Floats]
    least: list[float]
    bound: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """A fleet with the set of each model."""

    counts: FleetCounts
    sets: list[Counts]


def worth_separating(table: FleetTable) -> bool:
    """Whether there are several models that meet only where they share nodes, quotas and the budget."""
    instance = table.instance
    return (
        len(table.periods) == 1
        and len({bundle.group for bundle in table.bundles}) > 1
        and not instance.whole_classes
        and instance.survive == "nothing"
        and instance.max_kinds is None
        and instance.max_kinds_per_group is None
        and instance.max_spot_share >= 1
        and all(len(groups) == 1 for groups in table.groups_of.values())
        and all(any(b in served for served in table.serves.values()) for b in range(len(table.bundles)))
    )


class ColumnSearch:
    """Bounds and sets of replicas of all models, at given prices of room."""

    def __init__(self, table: FleetTable, settings: Settings, clock: Deadline):
        self.table, self.settings, self.clock = table, settings, clock
        self.relaxed = FleetModel(table, whole_numbers=False)
        self.relaxed.model.minimize(self.relaxed.cost())
        used: dict[tuple[int, int], dict[int, int]] = {key: {} for key in self.relaxed.replicas}
        for room, row in enumerate(self.relaxed.room):
            for key, weight in row.used.items():
                used[key][room] = weight
        self.used = used
        self.blocks = [
            Block(table, group, period, {kind: used.get((kind, period), {}) for kind in table.serves})
            for period in table.periods
            for group in sorted({b.group for b in table.bundles if b.demand[period] > 0})
        ]
        self.sets: list[list[Counts]] = [[] for _ in self.blocks]

    def run(self) -> Found | None:
        """Search until it is proved, the time is over, or there are too many sets; None where it cannot begin."""
        duals = run_lp(self.relaxed.model).duals
        point = self._bound_at(np.array([max(-duals[room.row], 0.0) for room in self.relaxed.room]))
        if point is None:
            return None
        point = self._better_prices(point)
        return self._widen(point)

    def _bound_at(self, room_prices: Floats) -> Point | None:
        """Return the bound at these prices of room; the cheapest sets are collected. None where one is not known."""
        # Bounds hold at any prices; room that is free would make endless lists.
        positive = room_prices[room_prices > 0]
        room_prices = np.maximum(room_prices, LEAST_PRICE * float(positive.min())) if positive.size else room_prices
        prices = [self._prices(block, room_prices) for block in self.blocks]
        if any((of_block <= 0).any() for of_block in prices):
            return None
        priced = self._each(lambda i: self.blocks[i].price(prices[i], self.clock.left_s))
        rooms = self._room_bound(room_prices)
        least = []
        for index, one in enumerate(priced):
            if one is None or rooms is None:
                return None
            least.append(one.bound)
            self.sets[index].append(one.replicas)
        return Point(room_prices, prices, least, sum(least) + (rooms or 0.0))

    def _better_prices(self, point: Point) -> Point:
        """Improve prices of room where caps, quotas or a budget bind: those that make the bound largest.

        The duals of choosing parts of the sets so far overshoot, so each step goes from the best prices towards them.
        """
        for _ in range(MOST_ROUNDS):
            self.sets = _union(self.sets)
            master = FleetModel(self.table, columns=self._columns(self.sets), whole_numbers=False, costly_room=True)
            master.model.minimize(master.cost() + master.missing_room())
            solved = run_lp(master.model)
            if self.clock.passed or solved.objective - point.bound <= PRICES_GAP * abs(point.bound):
                return point
            duals = np.array([max(-solved.duals[room.row], 0.0) for room in master.room])
            for step in (1.0, 0.3):
                other = self._bound_at(point.room_prices + step * (duals - point.room_prices))
                if other is not None and other.bound > point.bound:
                    point = other
                    break
        return point

    def _columns(self, lists: list[list[Counts]]) -> list[list[dict[tuple[int, int], int]]]:
        return [[as_replicas(block, one) for one in sets] for block, sets in zip(self.blocks, lists, strict=True)]

    def _widen(self, point: Point) -> Found:
        prices, least, bound = point.prices, point.least, point.bound
        self._vary(point, VARIED)
        best, cost, _ = self._choose_of(self.sets, np.inf)
        proved = bound
        window = FIRST_WINDOW * bound
        while proved < cost - self.relaxed.step_gap() and not self.clock.passed:
            try:
                chosen, objective, of_sets = self._choose_within(prices, [one + window for one in least], cost)
            except TooManyError:
                break
            if chosen is not None:
                best, cost = chosen, objective
            # A fleet with a set that is not listed costs at least bound + window.
            proved = max(proved, min(bound + window, of_sets, cost))
            window = min(window * WIDEN, cost - bound)
        return Found(None if best is None else best.counts, cost, min(proved, cost))

    def _vary(self, point: Point, rounds: int) -> None:
        """Collect sets that are cheap at other prices too: what a fleet is put together of when nodes are whole."""
        jobs = [(index, seed) for seed in range(rounds) for index in range(len(self.blocks))]

        def vary(job: tuple[int, int]) -> None:
            index, seed = job
            if self.clock.passed:
                return
            rng = np.random.default_rng([self.settings.seed, index, seed])
            block = self.blocks[index]
            other = self._prices(block, point.room_prices * np.exp(rng.normal(0.0, SPREAD, len(point.room_prices))))
            found = block.cheapest(other, Deadline(min(VARY_SECONDS, self.clock.left_s)))
            if found is not None:
                self.sets[index].append(found)

        _in_threads(vary, jobs, self.settings.workers)
        self.sets = _union(self.sets)

    def _choose_within(
        self, prices: list[Floats], limits: list[float], cost: float
    ) -> tuple[Chosen | None, float, float]:
        """Choose sets within limits, until all that are chosen carry their demand."""
        lists = self._each(lambda i: self.blocks[i].within(prices[i], limits[i], self.clock))
        while True:
            chosen, objective, bound = self._choose_of(_union(lists, self.sets), cost)
            if chosen is None:
                return None, np.inf, bound
            wrong = [i for i, one in enumerate(chosen.sets) if not self.blocks[i].carries(one)]
            if not wrong:
                return chosen, objective, bound
            for i in wrong:
                lists[i] = self.blocks[i].within(prices[i], limits[i], self.clock)

    def _choose_of(self, lists: list[list[Counts]], cost: float) -> tuple[Chosen | None, float, float]:
        """Choose one set per model with whole nodes, cheaper than `cost`.

        Returns the fleet, what it costs, and a bound on all such fleets.
        """
        fleet = FleetModel(self.table, columns=self._columns(lists))
        fleet.model.minimize(fleet.cost())
        if np.isfinite(cost):
            fleet.model.add_linear_constraint(fleet.cost() <= cost - fleet.step_gap())
        run = run_highs(fleet.model, self.clock.left_s, seed=self.settings.seed, absolute_gap=fleet.step_gap())
        bound = np.inf if run.status == "infeasible" else -np.inf if run.bound is None else run.bound
        if not run.has_solution or run.objective is None:
            return None, np.inf, bound
        values = run.values()
        literals = iter(fleet.taken)
        sets = [
            next(
                one
                for one, (_, literal) in zip(of_block, [next(literals) for _ in of_block], strict=True)
                if round(values[literal])
            )
            for of_block in lists
        ]
        return Chosen(fleet.chosen(values), sets), run.objective, bound

    def _prices(self, block: Block, room_prices: Floats) -> Floats:
        return np.array(
            [
                sum(weight * room_prices[room] for room, weight in self.used.get((kind, block.period), {}).items())
                for kind in block.kinds
            ]
        )

    def _room_bound(self, room_prices: Floats) -> float | None:
        """Return the least that nodes can cost beyond what their room is worth."""
        empty = FleetModel(self.table, columns=[])
        worth = sum(float(price) * room.there for price, room in zip(room_prices, empty.room, strict=True) if price)
        empty.model.minimize(empty.cost() - worth)
        run = run_highs(empty.model, self.clock.left_s, seed=self.settings.seed, absolute_gap=1e-9)
        return run.bound if run.has_solution else None

    def _each(self, work: Callable[[int], Result]) -> list[Result]:
        return _in_threads(work, range(len(self.blocks)), self.settings.workers)


def _union(*several: list[list[Counts]]) -> list[list[Counts]]:
    return [
        list({one.tobytes(): one for sets in of_block for one in sets}.values())
        for of_block in zip(*several, strict=True)
    ]


def _in_threads(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> list[Result]:
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        return list(pool.map(work, items))
