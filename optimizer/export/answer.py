"""What `shardwise export --json` prints: the deployments, their commands, and the files."""

from __future__ import annotations

from datetime import date
from typing import Literal

from optimizer.export.deployment import Deployment, LaunchFile, Nodes
from optimizer.plan import AnswerPart


class ExportedNodes(AnswerPart):
    """Nodes of one offer: the one chosen, or one to fall back to.

    Attributes:
        price_usd_per_node_hour: as it is billed, after the user's own discounts.
        price_seen_on: the day the price was seen.
        count: how many are rented.
    """

    provider: str
    region: str
    instance_type: str
    term: str
    gpu: str
    gpus_per_node: int
    count: int
    price_usd_per_node_hour: float
    price_seen_on: date
    network: str


class ExportedProcess(AnswerPart):
    """What runs on a node of a replica.

    Attributes:
        role: "server" where a replica is on one node; else "leader" or "worker".
        argv: program and arguments; $LEADER_ADDRESS, $NODE_RANK and $HOSTS are to be filled in.
        ready_path: what answers 200 over HTTP once it serves; empty on workers.
    """

    role: str
    argv: tuple[str, ...]
    ready_path: str


class ExportedPlacement(AnswerPart):
    """Replicas on nodes that hold the same (see optimizer.export.deployment.Placement).

    Attributes:
        group: what nodes that hold the same are called.
        units: how many such nodes, or groups of nodes.
        gpu_indices: GPUs of each replica on a node.
        ports: where each replica on a node serves.
    """

    group: str
    units: int
    gpu_indices: tuple[tuple[int, ...], ...]
    ports: tuple[int, ...]


class ExportedDeployment(AnswerPart):
    """Replicas that run alike on nodes of one offer.

    Attributes:
        model: what the engine loads; served_name: what requests call it.
        environment: variables that it needs; secrets and optional_secrets name those with secrets of the user's.
        fallbacks: next cheapest offers of the same nodes.
        notes: what no flag does.
        context: the plan in a few lines.
        engine_version: its release.
        image: container image with a tag.
        nodes_per_replica, gpus_per_replica: what one replica takes.
        processes: what runs on each node of a replica.
        secrets: names of variables that hold secrets of the user's.
        optional_secrets: those that some checkpoints need.
        port: where it serves the OpenAI-compatible API.
        placements: where replicas lie on nodes.
    """

    name: str
    model: str
    served_name: str
    engine: str
    engine_version: str
    image: str
    replicas: int
    nodes_per_replica: int
    gpus_per_replica: int
    processes: tuple[ExportedProcess, ...]
    environment: dict[str, str]
    secrets: tuple[str, ...]
    optional_secrets: tuple[str, ...]
    port: int
    nodes: ExportedNodes
    fallbacks: tuple[ExportedNodes, ...]
    placements: tuple[ExportedPlacement, ...]
    notes: tuple[str, ...]
    context: tuple[str, ...]


class ExportedFile(AnswerPart):
    """A launch file.

    Attributes:
        text: what is in it.
    """

    name: str
    text: str


class Export(AnswerPart):
    """Launch files for a target, and the deployments that they start.

    Attributes:
        target: the form that the files are in.
        deployments: what is started.
        files: the launch files.
    """

    schema_version: Literal["1"] = "1"
    kind: Literal["export"] = "export"
    target: str
    deployments: tuple[ExportedDeployment, ...]
    files: tuple[ExportedFile, ...]


def exported(target: str, deployments: tuple[Deployment, ...], files: tuple[LaunchFile, ...]) -> Export:
    """Return deployments and files as an answer."""
    return Export(
        target=target,
        deployments=tuple(map(_deployment, deployments)),
        files=tuple(ExportedFile(name=one.name, text=one.text) for one in files),
    )


def _deployment(one: Deployment) -> ExportedDeployment:
    replica, launch = one.replica, one.launch
    return ExportedDeployment(
        name=one.name,
        model=replica.model,
        served_name=replica.served_name,
        engine=launch.engine,
        engine_version=launch.version,
        image=launch.image,
        replicas=one.replicas,
        nodes_per_replica=replica.nodes,
        gpus_per_replica=replica.gpus,
        processes=tuple(
            ExportedProcess(role=process.role, argv=process.command, ready_path=process.ready_path)
            for process in launch.processes
        ),
        environment=dict(launch.environment),
        secrets=launch.secrets,
        optional_secrets=launch.optional_secrets,
        port=launch.port,
        nodes=_nodes(one.nodes),
        fallbacks=tuple(map(_nodes, one.fallbacks)),
        placements=tuple(
            ExportedPlacement(group=at.group, units=at.units, gpu_indices=at.gpu_indices, ports=at.ports)
            for at in one.placements
        ),
        notes=launch.notes,
        context=one.context,
    )


def _nodes(nodes: Nodes) -> ExportedNodes:
    return ExportedNodes(**{name: getattr(nodes, name) for name in ExportedNodes.model_fields})
