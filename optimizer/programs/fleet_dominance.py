"""Kinds that no cheapest fleet needs: in the place of one of their replicas, copies of another do at least as much.

Copies on the same site take the room of the replica that they replace; a loss of a node takes them all, as it would
take that replica. Where every node of a site is one replica of one kind, copies may also be on another such site, if
they cost no more and count no more against any limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optimizer.programs.fleet_instance import UNLIMITED, FleetInstance

EXCESS = 1e-12  # relative: a rate that is below another by less is as high


def needed_kinds(instance: FleetInstance, kinds: Iterable[int]) -> list[int]:
    """Return those of the kinds that are not dominated by one that stays."""
    given = sorted(kinds)
    rates = {kind: np.array(instance.kinds[kind].rates) for kind in given}
    solo = _solo_sites(instance, given)
    dropped: set[int] = set()
    for members in _rivals(instance, given, rates, solo):
        for kind in members:
            rivals = [other for other in members if other != kind and other not in dropped]
            if any(_dominates(instance, solo, rates, other, kind) for other in rivals):
                dropped.add(kind)
    return [kind for kind in given if kind not in dropped]


@dataclass(frozen=True, slots=True)
class _Solo:
    """A site of which every node is one replica of one kind, paid for in one way."""

    price: int
    weights: Mapping[int, int]
    place: tuple[str, str, bool]


def _solo_sites(instance: FleetInstance, kinds: list[int]) -> dict[int, _Solo]:
    """Return the solo sites on which dominance across sites is looked for, by kind."""
    on: dict[int, list[int]] = {}
    for kind in kinds:
        on.setdefault(instance.kinds[kind].site, []).append(kind)
    found = {}
    for site, members in on.items():
        where, one = instance.sites[site], instance.kinds[members[0]]
        plain = len(where.options) == 1 and not where.options[0].committed and where.options[0].start_micro_usd == 0
        if (
            len(members) == 1
            and plain
            and where.options[0].min_periods <= 1
            and where.options[0].node_cap >= UNLIMITED
            and one.nodes == 1
            and where.gpus_per_node // one.gpus == 1
        ):
            weights = {i: limit.weights[site] for i, limit in enumerate(instance.limits) if limit.weights.get(site)}
            place = (where.provider, where.region, where.spot)
            found[members[0]] = _Solo(where.options[0].price_micro_usd, weights, place)
    return found


def _rivals(
    instance: FleetInstance,
    kinds: list[int],
    rates: Mapping[int, npt.NDArray[np.float64]],
    solo: Mapping[int, _Solo],
) -> list[list[int]]:
    """Group the kinds among which one can replace another: of one site, or solo in one place, for the same classes."""
    groups: dict[object, list[int]] = {}
    for kind in kinds:
        if kind in solo:
            first = int(np.flatnonzero(rates[kind])[0]) if rates[kind].any() else -1
            model = instance.groups[first] if instance.groups and first >= 0 else 0
            groups.setdefault((model, solo[kind].place), []).append(kind)
        else:
            groups.setdefault(instance.kinds[kind].site, []).append(kind)
    return list(groups.values())


def _dominates(
    instance: FleetInstance,
    solo: Mapping[int, _Solo],
    rates: Mapping[int, npt.NDArray[np.float64]],
    better: int,
    kind: int,
) -> bool:
    copies = _copies_across(solo[better], solo[kind]) if kind in solo else _copies_on_site(instance, better, kind)
    if copies < 1 or not _keeps_label(instance, better, kind):
        return False
    return bool((copies * rates[better] >= rates[kind] * (1 - EXCESS)).all())


def _copies_across(better: _Solo, worse: _Solo) -> int:
    bounds = [worse.price // better.price] if better.price else [UNLIMITED]
    bounds += [worse.weights.get(limit, 0) // weight for limit, weight in better.weights.items()]
    return min(bounds)


def _copies_on_site(instance: FleetInstance, better: int, worse: int) -> int:
    one, other = instance.kinds[better], instance.kinds[worse]
    if other.nodes == 1:
        return other.gpus // one.gpus if one.nodes == 1 else 0
    return (
        other.nodes // one.nodes
        if one.nodes > 1
        else other.nodes * (instance.sites[one.site].gpus_per_node // one.gpus)
    )


def _keeps_label(instance: FleetInstance, better: int, worse: int) -> bool:
    """Whether taking one kind for another never adds a kind to those that a limit on kinds counts."""
    if instance.max_kinds is None and instance.max_kinds_per_group is None:
        return True
    label = instance.kinds[worse].label
    return label < 0 or label == instance.kinds[better].label
