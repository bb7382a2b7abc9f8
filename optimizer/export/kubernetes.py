"""Kubernetes manifests: a Deployment where a node holds a replica, a LeaderWorkerSet where a replica spans nodes.

A rollout takes a replica down before it starts the new one: the GPUs of a cluster that was sized by a plan are all in
use. Fields: Kubernetes API 1.30 to 1.37; leaderworkerset.x-k8s.io/v1 as published by kubernetes-sigs/lws.
"""

from __future__ import annotations

from typing import Any, Final

from optimizer.export.deployment import Deployment, LaunchFile, Process
from optimizer.export.kubernetes_nodes import node_selector
from optimizer.export.kubernetes_pods import (
    PERIOD_SECONDS,
    PORT,
    STARTUP_PERIODS,
    WORKER_INDEX,
    pod_spec,
    secret_name,
)
from optimizer.export.offers import RDMA_NETWORKS, header, summary
from optimizer.export.yaml_text import yaml_text

_LONGEST_NAME: Final = 63 - len("-leader")
SET_NAME: Final = "leaderworkerset.sigs.k8s.io/name"


def kubernetes(deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Write a file of manifests for each deployment."""
    return tuple(
        LaunchFile(f"{each.name}.kubernetes.yaml", yaml_text(manifests(each), header([each], *_usage(each))))
        for each in deployments
    )


def manifests(deployment: Deployment) -> list[dict[str, Any]]:
    """Return a deployment's objects."""
    spans = deployment.replica.nodes > 1
    found = [_leader_worker_set(deployment) if spans else _deployment(deployment), _service(deployment)]
    if deployment.replicas > 1:
        found.append(_disruption_budget(deployment))
    return found


def _usage(deployment: Deployment) -> list[str]:
    lines = [*secret_lines(deployment), "kubectl apply -f FILE"]
    if deployment.replica.nodes > 1:
        lines.append("LeaderWorkerSet has to be installed: https://lws.sigs.k8s.io")
        if deployment.nodes.network in RDMA_NETWORKS:
            lines.append(
                f"Ask for the network cards of {deployment.nodes.network} under resources: their names are your "
                "cluster's own."
            )
    if not node_selector(deployment.nodes):
        lines.append(f"No label is known that tells nodes of {deployment.nodes.gpu}: add a nodeSelector of yours.")
    lines.append("The model cache lives as long as its pod: mount a claim of yours to download a model once.")
    return lines


def secret_lines(deployment: Deployment) -> list[str]:
    """Return how the secrets that a deployment takes are made."""
    launch = deployment.launch
    return [
        f"kubectl create secret generic {secret_name(name)} --from-literal={name}=..."
        + ("   (optional)" if name in launch.optional_secrets else "")
        for name in (*launch.secrets, *launch.optional_secrets)
    ]


def labels(deployment: Deployment) -> dict[str, str]:
    """Return the labels that select a deployment's pods."""
    return {"app.kubernetes.io/name": deployment.launch.engine, "app.kubernetes.io/instance": deployment.name}


def _metadata(deployment: Deployment, name: str) -> dict[str, Any]:
    return {"name": name, "labels": labels(deployment)}


def _deployment(deployment: Deployment) -> dict[str, Any]:
    (process,) = deployment.launch.processes
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(deployment, deployment.name) | {"annotations": _annotations(deployment)},
        "spec": {
            "replicas": deployment.replicas,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "progressDeadlineSeconds": STARTUP_PERIODS * PERIOD_SECONDS + 600,
            "selector": {"matchLabels": labels(deployment)},
            "template": _template(deployment, process),
        },
    }


def _leader_worker_set(deployment: Deployment) -> dict[str, Any]:
    leader, worker = deployment.launch.processes
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": _metadata(deployment, deployment.name) | {"annotations": _annotations(deployment)},
        "spec": {
            "replicas": deployment.replicas,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "leaderWorkerTemplate": {
                "size": deployment.replica.nodes,
                # A worker that is lost ends the process group: all of them start again together.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _template(deployment, leader),
                "workerTemplate": _template(deployment, worker),
            },
        },
    }


def _template(deployment: Deployment, process: Process) -> dict[str, Any]:
    return {"metadata": {"labels": labels(deployment)}, "spec": pod_spec(deployment, process)}


def _annotations(deployment: Deployment) -> dict[str, str]:
    return {"shardwise/plan": summary([deployment])}


def _servers(deployment: Deployment) -> dict[str, str]:
    """Labels of the pods that answer requests."""
    if deployment.replica.nodes == 1:
        return labels(deployment)
    return {SET_NAME: deployment.name, WORKER_INDEX: "0"}


def _service(deployment: Deployment) -> dict[str, Any]:
    # LeaderWorkerSet makes a headless Service under the set's own name.
    name = deployment.name if deployment.replica.nodes == 1 else f"{deployment.name[:_LONGEST_NAME]}-leader"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(deployment, name),
        "spec": {
            "selector": _servers(deployment),
            "ports": [{"name": PORT, "port": deployment.launch.port, "targetPort": PORT}],
        },
    }


def _disruption_budget(deployment: Deployment) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(deployment, deployment.name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _servers(deployment)}},
    }
