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
        for placement in deployment.placements:
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
