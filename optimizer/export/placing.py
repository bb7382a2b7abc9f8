"""Which GPUs of a node each replica gets, and the port where it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.export.deployment import Placement


@dataclass(frozen=True, slots=True)
class OnNode:
    """Replicas of one kind on a node: how many, and the GPUs that each takes there."""

    replicas: int
    gpus: int


def place(group: str, units: int, held: Mapping[str, OnNode], first_port: int) -> dict[str, Placement]:
    """Return where replicas lie on nodes that all hold the same.

    The largest come first: sizes are mostly powers of two, so that each then lies within as few scale-up domains as it
    can.

    Args:
        group: what these nodes are called.
        units: how many there are.
        held: kind of replica -> how many of it are on a node.
        first_port: where the first replica serves; the others follow.
    """
    placed: dict[str, Placement] = {}
    gpu, port = 0, first_port
    for kind, one in sorted(held.items(), key=lambda item: (-item[1].gpus, item[0])):
        indices, ports = [], []
        for _ in range(one.replicas):
            indices.append(tuple(range(gpu, gpu + one.gpus)))
            ports.append(port)
            gpu, port = gpu + one.gpus, port + 1
        placed[kind] = Placement(group, units, tuple(indices), tuple(ports))
    return placed
