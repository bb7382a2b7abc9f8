"""SkyPilot tasks: a service with a load balancer (SkyServe) where every node or set of nodes holds one replica.

Fields: SkyPilot 0.14.1 (2026-11), sky/utils/schemas.py; variables SKYPILOT_NODE_IPS and SKYPILOT_NODE_RANK:
docs.skypilot.co, "Distributed Multi-Node Jobs".
"""

from __future__ import annotations

import shlex
from typing import Any, Final

from optimizer.errors import QuestionError
from optimizer.export.compose import LOADING_SECONDS
from optimizer.export.deployment import Deployment, LaunchFile, Nodes
from optimizer.export.gpu_names import skypilot_name, vendor
from optimizer.export.offers import (
    by_contract,
    disk_gb,
    header,
    machine_name,
    offer_lines,
    offers_of,
    open_port,
    owned,
    price_ceiling,
    region_name,
)
from optimizer.export.places import Place, Seat, places, secrets_of
from optimizer.export.scripts import VISIBLE
from optimizer.export.words import LEADER_ADDRESS, NODE_RANK, serving_on, shell_command
from optimizer.export.yaml_text import Script, yaml_text

# Our name of a provider -> SkyPilot's name of the cloud (sky.clouds of 0.14.1).
_CLOUDS: Final = {
    "aws": "aws",
    "azure": "azure",
    "digitalocean": "do",
    "gcp": "gcp",
    "lambda": "lambda",
    "nebius": "nebius",
    "oci": "oci",
    "primeintellect": "primeintellect",
    "runpod": "runpod",
    "vast": "vast",
    "verda": "verda",
    "yotta": "yotta",
}
_ENDING: Final = """# One that ends takes the others with it.
wait -n
status=$?
kill $(jobs -p)
exit "$status"
"""
_MACHINES: Final = frozenset({"aws", "azure", "gcp", "lambda", "nebius"})  # that both call by the same name
_REGIONS: Final = frozenset({"aws", "azure", "gcp"})


