"""Docker Compose: a file for each kind of node, a service for each replica, and a balancer where replicas share a node.

Fields: the Compose Specification (compose-spec.io, schema of 2025); `configs.content` needs Compose 2.23.1 or newer.
Traefik's fields: doc.traefik.io, v3.6.
"""

from __future__ import annotations

import json
from typing import Any, Final

from optimizer.export.deployment import Deployment, LaunchFile, Process
from optimizer.export.gpu_names import vendor
from optimizer.export.offers import RDMA_NETWORKS, header, open_port
from optimizer.export.places import Place, Seat, places, secrets_of
from optimizer.export.words import LEADER_ADDRESS, NODE_RANK, doubled_dollars, filled, serving_on
from optimizer.export.yaml_text import Flow, Script, yaml_text

CACHE: Final = "/model-cache"
LOADING_SECONDS: Final = 7200  # a checkpoint of 400 GB at 1 Gbit/s takes an hour
BALANCER_IMAGE: Final = "traefik:v3.6"
_ADDRESS: Final = "${LEADER_ADDRESS:?address of the leader's node}"


def compose(deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Write a Compose file for each kind of node."""
    files = [file for place in places(deployments) for file in _files(place)]
    if len(files) == 1:
        return (LaunchFile("docker-compose.yaml", files[0].text),)
    return tuple(files)


def _files(place: Place) -> list[LaunchFile]:
    if place.nodes_per_unit == 1:
        return [LaunchFile(f"docker-compose.{place.group}.yaml", compose_text(place))]
    return [
        LaunchFile(f"docker-compose.{place.group}-{role}.yaml", compose_text(place, role))
        for role in ("leader", "worker")
    ]


def compose_text(place: Place, role: str = "server") -> str:
    """Return the file for one node of a place; of a replica that spans nodes, for its leader or a worker."""
    return yaml_text([compose_project(place, role)], header(place.deployments, *_usage(place, role)))


def compose_project(place: Place, role: str = "server") -> dict[str, Any]:
    """Return the same as an object."""
    services = {seat.name: _service(place, seat, role) for seat in place.seats}
    project: dict[str, Any] = {"name": place.group, "services": services, "volumes": {"model-cache": {}}}
    balanced = [each for each in place.deployments if len(place.seats_of(each)) > 1]
    for deployment in balanced:
        services[f"{deployment.name}-balancer"] = _balancer(place, deployment)
    if balanced:
        project["configs"] = {f"{each.name}-routes": _routes(place, each) for each in balanced}
    return project


def _usage(place: Place, role: str) -> list[str]:
    start = "docker compose -f FILE up -d   (Compose 2.23.1 or newer, and the container toolkit of the GPUs' vendor)"
    if role == "server":
        lines = [f"On each of {place.units} nodes: {start}" if place.units > 1 else f"On the node: {start}"]
        if place.units > 1:
            lines.append("Nodes know nothing of each other: put a load balancer of yours over them.")
    else:
        others = place.nodes_per_unit - 1
        which = "the first node" if role == "leader" else f"the other {others} nodes" if others > 1 else "the second"
        lines = [
            f"On {which} of each replica ({place.units} in all): LEADER_ADDRESS=ADDRESS {start}",
            "ADDRESS is the first node's, on the network that joins the nodes; the containers use the host's network.",
        ]
    lines.append(open_port(place.seats_of(each)[0].port for each in place.deployments))
    lines += [f"Taken from your environment or a file .env: {name}." for name in secrets_of(place)]
    return lines


def _service(place: Place, seat: Seat, role: str) -> dict[str, Any]:
    deployment = seat.deployment
    launch = deployment.launch
    alone = len(place.seats_of(deployment)) == 1
    process = next(process for process in launch.processes if process.role == role)
    if role != "server":
        process = serving_on(process, deployment, seat.port)
    first, *arguments = filled(process, _words(place, role), doubled_dollars)
    service: dict[str, Any] = {"image": doubled_dollars(launch.image), "entrypoint": Flow((first,))}
    service["command"] = arguments
    service["environment"] = _environment(seat)
    if role != "server":
        service["network_mode"] = "host"
    elif alone:
        service["ports"] = [f"{seat.port}:{launch.port}"]
    service["volumes"] = _volumes(deployment)
    service |= {"ipc": "host", "ulimits": {"memlock": -1, "stack": 67108864}, "restart": "unless-stopped"}
    service |= _gpus(place, seat, role)
    if process.ready_path:
        service["healthcheck"] = _healthcheck(process, launch.port if role == "server" else seat.port)
    return service


def _words(place: Place, role: str) -> dict[str, str]:
    rank = "0" if role == "leader" else "1"
    if role == "worker" and place.nodes_per_unit > 2:
        rank = "${NODE_RANK:?1 on the second node, 2 on the third and so on}"
    return {LEADER_ADDRESS: _ADDRESS, NODE_RANK: rank}


def _environment(seat: Seat) -> dict[str, str | None]:
    launch = seat.deployment.launch
    values: dict[str, str | None] = {"HF_HOME": CACHE}
    values |= {name: doubled_dollars(value) for name, value in launch.environment}
    # A name without a value is taken from where compose runs.
    values |= dict.fromkeys((*launch.secrets, *launch.optional_secrets))
    gpus = ",".join(map(str, seat.gpus))
    if vendor(seat.deployment.nodes.gpu) == "amd":
        values["ROCR_VISIBLE_DEVICES"] = gpus
    if vendor(seat.deployment.nodes.gpu) == "intel":
        values["HABANA_VISIBLE_DEVICES"] = gpus
    return values


def _volumes(deployment: Deployment) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"type": "volume", "source": "model-cache", "target": CACHE}]
    if deployment.replica.model.startswith("/"):
        folder = doubled_dollars(deployment.replica.model)
        volumes.append({"type": "bind", "source": folder, "target": folder, "read_only": True})
    return volumes


def _gpus(place: Place, seat: Seat, role: str) -> dict[str, Any]:
    """Devices: how containers are given GPUs, and the cards between nodes."""
    fields: dict[str, Any] = {}
    devices: list[str] = []
    maker = vendor(place.nodes.gpu)
    if maker == "nvidia":
        device_ids = Flow(str(gpu) for gpu in seat.gpus)
        reserved = {"driver": "nvidia", "device_ids": device_ids, "capabilities": Flow(("gpu",))}
        fields["deploy"] = {"resources": {"reservations": {"devices": [reserved]}}}
    elif maker == "amd":
        devices += ["/dev/kfd", "/dev/dri"]
        fields |= {"group_add": ["video", "render"], "security_opt": ["seccomp=unconfined"]}
    else:
        fields |= {"runtime": "habana", "cap_add": ["SYS_NICE"]}
    if role != "server" and place.nodes.network in RDMA_NETWORKS:
        devices.append("/dev/infiniband")
        fields["cap_add"] = [*fields.get("cap_add", []), "IPC_LOCK"]
    return fields | ({"devices": devices} if devices else {})


def _healthcheck(process: Process, port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}{process.ready_path}"
    ask = f"import urllib.request; urllib.request.urlopen({json.dumps(url)}, timeout=5)"
    return {
        "test": ["CMD", "python3", "-c", doubled_dollars(ask)],
        "interval": "15s",
        "timeout": "10s",
        "retries": 4,
        "start_period": f"{LOADING_SECONDS}s",
    }


def _balancer(place: Place, deployment: Deployment) -> dict[str, Any]:
    port = place.seats_of(deployment)[0].port
    return {
        "image": BALANCER_IMAGE,
        "command": [
            f"--entryPoints.api.address=:{port}",
            "--entryPoints.api.transport.respondingTimeouts.readTimeout=0",
            "--providers.file.filename=/etc/traefik/routes.yaml",
        ],
        "configs": [{"source": f"{deployment.name}-routes", "target": "/etc/traefik/routes.yaml"}],
        "ports": [f"{port}:{port}"],
        "restart": "unless-stopped",
    }


def _routes(place: Place, deployment: Deployment) -> dict[str, Script]:
    """Traefik's routes: requests in turn to replicas that are ready."""
    port, path = deployment.launch.port, deployment.launch.processes[0].ready_path
    servers = [{"url": f"http://{seat.name}:{port}"} for seat in place.seats_of(deployment)]
    check = {"path": path, "interval": "5s", "timeout": "3s"}
    dynamic = {
        "http": {
            "routers": {"api": {"rule": "PathPrefix(`/`)", "entryPoints": ["api"], "service": "replicas"}},
            "services": {"replicas": {"loadBalancer": {"servers": servers, "healthCheck": check}}},
        }
    }
    return {"content": Script(doubled_dollars(yaml_text([dynamic])))}
