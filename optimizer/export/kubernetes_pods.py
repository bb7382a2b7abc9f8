"""Pods that run one process of a replica: container, probes, caches, secrets.

Arguments and variables: Kubernetes puts the value of a variable for $(NAME) and one dollar sign for two
(kubernetes.io, "Define Dependent Environment Variables"); every dollar sign of ours is written as two.
LeaderWorkerSet sets LWS_LEADER_ADDRESS in all containers and labels pods with their index (leaderworkerset.sigs.k8s.io,
API v1).
"""

from __future__ import annotations

from typing import Any, Final

from optimizer.export.deployment import Deployment, Process
from optimizer.export.kubernetes_nodes import affinity, gpu_resource, node_selector, tolerations
from optimizer.export.offers import RDMA_NETWORKS
from optimizer.export.words import LEADER_ADDRESS, NODE_RANK, doubled_dollars, filled

CACHE: Final = "/model-cache"
PORT: Final = "http"
STARTUP_PERIODS: Final = 720  # of 10 s: two hours; a checkpoint of 400 GB at 1 Gbit/s takes one
PERIOD_SECONDS: Final = 10
WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
_WORDS: Final = {LEADER_ADDRESS: "$(LWS_LEADER_ADDRESS)", NODE_RANK: f"$({NODE_RANK})"}


def secret_name(variable: str) -> str:
    """Return the name of the Secret that holds a variable, under the variable's own name."""
    return variable.lower().replace("_", "-")


def pod_spec(deployment: Deployment, process: Process) -> dict[str, Any]:
    """Return the pod that runs one process."""
    nodes = deployment.nodes
    pod: dict[str, Any] = {
        # A Service named "vllm" would else set VLLM_PORT in every pod, which vLLM reads.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 120,
    }
    where = {"nodeSelector": node_selector(nodes), "affinity": affinity(nodes)}
    pod |= {field: value for field, value in where.items() if value}
    pod["tolerations"] = tolerations(nodes)
    pod["containers"] = [_container(deployment, process)]
    pod["volumes"] = _volumes(deployment)
    return pod


def _container(deployment: Deployment, process: Process) -> dict[str, Any]:
    launch = deployment.launch
    program, *arguments = filled(process, _WORDS, doubled_dollars)
    container: dict[str, Any] = {"name": launch.engine, "image": launch.image, "command": [program]}
    container["args"] = arguments
    container["env"] = environment(deployment, process)
    gpus = {gpu_resource(deployment.nodes.gpu): str(deployment.replica.gpus_on_each_node)}
    container["resources"] = {"limits": gpus}
    if process.role != "server" and deployment.nodes.network in RDMA_NETWORKS:
        # Memory that network cards write to has to be locked.
        container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    if process.ready_path:
        container["ports"] = [{"name": PORT, "containerPort": launch.port}]
        container |= _probes(process)
        # Until every kube-proxy knows, requests still come in.
        container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", "15"]}}}
    mounts: list[dict[str, Any]] = [{"name": name, "mountPath": path} for name, path in _mounts()]
    if _is_path(deployment):
        mounts.append({"name": "model", "mountPath": deployment.replica.model, "readOnly": True})
    container["volumeMounts"] = mounts
    return container


def environment(deployment: Deployment, process: Process) -> list[dict[str, Any]]:
    """Return the container's variables; secrets by reference."""
    launch = deployment.launch
    values: list[dict[str, Any]] = [{"name": "HF_HOME", "value": CACHE}]
    values += [{"name": name, "value": doubled_dollars(value)} for name, value in launch.environment]
    for name in (*launch.secrets, *launch.optional_secrets):
        reference: dict[str, Any] = {"name": secret_name(name), "key": name}
        if name in launch.optional_secrets:
            reference["optional"] = True
        values.append({"name": name, "valueFrom": {"secretKeyRef": reference}})
    if process.role != "server":
        rank = {"fieldRef": {"fieldPath": f"metadata.labels['{WORKER_INDEX}']"}}
        values.append({"name": NODE_RANK, "valueFrom": rank})
    return values


def _probes(process: Process) -> dict[str, Any]:
    get = {"path": process.ready_path, "port": PORT}
    return {
        "startupProbe": {"httpGet": get, "periodSeconds": PERIOD_SECONDS, "failureThreshold": STARTUP_PERIODS},
        "readinessProbe": {"httpGet": get, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {"httpGet": get, "periodSeconds": 30, "timeoutSeconds": 10, "failureThreshold": 4},
    }


def _mounts() -> tuple[tuple[str, str], ...]:
    return (("model-cache", CACHE), ("shm", "/dev/shm"))


def _volumes(deployment: Deployment) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "model-cache", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    if _is_path(deployment):
        volumes.append({"name": "model", "hostPath": {"path": deployment.replica.model, "type": "Directory"}})
    return volumes


def _is_path(deployment: Deployment) -> bool:
    return deployment.replica.model.startswith("/")
