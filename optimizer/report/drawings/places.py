"""Where every GPU of an answer lies: nodes, and what each GPU of them holds. What the drawing of a layout draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.fleet.plan import FleetPlan, NodesHeld, Pool, Site
from optimizer.plan import Layout

MOST_NODES = 6  # drawn one by one; of more, those that are alike are drawn once


@dataclass(frozen=True, slots=True)
class Seat:
    """What one GPU holds: its part of a replica. Ranks and stages are counted from 0.

    Attributes:
        model: as the question calls it, in a fleet; else empty.
        kind: number of the model or pool, which decides its colour in a fleet.
        replica: number of the replica.
        stage, stages: pipeline stage, and how many there are.
        attention_rank, attention_dp: attention data-parallel rank, and how many there are.
        rank, tp: place in the tensor parallel group, and its size.
    """

    model: str
    kind: int
    replica: int
    stage: int
    stages: int
    attention_rank: int
    attention_dp: int
    rank: int
    tp: int

    @property
    def group(self) -> tuple[int, int, int, int]:
        """GPUs with the same one are one tensor parallel group."""
        return self.kind, self.replica, self.stage, self.attention_rank


@dataclass(frozen=True, slots=True)
class NodeSeats:
    """One node, or nodes that are alike.

    Attributes:
        first: number of the (first) node, counted from 1.
        count: nodes that this one stands for.
        seats: its GPUs in order; None for one that is rented and idle.
        apart: nodes left out after it, in the middle of one replica.
        of_each: where it stands for this node of each of `count` replicas, its number in a replica; else 0.
    """

    first: int
    count: int
    seats: tuple[Seat | None, ...]
    apart: int = 0
    of_each: int = 0

    @property
    def title(self) -> str:
        """Which node it is, or which nodes."""
        if self.of_each and self.count > 1:
            return f"Node {self.of_each} of each of {self.count:,} replicas"
        if self.count > 1:
            return f"Nodes {self.first:,} to {self.first + self.count - 1:,}, alike"
        return f"Node {self.first:,}"


@dataclass(frozen=True, slots=True)
class Shape:
    """What the nodes are, and what joins their GPUs and themselves."""

    gpu: str
    gpus_per_node: int
    fabric: str
    scale_up_gpus: int
    network: str
    network_gbit_per_s: float | None


def shape_of(of: Layout | Site) -> Shape:
    """Return the shape of the nodes of a layout or of a fleet's site."""
    return Shape(of.gpu, of.gpus_per_node, of.fabric, of.scale_up_gpus, of.network, of.network_gbit_per_s)


def _replica_seats(of: Layout | Pool, replica: int, model: str = "", kind: int = 0) -> list[Seat]:
    return [
        Seat(model, kind, replica, stage, of.pp, attention_rank, of.attention_dp, rank, of.tp)
        for stage in range(of.pp)
        for attention_rank in range(of.attention_dp)
        for rank in range(of.tp)
    ]


def nodes_of_layout(layout: Layout) -> list[NodeSeats]:
    """Return the nodes of a layout, those alike drawn together where there are many."""
    per_replica = layout.tp * layout.pp * layout.attention_dp
    size = layout.gpus_per_node
    if layout.nodes_per_replica > 1:
        return _spanning(layout, per_replica, size)
    per_node = max(size // per_replica, 1)
    nodes: list[NodeSeats] = []
    for first in range(0, max(layout.replicas, 1), per_node):
        here = range(first, min(first + per_node, layout.replicas))
        seats = [seat for replica in here for seat in _replica_seats(layout, replica)]
        nodes.append(NodeSeats(len(nodes) + 1, 1, _filled(seats, size)))
    nodes += [NodeSeats(number + 1, 1, (None,) * size) for number in range(len(nodes), layout.nodes)]
    return nodes if len(nodes) <= MOST_NODES else _alike_together(nodes)


def _spanning(layout: Layout, per_replica: int, size: int) -> list[NodeSeats]:
    """Nodes of replicas that span several: one replica stands for all where there are many nodes."""
    span = layout.nodes_per_replica
    on_each = -(-per_replica // span)
    drawn = layout.replicas if layout.replicas * span <= MOST_NODES else 1
    nodes: list[NodeSeats] = []
    for replica in range(drawn):
        seats = _replica_seats(layout, replica)
        nodes += [
            NodeSeats(len(nodes) + at + 1, 1, _filled(seats[at * on_each : (at + 1) * on_each], size))
            for at in range(span)
        ]
    if drawn < layout.replicas:
        nodes = [replace(node, count=layout.replicas, of_each=node.first) for node in nodes]
    if len(nodes) > MOST_NODES:
        left_out = len(nodes) - MOST_NODES
        before = nodes[: MOST_NODES - 1]
        nodes = [*before[:-1], replace(before[-1], apart=left_out), nodes[-1]]
    return nodes


def _filled(seats: list[Seat], size: int) -> tuple[Seat | None, ...]:
    return (*seats, *(None for _ in range(size - len(seats))))


def _alike_together(nodes: list[NodeSeats]) -> list[NodeSeats]:
    kept: list[NodeSeats] = []
    for node in nodes:
        if kept and _looks(kept[-1]) == _looks(node):
            kept[-1] = replace(kept[-1], count=kept[-1].count + 1)
        else:
            kept.append(node)
    return kept


def _looks(node: NodeSeats) -> tuple[object, ...]:
    first = next((seat.replica for seat in node.seats if seat is not None), 0)
    return tuple(None if seat is None else replace(seat, replica=seat.replica - first) for seat in node.seats)


def nodes_of_fleet(plan: FleetPlan, site: Site, period: int) -> list[NodeSeats]:
    """Return the nodes of one site in one period; equal ones are drawn once, as the plan groups them."""
    pools = {pool.id: (number, pool) for number, pool in enumerate(plan.pools)}
    nodes: list[NodeSeats] = []
    at = 1
    for held in (one for one in plan.nodes if one.period == period and one.site == site.id):
        drawn = _held_seats(held, site, pools)
        left_out = len(drawn) - MOST_NODES
        for number, seats in enumerate(drawn):
            if left_out > 0 and MOST_NODES - 1 <= number < len(drawn) - 1:
                continue
            apart = left_out if left_out > 0 and number == MOST_NODES - 2 else 0
            nodes.append(NodeSeats(at + number, held.units, seats, apart, number + 1 if held.span > 1 else 0))
        at += held.units * len(drawn)
    return nodes


def _held_seats(held: NodesHeld, site: Site, pools: dict[str, tuple[int, Pool]]) -> list[tuple[Seat | None, ...]]:
    seats: list[Seat] = []
    for name, amount in held.replicas.items():
        kind, pool = pools[name]
        for replica in range(amount):
            seats += _replica_seats(pool, replica, pool.model, kind)
    size = site.gpus_per_node
    if held.span == 1:
        return [_filled(seats, size)]
    on_each = -(-len(seats) // held.span)
    return [_filled(seats[at * on_each : (at + 1) * on_each], size) for at in range(held.span)]
