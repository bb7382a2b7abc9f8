"""dstack configurations: a fleet of the planned nodes, and runs that fit on it."""

from __future__ import annotations

from typing import Any

import yaml

from optimizer.export.deployment import Deployment
from optimizer.export.dstack import dstack
from tests.optimizer.export.deployments import CASES, deployment, launch, nodes, replica


def configurations(*asked: Deployment) -> dict[str, dict[str, Any]]:
    return {file.name: yaml.safe_load(file.text) for file in dstack(asked)}


def test_a_fleet_asks_for_the_planned_offer_and_what_stands_in() -> None:
    fleet, _ = configurations(*CASES["two replicas on two nodes"]).values()
    assert fleet["nodes"] == "0..2"
    assert fleet["backends"] == ["aws", "lambda"]
    assert fleet["instance_types"] == ["p5.48xlarge", "gpu_8x_h100_sxm5"]
    assert "regions" not in fleet  # Lambda's price is the same in all of them
    assert (fleet["spot_policy"], fleet["max_price"]) == ("on-demand", 55.04)


def test_a_service_takes_whole_nodes_and_runs_on_its_fleet() -> None:
    found = configurations(*CASES["two replicas on two nodes"])
    service = found["chat.dstack.yml"]
    assert service["fleets"] == [found["chat-fleet.dstack.yml"]["name"]]
    assert (service["replicas"], service["resources"]["gpu"]["count"]) == (2, 8)
    assert service["probes"][0]["url"] == "/health"


def test_replicas_that_share_a_node_take_blocks_of_it() -> None:
    found = configurations(*CASES["a fleet whose models share nodes"])
    (fleet,) = [each for each in found.values() if each["type"] == "fleet"]
    assert (fleet["blocks"], fleet["nodes"]) == (2, "0..3")
    chat, code = found["chat.dstack.yml"], found["code.dstack.yml"]
    assert (chat["replicas"], chat["resources"]["gpu"]["count"]) == (4, 4)
    assert (code["replicas"], code["resources"]["gpu"]["count"]) == (2, 4)
    assert chat["fleets"] == code["fleets"] == [fleet["name"]]


def test_a_replica_over_nodes_is_a_task_on_nodes_close_to_each_other() -> None:
    found = configurations(*CASES["two replicas over four nodes each"])
    assert list(found) == ["experts-fleet.dstack.yml", "experts-0.dstack.yml", "experts-1.dstack.yml"]
    fleet, *tasks = found.values()
    assert (fleet["placement"], fleet["nodes"]) == ("cluster", "0..8")
    assert [(each["type"], each["nodes"]) for each in tasks] == [("task", 4)] * 2


def test_gpus_of_one_name_are_told_apart_by_memory() -> None:
    fleet, _ = configurations(deployment(nodes=nodes(gpu="A100-SXM-80GB"))).values()
    assert fleet["resources"]["gpu"] == {"vendor": "nvidia", "name": "A100", "memory": "80GB", "count": 8}


def test_a_provider_that_dstack_does_not_know_is_any_backend_at_no_more_than_its_price() -> None:
    fleet, service = dstack(CASES["a provider that nobody knows"])
    found = yaml.safe_load(fleet.text)
    assert "backends" not in found
    assert found["max_price"] == yaml.safe_load(service.text)["max_price"] == 55.04
    assert "dstack has no backend hyperstack or spheron" in fleet.text


def test_spot_or_on_demand_where_either_stands_in() -> None:
    spot, mixed = nodes(term="spot"), deployment(nodes=nodes(term="spot"), fallbacks=(nodes(),))
    assert configurations(deployment(nodes=spot))["chat.dstack.yml"]["spot_policy"] == "spot"
    assert configurations(mixed)["chat.dstack.yml"]["spot_policy"] == "auto"


def test_own_nodes_are_a_fleet_over_ssh() -> None:
    fleet, service = configurations(*CASES["own nodes"]).values()
    assert fleet["ssh_config"]["hosts"] == ["ADDRESS-OF-NODE-0"]
    assert not {"nodes", "resources", "max_price"} & set(fleet)
    assert "max_price" not in service


def test_a_contract_is_no_price_ceiling() -> None:
    fleet, service = configurations(*CASES["a reservation"]).values()
    assert "max_price" not in fleet | service


def test_long_names_are_shortened_and_stay_apart() -> None:
    name = "llama-3-1-405b-instruct-of-the-third-pool"
    files = dstack((deployment(f"{name}-a"), deployment(f"{name}-b")))
    names = [yaml.safe_load(file.text)["name"] for file in files]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 41
    assert names[0].endswith("-fleet")


def test_names_begin_with_a_letter() -> None:
    assert configurations(deployment("70b"))["70b.dstack.yml"]["name"] == "m-70b"


def test_secrets_come_from_the_environment_of_who_applies() -> None:
    asked = deployment(launch=launch(replica(), secrets=("HF_TOKEN",), optional_secrets=("OTHER",)))
    _, service = dstack((asked,))
    assert yaml.safe_load(service.text)["env"] == ["VLLM_LOGGING_LEVEL=INFO", "HF_TOKEN", "OTHER="]
    assert "export HF_TOKEN=..." in service.text


def test_a_model_in_a_folder_is_mounted() -> None:
    service = configurations(*CASES["a model in a folder"])["chat.dstack.yml"]
    assert service["volumes"] == [{"instance_path": "/srv/models/ours", "path": "/srv/models/ours"}]
