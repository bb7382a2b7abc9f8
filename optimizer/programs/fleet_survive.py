"""A fleet that carries its load, dealt anew, when any one node or all nodes of any one provider are gone.

Failures are added as they are found. A fleet is solved for; each failure that it could meet is tested by a linear
program; one that it does not survive becomes a second set of shares in the model, which has to fit on what is left.
Losing a provider is always possible. Losing a node is possible for what a node of the fleet holds, so the model counts
nodes by what they hold, and a failure binds only where some node holds just that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortools.math_opt.python import mathopt

from optimizer.errors import QuestionError
from optimizer.programs.fleet_counts import Counts
from optimizer.programs.fleet_instance import Failure, Survive
from optimizer.programs.fleet_model import FleetModel
from optimizer.programs.fleet_rates import Dealt, TooSmallError, class_rates, spread
from optimizer.programs.fleet_table import ROUNDING, FleetTable

MOST_CONTENTS = 20_000


@dataclass(frozen=True)
class Loss:
    """What may be gone at once, in a period.

    Attributes:
        lost: kind -> replicas.
        site: of one node of which this is all; None where it is a provider that is gone.
    """

    period: int
    lost: Mapping[int, int]
    site: int | None = None
    provider: str | None = None
    key: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        what: tuple[object, ...] = (self.provider,) if self.site is None else tuple(sorted(self.lost.items()))
        object.__setattr__(self, "key", (self.period, self.site, *what))


def node_contents(table: FleetTable, site: int, most: int = MOST_CONTENTS) -> list[dict[int, int]]:
    """Return all that a node of a site may hold, by kind, besides nothing.

    Raises:
        QuestionError: there are more than `most`.
    """
    kinds = [kind for kind in table.kinds_at.get(site, ()) if table.instance.kinds[kind].nodes == 1]
    found: list[dict[int, int]] = [{}]
    gpus = table.instance.sites[site].gpus_per_node
    for kind in kinds:
        size = table.instance.kinds[kind].gpus
        cap = max(table.most_replicas(kind, period) for period in table.periods)
        more = []
        for held in found:
            room = gpus - sum(table.instance.kinds[other].gpus * count for other, count in held.items())
            more += [held | {kind: count} for count in range(1, min(room // size, cap) + 1)]
        found += more
        if len(found) > most:
            raise QuestionError(
                f"to survive the loss of any one node: {len(kinds)} kinds of replica can share a node of {gpus} GPUs "
                f"in more than {most:,} ways, too many to try; allow fewer splits, precisions or models on it"
            )
    return found[1:]


def possible_losses(table: FleetTable, counts: Counts, period: int) -> list[Loss]:
    """Return what this fleet could lose in a period: each different content of a node, or each provider."""
    instance = table.instance
    here = {kind: count for (kind, t), count in counts.replicas.items() if t == period}
    if instance.survive == "provider":
        used = {instance.sites[site].provider for (site, _, t), _ in counts.nodes.items() if t == period}
        gone: dict[str, dict[int, int]] = {name: {} for name in sorted(used)}
        for kind, count in here.items():
            gone[instance.sites[instance.kinds[kind].site].provider][kind] = count
        return [Loss(period, lost, provider=name) for name, lost in gone.items()]
    losses = [
        Loss(period, dict(content), site=site)
        for (site, t), held in counts.filled.items()
        if t == period
        for content, count in held
        if count
    ]
    spanning = [kind for kind in here if instance.kinds[kind].nodes > 1]
    return losses + [Loss(period, {kind: 1}, site=instance.kinds[kind].site) for kind in spanning]


def deal_after(table: FleetTable, counts: Counts, loss: Loss) -> Dealt | None:
    """Share the demand out over what is left after a loss; None where some class cannot be served at all."""
    left = {
        kind: count - loss.lost.get(kind, 0)
        for (kind, t), count in counts.replicas.items()
        if t == loss.period and count > loss.lost.get(kind, 0)
    }
    return spread(table, loss.period, left, spot=False)


class SurvivingModel:
    """A fleet model, with the failures that it has to survive so far."""

    def __init__(self, fleet: FleetModel, surviving: Survive):
        self.fleet = fleet
        self.known: set[tuple[object, ...]] = set()
        self.literals: dict[tuple[int, int, tuple[tuple[int, int], ...]], mathopt.Variable] = {}
        if surviving == "provider":
            self.add_each_class_without_a_provider()
        elif surviving == "node":
            self.add_each_class_without_a_node()

    def _served_by_one(self, period: int) -> dict[int, dict[int, float]]:
        """Return bundle -> kind -> the share of the bundle that one replica serves, if it serves nothing else."""
        table = self.fleet.table
        return {
            b: {
                kind: 1 / table.load(kind, b, period)
                for kind, t in self.fleet.replicas
                if t == period and b in table.serves[kind]
            }
            for b, bundle in enumerate(table.bundles)
            if bundle.demand[period] > 0
        }

    def add_each_class_without_a_provider(self) -> None:
        """Without any one provider, the replicas that are left could still serve each class, if nothing else."""
        fleet, instance = self.fleet, self.fleet.instance
        for period in fleet.table.periods:
            for whole in self._served_by_one(period).values():
                for name in {instance.sites[instance.kinds[kind].site].provider for kind in whole}:
                    left = [
                        fleet.replicas[kind, period] * one
                        for kind, one in whole.items()
                        if instance.sites[instance.kinds[kind].site].provider != name
                    ]
                    fleet.model.add_linear_constraint(mathopt.fast_sum(left) >= fleet.scale)

    def add_each_class_without_a_node(self) -> None:
        """Without what any one node holds, the replicas that are left could still serve each class, if nothing else.

        It follows from what is wanted, and is all of it where a model has one class: most failures need not be found
        one after the other then.
        """
        fleet = self.fleet
        for (site, period), held in fleet.filled.items():
            whole = self._served_by_one(period)
            for content, _ in held:
                lost = {
                    b: sum(parts.get(kind, 0.0) * count for kind, count in content.items())
                    for b, parts in whole.items()
                }
                if not any(lost.values()):
                    continue
                literal = self._holds(site, period, content)
                for b, part in lost.items():
                    if part > 0:
                        served = mathopt.fast_sum(fleet.replicas[kind, period] * one for kind, one in whole[b].items())
                        fleet.model.add_linear_constraint(served - part * literal >= fleet.scale)

    def add(self, loss: Loss) -> None:
        """The load fits on what is left after a loss, where the loss is possible."""
        if loss.key in self.known:
            raise TooSmallError(f"the solver's fleet does not survive a loss that the program holds: {loss}")
        self.known.add(loss.key)
        fleet, table = self.fleet, self.fleet.table
        model = fleet.model
        possible = None if loss.site is None else self._possible(loss)
        served: dict[int, list[mathopt.Variable]] = defaultdict(list)
        for (kind, period), count in fleet.replicas.items():
            if period != loss.period or self._gone(kind, loss):
                continue
            load = []
            for b in table.serves[kind]:
                if table.bundles[b].demand[period] > 0:
                    share = model.add_variable(lb=0.0, ub=1.0)
                    served[b].append(share)
                    load.append(table.load(kind, b, period) * share)
            lost = loss.lost.get(kind, 0)
            left = count if possible is None or not lost else count - lost * possible
            model.add_linear_constraint(mathopt.fast_sum(load) <= left)
        for b, bundle in enumerate(table.bundles):
            if bundle.demand[loss.period] > 0:
                model.add_linear_constraint(mathopt.fast_sum(served[b]) == fleet.scale)

    def _gone(self, kind: int, loss: Loss) -> bool:
        instance = self.fleet.instance
        return loss.site is None and instance.sites[instance.kinds[kind].site].provider == loss.provider

    def _possible(self, loss: Loss) -> mathopt.Variable:
        """Return a literal that is on where some node holds just what is lost."""
        assert loss.site is not None
        return self._holds(loss.site, loss.period, loss.lost)

    def _holds(self, site: int, period: int, content: Mapping[int, int]) -> mathopt.Variable:
        """Return a literal that is on where some node of a site holds just this."""
        fleet = self.fleet
        key = (site, period, tuple(sorted(content.items())))
        if key not in self.literals:
            literal = fleet.integer(1)
            (first, *_), span = content, max(fleet.instance.kinds[kind].nodes for kind in content)
            counts = [count for held, count in fleet.filled.get((site, period), ()) if held == dict(content)]
            holding = fleet.replicas[first, period] if span > 1 else counts[0]
            fleet.model.add_linear_constraint(holding <= holding.upper_bound * literal)
            self.literals[key] = literal
        return self.literals[key]


def failures_of(table: FleetTable, counts: Counts) -> tuple[Failure, ...]:
    """Return every loss that is possible, and how the load is dealt then.

    Raises:
        TooSmallError: the load does not fit after one of them.
    """
    found = []
    for period in table.periods:
        for loss in possible_losses(table, counts, period):
            after = deal_after(table, counts, loss)
            if after is None or not after.fits:
                raise TooSmallError(f"the fleet does not survive {loss}")
            rates = class_rates(table, period, after.shares, whole=False)
            found.append(Failure(period, dict(loss.lost), rates, loss.site, loss.provider))
    return tuple(found)


def violated(table: FleetTable, counts: Counts, served: float) -> Sequence[Loss]:
    """Return the losses after which `served` times the demand does not fit."""
    if served <= ROUNDING:
        return ()
    broken = []
    for period in table.periods:
        for loss in possible_losses(table, counts, period):
            after = deal_after(table, counts, loss)
            if after is None or after.fullest * served > 1 + ROUNDING:
                broken.append(loss)
    return broken
