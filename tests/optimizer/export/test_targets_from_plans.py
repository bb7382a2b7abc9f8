"""A plan that `solve` printed goes through every target, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from optimizer.export.targets import TARGETS, TargetName
from tests.optimizer.command import LLAMA_70B, run


@pytest.mark.parametrize("target", ["docker-compose", "kubernetes", "helm-values", "skypilot", "dstack"])
def test_manifests_of_a_plan_are_yaml_that_names_its_model_and_gpus(plan: Path, target: str) -> None:
    ran = run("export", str(plan), "--to", target)
    assert (ran.code, ran.err) == (0, "")
    documents = [each for each in yaml.safe_load_all(ran.out) if each]
    assert documents
    layout = json.loads(plan.read_text())["layout"]
    assert LLAMA_70B in ran.out
    assert layout["gpu"].split("-")[0] in ran.out
    assert f"--tensor-parallel-size {layout['tp']}" in " ".join(words(documents))


def words(found: Any) -> list[str]:
    """Return all text in documents, with the chart's field for the flag as the flag."""
    if isinstance(found, dict):
        named = [f"--tensor-parallel-size {found['tensorParallelSize']}"] if "tensorParallelSize" in found else []
        return named + [word for value in found.values() for word in words(value)]
    if isinstance(found, list):
        return [word for value in found for word in words(value)]
    return [str(found)]


def test_variables_of_a_plan_are_written_to_a_folder(plan: Path, tmp_path: Path) -> None:
    assert run("export", str(plan), "--to", "terraform-vars", "--out", str(tmp_path / "out")).code == 0
    values = json.loads((tmp_path / "out" / "shardwise.auto.tfvars.json").read_text())
    layout = json.loads(plan.read_text())["layout"]
    (group,) = values["shardwise_nodes"].values()
    assert (group["gpu"], group["node_count"]) == (layout["gpu"], layout["nodes"])
    assert (tmp_path / "out" / "shardwise_variables.tf").exists()


def test_what_may_be_asked_for_is_what_can_be_written() -> None:
    assert get_args(TargetName) == tuple(TARGETS)
