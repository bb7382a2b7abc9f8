"""Every launch file of every kind of deployment is what the target's published schema asks for.

The schemas are restated in tests/data/launch_schemas, each with its source, version and date; test_real_parsers.py runs
the tools' own parsers where they are installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hcl2
import jsonschema
import kubernetes_validate
import pytest
import yaml

from optimizer.errors import QuestionError
from optimizer.export.deployment import LaunchFile
from optimizer.export.targets import launch_files
from tests.optimizer.export.deployments import CASES
from tests.optimizer.export.read_back import cloud_init_file, terraform_groups

SCHEMAS = Path(__file__).parents[2] / "data" / "launch_schemas"
VERSIONS = ("1.30", "1.37")
cases = pytest.mark.parametrize("case", CASES)


def check(name: str, data: Any) -> None:
    schema = json.loads((SCHEMAS / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(data)


def exported(target: str, case: str) -> tuple[LaunchFile, ...]:
    files = launch_files(target, CASES[case])
    assert len({file.name for file in files}) == len(files) > 0
    assert all(file.text.endswith("\n") and "/" not in file.name for file in files)
    return files


@cases
def test_compose_files_follow_the_specification(case: str) -> None:
    for file in exported("docker-compose", case):
        check("compose.json", yaml.safe_load(file.text))


@cases
def test_manifests_follow_the_api_of_old_and_new_clusters(case: str) -> None:
    for file in exported("kubernetes", case):
        for manifest in yaml.safe_load_all(file.text):
            if manifest["kind"] != "LeaderWorkerSet":
                for version in VERSIONS:
                    kubernetes_validate.validate(manifest, version, strict=True)
                continue
            check("leaderworkerset-v1.json", manifest)
            groups = manifest["spec"]["leaderWorkerTemplate"]
            for template in (groups["leaderTemplate"], groups["workerTemplate"]):
                pod = {"apiVersion": "v1", "kind": "Pod", **template}
                for version in VERSIONS:
                    kubernetes_validate.validate(pod, version, strict=True)


@cases
def test_values_follow_the_charts_schema(case: str) -> None:
    try:
        (file,) = exported("helm-values", case)
    except QuestionError:
        assert any(each.replica.nodes > 1 for each in CASES[case])
        return
    values = yaml.safe_load(file.text)
    check("vllm-stack-values.json", values)
    for model in values["servingEngineSpec"]["modelSpec"]:
        pod = {"volumes": model["extraVolumes"], "tolerations": values["servingEngineSpec"]["tolerations"]}
        pod["containers"] = [{"name": "vllm", "env": model["env"], "volumeMounts": model["extraVolumeMounts"]}]
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "spec": pod}, VERSIONS[0], strict=True)


@cases
def test_tasks_follow_skypilots_schema(case: str) -> None:
    for file in exported("skypilot", case):
        check("skypilot-task.json", yaml.safe_load(file.text))


@cases
def test_configurations_follow_dstacks_schema(case: str) -> None:
    for file in exported("dstack", case):
        check("dstack-configuration.json", yaml.safe_load(file.text))


@cases
def test_variables_have_the_declared_fields_and_types(case: str) -> None:
    values, declarations = exported("terraform-vars", case)
    declared = {
        name.strip('"'): body for each in hcl2.loads(declarations.text)["variable"] for name, body in each.items()
    }
    assert set(declared) == {"shardwise_nodes", "shardwise_secrets"}
    groups = terraform_groups(values.text)
    said = str(declared["shardwise_nodes"]["type"])
    kinds = {str: "string", bool: "bool", int: "number", float: "number"}
    for group in groups.values():
        for field, value in group.items():
            assert f"{field}" in said
            if type(value) in kinds:
                assert f"{field}={kinds[type(value)]}" in said.replace('"', "").replace(" ", "").replace(":", "=")
        for user_data in group["user_data"].values():
            check("compose.json", yaml.safe_load(cloud_init_file(user_data, "compose.yaml")))
