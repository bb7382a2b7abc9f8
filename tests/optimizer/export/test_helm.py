"""Values for vLLM's chart: what it can say, and plain words where it cannot."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, Process
from optimizer.export.helm import helm
from tests.optimizer.export.deployments import CASES, deployment, launch, replica
from tests.optimizer.export.read_back import helm_command


def values(*asked: Deployment) -> dict[str, Any]:
    (file,) = helm(asked)
    return dict(yaml.safe_load(file.text))


def model(*asked: Deployment) -> dict[str, Any]:
    return dict(values(*asked)["servingEngineSpec"]["modelSpec"][0])


def test_the_image_is_split_at_its_tag() -> None:
    spec = replica()
    found = model(deployment(launch=launch(spec, image="registry:5000/vllm/vllm-openai:v0.33.0")))
    assert (found["repository"], found["tag"]) == ("registry:5000/vllm/vllm-openai", "v0.33.0")


def test_a_fleet_is_a_model_each() -> None:
    found = values(*CASES["a fleet whose models share nodes"])["servingEngineSpec"]
    assert [(each["name"], each["replicaCount"], each["requestGPU"]) for each in found["modelSpec"]] == [
        ("chat", 4, 4),
        ("code", 2, 4),
    ]


def test_gpus_of_other_makers_are_asked_for_by_their_resource() -> None:
    assert model(*CASES["AMD"])["requestGPUType"] == "amd.com/gpu"
    assert "requestGPUType" not in model(*CASES["one GPU"])


def test_lengths_that_helm_would_round_go_to_the_extra_arguments() -> None:
    assert model(deployment(spec=replica(max_model_len_tokens=999_999)))["vllmConfig"]["maxModelLen"] == 999_999
    found = values(deployment(spec=replica(max_model_len_tokens=1_048_576)))
    asked = found["servingEngineSpec"]["modelSpec"][0]
    assert "maxModelLen" not in asked["vllmConfig"]
    command = helm_command(found, asked)
    assert command[command.index("--max-model-len") + 1] == "1048576"


def test_prefix_caching_stays_as_the_command_has_it() -> None:
    assert model(deployment())["vllmConfig"]["enablePrefixCaching"] is True
    command = ("vllm", "serve", "m", "--port", "8000", "--no-enable-prefix-caching")
    asked = deployment(launch=launch(replica(), processes=(Process("server", command, "/health"),)))
    assert model(asked)["vllmConfig"] == {"enablePrefixCaching": False, "tensorParallelSize": 1}


def test_a_rollout_needs_no_more_gpus_than_there_are() -> None:
    strategy = values(deployment())["servingEngineSpec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (CASES["a replica over two nodes"], "spans 2 nodes, which the chart's published values cannot say"),
        ((deployment(launch=launch(replica(), engine="sglang")),), "runs sglang, and the chart .* runs vLLM only"),
        (
            (deployment(launch=launch(replica(), processes=(Process("server", ("bash", "-c", "x"), "/h"),))),),
            "is not started as `vllm serve MODEL",
        ),
        ((deployment(), deployment("b", launch=launch(replica(), port=9000))), "one port for all models"),
    ],
)
def test_what_the_chart_cannot_run_is_refused_in_plain_words(asked: tuple[Deployment, ...], said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        helm(asked)
