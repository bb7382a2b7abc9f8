"""Launch files go through the parsers of SkyPilot and dstack, where they are installed (checked: 0.14.1, 0.22.5).

dstack comes with the development environment. SkyPilot pins older packages than this project has: install it, this
project, pytest and hypothesis into an environment of its own, and run this file there with
`--import-mode=importlib -c /dev/null --rootdir=.`.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from optimizer.export.targets import launch_files
from tests.optimizer.export.deployments import CASES

cases = pytest.mark.parametrize("case", CASES)


def documents(target: str, case: str) -> Iterator[dict[str, Any]]:
    for file in launch_files(target, CASES[case]):
        yield yaml.safe_load(file.text)


@cases
@pytest.mark.filterwarnings("ignore")
def test_dstack_takes_every_configuration(case: str) -> None:
    configurations = pytest.importorskip("dstack._internal.core.models.configurations", reason="dstack")
    for document in documents("dstack", case):
        parsed = configurations.parse_apply_configuration(document)
        assert getattr(parsed, "root", parsed).type == document["type"]


@cases
@pytest.mark.filterwarnings("ignore")
def test_skypilots_schemas_take_every_task(case: str) -> None:
    schemas = pytest.importorskip("sky.utils.schemas", reason="skypilot")
    from sky.utils import common_utils  # type: ignore[import-not-found]  # noqa: PLC0415

    for document in documents("skypilot", case):
        common_utils.validate_schema(document, schemas.get_task_schema(), "task: ")
        common_utils.validate_schema(document["resources"], schemas.get_resources_schema(), "resources: ")
        common_utils.validate_schema(document.get("service", {}), schemas.get_service_schema(), "service: ")


@cases
@pytest.mark.filterwarnings("ignore")
def test_skypilot_reads_every_task(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sky = pytest.importorskip("sky", reason="skypilot")
    # Whether a cloud has a machine or a region is in lists that SkyPilot fetches: not asked here.
    for name in (
        "canonicalize_accelerators",
        "validate_and_set_region_zone",
        "validate_instance_type",
        "validate_cpus_mem",
    ):
        monkeypatch.setattr(sky.Resources, f"_try_{name}", lambda *_: None, raising=True)
    monkeypatch.setenv("HF_TOKEN", "x")
    for document in documents("skypilot", case):
        task = sky.Task.from_yaml_config(deepcopy(document), secrets_overrides=[("HF_TOKEN", "x")])
        for resources in task.resources:
            # For any cloud at all SkyPilot asks which clouds the user has.
            if resources.cloud is not None and document["resources"].get("infra") != "ssh":
                resources.validate()
        assert len(task.resources) == len(document["resources"].get("ordered", [0]))
        assert task.num_nodes == document.get("num_nodes", 1)
        assert task.run == document["run"]
        assert (task.service is None) == ("service" not in document)
