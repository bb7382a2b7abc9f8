"""Which replicas lie on which nodes: what a file for one kind of node has to start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from optimizer.export.deployment import Deployment, Nodes, Placement


@dataclass(frozen=True, slots=True)
class Seat:
    """One replica on its GPUs.

    Attributes:
        number: among the replicas of its deployment in this place.
        port: where it serves, unique on the node.
    """

    deployment: Deployment
    number: int
    gpus: tuple[int, ...]
    port: int

    @property
    def name(self) -> str:
        """A DNS label, unique in its place."""
        return f"{self.deployment.name}-{self.number}"


@dataclass(frozen=True, slots=True)
class Place:
    """Nodes that hold the same.

    Attributes:
        group: DNS label.
        units: how many of them there are; of a replica that spans nodes: how many such sets of nodes.
        nodes_per_unit: 1, or the nodes that the one replica spans.
    """

    group: str
    units: int
    nodes_per_unit: int
    nodes: Nodes
    seats: tuple[Seat, ...]

    @property
    def node_count(self) -> int:
        """How many nodes these are in all."""
        return self.units * self.nodes_per_unit

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """Whose replicas they hold, each once."""
        return tuple({seat.deployment.name: seat.deployment for seat in self.seats}.values())

    def seats_of(self, deployment: Deployment) -> tuple[Seat, ...]:
        """Return the replicas of one deployment on one of the nodes."""
        return tuple(seat for seat in self.seats if seat.deployment.name == deployment.name)


def places(deployments: Iterable[Deployment]) -> tuple[Place, ...]:
    """Return the places of all deployments, in the order in which they are first named."""
    found: dict[str, list[tuple[Deployment, Placement]]] = {}
    for deployment in deployments:
        for placement in deployment.placements or placed_evenly(deployment):
            found.setdefault(placement.group, []).append((deployment, placement))
    return tuple(_place(group, parts) for group, parts in found.items())


def secrets_of(place: Place) -> dict[str, bool]:
    """Return the names of the secrets that a node takes, and whether it works without."""
    found: dict[str, bool] = {}
    for deployment in place.deployments:
        found |= {name: found.get(name, True) for name in deployment.launch.optional_secrets}
        found |= dict.fromkeys(deployment.launch.secrets, False)
    return found


def _place(group: str, parts: list[tuple[Deployment, Placement]]) -> Place:
    seats = [
        Seat(deployment, number, gpus, port)
        for deployment, placement in parts
        for number, (gpus, port) in enumerate(zip(placement.gpu_indices, placement.ports, strict=True))
    ]
    first, placement = parts[0]
    return Place(group, placement.units, first.replica.nodes, first.nodes, tuple(seats))


def placed_evenly(deployment: Deployment) -> tuple[Placement, ...]:
    """Fill nodes one after another: full nodes, and one that holds the rest."""
    each = deployment.replicas_per_node if deployment.replica.nodes == 1 else 1
    full, rest = divmod(deployment.replicas, each)
    found = []
    if full:
        found.append(_placement(deployment, deployment.name, full, each))
    if rest:
        name = f"{deployment.name}-rest" if full else deployment.name
        found.append(_placement(deployment, name, 1, rest))
    return tuple(found)


def _placement(deployment: Deployment, group: str, units: int, seats: int) -> Placement:
    width = deployment.replica.gpus_on_each_node
    return Placement(
        group=group,
        units=units,
        gpu_indices=tuple(tuple(range(seat * width, (seat + 1) * width)) for seat in range(seats)),
        ports=tuple(deployment.launch.port + seat for seat in range(seats)),
    )
