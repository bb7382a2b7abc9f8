"""A plan that `solve` printed, for the tests of commands that read one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a plan of 70B on Spheron's offers."""
    ran = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--json")
    assert ran.code == 0
    file = tmp_path_factory.mktemp("plans") / "plan.json"
    file.write_text(ran.out)
    return file
