"""The flags that give a replica, so that the memory counted here is the memory that the engine takes."""

from __future__ import annotations

from dataclasses import dataclass

from catalogs.model_spec import ModelSpec
from optimizer.engine_flags import sglang, trtllm, vllm
from optimizer.engine_flags.serving import Flag, Serving
from optimizer.engine_flags.versions import OLDEST, whole_release
from optimizer.engine_flags.weights import weight_notes
from optimizer.engines import engine_version
from optimizer.memory.eras import GRAPHS_IN_BUDGET_SINCE
from optimizer.memory.footprint import DEFAULT_BATCHED_TOKENS
from optimizer.memory.fraction import HIGHEST_FRACTION, memory_fraction
from optimizer.memory.policy import MemoryPolicy
from optimizer.split import Split

LAYOUT_FLAGS = {"vllm": vllm.layout_flags, "sglang": sglang.layout_flags, "trtllm": trtllm.layout_flags}


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """Flags of one engine.

    Attributes:
        engine: name and version they are for.
        flags: as typed, one flag with its value an entry.
        notes: what no flag does, e.g. that a quantized checkpoint is needed.
    """

    engine: str
    flags: tuple[str, ...]
    notes: tuple[str, ...] = ()


def engine_flags(
    model: ModelSpec,
    split: Split,
    policy: MemoryPolicy,
    gpu_memory_bytes: float,
    *,
    context_tokens: int,
    concurrency: int,
    max_batched_tokens: int = DEFAULT_BATCHED_TOKENS,
) -> EngineFlags:
    """Return the flags that make `policy.engine` run this layout with `concurrency` requests of `context_tokens` each.

    Args:
        model: the model.
        split: how a replica is divided.
        policy: how memory is counted, and the engine.
        gpu_memory_bytes: memory of one GPU.
        context_tokens: longest request.
        concurrency: requests at once on the whole replica.
        max_batched_tokens: tokens one step may process.

    Raises:
        ValueError: the engine is unknown.
    """
    name, version = engine_version(policy.engine)
    fraction = memory_fraction(
        model,
        split,
        policy,
        gpu_memory_bytes,
        context_tokens=context_tokens,
        concurrency=concurrency,
        max_batched_tokens=max_batched_tokens,
    )
    serving = Serving(
        engine=name,
        version=whole_release(name, version) if version >= OLDEST[name] else version,
        model_name=model.name,
        weights=split.weights,
        kv_cache=split.kv_cache,
        checkpoint_weights=str(model.checkpoint.weights),
        checkpoint_kv_cache=str(model.checkpoint.own_kv_cache),
        tp=split.tp,
        pp=split.pp,
        ep=split.ep,
        attention_dp=split.attention_dp,
        max_model_len_tokens=context_tokens,
        max_sequences=concurrency,
        max_batched_tokens=max_batched_tokens,
        gpu_memory_fraction=fraction,
    )
    notes = (*layout_notes(serving), *(trtllm.settings_notes(serving) if name == "trtllm" else ()))
    return EngineFlags(policy.engine, tuple(map(str, layout_flags(serving))), notes)


def layout_flags(serving: Serving) -> tuple[Flag, ...]:
    """Return the flags of a layout in the words of its engine."""
    return LAYOUT_FLAGS[serving.engine](serving)


def layout_notes(serving: Serving) -> tuple[str, ...]:
    """Say what no flag of a layout does."""
    notes = []
    fraction, version = serving.gpu_memory_fraction, serving.version
    if fraction >= HIGHEST_FRACTION:
        notes.append("the engine does not hold this many requests at any memory fraction")
    if serving.engine == "vllm" and version and version < GRAPHS_IN_BUDGET_SINCE and fraction > 0.92:
        notes.append("graphs are captured outside the memory fraction before vLLM 0.21: leave room for them")
    follows = serving.checkpoint_kv_cache == "fp8" and serving.kv_cache != "fp8"
    if follows and not any("kv" in flag.name and "dtype" in flag.name for flag in layout_flags(serving)):
        notes.append(
            f"the checkpoint asks for an FP8 cache, and no flag asks for the {serving.kv_cache} one that is counted"
        )
    return (*notes, *weight_notes(serving))
