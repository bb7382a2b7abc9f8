"""Compose files: replicas have GPUs of their own, nodes their files, and what shares a node a balancer."""

from __future__ import annotations

from typing import Any

import yaml

from optimizer.export.compose import compose
from optimizer.export.deployment import Deployment
from tests.optimizer.export.deployments import CASES, deployment, launch, nodes, replica
from tests.optimizer.export.read_back import compose_commands


def projects(case: str) -> dict[str, dict[str, Any]]:
    return {file.name: yaml.safe_load(file.text) for file in compose(CASES[case])}


def service_of(*asked: Deployment) -> dict[str, Any]:
    project = yaml.safe_load(compose(asked)[0].text)
    return dict(next(iter(project["services"].values())))


def gpus(service: dict[str, Any]) -> list[str]:
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    return list(device["device_ids"])


def test_nodes_that_hold_the_same_share_a_file() -> None:
    (file,) = compose(CASES["two replicas on two nodes"])
    assert file.name == "docker-compose.yaml"
    assert "On each of 2 nodes: docker compose -f FILE up -d" in file.text


def test_replicas_on_one_node_have_gpus_of_their_own_behind_a_balancer() -> None:
    found = projects("three replicas, two a node")
    assert list(found) == ["docker-compose.chat.yaml", "docker-compose.chat-rest.yaml"]
    full, rest = found.values()
    assert gpus(full["services"]["chat-0"]) == ["0", "1", "2", "3"]
    assert gpus(full["services"]["chat-1"]) == ["4", "5", "6", "7"]
    assert "ports" not in full["services"]["chat-0"]
    assert full["services"]["chat-balancer"]["ports"] == ["8000:8000"]
    assert "let only those reach port 8000 who may use it" in compose(CASES["three replicas, two a node"])[0].text
    assert list(rest["services"]) == ["chat-0"]
    assert rest["services"]["chat-0"]["ports"] == ["8000:8000"]


def test_the_balancer_asks_replicas_whether_they_are_ready() -> None:
    full = projects("three replicas, two a node")["docker-compose.chat.yaml"]
    (mounted,) = full["services"]["chat-balancer"]["configs"]
    assert f"--providers.file.filename={mounted['target']}" in full["services"]["chat-balancer"]["command"]
    http = yaml.safe_load(full["configs"][mounted["source"]]["content"])["http"]
    assert http["routers"]["api"]["service"] in http["services"]
    balancer = http["services"]["replicas"]["loadBalancer"]
    assert balancer["servers"] == [{"url": "http://chat-0:8000"}, {"url": "http://chat-1:8000"}]
    assert balancer["healthCheck"]["path"] == "/health"


def test_models_that_share_a_node_are_in_one_file_on_ports_of_their_own() -> None:
    shared = projects("a fleet whose models share nodes")["docker-compose.site-1-a.yaml"]["services"]
    assert {name: (service["ports"], gpus(service)) for name, service in shared.items()} == {
        "chat-0": (["8000:8000"], ["0", "1", "2", "3"]),
        "code-0": (["8001:8000"], ["4", "5", "6", "7"]),
    }


def test_nodes_of_one_replica_talk_over_the_hosts_network_and_its_cards() -> None:
    leader, worker = projects("a replica over two nodes").values()
    for project in (leader, worker):
        service = project["services"]["large-0"]
        assert service["network_mode"] == "host"
        assert service["devices"] == ["/dev/infiniband"]
        assert service["cap_add"] == ["IPC_LOCK"]
    assert "healthcheck" in leader["services"]["large-0"]
    assert "healthcheck" not in worker["services"]["large-0"]


def test_the_rank_is_written_down_unless_several_workers_run_one_file() -> None:
    words = {"LEADER_ADDRESS": "a", "NODE_RANK": "3"}
    of_two = compose(CASES["a replica over two nodes"])
    assert compose_commands(of_two[1].text, {"LEADER_ADDRESS": "a"})["large-0"][-2:] == ("1", "--headless")
    of_four = compose(CASES["two replicas over four nodes each"])
    assert compose_commands(of_four[1].text, words)["experts-0"][-2:] == ("3", "--headless")
    assert "On the other 3 nodes of each replica (2 in all)" in of_four[1].text


def test_amd_and_gaudi_get_their_own_devices() -> None:
    amd = service_of(*CASES["AMD"])
    assert amd["devices"] == ["/dev/kfd", "/dev/dri"]
    assert amd["environment"]["ROCR_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
    assert "deploy" not in amd
    gaudi = service_of(*CASES["Gaudi"])
    assert gaudi["runtime"] == "habana"
    assert gaudi["environment"]["HABANA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"


def test_secrets_are_taken_from_the_environment_and_never_written() -> None:
    spec = replica()
    asked = deployment(launch=launch(spec, secrets=("HF_TOKEN",), optional_secrets=("OTHER",)))
    environment = service_of(asked)["environment"]
    assert environment["HF_TOKEN"] is environment["OTHER"] is None
    assert "Taken from your environment or a file .env: HF_TOKEN." in compose((asked,))[0].text


def test_a_model_in_a_folder_is_mounted_to_be_read() -> None:
    volumes = service_of(*CASES["a model in a folder"])["volumes"]
    assert volumes[1] == {"type": "bind", "source": "/srv/models/ours", "target": "/srv/models/ours", "read_only": True}


def test_no_card_is_mounted_where_nodes_have_none() -> None:
    spec = replica(pp=2, nodes=2)
    asked = deployment(spec=spec, launch=launch(spec), nodes=nodes(network="ethernet"))
    assert "devices" not in service_of(asked)
