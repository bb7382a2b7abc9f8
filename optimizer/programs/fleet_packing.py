"""How replicas fit on whole nodes, exactly, whatever their sizes.

Where the sizes on a site divide each other in turn (1, 2, 4, 8), counting is enough: seen from the largest size down, a
node of G GPUs has floor(G / size) slots of each size, a larger replica fills a whole number of smaller slots, and any
free slot can be used. Where they do not (3 and 2 on 8 GPUs), the program counts nodes by what they hold: the patterns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from optimizer.errors import QuestionError
from optimizer.programs.fleet_instance import FleetInstance, Packed

MOST_PATTERNS = 5_000


@dataclass(frozen=True, slots=True)
class Slots:
    """Sum of weight x replicas of a size <= per_node x nodes."""

    weights: Mapping[int, int]
    per_node: int


def slot_rows(sizes: Sequence[int], gpus: int) -> list[Slots] | None:
    """Return the inequalities that say that replicas of these sizes fit on nodes; None where counting is not exact."""
    ordered = sorted(set(sizes))
    if any(larger % smaller for smaller, larger in pairwise(ordered)):
        return None
    rows: list[Slots] = []
    usable = gpus + 1
    for position, size in enumerate(ordered):
        per_node = gpus // size
        if per_node * size < usable:  # else the row of a smaller size says as much
            rows.append(Slots({larger: larger // size for larger in ordered[position:]}, per_node))
            usable = per_node * size
    return rows


def patterns(sizes: Sequence[int], gpus: int, most: int = MOST_PATTERNS) -> list[dict[int, int]]:
    """Return all ways to fill a node to which nothing of these sizes can be added.

    Raises:
        QuestionError: there are more than `most`.
    """
    ordered = sorted(set(sizes), reverse=True)
    found: list[dict[int, int]] = []

    def fill(position: int, left: int, held: dict[int, int]) -> None:
        if len(found) > most:
            raise QuestionError(
                f"replicas of {', '.join(map(str, sorted(ordered)))} GPUs fill a node of {gpus} GPUs in more than "
                f"{most:,} ways, too many to pack exactly; allow fewer sizes"
            )
        size = ordered[position]
        if position == len(ordered) - 1:
            found.append(held | ({size: left // size} if left >= size else {}))
            return
        for count in range(left // size, -1, -1):
            fill(position + 1, left - count * size, held | ({size: count} if count else {}))

    fill(0, gpus, {})
    smallest = ordered[-1]
    maximal = [held for held in found if gpus - sum(size * count for size, count in held.items()) < smallest]
    return [dict(items) for items in dict.fromkeys(tuple(held.items()) for held in maximal)]


def pack(
    instance: FleetInstance,
    site: int,
    nodes: int,
    replicas: Mapping[int, int],
    used: Sequence[tuple[Mapping[int, int], int]] = (),
    *,
    by_kind: bool = False,
) -> tuple[Packed, ...]:
    """Put replicas on the nodes of a site: those that span several first, then the others, the largest first.

    Args:
        instance: the question.
        site: position of the site.
        nodes: nodes that are paid for.
        replicas: kind -> replicas on this site.
        used: (what a node holds, nodes that hold it), where the program counted so.
        by_kind: whether `used` is by kind, and not by size.

    Raises:
        RuntimeError: they do not fit, which is a fault of the program.
    """
    packed = [
        Packed(site, count, {kind: 1}, span=instance.kinds[kind].nodes)
        for kind, count in sorted(replicas.items())
        if instance.kinds[kind].nodes > 1 and count
    ]
    nodes -= sum(unit.units * unit.span for unit in packed)
    small = {kind: count for kind, count in replicas.items() if instance.kinds[kind].nodes == 1 and count}
    if by_kind:
        held = [dict(content) for content, count in used for _ in range(count)]
    else:
        held = _by_pattern(instance, small, used) if used else _largest_first(instance, site, small)
    if len(held) > nodes:
        raise RuntimeError(f"the replicas of site {site} do not fit on its nodes: {len(held)} needed, {nodes} there")
    counts = Counter(tuple(sorted(unit.items())) for unit in held)
    packed += [Packed(site, count, dict(items)) for items, count in sorted(counts.items())]
    if len(held) < nodes:
        packed.append(Packed(site, nodes - len(held), {}))
    return tuple(packed)


def _largest_first(instance: FleetInstance, site: int, replicas: Mapping[int, int]) -> list[dict[int, int]]:
    """Fill nodes one after the other, the largest replicas first: the fewest nodes where sizes divide each other."""
    gpus = instance.sites[site].gpus_per_node
    held: list[dict[int, int]] = []
    free: list[int] = []
    for kind in sorted(replicas, key=lambda k: (-instance.kinds[k].gpus, k)):
        size, left = instance.kinds[kind].gpus, replicas[kind]
        for node, room in enumerate(free):
            put = min(room // size, left)
            if put:
                held[node][kind] = held[node].get(kind, 0) + put
                free[node] -= put * size
                left -= put
        while left:
            put = min(gpus // size, left)
            held.append({kind: put})
            free.append(gpus - put * size)
            left -= put
    return held


def _by_pattern(
    instance: FleetInstance, replicas: Mapping[int, int], used: Sequence[tuple[Mapping[int, int], int]]
) -> list[dict[int, int]]:
    left = dict(sorted(replicas.items()))
    held = []
    for pattern, count in used:
        for _ in range(count):
            unit: dict[int, int] = {}
            for size, slots in pattern.items():
                room = slots
                for kind in [kind for kind in left if instance.kinds[kind].gpus == size]:
                    put = min(room, left[kind])
                    if put:
                        unit[kind] = unit.get(kind, 0) + put
                        left[kind] -= put
                        room -= put
            if unit:
                held.append(unit)
    if any(left.values()):
        raise RuntimeError(f"patterns leave replicas without a place: {left}")
    return held
