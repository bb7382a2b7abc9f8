"""Launch scripts: an engine's command lines for bash, one flag a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalogs.gpus import get_gpu
from optimizer.export.deployment import Deployment, LaunchFile, Nodes, Placement, Process
from optimizer.export.engines.shell import quoted
from optimizer.export.words import serving_on
from optimizer.wording import dollars, gpus_words, node_words

VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}
_ASKED = {
    "$LEADER_ADDRESS": ("LEADER_ADDRESS", "the host name or IP address of the node with rank 0"),
    "$NODE_RANK": ("NODE_RANK", "the rank of this node: 1, 2 and so on"),
    "$HOSTS": ("HOSTS", "HOST:GPUS of each node, joined by commas, this one first"),
}


def scripts(deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Return a script for each kind of node of each deployment; it starts all that the deployment has on the node."""
    return tuple(file for one in deployments for file in _scripts(one))


def _scripts(one: Deployment) -> Iterator[LaunchFile]:
    for number, placement in enumerate(one.placements):
        several = len(one.placements) > 1
        stem = f"{one.name}-{number + 1}" if several else one.name
        for process in one.launch.processes:
            name = stem if len(one.launch.processes) == 1 else f"{stem}-{process.role}"
            yield LaunchFile(f"{name}.sh", _script(one, placement, process))


def _script(one: Deployment, placement: Placement, process: Process) -> str:
    head = ["#!/usr/bin/env bash", *(f"# {line}" for line in _head(one, placement, process)), "set -euo pipefail"]
    asked = []
    for mark, (variable, meaning) in _ASKED.items():
        if any(mark in word for word in process.command):
            asked += [f': "${{{variable}:?set it to {meaning}}}"', f"export {variable}"]
    for secret in one.launch.secrets:
        said = "set it to a token of an account that accepted the licence of the model"
        asked += [f': "${{{secret}:?{said}}}"', f"export {secret}"]
    asked += [f"export {name}={quoted(value)}" for name, value in one.launch.environment]
    blocks = (head, asked, _starts(one, placement, process))
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def _starts(one: Deployment, placement: Placement, process: Process) -> list[str]:
    """Return what starts the replicas of a node: a single one takes the place of the script itself."""
    whole = len(placement.ports) == 1 and len(placement.gpu_indices[0]) == one.nodes.gpus_per_node
    started = []
    for indices, port in zip(placement.gpu_indices, placement.ports, strict=True):
        command = lined(serving_on(process, one, port).command)
        started.append(("" if whole else f"{_variable(one)}={','.join(map(str, indices))}", command))
    if len(started) == 1:
        ((visible, command),) = started
        return [*([f"export {visible}"] if visible else []), f"exec {command}"]
    lines = ["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for visible, command in started:
        lines += [f"{visible} {command} &", ""]
    return [*lines, "wait -n"]


def _variable(one: Deployment) -> str:
    return VISIBLE.get(get_gpu(one.nodes.gpu).vendor, "CUDA_VISIBLE_DEVICES")


def lined(command: Sequence[str]) -> str:
    """Return a command quoted for bash, with each flag and its value on a line of its own."""
    lines: list[str] = []
    for word in command:
        said = quoted(word)
        if word.startswith("--") or not lines:
            lines.append(said)
        else:
            lines[-1] += f" {said}"
    return " \\\n    ".join(lines)


def _head(one: Deployment, placement: Placement, process: Process) -> list[str]:
    launch, nodes = one.launch, one.nodes
    said = list(one.context)
    replicas = len(placement.ports)
    here = f"on each of {placement.units} such nodes" if placement.units > 1 else "on one node"
    if one.replica.nodes > 1:
        sets = "" if placement.units == 1 else f"; {placement.units} replicas, each with a leader of its own"
        where = f"the leader of {one.replica.nodes} nodes" if process.role == "leader" else "every other node"
        said.append(f"run on {where}{sets}")
    else:
        said.append(f"run {here}: {replicas} replica{'s' if replicas > 1 else ''} of {gpus_words(one.replica.gpus)}")
    said.append(f"{_offer(nodes)}")
    said += [f"else: {_offer(other)}" for other in one.fallbacks]
    said.append(f"{launch.engine} {launch.version} (container image {launch.image})")
    said += [f"note: {note}" for note in launch.notes]
    return [" ".join(line.split()) for line in said]


def _offer(nodes: Nodes) -> str:
    place = " ".join(part for part in (nodes.provider, nodes.region, nodes.instance_type) if part != "global")
    price = f"{dollars(nodes.price_usd_per_node_hour)} a node hour, seen on {nodes.price_seen_on}"
    return f"{node_words(nodes.count, nodes.gpus_per_node, nodes.gpu)} ({place}, {nodes.term}): {price}"
