"""A fleet instance, made ready for the solver: what can serve what, like classes together, how many could be needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from optimizer.programs.fleet_dominance import needed_kinds
from optimizer.programs.fleet_instance import UNLIMITED, FleetInstance

ROUNDING = 1e-9  # relative: a count that misses a whole number by less is that number


@dataclass(frozen=True, slots=True)
class Bundle:
    """Classes of one group that every kind serves at the same rates: to the program they are one.

    Attributes:
        classes: which.
        demand: by period, of all of them together.
    """

    classes: tuple[int, ...]
    group: int
    demand: tuple[float, ...]

    @property
    def units(self) -> int:
        """How many classes there are; where classes are whole, so many units of equal demand."""
        return len(self.classes)


@dataclass(frozen=True)
class FleetTable:
    """The instance with its arithmetic done.

    Attributes:
        bundles: what there is demand for.
        serves: kind -> (bundle -> requests/s of one replica); kinds that can serve nothing are not there.
    """

    instance: FleetInstance
    bundles: tuple[Bundle, ...]
    serves: Mapping[int, Mapping[int, float]]

    @property
    def periods(self) -> range:
        """Positions of the periods."""
        return range(len(self.instance.demand))

    def load(self, kind: int, bundle: int, period: int) -> float:
        """Replicas of a kind that the whole of a bundle would keep busy."""
        return self.bundles[bundle].demand[period] / self.serves[kind][bundle]

    @cached_property
    def groups_of(self) -> Mapping[int, frozenset[int]]:
        """Kind -> groups whose classes it can serve."""
        return {kind: frozenset(self.bundles[b].group for b in served) for kind, served in self.serves.items()}

    @cached_property
    def kinds_at(self) -> Mapping[int, tuple[int, ...]]:
        """Site -> kinds on it."""
        found: dict[int, list[int]] = {}
        for kind in self.serves:
            found.setdefault(self.instance.kinds[kind].site, []).append(kind)
        return {site: tuple(kinds) for site, kinds in found.items()}

    def label(self, kind: int) -> tuple[bool, int]:
        """What a kind counts as against a limit on kinds."""
        label = self.instance.kinds[kind].label
        return (True, label) if label >= 0 else (False, kind)

    def most_replicas(self, kind: int, period: int) -> int:
        """Return replicas of a kind beyond which one more could be left out, whatever else runs."""
        alone = whole_up(sum(self.load(kind, bundle, period) for bundle in self.serves[kind]))
        if self.instance.survive != "node" or self.instance.kinds[kind].nodes > 1:
            return alone + (self.instance.survive == "node")
        # With so many left after any node is lost, this kind alone would still carry everything that it can serve.
        return (
            alone + self.instance.sites[self.instance.kinds[kind].site].gpus_per_node // self.instance.kinds[kind].gpus
        )

    def most_nodes(self, site: int) -> int:
        """Return nodes of a site beyond which one more could be left out."""
        kinds = self.kinds_at.get(site, ())
        alone = max(
            (
                sum(self.instance.kinds[kind].nodes * self.most_replicas(kind, period) for kind in kinds)
                for period in self.periods
            ),
            default=0,
        )
        return max(1, min(alone, self._fluid_nodes(site)))

    def _fluid_nodes(self, site: int) -> int:
        """Nodes for all that the site can serve on its hungriest kinds, with a part-filled replica of each kind."""
        if self.instance.survive != "nothing":
            return UNLIMITED
        gpus = self.instance.sites[site].gpus_per_node
        kinds = self.kinds_at.get(site, ())
        room = {kind: _nodes_of_one(self.instance, kind, gpus) for kind in kinds}
        most = 0.0
        for period in self.periods:
            worst: dict[int, float] = {}
            for kind in kinds:
                for bundle in self.serves[kind]:
                    need = room[kind] * self.load(kind, bundle, period)
                    worst[bundle] = max(worst.get(bundle, 0.0), need)
            most = max(most, sum(worst.values()))
        # Each kind can leave a replica and a node part-filled.
        return math.ceil(most + sum(room.values())) + len(kinds)


def _nodes_of_one(instance: FleetInstance, kind: int, gpus: int) -> float:
    one = instance.kinds[kind]
    return float(one.nodes) if one.nodes > 1 else 1 / (gpus // one.gpus)


def whole_up(amount: float) -> int:
    """Round up to a whole number; what misses the one below by a rounding error only is that one."""
    below = math.floor(amount)
    return below if amount - below <= ROUNDING * max(1.0, amount) else below + 1


def read_instance(instance: FleetInstance, *, apart: bool = False) -> FleetTable:
    """Check an instance and make it ready; like classes are kept `apart` where asked.

    Raises:
        ValueError: its parts do not fit together, which is a fault of the caller.
    """
    _check(instance)
    classes = range(len(instance.demand[0]))
    groups = instance.groups or (0,) * len(classes)
    usable = needed_kinds(instance, (kind for kind in range(len(instance.kinds)) if _can_run(instance, kind)))
    bundles: dict[tuple[object, ...], list[int]] = {}
    for index in classes:
        demand = tuple(period[index] for period in instance.demand)
        if max(demand) > 0:
            rates = tuple(instance.kinds[kind].rates[index] for kind in usable)
            alike = index if apart else demand if instance.whole_classes else None
            key = (groups[index], rates, alike)
            bundles.setdefault(key, []).append(index)
    made = tuple(
        Bundle(tuple(members), groups[members[0]], tuple(sum(p[c] for c in members) for p in instance.demand))
        for members in bundles.values()
    )
    serves = {
        kind: {b: instance.kinds[kind].rates[bundle.classes[0]] for b, bundle in enumerate(made)} for kind in usable
    }
    serves = {kind: {b: rate for b, rate in rates.items() if rate > 0} for kind, rates in serves.items()}
    return FleetTable(instance, made, {kind: rates for kind, rates in serves.items() if rates})


def _can_run(instance: FleetInstance, kind: int) -> bool:
    one = instance.kinds[kind]
    site = instance.sites[one.site]
    nodes = sum(option.node_cap for option in site.options)
    return nodes >= one.nodes and (one.nodes > 1 or one.gpus <= site.gpus_per_node)


def _check(instance: FleetInstance) -> None:
    periods, classes = len(instance.demand), {len(period) for period in instance.demand}
    if periods == 0 or len(classes) != 1 or len(instance.hours) != periods:
        raise ValueError("a fleet needs one length and one row of demand, over the same classes, for every period")
    count = classes.pop()
    if instance.groups and len(instance.groups) != count:
        raise ValueError(f"a fleet of {count} classes names the groups of {len(instance.groups)}")
    if any(len(kind.rates) != count for kind in instance.kinds):
        raise ValueError(f"every kind needs a rate for each of {count} classes")
    if any(not 0 <= kind.site < len(instance.sites) for kind in instance.kinds):
        raise ValueError("a kind is on a site that is not there")
    amounts = [amount for period in instance.demand for amount in period] + list(instance.hours)
    if any(not (math.isfinite(amount) and amount >= 0) for amount in amounts):
        raise ValueError("demand and hours are finite and not negative")


def exact(amount: float) -> Fraction:
    """Return the decimal number that a float was written as, exactly."""
    return Fraction(repr(float(amount)))
