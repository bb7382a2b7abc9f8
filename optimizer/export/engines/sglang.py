"""SGLang: `python3 -m sglang.launch_server`, on one node or several."""

from __future__ import annotations

from typing import Final

from optimizer.engine_flags.serving import Flag, Serving, arguments
from optimizer.engine_flags.versions import SGLANG_PIPELINES, at_least, dotted
from optimizer.errors import QuestionError
from optimizer.export.deployment import Process, ReplicaSpec
from optimizer.export.engines.vllm import named

READY_PATH: Final = "/health"
JOIN_PORT: Final = 20000


def processes(spec: ReplicaSpec, serving: Serving, flags: tuple[Flag, ...], port: int) -> tuple[Process, ...]:
    """Return the process of each node; all of them run the same command with their own rank."""
    if serving.pp > 1 and not at_least(serving.version, SGLANG_PIPELINES):
        raise QuestionError(
            f"SGLang {dotted(serving.version)} has no pipeline stages; it does from {dotted(SGLANG_PIPELINES)} on "
            "(--engine-version)"
        )
    command = (
        *("python3", "-m", "sglang.launch_server", "--model-path", spec.model),
        *(*named(spec), "--host", "0.0.0.0", "--port", str(port)),
        *arguments(flags),
        *(("--trust-remote-code",) if spec.trust_remote_code else ()),
    )
    if spec.nodes == 1:
        return (Process("server", command, READY_PATH),)
    joined = (*command, "--dist-init-addr", f"$LEADER_ADDRESS:{JOIN_PORT}", "--nnodes", str(spec.nodes), "--node-rank")
    return (Process("leader", (*joined, "0"), READY_PATH), Process("worker", (*joined, "$NODE_RANK")))
