"""ReplicaSpec -> EngineLaunch: the engine's release, its image, what each node runs, and what no flag does."""

from __future__ import annotations

from typing import Final

from catalogs.gpus import get_gpu
from optimizer.engine_flags.layout import layout_flags, layout_notes
from optimizer.engine_flags.serving import Serving
from optimizer.engine_flags.versions import NEWEST, dotted, whole_release
from optimizer.engines import engine_version
from optimizer.errors import QuestionError
from optimizer.export.deployment import EngineLaunch, Process, ReplicaSpec
from optimizer.export.engines import sglang, trtllm, vllm
from optimizer.export.engines.images import image_of

_PROCESSES = {"vllm": vllm.processes, "sglang": sglang.processes, "trtllm": trtllm.processes}
# Families whose weights the Hub gives out only to those who accepted a licence (their model cards, 2026-11).
_GATED: Final = ("meta-llama/", "mistralai/", "cohereforai/", "coherelabs/", "google/gemma-2", "google/gemma-3")
TOKEN: Final = "HF_TOKEN"
FOLDER: Final = "the checkpoint is the folder"  # how the note on it begins


def launch(spec: ReplicaSpec, gpu: str, *, port: int, image: str | None = None) -> EngineLaunch:
    """Return how an engine starts one replica.

    Args:
        spec: the replica.
        gpu: type of its GPUs.
        port: where it serves.
        image: a container image instead of the engine's own.

    Raises:
        QuestionError: the engine, in that release, cannot run the replica, or a name cannot be an argument.
    """
    serving = serving_of(spec)
    for what, name in (("model", spec.model), ("served name", spec.served_name)):
        if name.startswith("-") or any(not sign.isprintable() for sign in name):
            raise QuestionError(f"{what} {name!r}: expected printable characters, the first of them no dash")
    if spec.gpus % spec.nodes:
        raise QuestionError(f"{spec.gpus} GPUs do not divide over {spec.nodes} nodes alike, which engines ask for")
    found = _PROCESSES[spec.engine](spec, serving, layout_flags(serving), port)
    secrets = (TOKEN,) if is_gated(spec.model) else ()
    return EngineLaunch(
        engine=spec.engine,
        version=dotted(serving.version),
        image=image or image_of(spec.engine, serving.version, get_gpu(gpu)),
        processes=found,
        environment=vllm.environment(spec, serving) if spec.engine == "vllm" else (),
        secrets=secrets,
        optional_secrets=(TOKEN,) if not secrets and is_hub_name(spec.model) else (),
        port=port,
        ray=spec.engine == "vllm" and vllm.uses_ray(spec, serving),
        mpi=spec.engine == "trtllm" and spec.nodes > 1,
        notes=(*layout_notes(serving), *_notes(spec, serving, found)),
    )


def serving_of(spec: ReplicaSpec) -> Serving:
    """Return what the flags are made from; a version that is not whole stands for the newest of its series."""
    name = f"{spec.engine}@{spec.engine_version}" if spec.engine_version else spec.engine
    try:
        engine, version = engine_version(name)
    except ValueError as error:
        raise QuestionError(str(error)) from None
    return Serving(
        engine=engine,
        version=whole_release(engine, version),
        model_name=spec.model,
        weights=spec.weights,
        kv_cache=spec.kv_cache,
        checkpoint_weights=spec.checkpoint_weights,
        checkpoint_kv_cache=spec.checkpoint_kv_cache,
        tp=spec.tp,
        pp=spec.pp,
        ep=spec.ep,
        attention_dp=spec.attention_dp,
        max_model_len_tokens=spec.max_model_len_tokens,
        max_sequences=spec.max_sequences,
        max_batched_tokens=spec.max_batched_tokens,
        gpu_memory_fraction=spec.gpu_memory_fraction,
    )


def is_hub_name(model: str) -> bool:
    """Say whether a model is named as on the Hub, and not by a path."""
    return model.count("/") == 1 and not model.startswith((".", "/", "~"))


def is_gated(model: str) -> bool:
    """Say whether the Hub asks for a token of this model."""
    return is_hub_name(model) and model.lower().startswith(_GATED)


def _notes(spec: ReplicaSpec, serving: Serving, found: tuple[Process, ...]) -> list[str]:
    newest, checked_on = NEWEST[spec.engine]
    longest = f"requests of more than {spec.max_model_len_tokens:,} tokens, answer included, are refused"
    notes = [f"{longest}; `shardwise solve --context` keeps memory for longer ones"]
    if serving.version > newest:
        notes.append(f"flags were checked against {spec.engine} {dotted(newest)} ({checked_on}), not a later release")
    if not is_hub_name(spec.model):
        notes.append(f"{FOLDER} {spec.model!r}: it has to be at that path where the engine runs, in its container too")
    if spec.trust_remote_code:
        notes.append("the checkpoint brings code of its own, which --trust-remote-code runs: look at it first")
    if spec.engine == "trtllm" and spec.served_name != spec.model:
        notes.append(f"requests have to call the model {spec.model!r}: trtllm-serve takes no other name")
    if spec.engine == "trtllm" and spec.nodes > 1:
        notes.append("MPI starts all nodes from the leader: they reach each other over SSH without a password")
    if len(found) > 1:
        notes.append("nodes have to reach each other on all ports; NCCL_SOCKET_IFNAME names the interface to use")
    return notes
