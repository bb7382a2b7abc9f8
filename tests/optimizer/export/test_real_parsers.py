"""Launch files go through the tools' own parsers, where SkyPilot or dstack is installed (checked: 0.14.1 and 0.22.5)."""

from __future__ import annotations

from collections.abc import Iterator
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
    # Whether a cloud has a machine is in lists that SkyPilot fetches: not asked here.
    for name in ("_try_canonicalize_accelerators", "_try_validate_instance_type", "_try_validate_cpus_mem"):
        monkeypatch.setattr(sky.Resources, name, lambda *_: None, raising=True)
    monkeypatch.setattr(sky.Resources, "_validate_and_set_region_zone", lambda *_: None, raising=True)
    monkeypatch.setenv("HF_TOKEN", "x")
    for document in documents("skypilot", case):
        task = sky.Task.from_yaml_config(document, secrets_overrides=[("HF_TOKEN", "x")])
        assert task.num_nodes == document.get("num_nodes", 1)
        assert task.run == document["run"]
        assert (task.service is None) == ("service" not in document)
