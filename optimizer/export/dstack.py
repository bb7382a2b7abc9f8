"""dstack configurations: a fleet of the planned nodes, and what runs on it: a service, or a task where nodes join up.

Fields: dstack 0.22.5 (2026-11), dstack._internal.core.models; variables DSTACK_MASTER_NODE_IP and DSTACK_NODE_RANK:
dstack.ai/docs, "Tasks", "Distributed tasks". dstack reads ${{ }} and $$ in commands as its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, Final
from zlib import crc32

from optimizer.export.deployment import Deployment, LaunchFile, Nodes
from optimizer.export.gpu_names import gpu_names, vendor
from optimizer.export.offers import (
    by_contract,
    disk_gb,
    header,
    machine_name,
    offer_lines,
    offers_of,
    owned,
    price_ceiling,
    region_name,
)
from optimizer.export.places import Place, places
from optimizer.export.words import LEADER_ADDRESS, NODE_RANK, shell_command
from optimizer.export.yaml_text import Flow, Script, yaml_text

# Our name of a provider -> dstack's name of the backend (BackendType of 0.22.5).
_BACKENDS: Final = {
    "aws": "aws",
    "azure": "azure",
    "crusoe": "crusoe",
    "digitalocean": "digitalocean",
    "gcp": "gcp",
    "hotaisle": "hotaisle",
    "jarvislabs": "jarvislabs",
    "lambda": "lambda",
    "nebius": "nebius",
    "oci": "oci",
    "runpod": "runpod",
    "vast": "vastai",
    "verda": "verda",
    "vultr": "vultr",
}
_MACHINES: Final = frozenset({"aws", "azure", "gcp", "lambda", "nebius", "oci"})  # that both call by the same name
_REGIONS: Final = frozenset({"aws", "azure", "gcp"})
_NAME_LENGTH: Final = 41
_START: Final = "dstack apply -f FILE"


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Nodes that hold replicas of the same deployments."""

    places: tuple[Place, ...]

    @property
    def name(self) -> str:
        return _name(self.places[0].group, "-fleet")

    @property
    def nodes(self) -> Nodes:
        return self.places[0].nodes

    @property
    def count(self) -> int:
        return sum(place.node_count for place in self.places)

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        return tuple({each.name: each for place in self.places for each in place.deployments}.values())

    @property
    def blocks(self) -> int:
        """Parts of a node that runs can be given: 1 where each node holds one replica."""
        if all(len(place.seats) == 1 for place in self.places):
            return 1
        gpus = self.nodes.gpus_per_node
        return gpus // gcd(gpus, *{len(seat.gpus) for place in self.places for seat in place.seats})


