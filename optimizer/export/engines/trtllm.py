"""TensorRT-LLM: `trtllm-serve`, on one node, or under MPI on several."""

from __future__ import annotations

import shlex
import zlib
from typing import Final

import yaml

from optimizer.engine_flags.serving import Flag, Serving, arguments
from optimizer.engine_flags.trtllm import settings
from optimizer.engine_flags.versions import TRTLLM_CONFIG, at_least
from optimizer.errors import QuestionError
from optimizer.export.deployment import Process, ReplicaSpec
from optimizer.export.engines.shell import in_shell

READY_PATH: Final = "/health"


def processes(spec: ReplicaSpec, serving: Serving, flags: tuple[Flag, ...], port: int) -> tuple[Process, ...]:
    """Return the process of each node.

    What only a file of settings can say is written to one by the command itself, so that it needs no mount. Over
    several nodes MPI starts a process for each GPU from the leader, and the other nodes run nothing of their own.
    """
    found = settings(serving)
    text = yaml.safe_dump(found, sort_keys=True, default_flow_style=False) if found else ""
    # Servers of other settings may run on the same machine.
    file = f"/tmp/trtllm-settings-{zlib.crc32(text.encode()):08x}.yaml"
    config = "--config" if at_least(serving.version, TRTLLM_CONFIG) else "--extra_llm_api_options"
    command = (
        *("trtllm-serve", spec.model, "--host", "0.0.0.0", "--port", str(port)),
        *arguments(flags),
        *(("--trust_remote_code",) if spec.trust_remote_code else ()),
        *((config, file) if found else ()),
    )
    if spec.nodes > 1:
        command = _under_mpi(spec, command)
    if found:
        command = in_shell(command, before=f"printf %s {shlex.quote(text)} > {file}")
    return (Process("server" if spec.nodes == 1 else "leader", command, READY_PATH),)


def _under_mpi(spec: ReplicaSpec, command: tuple[str, ...]) -> tuple[str, ...]:
    # trtllm-llmapi-launch splits its arguments at blanks once more.
    if broken := [word for word in command if len(word.split()) != 1]:
        raise QuestionError(f"{broken[0]!r}: TensorRT-LLM over several nodes takes no argument with blanks in it")
    each = spec.gpus_on_each_node
    start = ("mpirun", "--allow-run-as-root", "-n", str(spec.gpus), "--host", "$HOSTS")
    return (*start, "--map-by", f"ppr:{each}:node", "-x", "HF_TOKEN", "trtllm-llmapi-launch", *command)
