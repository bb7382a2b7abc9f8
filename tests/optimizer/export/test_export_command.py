"""`shardwise export` as a person runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run


def test_a_script_is_printed(plan: Path) -> None:
    ran = run("export", str(plan), "--to", "vllm")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("#!/usr/bin/env bash\n# shardwise ")
    assert f"exec vllm serve {LLAMA_70B} \\\n    --host 0.0.0.0 \\\n    --port 8000 \\\n" in ran.out


def test_json_has_arguments_and_environment(plan: Path) -> None:
    ran = run("export", str(plan), "--to", "sglang", "--engine-version", "0.5.21", "--port", "9000", "--json")
    assert ran.code == 0
    (one,) = ran.json["deployments"]
    (process,) = one["processes"]
    assert process["argv"][:5] == ["python3", "-m", "sglang.launch_server", "--model-path", LLAMA_70B]
    assert process["argv"][process["argv"].index("--port") + 1] == "9000"
    assert (one["engine"], one["engine_version"], one["image"]) == ("sglang", "0.5.21", "lmsysorg/sglang:v0.5.21")
    assert one["secrets"] == ["HF_TOKEN"]
    assert ran.json["files"][0]["text"].startswith("#!/usr/bin/env bash")


def test_the_schema_is_of_what_is_printed(plan: Path) -> None:
    from optimizer.export.answer import Export  # noqa: PLC0415

    printed = run("export", str(plan), "--to", "vllm", "--json").json
    assert Export.model_validate(printed).model_dump(mode="json") == printed
    assert run("schema", "export").json["title"] == "Export"


def test_files_are_written_whole_and_not_over_others(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "start.sh"
    ran = run("export", str(plan), "--to", "vllm", "--out", str(out))
    assert (ran.code, ran.out) == (0, f"{out}\n")
    assert os.access(out, os.X_OK)
    written = out.read_text()
    again = run("export", str(plan), "--to", "sglang", "--out", str(out))
    assert again.code == 2
    assert "is there already" in again.err
    assert out.read_text() == written
    assert run("export", str(plan), "--to", "sglang", "--out", str(out), "--force").code == 0
    assert "sglang" in out.read_text()
    assert [one.name for one in out.parent.iterdir()] == ["start.sh"]


def test_several_files_go_to_a_folder(plan: Path, tmp_path: Path) -> None:
    fields = json.loads(plan.read_text())
    fields["layout"] |= {"pp": 2, "nodes": 2, "nodes_per_replica": 2, "gpus_used": 2 * fields["layout"]["gpus_used"]}
    two = tmp_path / "two.json"
    two.write_text(json.dumps(fields))
    folder = tmp_path / "launch"
    assert run("export", str(two), "--to", "vllm", "--name", "chat", "--out", str(folder)).code == 0
    assert sorted(one.name for one in folder.iterdir()) == ["chat-leader.sh", "chat-worker.sh"]
    before = (folder / "chat-leader.sh").read_text()
    (folder / "chat-worker.sh").unlink()
    assert run("export", str(two), "--to", "sglang", "--name", "chat", "--out", str(folder)).code == 2
    assert sorted(one.name for one in folder.iterdir()) == ["chat-leader.sh"]
    assert (folder / "chat-leader.sh").read_text() == before
    printed = run("export", str(two), "--to", "vllm", "--name", "chat").out
    assert printed.startswith("##### chat-leader.sh #####\n#!/usr/bin/env bash\n")
    assert "\n##### chat-worker.sh #####\n" in printed
    file = tmp_path / "file"
    file.write_text("kept")
    assert "expected a folder" in run("export", str(two), "--to", "vllm", "--out", str(file)).err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "vlm"), "--to 'vlm': no such target; did you mean vllm?"),
        (("--to", "vllm", "--engine", "sglang"), "--engine sglang another"),
        (("--to", "vllm", "--engine-version", "new"), "expected a release such as 0.33.0; got 'new'"),
        (("--to", "vllm", "--engine-version", "0.3"), "its flags are not known; expected 0.8 to 0.33.0"),
        (("--to", "vllm", "--name", "Bad_Name"), "expected small letters"),
        (("--to", "vllm", "--port", "0"), "expected a whole number from 1 to 65,000"),
        (("--to", "vllm", "--image", "x; rm"), "expected a container image"),
        (("--to", "vllm", "--model", "-x"), "the first of them no dash"),
        (("--to", "kubernetes", "--engine", "tgi"), "'vllm', 'sglang' or 'trtllm'"),
    ],
)
def test_bad_input_is_answered_in_a_line(plan: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = run("export", str(plan), *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())
    assert "Traceback" not in ran.err


def test_no_plan_is_no_traceback(tmp_path: Path) -> None:
    ran = run("export", str(tmp_path / "none.json"), "--to", "vllm")
    assert ran.code == 2
    assert "cannot be read" in ran.err


def test_a_checkpoint_that_is_missing_is_said_to_the_person(tmp_path: Path) -> None:
    """The script alone would load the wrong weights: that is said on standard error too."""
    ran = run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--weights", "int4", "--json")
    file = tmp_path / "plan.json"
    file.write_text(ran.out)
    exported = run("export", str(file), "--to", "vllm")
    assert exported.code == 0
    assert "needs a checkpoint of" in exported.err
    assert run("export", str(file), "--to", "vllm", "--model", "/models/awq").err == ""


def test_mpi_is_written_as_a_script_only(plan: Path, tmp_path: Path) -> None:
    fields = json.loads(plan.read_text())
    fields["layout"] |= {"pp": 2, "nodes": 2, "nodes_per_replica": 2, "gpus_used": 2 * fields["layout"]["gpus_used"]}
    two = tmp_path / "two.json"
    two.write_text(json.dumps(fields))
    assert "mpirun" in run("export", str(two), "--to", "trtllm").out
    refused = run("export", str(two), "--to", "kubernetes", "--engine", "trtllm")
    assert refused.code == 2
    assert "is started by MPI" in refused.err
