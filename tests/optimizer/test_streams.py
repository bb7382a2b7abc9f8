"""What commands do with the streams they are given: closed, full, or of another encoding."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run

SHARDWISE = [sys.executable, "-m", "optimizer.cli"]
FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan whose question holds a letter that is not ASCII."""
    file = tmp_path_factory.mktemp("plans") / "plan.json"
    fields = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--json").json
    file.write_text(json.dumps(fields | {"summary": f"für {fields['summary']}"}))
    return file


@pytest.mark.parametrize("command", [("schema", "plan"), ("--version",)])
@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_message(command: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([*SHARDWISE, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "shardwise: standard output: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_closed_stream_is_no_fault(closed: str) -> None:
    line = f'"{sys.executable}" -m optimizer.cli schema plan {closed} | head -c 1'
    done = subprocess.run(["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"], capture_output=True, check=False)
    assert (done.returncode in (0, 1), done.stderr) == (True, b"")


def test_a_plan_from_a_closed_standard_input_is_one_message() -> None:
    line = f'"{sys.executable}" -m optimizer.cli export - --to vllm <&-'
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("shardwise: standard input: is empty")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_files_and_json_are_right_in_every_encoding(plan: Path, encoding: str) -> None:
    environment = os.environ | {"PYTHONIOENCODING": encoding}

    def printed(*command: str) -> bytes:
        done = subprocess.run(
            [*SHARDWISE, *command], input=plan.read_bytes(), capture_output=True, check=False, env=environment
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    assert "für" in printed("report", "-", "--out", "-").decode("utf-8")
    assert "für" in printed("export", "-", "--to", "vllm").decode("utf-8")
    context = json.loads(printed("export", "-", "--to", "vllm", "--json"))["deployments"][0]["context"]
    assert any("für" in one for one in context)


@pytest.mark.parametrize("command", [("whatif", "budget"), ("report",), ("pareto",)])
def test_paragraphs_of_help_break_at_the_width_alone(command: tuple[str, ...]) -> None:
    lines = run(*command, "--help", columns=80).out.splitlines()
    text = [line.strip() for line in lines[: next(i for i, line in enumerate(lines) if line.startswith("╭"))]]
    for this, following in itertools.pairwise(text[3:]):
        if this and following:
            assert len(this) + 1 + len(following.split()[0]) > 78, (this, following)
