"""Manifests: the right nodes, enough time to load, and rollouts that a full cluster can do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from optimizer.export.deployment import Nodes
from optimizer.export.kubernetes import kubernetes
from optimizer.export.kubernetes_nodes import affinity, gpu_resource, node_selector, node_selector_terms, tolerations
from tests.optimizer.export.deployments import CASES, deployment, launch, nodes, replica


def manifests(case: str) -> dict[str, dict[str, Any]]:
    (file,) = kubernetes(CASES[case])
    return {each["kind"]: each for each in yaml.safe_load_all(file.text)}


def container(case: str) -> dict[str, Any]:
    (found,) = manifests(case)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_a_replica_asks_for_the_gpus_that_it_uses() -> None:
    assert container("three replicas, two a node")["resources"] == {"limits": {"nvidia.com/gpu": "4"}}
    assert container("AMD")["resources"] == {"limits": {"amd.com/gpu": "8"}}
    assert container("Gaudi")["resources"] == {"limits": {"habana.ai/gaudi": "8"}}


@pytest.mark.parametrize(
    ("asked", "labels"),
    [
        (
            nodes(),
            {"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/region": "us-east-1"},
        ),
        (
            nodes(provider="gcp", region="us-west1", instance_type="a3-megagpu-8g", term="spot"),
            {
                "node.kubernetes.io/instance-type": "a3-megagpu-8g",
                "topology.kubernetes.io/region": "us-west1",
                "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb",
                "cloud.google.com/gke-spot": "true",
            },
        ),
        (
            nodes(provider="azure", region="global", instance_type="8x H100-SXM-80GB", term="spot"),
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "kubernetes.azure.com/scalesetpriority": "spot"},
        ),
        (
            nodes(provider="coreweave", region="global", instance_type="8x H200-SXM-141GB", gpu="H200-SXM-141GB"),
            {"nvidia.com/gpu.product": "NVIDIA-H200"},
        ),
        (
            nodes(provider="hotaisle", region="global", instance_type="8x MI300X-192GB", gpu="MI300X-192GB"),
            {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"},
        ),
        (nodes(provider="own", region="global", instance_type="8x GAUDI3-128GB", gpu="GAUDI3-128GB"), {}),
    ],
)
def test_pods_run_on_the_planned_nodes(asked: Nodes, labels: dict[str, str]) -> None:
    assert node_selector(asked) == labels


def test_a_node_without_a_known_label_is_said_to_need_one() -> None:
    (file,) = kubernetes(CASES["Gaudi"])
    assert "No label is known that tells nodes of GAUDI3-128GB: add a nodeSelector of yours." in file.text


def test_spot_pods_tolerate_spot_nodes_and_run_on_no_others() -> None:
    spot = nodes(term="spot")
    terms = affinity(spot)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["key"] for term in terms] == [
        "karpenter.sh/capacity-type",
        "eks.amazonaws.com/capacityType",
    ]
    assert {each["key"] for each in tolerations(spot)} == {"nvidia.com/gpu", "karpenter.sh/capacity-type"}
    # In a chart's terms, of which any one may hold, each has the machine's labels too.
    assert [len(term["matchExpressions"]) for term in node_selector_terms(spot)] == [3, 3]
    assert affinity(nodes()) == {}


def test_on_demand_pods_tolerate_gpu_nodes_only() -> None:
    assert [each["key"] for each in tolerations(nodes())] == [gpu_resource("H100-SXM-80GB")]


def test_a_checkpoint_has_two_hours_to_load_before_anything_restarts_the_pod() -> None:
    startup = container("one GPU")["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 7200
    spec = manifests("one GPU")["Deployment"]["spec"]
    assert spec["progressDeadlineSeconds"] > 7200


def test_a_rollout_needs_no_more_gpus_than_there_are() -> None:
    spec = manifests("two replicas on two nodes")["Deployment"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_drains_take_one_replica_at_a_time_where_there_are_several() -> None:
    budget = manifests("two replicas on two nodes")["PodDisruptionBudget"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert "PodDisruptionBudget" not in manifests("one GPU")


def test_services_select_the_pods() -> None:
    found = manifests("two replicas on two nodes")
    selector = found["Service"]["spec"]["selector"]
    assert selector.items() <= found["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == selector
    assert found["Service"]["spec"]["ports"] == [{"name": "http", "port": 8000, "targetPort": "http"}]


def test_nodes_of_one_replica_start_and_restart_together() -> None:
    found = manifests("two replicas over four nodes each")
    spec = found["LeaderWorkerSet"]["spec"]
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (2, 4)
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    # The set makes a Service of its own name.
    assert found["Service"]["metadata"]["name"] == "experts-leader"
    leaders = {"leaderworkerset.sigs.k8s.io/name": "experts", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    assert found["Service"]["spec"]["selector"] == leaders
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == leaders


def test_workers_are_asked_for_nothing_and_know_their_rank() -> None:
    groups = manifests("a replica over two nodes")["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    (worker,) = groups["workerTemplate"]["spec"]["containers"]
    assert not {"startupProbe", "readinessProbe", "livenessProbe", "ports"} & set(worker)
    ranks = [each for each in worker["env"] if each["name"] == "NODE_RANK"]
    path = "metadata.labels['leaderworkerset.sigs.k8s.io/worker-index']"
    assert ranks == [{"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": path}}}]


def test_nodes_that_share_memory_over_the_network_may_lock_it() -> None:
    groups = manifests("a replica over two nodes")["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    for template in (groups["leaderTemplate"], groups["workerTemplate"]):
        (one,) = template["spec"]["containers"]
        assert one["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    assert "securityContext" not in container("one GPU")
    (file,) = kubernetes(CASES["a replica over two nodes"])
    assert "Ask for the network cards of efa under resources" in file.text


def test_the_leaders_service_has_a_name_that_is_not_too_long() -> None:
    spec = replica(nodes=2, pp=2)
    (file,) = kubernetes((deployment("a" * 63, spec),))
    _, service = yaml.safe_load_all(file.text)
    assert service["metadata"]["name"] == "a" * 56 + "-leader"


def test_secrets_are_references_and_optional_where_it_works_without() -> None:
    spec = replica()
    asked = deployment(launch=launch(spec, secrets=(), optional_secrets=("HF_TOKEN",)))
    (file,) = kubernetes((asked,))
    assert "kubectl create secret generic hf-token --from-literal=HF_TOKEN=... (optional)" in file.text
    found = next(yaml.safe_load_all(file.text))
    (env,) = [each["env"] for each in found["spec"]["template"]["spec"]["containers"]]
    reference = {"name": "hf-token", "key": "HF_TOKEN", "optional": True}
    assert env[-1] == {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}


def test_variables_of_services_stay_out_of_pods() -> None:
    spec = manifests("one GPU")["Deployment"]["spec"]["template"]["spec"]
    assert spec["enableServiceLinks"] is False
    assert spec["automountServiceAccountToken"] is False


def test_a_model_in_a_folder_is_mounted_to_be_read() -> None:
    assert container("a model in a folder")["volumeMounts"][-1] == {
        "name": "model",
        "mountPath": "/srv/models/ours",
        "readOnly": True,
    }