def dstack(deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Write a fleet for the nodes of each set of deployments that share them, and a run for each deployment."""
    files: list[LaunchFile] = []
    for shared in _sharing(places(deployments)):
        fleet = _Fleet(tuple(shared))
        text = yaml_text([_fleet(fleet)], _fleet_usage(fleet.deployments))
        files.append(LaunchFile(f"{fleet.name}.dstack.yml", text))
        files += [file for deployment in fleet.deployments for file in _runs(deployment, fleet)]
    return tuple(files)


def _sharing(found: tuple[Place, ...]) -> list[list[Place]]:
    """Group places that hold replicas of the same deployments."""
    groups: list[list[Place]] = []
    for place in found:
        names = {each.name for each in place.deployments}
        touching = [group for group in groups if names & {each.name for other in group for each in other.deployments}]
        merged = [other for group in touching for other in group] + [place]
        groups = [group for group in groups if group not in touching] + [merged]
    return groups


def _name(name: str, ending: str = "") -> str:
    """Return a name that dstack takes: 2 to 41 of a-z, 0-9 and "-", a letter first; long ones end in a checksum."""
    lettered = name if name[:1].isalpha() else f"m-{name}"
    if len(lettered + ending) > _NAME_LENGTH:
        checksum = f"-{crc32(lettered.encode()):08x}"
        lettered = lettered[: _NAME_LENGTH - len(checksum + ending)] + checksum
    return f"{lettered}{ending}".ljust(2, "0")


def _fleet_usage(deployments: tuple[Deployment, ...]) -> list[str]:
    lines = ["Offers (max_price is for one node; dstack takes the cheapest that it finds):"]
    lines += offer_lines(deployments)
    if owned(deployments[0].nodes):
        lines.append("Your own nodes: their addresses, user and key go under ssh_config.")
    rented = [offer for offer in offers_of(deployments) if not owned(offer)]
    if unknown := sorted({offer.provider for offer in rented} - set(_BACKENDS)):
        lines.append(
            f"dstack has no backend {' or '.join(unknown)}: for such offers all your backends are asked for the same "
            "GPUs, at no more than max_price. To use the provider itself, rent the nodes there and name them under "
            "ssh_config."
        )
    return header(deployments, *lines, "", f"{_START} (first this fleet, then the runs)")


def _fleet(fleet: _Fleet) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "fleet", "name": fleet.name}
    if not owned(fleet.nodes):
        # From none on: nodes are rented when a run asks for them.
        found["nodes"] = f"0..{fleet.count}"
    if any(place.nodes_per_unit > 1 for place in fleet.places):
        found["placement"] = "cluster"
    if fleet.blocks > 1:
        found["blocks"] = fleet.blocks
    if owned(fleet.nodes):
        hosts = [f"ADDRESS-OF-NODE-{number}" for number in range(fleet.count)]
        return found | {"ssh_config": {"user": "ubuntu", "identity_file": "~/.ssh/id_ed25519", "hosts": hosts}}
    found["resources"] = _resources(fleet.nodes, fleet.nodes.gpus_per_node, fleet.deployments)
    return found | _where(offers_of(fleet.deployments)) | {"idle_duration": "1h"}


def _resources(nodes: Nodes, gpus: int, deployments: tuple[Deployment, ...]) -> dict[str, Any]:
    names = gpu_names(nodes.gpu)
    gpu: dict[str, Any] = {"vendor": vendor(nodes.gpu), "name": names.dstack}
    if names.dstack_memory_gb:
        gpu["memory"] = f"{names.dstack_memory_gb}GB"
    disk = max(disk_gb(each.replica, nodes.gpu) for each in deployments)
    return {"gpu": gpu | {"count": gpus}, "disk": f"{disk}GB.."}


def _where(offers: tuple[Nodes, ...]) -> dict[str, Any]:
    """Return where to rent; a limit is left out unless every offer has a name for it."""
    found: dict[str, Any] = {}
    backends = [_BACKENDS.get(offer.provider, "") for offer in offers]
    regions = [region_name(offer) if offer.provider in _REGIONS else "" for offer in offers]
    machines = [machine_name(offer) if offer.provider in _MACHINES else "" for offer in offers]
    for field, values in (("backends", backends), ("regions", regions), ("instance_types", machines)):
        if all(values):
            found[field] = list(dict.fromkeys(values))
    return found | _price(offers)


def _price(offers: tuple[Nodes, ...]) -> dict[str, Any]:
    spot = {offer.spot for offer in offers}
    policy = {"spot_policy": "auto" if len(spot) > 1 else "spot" if True in spot else "on-demand"}
    # What a contract comes to is no price that a backend's list has.
    free = any(by_contract(offer) and offer.provider in _BACKENDS for offer in offers)
    return policy if free else policy | {"max_price": price_ceiling(offers)}


def _runs(deployment: Deployment, fleet: _Fleet) -> list[LaunchFile]:
    if deployment.replica.nodes == 1:
        run = _service(deployment, fleet)
        return [LaunchFile(f"{deployment.name}.dstack.yml", _text(deployment, run))]
    names = [f"{deployment.name}-{number}" for number in range(deployment.replicas)]
    if deployment.replicas == 1:
        names = [deployment.name]
    return [LaunchFile(f"{name}.dstack.yml", _text(deployment, _task(deployment, name, fleet))) for name in names]


def _text(deployment: Deployment, run: dict[str, Any]) -> str:
    usage = [f"export {name}=...   (it is taken from your environment)" for name in deployment.launch.secrets]
    usage += [f"-e {name}=... gives it a token of yours (optional)" for name in deployment.launch.optional_secrets]
    if deployment.replica.nodes > 1 and deployment.replicas > 1:
        usage.append("One file a replica: put a load balancer of yours over the leaders.")
    return yaml_text([run], header([deployment], *usage, _START))


def _service(deployment: Deployment, fleet: _Fleet) -> dict[str, Any]:
    launch = deployment.launch
    (process,) = launch.processes
    gpus = deployment.nodes.gpus_per_node if fleet.blocks == 1 else deployment.replica.gpus_on_each_node
    service: dict[str, Any] = {"type": "service", "name": _name(deployment.name), "image": launch.image}
    service |= _environment(deployment)
    service["commands"] = [Script(_own_dollars(f"exec {shell_command(process)}") + "\n")]
    service |= {"port": launch.port, "model": deployment.replica.served_name, "replicas": deployment.replicas}
    # Explicit: the default asks the model itself for an answer every 15 s.
    service["probes"] = [{"type": "http", "url": process.ready_path, "interval": "15s", "timeout": "10s"}]
    return service | _placed(deployment, fleet, gpus)


def _task(deployment: Deployment, name: str, fleet: _Fleet) -> dict[str, Any]:
    launch = deployment.launch
    task: dict[str, Any] = {"type": "task", "name": _name(name), "nodes": deployment.replica.nodes}
    task["image"] = launch.image
    task |= _environment(deployment)
    leader, worker = launch.processes
    script = "\n".join(
        (
            f'export {LEADER_ADDRESS}="$DSTACK_MASTER_NODE_IP" {NODE_RANK}="$DSTACK_NODE_RANK"',
            f'if [ "${NODE_RANK}" = 0 ]; then',
            shell_command(leader),
            "else",
            shell_command(worker),
            "fi",
            "",
        )
    )
    task["commands"] = [Script(_own_dollars(script))]
    task["ports"] = [launch.port]
    return task | _placed(deployment, fleet, deployment.nodes.gpus_per_node)


def _placed(deployment: Deployment, fleet: _Fleet, gpus: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "fleets": Flow((fleet.name,)),
        "resources": _resources(deployment.nodes, gpus, (deployment,)),
    }
    if deployment.replica.model.startswith("/"):
        path = deployment.replica.model
        found["volumes"] = [{"instance_path": path, "path": path}]
    return found if owned(deployment.nodes) else found | _price(offers_of(fleet.deployments))


def _environment(deployment: Deployment) -> dict[str, Any]:
    values = [f"{name}={value}" for name, value in deployment.launch.environment]
    # A name without a value is taken from where `dstack apply` runs.
    values += deployment.launch.secrets
    values += [f"{name}=" for name in deployment.launch.optional_secrets]
    return {"env": values} if values else {}


def _own_dollars(script: str) -> str:
    """Write dollar signs so that dstack leaves them: it reads "$$" as one, and ${{ }} as a value of its own."""
    return script.replace("$", "$$") if "$$" in script or "${{" in script else script
