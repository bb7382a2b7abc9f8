"""Terraform's variables: nodes as the plan has them, and cloud-init that starts the same containers as Compose."""

from __future__ import annotations

from typing import Any

import yaml

from optimizer.export.compose import compose
from optimizer.export.deployment import Deployment
from optimizer.export.terraform import terraform
from tests.optimizer.export.deployments import CASES, deployment, launch, mixed_fleet, nodes, replica
from tests.optimizer.export.read_back import cloud_init_file, terraform_groups


def groups(*asked: Deployment) -> dict[str, Any]:
    values, _ = terraform(asked)
    assert values.name.endswith(".auto.tfvars.json")
    return terraform_groups(values.text)


def test_a_group_says_what_to_rent() -> None:
    found = groups(*CASES["two replicas on two nodes"])["chat"]
    assert {name: found[name] for name in ("provider", "region", "instance_type", "node_count", "spot")} == {
        "provider": "aws",
        "region": "us-east-1",
        "instance_type": "p5.48xlarge",
        "node_count": 2,
        "spot": False,
    }
    assert found["max_price_usd_per_hour"] == 55.04
    assert [each["provider"] for each in found["fallbacks"]] == ["lambda"]


def test_a_machine_that_its_provider_has_no_name_for_is_left_empty() -> None:
    found = groups(*CASES["a provider that nobody knows"])["chat"]
    assert (found["instance_type"], found["region"], found["gpu"], found["gpus_per_node"]) == (
        "",
        "",
        "H100-SXM-80GB",
        8,
    )


def test_cloud_init_starts_what_compose_would() -> None:
    asked = CASES["three replicas, two a node"]
    said = {name: each["user_data"]["server"] for name, each in groups(*asked).items()}
    assert list(said) == ["chat", "chat-rest"]
    for user_data, file in zip(said.values(), compose(asked), strict=True):
        assert yaml.safe_load(cloud_init_file(user_data, "compose.yaml")) == yaml.safe_load(file.text)
        assert yaml.safe_load(user_data)["runcmd"][-1][:2] == ["docker", "compose"]


def test_addresses_ranks_and_secrets_are_placeholders_that_compose_reads_as_they_are() -> None:
    found = groups(*CASES["a replica over two nodes"])["large"]
    assert (found["node_count"], found["nodes_per_replica"], found["secrets"]) == (2, 2, ["HF_TOKEN"])
    assert set(found["user_data"]) == {"leader", "worker"}
    variables = cloud_init_file(found["user_data"]["worker"], ".env")
    assert variables == "HF_TOKEN='@HF_TOKEN@'\nLEADER_ADDRESS='@LEADER_ADDRESS@'\nNODE_RANK='@NODE_RANK@'\n"


def test_ports_are_those_that_requests_go_to() -> None:
    assert {name: each["ports"] for name, each in groups(*mixed_fleet()).items()} == {
        "site-1-a": [8000, 8001],
        "site-1-b": [8000],
    }


def test_many_replicas_on_a_node_still_fit_into_user_data() -> None:
    asked = deployment(spec=replica(tp=1), replicas=8, replicas_per_node=8)
    user_data = groups(asked)["chat"]["user_data"]["server"]
    assert len(user_data) < 16_384
    assert len(yaml.safe_load(cloud_init_file(user_data, "compose.yaml"))["services"]) == 9


def test_nothing_is_written_for_secrets_where_there_are_none() -> None:
    asked = deployment(launch=launch(replica(), secrets=()), nodes=nodes(gpu="MI300X-192GB"))
    user_data = yaml.safe_load(groups(asked)["chat"]["user_data"]["server"])
    assert [each["path"] for each in user_data["write_files"]] == ["/opt/shardwise/compose.yaml"]
    assert len(user_data["runcmd"]) == 1
