"""vLLM: `vllm serve`, on one node or several."""

from __future__ import annotations

from typing import Final

from optimizer.engine_flags.serving import Flag, Serving, arguments
from optimizer.engine_flags.versions import VLLM_DATA_PARALLEL_NODES, VLLM_JOINS_NODES, at_least, dotted
from optimizer.errors import QuestionError
from optimizer.export.deployment import Process, ReplicaSpec
from optimizer.export.engines.shell import in_shell
from optimizer.memory.eras import gathered_graphs_bytes

READY_PATH: Final = "/health"
RAY_PORT, RPC_PORT = 6379, 13345


def processes(spec: ReplicaSpec, serving: Serving, flags: tuple[Flag, ...], port: int) -> tuple[Process, ...]:
    """Return the process of each node.

    Several nodes: vLLM joins them by itself since 0.12 (--nnodes with the "mp" executor, for pipelines, tensor
    parallelism and data-parallel ranks alike), which needs nothing beside it. Before, data-parallel ranks had flags of
    their own, and everything else took a Ray cluster.
    """
    command = (
        *("vllm", "serve", spec.model, *named(spec), "--host", "0.0.0.0", "--port", str(port)),
        *arguments(flags),
        *(("--trust-remote-code",) if spec.trust_remote_code else ()),
    )
    if spec.nodes == 1:
        return (Process("server", command, READY_PATH),)
    if at_least(serving.version, VLLM_JOINS_NODES):
        return _joined(spec, command)
    if serving.attention_dp > 1:
        return _data_parallel(spec, serving, command)
    return _ray(command)


def named(spec: ReplicaSpec) -> tuple[str, ...]:
    """Return the arguments that name the model for requests, where it is not what is loaded."""
    return () if spec.served_name == spec.model else ("--served-model-name", spec.served_name)


def uses_ray(spec: ReplicaSpec, serving: Serving) -> bool:
    """Say whether the nodes form a Ray cluster."""
    return spec.nodes > 1 and serving.attention_dp == 1 and not at_least(serving.version, VLLM_JOINS_NODES)


def environment(spec: ReplicaSpec, serving: Serving) -> tuple[tuple[str, str], ...]:
    """Return the variables that a layout needs: vLLM's estimate of graphs is far too high with gathered experts."""
    name = "@".join(filter(None, (serving.engine, dotted(serving.version))))
    if gathered_graphs_bytes(name, spec.attention_dp, spec.ep):
        return (("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0"),)
    return ()


def _joined(spec: ReplicaSpec, command: tuple[str, ...]) -> tuple[Process, ...]:
    joined = ("--distributed-executor-backend", "mp", "--nnodes", str(spec.nodes), "--master-addr", "$LEADER_ADDRESS")
    leader = (*command, *joined, "--node-rank", "0")
    worker = (*command, *joined, "--node-rank", "$NODE_RANK", "--headless")
    return (Process("leader", leader, READY_PATH), Process("worker", worker))


def _data_parallel(spec: ReplicaSpec, serving: Serving, command: tuple[str, ...]) -> tuple[Process, ...]:
    local = spec.attention_dp // spec.nodes
    if not at_least(serving.version, VLLM_DATA_PARALLEL_NODES):
        raise QuestionError(
            f"vLLM {dotted(serving.version)} does not spread data-parallel ranks over nodes; it does from "
            f"{dotted(VLLM_DATA_PARALLEL_NODES)} on (--engine-version)"
        )
    if serving.pp > 1 or spec.attention_dp % spec.nodes or serving.tp * local > spec.gpus_on_each_node:
        raise QuestionError(
            f"vLLM {dotted(serving.version)} runs each data-parallel rank within one node; from "
            f"{dotted(VLLM_JOINS_NODES)} on it does not have to (--engine-version)"
        )
    joined = (
        *("--data-parallel-size-local", str(local), "--data-parallel-address", "$LEADER_ADDRESS"),
        *("--data-parallel-rpc-port", str(RPC_PORT)),
    )
    leader = (*command, *joined)
    first = str(local) if spec.nodes == 2 else f"$(($NODE_RANK * {local}))"
    worker = (*command, *joined, "--headless", "--data-parallel-start-rank")
    if spec.nodes == 2:
        return (Process("leader", leader, READY_PATH), Process("worker", (*worker, first)))
    return (Process("leader", leader, READY_PATH), Process("worker", in_shell((*worker, first), arithmetic=first)))


def _ray(command: tuple[str, ...]) -> tuple[Process, ...]:
    serve = (*command, "--distributed-executor-backend", "ray")
    head = in_shell(serve, before=f"ray start --head --port={RAY_PORT}")
    worker = ("ray", "start", "--block", f"--address=$LEADER_ADDRESS:{RAY_PORT}")
    return (Process("leader", head, READY_PATH), Process("worker", worker))
