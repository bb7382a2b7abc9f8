"""Tables with thousands of kinds: a linear program says which of them can be in a cheapest fleet at all.

The linear relaxation is solved on a few sites, and more are added while their nodes are worth more than they cost, so
that its optimum holds for all. A fleet of what looks best then bounds the cost from above, and what would cost more
than the difference just by being there once is left out. That is exact, whatever other rules there are: they only make
fleets dearer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optimizer.programs.fleet_model import FleetModel
from optimizer.programs.fleet_money import fleet_cost, node_cost
from optimizer.programs.fleet_table import FleetTable
from optimizer.programs.mathopt_outcome import Deadline, run_highs

Floats = npt.NDArray[np.float64]
MANY_KINDS = 150
FIRST_BEST = 2  # sites for each class, to begin with
MOST_ROUNDS = 60
RESTRICTED = 60  # kinds of the first fleet
SHARE_OF_TIME = 0.4  # for the first fleet
SLACK = 1e-7


def worth_reducing(table: FleetTable) -> bool:
    """Whether there are many kinds, and no rule that could make it pay to use a dear one."""
    instance = table.instance
    return (
        len(table.serves) > MANY_KINDS
        and len(table.periods) == 1
        and instance.min_providers <= 1
        and instance.min_regions <= 1
        and all(any(b in served for served in table.serves.values()) for b in range(len(table.bundles)))
    )


@dataclass(frozen=True, slots=True)
class Priced:
    """The linear relaxation over all kinds.

    Attributes:
        bound: micro-dollars; no fleet costs less.
        excess: kind -> micro-dollars that a fleet with one of it costs more than the bound at least.
    """

    bound: float
    excess: dict[int, float]


def restricted(table: FleetTable, kinds: Iterable[int]) -> FleetTable:
    """Return the table with some kinds only."""
    kept = set(kinds)
    return FleetTable(table.instance, table.bundles, {k: served for k, served in table.serves.items() if k in kept})


class Relaxation:
    """The linear relaxation of a table with many kinds, by sites."""

    def __init__(self, table: FleetTable):
        self.table = table
        self.kinds = list(table.serves)
        self.loads = np.full((len(self.kinds), len(table.bundles)), np.inf)
        for row, kind in enumerate(self.kinds):
            for b in table.serves[kind]:
                self.loads[row, b] = table.load(kind, b, 0)
        of = table.instance.kinds
        self.site: npt.NDArray[np.int64] = np.array([of[kind].site for kind in self.kinds])
        # The least part of a node that one replica takes up.
        self.part = np.array(
            [
                float(of[kind].nodes)
                if of[kind].nodes > 1
                else of[kind].gpus / table.instance.sites[of[kind].site].gpus_per_node
                for kind in self.kinds
            ]
        )

    def solve(self, clock: Deadline) -> Priced | None:
        """Add sites until no other is worth its price; None where the time is over or nothing is feasible."""
        sites = self._first_sites()
        for _ in range(MOST_ROUNDS):
            some = restricted(self.table, (k for k in self.kinds if self.table.instance.kinds[k].site in sites))
            relaxed = FleetModel(some, ("survive",), whole_numbers=False)
            relaxed.model.minimize(relaxed.cost())
            run = run_highs(relaxed.model, clock.left_s)
            if run.status != "optimal":
                wider = self._wider(sites)
                if run.status != "infeasible" or not wider:
                    return None
                sites |= wider
                continue
            worth = np.array([run.dual(relaxed.served[b, 0]) * self._parts(b) for b in range(len(self.table.bundles))])
            price = self._node_prices(relaxed, run.dual)
            value = (worth[None, :] / self.loads).max(axis=1)
            excess = self.part * price[self.site] - value
            missing = {int(self.site[row]) for row in np.flatnonzero(excess < -SLACK * price[self.site])} - sites
            if not missing:
                unit = float(relaxed.step) / relaxed.unit
                return Priced((run.objective or 0.0) * unit, self._excess(relaxed, run.dual, excess, value, unit))
            # The sites that are worth most over their price first.
            gain = {site: float((excess[self.site == site] / self.part[self.site == site]).min()) for site in missing}
            sites |= set(sorted(missing, key=lambda site: gain[site])[:10])
            if clock.passed:
                return None
        return None

    def _parts(self, b: int) -> int:
        return self.table.bundles[b].units if self.table.instance.whole_classes else 1

    def _first_sites(self) -> set[int]:
        price = np.array([self._cheapest_node(int(site)) for site in self.site])
        cost = (self.part * price)[:, None] * self.loads
        best = np.argsort(cost, axis=0, kind="stable")[:FIRST_BEST]
        return {int(site) for site in self.site[best].ravel()}

    def _wider(self, sites: set[int]) -> set[int]:
        """More sites, the cheapest by the work that they do, where those so far cannot carry the load."""
        price = np.array([self._cheapest_node(int(site)) for site in self.site])
        with np.errstate(invalid="ignore"):
            cost = ((self.part * price)[:, None] * self.loads).min(axis=1)
        order = [int(self.site[row]) for row in np.argsort(cost, kind="stable")]
        return set(list(dict.fromkeys(site for site in order if site not in sites))[: max(len(sites), 5)])

    def _cheapest_node(self, site: int) -> float:
        options = range(len(self.table.instance.sites[site].options))
        return min(float(node_cost(self.table.instance, site, option, 0)) for option in options)

    def _node_prices(self, relaxed: FleetModel, dual: Callable[..., float]) -> Floats:
        """What a node of each site costs with its part of the quotas and the budget, in the unit of the objective."""
        instance = self.table.instance
        unit = relaxed.unit / float(relaxed.step)
        dearer = 1 - (dual(relaxed.budget_row) if relaxed.budget_row is not None else 0.0)
        prices = np.array([self._cheapest_node(site) * unit * dearer for site in range(len(instance.sites))])
        for index, row in relaxed.limit_rows.items():
            for site, weight in instance.limits[index].weights.items():
                prices[site] -= dual(row) * weight
        return prices

    def _excess(
        self,
        relaxed: FleetModel,
        dual: Callable[..., float],
        excess: Floats,
        value: Floats,
        unit: float,
    ) -> dict[int, float]:
        """By kind: of sites in the relaxation at the price of room there, of others what the site costs too much."""
        room: dict[int, float] = dict.fromkeys((kind for kind, _ in relaxed.replicas), 0.0)
        for taken in relaxed.room:
            for (kind, _), weight in taken.used.items():
                room[kind] -= dual(taken.row) * weight
        found = {}
        of_site: dict[int, float] = {}
        for site in set(self.site.tolist()):
            mine = self.site == site
            of_site[site] = float((excess[mine] / self.part[mine]).min())
        for row, kind in enumerate(self.kinds):
            of_kind = room[kind] - value[row] if kind in room else max(excess[row], of_site[int(self.site[row])])
            found[kind] = max(float(of_kind), 0.0) * unit
        return found


def promising(priced: Priced, most: int = RESTRICTED) -> list[int]:
    """Return the kinds that cost the least more by being there."""
    return sorted(priced.excess, key=lambda kind: (priced.excess[kind], kind))[:most]


def left_possible(priced: Priced, cost: float) -> list[int]:
    """Return the kinds that can be in a fleet that costs less than `cost` micro-dollars."""
    room = cost - priced.bound + SLACK * cost
    return [kind for kind, excess in priced.excess.items() if excess <= room]


def exact_cost(table: FleetTable, nodes: dict[tuple[int, int, int], int]) -> float:
    """Return what nodes cost, in micro-dollars."""
    return float(fleet_cost(table.instance, nodes))