def skypilot(deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Write a task for each kind of node."""
    return tuple(_file(place) for place in places(deployments))


def _file(place: Place) -> LaunchFile:
    return LaunchFile(f"{place.group}.sky.yaml", yaml_text([task(place)], header(place.deployments, *_usage(place))))


def _is_service(place: Place) -> bool:
    return place.units > 1 and len(place.seats) == 1


def task(place: Place) -> dict[str, Any]:
    """Return the task of one kind of node.

    Raises:
        QuestionError: replicas that share a node need several images.
    """
    images = sorted({each.launch.image for each in place.deployments})
    if len(images) > 1:
        raise QuestionError(
            f"skypilot: {place.group} runs {' and '.join(images)} on one node, and a task has one image: "
            "use --to docker-compose or kubernetes"
        )
    launch = place.seats[0].deployment.launch
    found: dict[str, Any] = {"name": place.group}
    nodes = place.nodes_per_unit if _is_service(place) else place.node_count
    if nodes > 1:
        found["num_nodes"] = nodes
    found["resources"] = _resources(place)
    if _is_service(place):
        found["service"] = {
            "replicas": place.units,
            "readiness_probe": {"path": launch.processes[0].ready_path, "initial_delay_seconds": LOADING_SECONDS},
        }
    if len(place.seats) == 1 and launch.environment:
        found["envs"] = dict(launch.environment)
    # Without a value SkyPilot asks for one; with an empty one it may be given.
    secrets = {name: "" if optional else None for name, optional in secrets_of(place).items()}
    if secrets:
        found["secrets"] = secrets
    found["run"] = Script(_run(place))
    return found


def _resources(place: Place) -> dict[str, Any]:
    ports = sorted(seat.port for seat in place.seats)
    shared: dict[str, Any] = {
        "image_id": f"docker:{place.seats[0].deployment.launch.image}",
        "disk_size": max(disk_gb(each.replica, place.nodes.gpu) for each in place.deployments),
        "ports": ports[0] if len(ports) == 1 else ports,
    }
    candidates = _candidates(offers_of(place.deployments))
    if len(candidates) == 1:
        return candidates[0] | shared
    return shared | {"ordered": candidates}


def _candidates(offers: tuple[Nodes, ...]) -> list[dict[str, Any]]:
    """Return offers as resources, cheapest first; those of clouds that SkyPilot does not know as any cloud."""
    if owned(offers[0]):
        return [{"infra": "ssh", "accelerators": _accelerators(offers[0], "")}]
    found = [_candidate(offer) for offer in offers if offer.provider in _CLOUDS]
    unknown = [offer for offer in offers if offer.provider not in _CLOUDS]
    if unknown:
        anywhere = _of_any_cloud(unknown)
        found.insert(0 if offers[0] in unknown else len(found), anywhere)
    return [each for index, each in enumerate(found) if each not in found[:index]]


def _candidate(offer: Nodes) -> dict[str, Any]:
    cloud = _CLOUDS[offer.provider]
    region = region_name(offer) if offer.provider in _REGIONS else ""
    resources: dict[str, Any] = {"infra": f"{cloud}/{region}" if region else cloud}
    machine = machine_name(offer)
    if machine and offer.provider in _MACHINES:
        # SkyPilot's catalog joins Nebius' platform and preset by "_".
        resources["instance_type"] = machine.replace(" ", "_")
    return resources | _gpus_and_price(offer, offer.provider, (offer,))


def _of_any_cloud(offers: list[Nodes]) -> dict[str, Any]:
    return _gpus_and_price(offers[0], "", offers)


def _gpus_and_price(offer: Nodes, provider: str, priced: tuple[Nodes, ...] | list[Nodes]) -> dict[str, Any]:
    resources: dict[str, Any] = {"accelerators": _accelerators(offer, provider), "use_spot": offer.spot}
    # What a contract comes to is no price that a cloud's list has.
    if not (provider and by_contract(offer)):
        resources["max_hourly_cost"] = price_ceiling(priced)
    return resources


def _accelerators(offer: Nodes, provider: str) -> str:
    return f"{skypilot_name(offer.gpu, provider)}:{offer.gpus_per_node}"


def _usage(place: Place) -> list[str]:
    lines = ["Offers, in this order (max_hourly_cost is for one node; SkyPilot 0.13 or newer):"]
    lines += offer_lines(place.deployments)
    if owned(place.nodes):
        lines.append("Your own nodes: name them in ~/.sky/ssh_node_pools.yaml.")
    if unknown := _unknown(place):
        lines.append(
            f"SkyPilot has no cloud {' or '.join(unknown)}: for such offers any cloud of yours is asked for the same "
            "GPUs, at no more than their price. To use the provider itself, rent the nodes there and name them in "
            "~/.sky/ssh_node_pools.yaml (infra: ssh/NAME)."
        )
    lines.append(open_port(seat.port for seat in place.seats))
    named = secrets_of(place).items()
    secrets = "".join(f" [--secret {name}]" if optional else f" --secret {name}" for name, optional in named)
    verb = "serve up" if _is_service(place) else f"launch -c {place.group}"
    lines += ["", f"sky {verb} FILE{secrets}"]
    if len(place.seats) > 1:
        ports = ", ".join(f"{seat.port} ({seat.deployment.name})" for seat in place.seats)
        lines.append(f"Each node serves on ports {ports}: put a load balancer of yours over them.")
    elif place.units > 1 and not _is_service(place):
        lines.append("Put a load balancer of yours over the nodes.")
    for deployment in place.deployments:
        if deployment.replica.model.startswith("/"):
            lines.append(f"The image has to hold {deployment.replica.model}; or mount it under file_mounts.")
    return lines


def _unknown(place: Place) -> list[str]:
    rented = [offer for offer in offers_of(place.deployments) if not owned(offer)]
    return sorted({offer.provider for offer in rented} - set(_CLOUDS))


def _run(place: Place) -> str:
    if place.nodes_per_unit > 1:
        return _run_across_nodes(place.seats[0])
    if len(place.seats) == 1:
        seat = place.seats[0]
        return shell_command(serving_on(seat.deployment.launch.processes[0], seat.deployment, seat.port)) + "\n"
    return "".join(_in_background(seat) for seat in place.seats) + _ENDING


def _run_across_nodes(seat: Seat) -> str:
    leader, worker = (serving_on(each, seat.deployment, seat.port) for each in seat.deployment.launch.processes)
    return "\n".join(
        (
            f'export {LEADER_ADDRESS}="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"',
            f'export {NODE_RANK}="$SKYPILOT_NODE_RANK"',
            f'if [ "${NODE_RANK}" = 0 ]; then',
            shell_command(leader),
            "else",
            shell_command(worker),
            "fi",
            "",
        )
    )


def _in_background(seat: Seat) -> str:
    process = serving_on(seat.deployment.launch.processes[0], seat.deployment, seat.port)
    visible = VISIBLE.get(vendor(seat.deployment.nodes.gpu), "CUDA_VISIBLE_DEVICES")
    variables = {visible: ",".join(map(str, seat.gpus)), **dict(seat.deployment.launch.environment)}
    said = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f"{said} {shell_command(process)} &\n"
