"""Which nodes of a cluster a pod may run on: GPU resources, well-known labels of providers, spot, tolerations.

Sources (read 2026-11): GKE: cloud.google.com/kubernetes-engine, "About GPUs", "Spot VMs" (labels
cloud.google.com/gke-accelerator, cloud.google.com/gke-spot). EKS: labels eks.amazonaws.com/capacityType of managed node
groups and karpenter.sh/capacity-type of Karpenter. AKS: label and taint kubernetes.azure.com/scalesetpriority.
node.kubernetes.io/instance-type and topology.kubernetes.io/region: kubernetes.io, "Well-Known Labels".
nvidia.com/gpu.product: NVIDIA GPU feature discovery. amd.com/gpu.product-name: AMD's node labeller.
Extended resources: nvidia.com/gpu, amd.com/gpu and habana.ai/gaudi of the vendors' device plugins.
"""

from __future__ import annotations

from typing import Any, Final

from optimizer.export.deployment import Nodes
from optimizer.export.gpu_names import gpu_names, vendor
from optimizer.export.offers import is_label, machine_name, region_name

_RESOURCES: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "habana.ai/gaudi"}
_PRODUCT_LABELS: Final = {"nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name"}
_MANAGED: Final = frozenset({"aws", "azure", "gcp"})  # whose nodes carry machine type and region as labels
_GKE_BY_MACHINE: Final = {"a3-megagpu": "nvidia-h100-mega-80gb"}


def gpu_resource(gpu: str) -> str:
    """Return the extended resource that a pod asks for."""
    return _RESOURCES[vendor(gpu)]


def node_selector(nodes: Nodes) -> dict[str, str]:
    """Return the labels of the planned nodes, as far as the provider or the GPU's vendor puts them there."""
    labels: dict[str, str] = {}
    machine, region, names = machine_name(nodes), region_name(nodes), gpu_names(nodes.gpu)
    machine = machine if is_label(machine) else ""
    if nodes.provider in _MANAGED and machine:
        labels["node.kubernetes.io/instance-type"] = machine
    if nodes.provider in _MANAGED and region:
        labels["topology.kubernetes.io/region"] = region
    if nodes.provider == "gcp" and names.gke:
        family = machine.rsplit("-", 1)[0]
        labels["cloud.google.com/gke-accelerator"] = _GKE_BY_MACHINE.get(family, names.gke)
    elif not (nodes.provider in _MANAGED and machine) and names.product:
        labels[_PRODUCT_LABELS[vendor(nodes.gpu)]] = names.product
    if nodes.spot and nodes.provider == "gcp":
        labels["cloud.google.com/gke-spot"] = "true"
    if nodes.spot and nodes.provider == "azure":
        labels["kubernetes.azure.com/scalesetpriority"] = "spot"
    return labels


def spot_terms(nodes: Nodes) -> list[dict[str, str]]:
    """Return labels of spot nodes of which one has to be there: two ways to run nodes on one provider."""
    if nodes.spot and nodes.provider == "aws":
        return [{"karpenter.sh/capacity-type": "spot"}, {"eks.amazonaws.com/capacityType": "SPOT"}]
    return []


def node_selector_terms(nodes: Nodes) -> list[dict[str, Any]]:
    """Return selector and spot terms together, as terms of a node affinity; any one of them may hold."""
    terms = [node_selector(nodes) | spot for spot in spot_terms(nodes) or [{}]]
    return [{"matchExpressions": [_is(label, value) for label, value in term.items()]} for term in terms if term]


def affinity(nodes: Nodes) -> dict[str, Any]:
    """Return the pod's affinity; empty where the node selector says it all."""
    terms = [{"matchExpressions": [_is(label, value) for label, value in term.items()]} for term in spot_terms(nodes)]
    if not terms:
        return {}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _is(label: str, value: str) -> dict[str, Any]:
    return {"key": label, "operator": "In", "values": [value]}


def tolerations(nodes: Nodes) -> list[dict[str, str]]:
    """Return what a pod tolerates: the taints of GPU nodes, and of spot nodes where it is to run on them."""
    found = [{"key": gpu_resource(nodes.gpu), "operator": "Exists", "effect": "NoSchedule"}]
    if nodes.spot and nodes.provider == "gcp":
        found.append(_equal("cloud.google.com/gke-spot", "true"))
    if nodes.spot and nodes.provider == "azure":
        found.append(_equal("kubernetes.azure.com/scalesetpriority", "spot"))
    if nodes.spot and nodes.provider == "aws":
        found.append(_equal("karpenter.sh/capacity-type", "spot"))
    return found


def _equal(key: str, value: str) -> dict[str, str]:
    return {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
