"""SkyPilot tasks: the planned offer first, what may stand in next, and never more than it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from optimizer.errors import QuestionError
from optimizer.export.skypilot import skypilot
from tests.optimizer.export.deployments import CASES, deployment, launch, mixed_fleet, nodes, replica
from tests.optimizer.export.read_back import shell_commands


def task(case: str) -> dict[str, Any]:
    (file,) = skypilot(CASES[case])
    return dict(yaml.safe_load(file.text))


def test_offers_are_tried_cheapest_first_each_at_its_own_price() -> None:
    assert task("two replicas on two nodes")["resources"]["ordered"] == [
        {
            "infra": "aws/us-east-1",
            "instance_type": "p5.48xlarge",
            "accelerators": "H100:8",
            "use_spot": False,
            "max_hourly_cost": 55.04,
        },
        {
            "infra": "lambda",
            "instance_type": "gpu_8x_h100_sxm5",
            "accelerators": "H100:8",
            "use_spot": False,
            "max_hourly_cost": 55.04,
        },
    ]


def test_prices_are_rounded_up_to_a_cent() -> None:
    (file,) = skypilot((deployment(nodes=nodes(price_usd_per_node_hour=55.0401)),))
    assert yaml.safe_load(file.text)["resources"]["max_hourly_cost"] == 55.05


def test_a_provider_that_skypilot_does_not_know_is_any_cloud_at_no_more_than_its_price() -> None:
    (file,) = skypilot(CASES["a provider that nobody knows"])
    first, second = yaml.safe_load(file.text)["resources"]["ordered"]
    assert first == {"accelerators": "H100:8", "use_spot": False, "max_hourly_cost": 55.04}
    assert second["infra"] == "aws/us-east-1"
    assert "SkyPilot has no cloud hyperstack or spheron" in file.text


def test_what_costs_over_twice_the_plan_is_named_and_not_asked_for() -> None:
    dear = nodes(provider="gcp", region="us-west1", instance_type="a3-highgpu-8g", price_usd_per_node_hour=110.09)
    (file,) = skypilot((deployment(fallbacks=(dear,)),))
    assert "ordered" not in yaml.safe_load(file.text)["resources"]
    assert "not asked for: a3-highgpu-8g of gcp us-west1, on-demand, $110.09/h per node" in file.text


def test_a_contract_is_no_price_ceiling() -> None:
    resources = task("a reservation")["resources"]
    assert resources["infra"] == "aws/us-east-1"
    assert "max_hourly_cost" not in resources


def test_own_nodes_are_reached_over_ssh() -> None:
    resources = task("own nodes")["resources"]
    assert (resources["infra"], resources["accelerators"]) == ("ssh", "H100:8")
    assert "max_hourly_cost" not in resources


def test_spot_is_asked_for_as_spot() -> None:
    assert task("spot on AWS")["resources"]["use_spot"] is True


def test_several_replicas_are_a_service() -> None:
    found = task("two replicas on two nodes")
    assert found["service"]["replicas"] == 2
    assert found["service"]["readiness_probe"]["path"] == "/health"
    assert "num_nodes" not in found


def test_a_service_of_replicas_over_nodes_asks_for_the_nodes_of_one() -> None:
    found = task("two replicas over four nodes each")
    assert (found["service"]["replicas"], found["num_nodes"]) == (2, 4)


def test_one_replica_is_a_cluster() -> None:
    found = task("a replica over two nodes")
    assert "service" not in found
    assert found["num_nodes"] == 2


def test_replicas_that_share_a_node_have_gpus_and_ports_of_their_own(tmp_path: Path) -> None:
    shared, _ = skypilot(mixed_fleet())
    found = yaml.safe_load(shared.text)
    assert (found["name"], found["num_nodes"], found["resources"]["ports"]) == ("site-1-a", 2, [8000, 8001])
    said = sorted(shell_commands(found["run"], tmp_path, calls=2))
    assert [command[command.index("--port") + 1] for command in said] == ["8001", "8000"]
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3 VLLM_LOGGING_LEVEL=INFO vllm serve" in found["run"]
    assert "CUDA_VISIBLE_DEVICES=4,5,6,7 VLLM_LOGGING_LEVEL=INFO vllm serve" in found["run"]


def test_amd_gpus_are_hidden_in_the_words_of_rocm() -> None:
    asked = deployment(spec=replica(tp=4), replicas=2, replicas_per_node=2, nodes=nodes(gpu="MI300X-192GB"))
    (file,) = skypilot((asked,))
    assert "HIP_VISIBLE_DEVICES=4,5,6,7 VLLM_LOGGING_LEVEL=INFO vllm serve" in file.text


def test_one_node_has_one_image() -> None:
    chat, code = mixed_fleet()
    other = deployment("code", code.replica, launch=launch(code.replica, image="b:1"), placements=code.placements)
    with pytest.raises(QuestionError, match=r"site-1-a runs b:1 and vllm/vllm-openai:v0.33.0 on one node"):
        skypilot((chat, other))


def test_a_secret_that_is_not_needed_may_stay_empty() -> None:
    asked = deployment(launch=launch(replica(), secrets=("A",), optional_secrets=("HF_TOKEN",)))
    (file,) = skypilot((asked,))
    assert yaml.safe_load(file.text)["secrets"] == {"HF_TOKEN": "", "A": None}
    assert "sky launch -c chat FILE [--secret HF_TOKEN] --secret A" in file.text


def test_the_disk_has_room_for_the_checkpoint() -> None:
    # Eight GPUs of 79.19 GiB hold up to 680.2 GB; 100 GB for the image.
    assert task("two replicas on two nodes")["resources"]["disk_size"] == 790
    (file,) = skypilot((deployment(spec=replica(weights="fp8")),))
    assert yaml.safe_load(file.text)["resources"]["disk_size"] == 1470
