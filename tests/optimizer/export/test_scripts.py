"""Launch scripts: run by bash, they start each replica with its own GPUs and port, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.export.deployment import Deployment, LaunchFile, Placement
from optimizer.export.engines.launch import launch
from optimizer.export.scripts import scripts
from tests.optimizer.export.deployments import nodes
from tests.optimizer.export.test_engine_commands import one_node, spec

HOSTILE = '/models/it\'s "$(touch pwned)" `touch pwned` $HOME; touch pwned & #'


def deployment(one: Deployment | None = None, **replica: object) -> Deployment:
    """Llama 405B on a node, or over nodes, as the fields of the replica say."""
    described = spec(**replica) if replica.get("nodes", 1) != 1 else one_node(**replica)
    placement = Placement("llama", 1, (tuple(range(8)),), (8000,))
    return Deployment(
        name="llama",
        replica=described,
        launch=launch(described, "H100-SXM-80GB", port=8000),
        replicas=1,
        nodes=nodes(count=described.nodes),
        fallbacks=(),
        context=("a plan\nof two lines",),
        placements=(placement,),
    )


def ran(file: LaunchFile, folder: Path, **environment: str) -> list[list[str]]:
    """Run a script with programs that write down how they were called; return the calls, GPUs first."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    log = folder / "calls"
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir()
    for name in ("vllm", "python3", "trtllm-serve", "mpirun", "ray"):
        program = programs / name
        note = f'printf "%s\\0" "${{CUDA_VISIBLE_DEVICES-all}}" "$@" > {log}/$(date +%s%N)-$$'
        program.write_text(f"#!/bin/sh\n{note}\nsleep ${{SLOW-0}}\n")
        program.chmod(0o755)
    script = folder / file.name
    script.write_text(file.text)
    kept = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": "/home/someone", "HF_TOKEN": "hf_x"}
    subprocess.run(["bash", str(script)], check=True, cwd=folder, env={**kept, **environment}, timeout=20)
    return [call.read_bytes().decode().split("\0")[:-1] for call in sorted(log.iterdir())]  # named by their time


def test_a_script_runs_exactly_the_command(tmp_path: Path) -> None:
    """The whole node is one replica's: no GPU is hidden."""
    one = deployment()
    (file,) = scripts((one,))
    assert file.name == "llama.sh"
    assert ran(file, tmp_path) == [["all", *one.launch.processes[0].command[1:]]]


def test_hostile_names_reach_the_engine_and_run_nothing(tmp_path: Path) -> None:
    """Quotes, substitutions and separators are part of a name."""
    one = deployment(model=HOSTILE, served_name="a'b")
    (call,) = ran(scripts((one,))[0], tmp_path)
    assert call[1:5] == ["serve", HOSTILE, "--served-model-name", "a'b"]
    assert not (tmp_path / "pwned").exists()


def test_replicas_of_a_node_get_their_own_gpus_and_ports(tmp_path: Path) -> None:
    """Two of four GPUs each, side by side."""
    one = deployment(tp=4)
    placement = Placement("llama", 3, ((0, 1, 2, 3), (4, 5, 6, 7)), (8000, 8001))
    (file,) = scripts((replace(one, placements=(placement,)),))
    calls = ran(file, tmp_path, SLOW="1")  # where one ends, the script ends the others
    assert sorted((call[0], call[call.index("--port") + 1]) for call in calls) == [
        ("0,1,2,3", "8000"),
        ("4,5,6,7", "8001"),
    ]
    assert "on each of 3 such nodes: 2 replicas of 4 GPUs" in file.text


def test_the_last_node_has_a_script_of_its_own() -> None:
    """It holds a replica less."""
    one = deployment(tp=4)
    full = Placement("llama", 1, ((0, 1, 2, 3), (4, 5, 6, 7)), (8000, 8001))
    last = Placement("llama-last", 1, ((0, 1, 2, 3),), (8000,))
    files = scripts((replace(one, placements=(full, last)),))
    assert [file.name for file in files] == ["llama-1.sh", "llama-2.sh"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_leader_and_workers_are_told_who_they_are(engine: str, tmp_path: Path) -> None:
    """Address and rank come from the environment; without them nothing starts."""
    leader, worker = scripts((deployment(nodes=2, engine=engine),))
    assert (leader.name, worker.name) == ("llama-leader.sh", "llama-worker.sh")
    (call,) = ran(worker, tmp_path, LEADER_ADDRESS="10.0.0.1", NODE_RANK="1")
    assert call[call.index("--node-rank") + 1] == "1"
    assert any(word.startswith("10.0.0.1") for word in call)
    with pytest.raises(subprocess.CalledProcessError):
        ran(worker, tmp_path, LEADER_ADDRESS="10.0.0.1")
    (call,) = ran(leader, tmp_path, LEADER_ADDRESS="10.0.0.1")
    assert call[call.index("--node-rank") + 1] == "0"


def test_ray_is_started_before_the_server(tmp_path: Path) -> None:
    """The head of an older vLLM's cluster."""
    leader, worker = scripts((deployment(nodes=2, engine_version="0.11.0"),))
    head, serve = ran(leader, tmp_path)
    assert head[1:4] == ["start", "--head", "--port=6379"]
    assert serve[1] == "serve"
    (joined,) = ran(worker, tmp_path, LEADER_ADDRESS="10.0.0.1")
    assert joined[1:] == ["start", "--block", "--address=10.0.0.1:6379"]


def test_settings_of_tensorrt_llm_keep_their_port_per_replica(tmp_path: Path) -> None:
    """A command inside a shell's text is moved to another port as well."""
    one = deployment(engine="trtllm", tp=2, kv_cache="fp8", weights="fp8", checkpoint_weights="fp8")
    placement = Placement("llama", 1, ((0, 1), (2, 3)), (8000, 8001))
    (file,) = scripts((replace(one, placements=(placement,)),))
    calls = ran(LaunchFile(file.name, file.text.replace("/tmp/trtllm", f"{tmp_path}/trtllm")), tmp_path, SLOW="1")
    assert sorted(call[call.index("--port") + 1] for call in calls) == ["8000", "8001"]
    assert "free_gpu_memory_fraction: 0.8" in next(tmp_path.glob("trtllm-settings-*.yaml")).read_text()


def test_a_gated_model_asks_for_its_token(tmp_path: Path) -> None:
    """Before anything is started."""
    (file,) = scripts((deployment(),))
    with pytest.raises(subprocess.CalledProcessError):
        ran(file, tmp_path, HF_TOKEN="")


def test_comments_stay_comments() -> None:
    """Lines of the plan cannot break out of them."""
    (file,) = scripts((deployment(),))
    assert "# a plan of two lines\n" in file.text
