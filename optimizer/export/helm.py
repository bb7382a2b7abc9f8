"""Values for vLLM's own chart, vllm-stack of vllm-project/production-stack: a model in it for each deployment.

Fields: values.schema.json and templates of that chart, main branch as of 2026-11. The chart writes
`vllm serve MODEL --host 0.0.0.0 --port PORT` and its flags itself; flags without a field go to `extraArgs`.
"""

from __future__ import annotations

from typing import Any, Final

from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, LaunchFile
from optimizer.export.kubernetes import secret_lines
from optimizer.export.kubernetes_nodes import gpu_resource, node_selector_terms, tolerations
from optimizer.export.kubernetes_pods import CACHE, PERIOD_SECONDS, STARTUP_PERIODS, environment
from optimizer.export.offers import header
from optimizer.export.words import doubled_dollars
from optimizer.export.yaml_text import yaml_text

CHART: Final = "https://vllm-project.github.io/production-stack"
_OWN_FLAGS: Final = frozenset({"--host", "--port"})  # which the chart writes
_FIELDS: Final = {
    "--tensor-parallel-size": ("tensorParallelSize", int),
    "--max-model-len": ("maxModelLen", int),
    "--max-num-seqs": ("maxNumSeqs", int),
    "--gpu-memory-utilization": ("gpuMemoryUtilization", float),
    "--dtype": ("dtype", str),
}
_LARGEST: Final = 999_999  # from a million on Helm writes whole numbers as 1e+06, which vLLM does not read


def helm(deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Write one file of values for all deployments.

    Raises:
        QuestionError: an engine or a layout that the chart cannot run.
    """
    for deployment in deployments:
        _check(deployment)
    (port, *others) = sorted({each.launch.port for each in deployments})
    if others:
        raise QuestionError("helm-values: the chart has one port for all models; export each deployment on its own")
    engines = {
        "containerPort": port,
        "servicePort": port,
        # The default starts as many new pods as there are: the planned nodes have no GPUs for them.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "startupProbe": _probe(deployments[0], PERIOD_SECONDS, STARTUP_PERIODS),
        "livenessProbe": _probe(deployments[0], 30, 4),
        # For all models: charts before mid-2026 do not know them per model.
        "tolerations": _tolerations(deployments),
        "modelSpec": [_model(deployment) for deployment in deployments],
    }
    text = yaml_text([{"servingEngineSpec": engines}], header(deployments, *_usage(deployments)))
    return (LaunchFile("values.yaml", text),)


def _usage(deployments: tuple[Deployment, ...]) -> list[str]:
    secrets = list(dict.fromkeys(line for each in deployments for line in secret_lines(each)))
    return [*secrets, f"helm upgrade --install NAME vllm-stack --repo {CHART} --values values.yaml"]


def _check(deployment: Deployment) -> None:
    if deployment.launch.engine != "vllm":
        raise QuestionError(
            f"helm-values: {deployment.name} runs {deployment.launch.engine}, and the chart (vllm-stack) runs vLLM "
            "only: use --to kubernetes"
        )
    if deployment.replica.nodes > 1:
        raise QuestionError(
            f"helm-values: a replica of {deployment.name} spans {deployment.replica.nodes} nodes, which the chart's "
            "published values cannot say: use --to kubernetes, which writes a LeaderWorkerSet"
        )
    command = deployment.launch.processes[0].command
    if command[:2] != ("vllm", "serve") or len(command) < 3 or command[2].startswith("-"):
        raise QuestionError(f"helm-values: {deployment.name} is not started as `vllm serve MODEL ...`")


def _probe(deployment: Deployment, period_seconds: int, failures: int) -> dict[str, Any]:
    get = {"path": deployment.launch.processes[0].ready_path, "port": deployment.launch.port}
    return {"httpGet": get, "periodSeconds": period_seconds, "failureThreshold": failures}


def _model(deployment: Deployment) -> dict[str, Any]:
    launch, nodes = deployment.launch, deployment.nodes
    repository, _, tag = launch.image.rpartition(":")
    model: dict[str, Any] = {
        "name": deployment.name,
        "repository": repository,
        "tag": tag,
        "modelURL": doubled_dollars(launch.processes[0].command[2]),
        "replicaCount": deployment.replicas,
        # The chart asks for both; they are requests only: a pod may use what its node has.
        "requestCPU": 4,
        "requestMemory": "16Gi",
        "requestGPU": deployment.replica.gpus_on_each_node,
    }
    if gpu_resource(nodes.gpu) != "nvidia.com/gpu":
        model["requestGPUType"] = gpu_resource(nodes.gpu)
    model["vllmConfig"] = _config(launch.processes[0].command[3:])
    # Kubernetes takes the last of two variables of one name: the chart's own HF_HOME comes first.
    model["env"] = environment(deployment, launch.processes[0])
    model |= _volumes(deployment)
    terms = node_selector_terms(nodes)
    return model | ({"nodeSelectorTerms": terms} if terms else {})


def _tolerations(deployments: tuple[Deployment, ...]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for deployment in deployments:
        found += [each for each in tolerations(deployment.nodes) if each not in found]
    return found


def _volumes(deployment: Deployment) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": "model-cache", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [{"name": "model-cache", "mountPath": CACHE}]
    folder = deployment.replica.model
    if folder.startswith("/"):
        volumes.append({"name": "model", "hostPath": {"path": folder, "type": "Directory"}})
        mounts.append({"name": "model", "mountPath": folder, "readOnly": True})
    return {"extraVolumes": volumes, "extraVolumeMounts": mounts}


def _config(flags: tuple[str, ...]) -> dict[str, Any]:
    """Return flags as the chart's fields, and all others as they are."""
    config: dict[str, Any] = {}
    extra: list[str] = []
    rest = list(flags)
    while rest:
        flag = rest.pop(0)
        if flag in _OWN_FLAGS and rest:
            rest.pop(0)
        elif flag in _FIELDS and rest and _fits(rest[0]):
            name, kind = _FIELDS[flag]
            config[name] = kind(rest.pop(0))
        else:
            extra.append(flag)
    # Without the field the chart turns it off, which vLLM does not.
    config["enablePrefixCaching"] = "--no-enable-prefix-caching" not in extra
    extra = [flag for flag in extra if flag not in {"--enable-prefix-caching", "--no-enable-prefix-caching"}]
    # Shared memory is mounted where this field is there.
    config.setdefault("tensorParallelSize", 1)
    return config | ({"extraArgs": [doubled_dollars(flag) for flag in extra]} if extra else {})


def _fits(value: str) -> bool:
    return not value.isdigit() or int(value) <= _LARGEST
