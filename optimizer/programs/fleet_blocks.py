"""The demand of one model in one period, and all sets of replicas that carry it at little more than the least cost.

What a set of replicas n can carry is a linear program, and its duals say which sets cannot: for any weights m >= 0,

    sum over kinds of m_k n_k  >=  sum over classes of the least, over kinds, of m_k x load of the class on the kind.

Such cuts do not depend on prices. A block keeps those it has met, lists the sets that keep all of them within a cost,
kind by kind, and asks the linear program only of what is left; every set that turns out too small gives a new cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ortools.math_opt.python import mathopt

from optimizer.programs.fleet_table import ROUNDING, FleetTable
from optimizer.programs.mathopt_outcome import Deadline, run_highs, run_lp

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Replicas = Counts
MOST_PARTS = 100_000
MOST_SETS = 4_000
MOST_SAMPLES, SAMPLED = 12, 1_000
ASKED_AT_ONCE = 40
FIRST_KINDS = 16
PRICE_GAP, MOST_PRICE_S = 1e-5, 3.0
COVER_GAP = 1e-4
TURNS, STEP, OVERFULL, HEAVY = 200, 3.0, 1e-7, 1e18
FIRST_STEP, LONGER_STEP = 0.01, 1.6  # of the bound, in the search for a cheapest set
SLACK = 1e-9


class TooManyError(Exception):
    """There are too many sets of replicas to list."""


@dataclass(frozen=True, slots=True)
class Priced:
    """The cheapest set of replicas at given prices: what no set costs less than, and one set."""

    bound: float
    replicas: Counts


class Block:
    """One model in one period.

    Attributes:
        kinds: positions of the kinds that can serve it.
        used: row per kind, column per room that replicas take up: how much one takes up.
    """

    def __init__(self, table: FleetTable, group: int, period: int, used: Mapping[int, Mapping[int, int]]):
        self.period = period
        self.kinds = [kind for kind in table.serves if group in table.groups_of[kind]]
        bundles = [b for b, bundle in enumerate(table.bundles) if bundle.group == group and bundle.demand[period] > 0]
        self.loads: Floats = np.array(
            [
                [table.load(kind, b, period) if b in table.serves[kind] else np.inf for b in bundles]
                for kind in self.kinds
            ]
        )
        self.most = np.array([table.most_replicas(kind, period) for kind in self.kinds], dtype=np.int64)
        rooms = sorted({room for kind in self.kinds for room in used[kind]})
        self.used: Counts = np.array([[used[kind].get(room, 0) for room in rooms] for kind in self.kinds])
        self._cuts: list[Floats] = []
        self._carry: dict[bytes, bool] = {}
        if np.isinf(self.loads).all(axis=0).any():
            raise ValueError("a class that no kind can serve")

    def add_cut(self, weights: Floats) -> None:
        """Keep the cut of these weights."""
        least = np.where(np.isinf(self.loads), np.inf, weights[:, None] * _finite(self.loads)).min(axis=0).sum()
        if least > 0:
            self._cuts.append(weights / least)

    def floors(self, prices: Floats) -> Floats:
        """Return, for each kind, what no set of replicas that has one of it costs less than: a linear relaxation.

        One replica is paid for and takes the work for which it is worst fitted least; the rest goes where it is
        cheapest, by parts of replicas.
        """
        cost = np.where(np.isinf(self.loads), np.inf, prices[:, None] * _finite(self.loads))
        cheapest = cost.min(axis=0)
        floors = np.empty(len(prices))
        for kind, price in enumerate(prices):
            served = np.flatnonzero(np.isfinite(self.loads[kind]))
            saved = cheapest[served] / self.loads[kind, served]  # by one replica's time on this class
            order = served[np.argsort(-saved)]
            load = np.minimum(np.cumsum(self.loads[kind, order]), 1.0)
            share = np.diff(load, prepend=0.0) / self.loads[kind, order]
            floors[kind] = cheapest.sum() - (share * cheapest[order]).sum() + price
        return floors

    def price(self, prices: Floats, time_limit_s: float) -> Priced | None:
        """Return the cheapest set at these prices of a replica; None where none was found in time."""
        if self.loads.shape[1] == 1:
            replicas = cheapest_cover(prices, 1 / self.loads[:, 0])
            self.add_cut(prices)
            return Priced(float(prices @ replicas) * (1 - COVER_GAP), replicas)
        clock = Deadline(time_limit_s)
        found = self.cheapest(prices, clock)
        if found is None:
            return self._price_by_program(prices, clock.left_s)
        self._learn(prices, found)
        return Priced(float(prices @ found) * (1 - SLACK), found)

    def cheapest(self, prices: Floats, clock: Deadline) -> Counts | None:
        """Return a set that no other is cheaper than; None where it was not found in time."""
        try:
            return next(self.in_order(prices, clock))
        except TooManyError:
            return None

    def in_order(self, prices: Floats, clock: Deadline) -> Iterator[Counts]:
        """Return all sets that carry the demand, the cheapest first.

        Of all that keep the cuts within a cost, they are asked in turn. The cost grows from what the cuts say on their
        own, and by ever longer steps.

        Raises:
            TooManyError: there are too many sets to look at, or the time is over.
        """
        self.add_cut(prices)
        step, done = FIRST_STEP, 0.0
        least = self._least_cost(prices)
        while True:
            limit = least * (1 + step)
            parts = self._all_within(prices, limit, clock)
            cost = parts @ prices
            alive = cost > done
            for index in np.argsort(cost, kind="stable"):
                if not alive[index]:
                    continue
                known = len(self._cuts)
                if self.carries(parts[index]):
                    yield np.array(parts[index])
                if clock.passed:
                    raise TooManyError
                for cut in self._cuts[known:]:
                    alive &= parts @ cut >= 1 - SLACK
            step, done = step * LONGER_STEP, limit * (1 + SLACK)

    def _least_cost(self, prices: Floats) -> float:
        """Return what no set costs less than, by the best single cut."""
        return max(1 / float((cut / prices).max()) for cut in self._cuts)

    def _all_within(self, prices: Floats, limit: float, clock: Deadline) -> Counts:
        """List what keeps the cuts within a cost; where that is too much, look for more cuts once."""
        try:
            return self._candidates(prices, limit, clock)
        except TooManyError:
            self._sample(prices, limit, clock)
            return self._candidates(prices, limit, clock)

    def _price_by_program(self, prices: Floats, time_limit_s: float) -> Priced | None:
        """Solve a mixed-integer program, first of the kinds that look best: they rule most of the others out."""
        floors = self.floors(prices)
        order = np.argsort(floors, kind="stable")
        most = min(FIRST_KINDS, len(order))
        while True:
            some = order[:most]
            priced = self._price_of(np.sort(some), prices, time_limit_s)
            if priced is not None:
                cost = float(prices @ priced.replicas)
                left_out = order[most:]
                if not (floors[left_out] < cost * (1 - SLACK)).any():
                    self._learn(prices, priced.replicas)
                    return priced
                most = int((floors < cost).sum())
            elif most == len(order):
                return None
            else:
                most = len(order)

    def _price_of(
        self, kinds: Counts, prices: Floats, time_limit_s: float, *, relative_gap: float = PRICE_GAP
    ) -> Priced | None:
        if np.isinf(self.loads[kinds]).all(axis=0).any():
            return None
        model, counts = self._model_of(kinds)
        largest = float(prices.max()) or 1.0
        model.minimize(mathopt.fast_sum(float(prices[k]) / largest * n for k, n in zip(kinds, counts, strict=True)))
        run = run_highs(model, min(time_limit_s, MOST_PRICE_S), relative_gap=relative_gap)
        if not run.has_solution or run.bound is None:
            return None
        values = run.values()
        replicas = np.zeros(len(prices), dtype=np.int64)
        replicas[kinds] = [round(values[count]) for count in counts]
        return Priced(run.bound * largest, replicas)

    def _model_of(self, kinds: Counts) -> tuple[mathopt.Model, list[mathopt.Variable]]:
        model = mathopt.Model()
        counts = [model.add_integer_variable(lb=0, ub=int(most)) for most in self.most[kinds]]
        served: list[list[mathopt.Variable]] = [[] for _ in range(self.loads.shape[1])]
        for count, row in zip(counts, self.loads[kinds], strict=True):
            load = []
            for bundle in np.flatnonzero(np.isfinite(row)):
                share = model.add_variable(lb=0.0, ub=1.0)
                served[bundle].append(share)
                load.append(float(row[bundle]) * share)
            model.add_linear_constraint(mathopt.fast_sum(load) <= count)
        for shares in served:
            model.add_linear_constraint(mathopt.fast_sum(shares) == 1.0)
        return model, counts

    def _learn(self, prices: Floats, best: Counts) -> None:
        """Keep cuts around a cheapest set: what is cheaper by one replica more or less cannot carry the demand."""
        self.add_cut(prices)
        for out in np.flatnonzero(best):
            fewer = best.copy()
            fewer[out] -= 1
            self._test(fewer)
            for other in np.flatnonzero(prices < prices[out] * (1 - SLACK)):
                swapped = fewer.copy()
                swapped[other] += 1
                self._test(swapped)

    def _test(self, replicas: Counts) -> None:
        if not self._cuts or (np.array(self._cuts) @ replicas >= 1 - SLACK).all():
            self.carries(replicas)

    def carries(self, replicas: Counts) -> bool:
        """Whether replicas carry the demand; where they do not, a cut is kept that says so."""
        key = replicas.tobytes()
        if key not in self._carry:
            self._carry[key] = self._ask(replicas)
        return self._carry[key]

    def _ask(self, replicas: Counts) -> bool:
        there = np.flatnonzero(replicas)
        unserved = np.flatnonzero(np.isinf(self.loads[there]).all(axis=0))
        if unserved.size:
            self._cuts.append(np.isfinite(self.loads[:, unserved[0]]).astype(float))
            return False
        found = weigh(self.loads[there], replicas[there].astype(float))
        if found is not None and found.worth is None:
            return True
        worth = found.worth if found is not None else self._dual_worth(there, replicas)
        if worth is None:
            return True
        with np.errstate(divide="ignore", invalid="ignore"):
            self.add_cut(np.where(np.isinf(self.loads), 0.0, worth[None, :] / self.loads).max(axis=1))
        return False

    def _dual_worth(self, there: Counts, replicas: Counts) -> Floats | None:
        """Solve the linear program; None where the replicas carry the demand, else what each class is worth."""
        model = mathopt.Model()
        fullest = model.add_variable(lb=0.0)
        served: list[list[mathopt.Variable]] = [[] for _ in range(self.loads.shape[1])]
        for kind in there:
            load = []
            for bundle in np.flatnonzero(np.isfinite(self.loads[kind])):
                share = model.add_variable(lb=0.0)
                served[bundle].append(share)
                load.append(float(self.loads[kind, bundle] / replicas[kind]) * share)
            model.add_linear_constraint(mathopt.fast_sum(load) <= fullest)
        rows = [model.add_linear_constraint(mathopt.fast_sum(shares) == 1.0) for shares in served]
        model.minimize(fullest)
        solved = run_lp(model)
        if solved.objective <= 1 + ROUNDING:
            return None
        return np.array([solved.duals[row] for row in rows]).clip(0)

    def within(self, prices: Floats, limit: float, clock: Deadline) -> list[Counts]:
        """Return sets of replicas of which every one that carries the demand at a cost of at most `limit` has one.

        None of them takes up at least as much room as another. The cheapest have been asked of the linear program;
        the others only keep all cuts so far, and have to be asked before they are used.

        Raises:
            TooManyError: there are too many.
        """
        while True:
            parts = self._least(self._all_within(prices, limit, clock), clock)
            cheapest = np.argsort(parts @ prices, kind="stable")[:ASKED_AT_ONCE]
            known = len(self._cuts)
            for index in cheapest:
                if clock.passed:
                    raise TooManyError
                if all(parts[index] @ cut >= 1 - SLACK for cut in self._cuts[known:]):
                    self.carries(parts[index])
            if len(self._cuts) == known:
                if len(parts) > MOST_SETS:
                    raise TooManyError
                return list(parts)

    def _sample(self, prices: Floats, limit: float, clock: Deadline) -> None:
        """Ask of sets drawn at random among those that keep all cuts so far, until nearly all of them carry."""
        rng = np.random.default_rng(len(self._cuts))
        for _ in range(MOST_SAMPLES):
            parts = self._candidates(prices, limit, clock, rng)
            drawn = parts[rng.permutation(len(parts))[:ASKED_AT_ONCE]]
            known = len(self._cuts)
            for replicas in drawn:
                if all(replicas @ cut >= 1 - SLACK for cut in self._cuts[known:]):
                    self.carries(replicas)
            if len(self._cuts) - known <= len(drawn) // 10 or clock.passed:
                return

    def _least(self, parts: Counts, clock: Deadline) -> Counts:
        """Leave out sets that take up at least as much room as another one.

        Raises:
            TooManyError: the time is over.
        """
        cuts = np.array(self._cuts)
        cover = parts @ cuts.T
        spare = np.zeros(len(parts), dtype=bool)
        for kind in range(parts.shape[1]):
            has = np.flatnonzero((parts[:, kind] > 0) & ~spare)
            spare[has[((cover[has] - cuts[:, kind]) >= 1 - SLACK).all(axis=1)]] = True
        parts = parts[~spare]
        room = (parts @ self.used).astype(np.int32)
        order = np.argsort(room.sum(axis=1), kind="stable")
        parts, room = parts[order], room[order]
        alive = np.ones(len(parts), dtype=bool)
        for index in range(len(parts)):
            if index % 64 == 0 and clock.passed:
                raise TooManyError
            if alive[index]:
                later = np.flatnonzero(alive[index + 1 :]) + index + 1
                alive[later[(room[later] >= room[index]).all(axis=1)]] = False
        return parts[alive]

    def _candidates(
        self, prices: Floats, limit: float, clock: Deadline, rng: np.random.Generator | None = None
    ) -> Counts:
        """List the sets that keep all cuts within a cost, kind by kind, the dearest kinds first.

        With a generator, only of some that are drawn at random.

        Raises:
            TooManyError: there are too many to look at, or the time is over.
        """
        cuts = np.array(self._cuts)
        usable = np.flatnonzero(self.floors(prices) <= limit * (1 + SLACK))
        order = usable[np.argsort(-prices[usable], kind="stable")]
        parts = np.zeros((1, len(prices)), dtype=np.int64)
        cost, cover = np.zeros(1), np.zeros((1, len(cuts)))
        edge = limit * (1 + SLACK)
        for position, kind in enumerate(order):
            rest = order[position + 1 :]
            # Of each cut, the most that a unit of money can still buy.
            best = (cuts[:, rest] / prices[rest]).max(axis=1) if rest.size else np.zeros(len(cuts))
            kept: list[tuple[Counts, Floats, Floats]] = []
            some = (parts, cost, cover)
            total = 0
            for _ in range(int(self.most[kind]) + 1):
                good = (1 - some[2] <= (edge - some[1])[:, None] * best + SLACK).all(axis=1)
                kept.append((some[0][good], some[1][good], some[2][good]))
                total += len(kept[-1][0])
                if rng is None and (total > MOST_PARTS or clock.passed):
                    raise TooManyError
                more = some[1] + prices[kind] <= edge
                if not more.any():
                    break
                fuller = some[0][more].copy()
                fuller[:, kind] += 1
                some = (fuller, some[1][more] + prices[kind], some[2][more] + cuts[:, kind])
            parts, cost, cover = (np.concatenate(pieces) for pieces in zip(*kept, strict=True))
            if rng is not None and len(parts) > SAMPLED:
                some_of = rng.choice(len(parts), SAMPLED, replace=False)
                parts, cost, cover = parts[some_of], cost[some_of], cover[some_of]
        return parts


@dataclass(frozen=True, slots=True)
class Weighed:
    """That replicas carry the demand (no worth), or what each class is worth where they cannot."""

    worth: Floats | None


def weigh(loads: Floats, replicas: Floats) -> Weighed | None:
    """Say by multiplicative weights whether replicas carry the demand; None where that is too close to call.

    Kinds get weights, each class goes where it weighs least, and what is overfull gets heavier. The least weights add
    up to more than the replicas weigh only if the replicas are too few; on average over the rounds no kind is overfull
    only if they are enough. Either is a proof.
    """
    heavy = np.where(np.isinf(loads), HEAVY, loads)
    classes = np.arange(loads.shape[1])
    weights = np.full(len(replicas), 1 / len(replicas))
    used, rounds, most = np.zeros(len(replicas)), 0.0, 1 + OVERFULL
    best: Floats | None = None
    for turn in range(TURNS):
        cost = heavy * (weights / replicas)[:, None]
        chosen = cost.argmin(axis=0)
        least = cost[chosen, classes]
        full = np.bincount(chosen, weights=heavy[chosen, classes], minlength=len(replicas)) / replicas
        if least.sum() > most:
            most, best = float(least.sum()), least
        elif best is not None:
            return Weighed(best)
        used, rounds = used + (turn + 1) * full, rounds + turn + 1
        if (used <= rounds).all():
            return Weighed(None)
        over = (full - 1).clip(-3, 3)
        weights = weights * np.exp(STEP / math.sqrt(turn + 1) * over / max(1.0, float(np.abs(over).max())))
        weights /= weights.sum()
    return None if best is None else Weighed(best)


def cheapest_cover(prices: Floats, parts: Floats) -> Counts:
    """Return the cheapest counts whose parts add up to 1: a covering knapsack, by depth first, the best value first."""
    order = [int(k) for k in np.argsort(prices / np.maximum(parts, 1e-300), kind="stable") if parts[k] > 0]
    price, part = [float(prices[k]) for k in order], [float(parts[k]) for k in order]
    best_cost, best = float("inf"), [0] * len(order)
    counts = [0] * len(order)

    def go(at: int, left: float, cost: float) -> None:
        nonlocal best_cost, best
        if left <= SLACK:
            if cost < best_cost:
                best_cost, best = cost, counts.copy()
            return
        if at == len(order) or cost + left * price[at] / part[at] >= best_cost * (1 - COVER_GAP):
            return
        after = price[at + 1] / part[at + 1] if at + 1 < len(order) else float("inf")
        for count in range(math.ceil(left / part[at] - SLACK), -1, -1):
            rest, spent = left - count * part[at], cost + count * price[at]
            if rest > SLACK and spent + rest * after >= best_cost * (1 - COVER_GAP):
                break  # fewer of the best value cost only more
            counts[at] = count
            go(at + 1, rest, spent)
        counts[at] = 0

    go(0, 1.0, 0.0)
    found = np.zeros(len(prices), dtype=np.int64)
    found[order] = best
    return found


def _finite(loads: Floats) -> Floats:
    return np.where(np.isinf(loads), 0.0, loads)


def as_replicas(block: Block, replicas: Counts) -> dict[tuple[int, int], int]:
    """Return (kind, period) -> replicas."""
    return {(block.kinds[i], block.period): int(replicas[i]) for i in np.flatnonzero(replicas)}
