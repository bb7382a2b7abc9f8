"""How much of a GPU's memory may be used: the planner's rule of thumb, or what a serving engine would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizer.engines import engine_version
from optimizer.scenario import Memory

FloatArray = NDArray[np.float64]

GIB = 2.0**30
Fraction = Literal["of_total", "static_pool", "of_free"]
GRAPHS_COUNTED_SINCE = (0, 21)


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """What one engine takes beside weights, cache and activations, and what its memory fraction is a fraction of.

    Attributes:
        fraction: "of_total" (vLLM: everything the process may use), "static_pool" (SGLang: weights and cache;
            activations and graphs live in the rest), "of_free" (TensorRT-LLM: the cache, of what weights, buffers and
            activations leave).
        single_bytes: CUDA context and libraries of a GPU that talks to no other.
        joined_bytes: the same with collectives' buffers, on cards of at least 60 GiB.
        joined_small_bytes: the same on smaller cards.
        graphs_bytes: CUDA graphs, where the engine takes them out of its budget.
    """

    fraction: Fraction
    single_bytes: float
    joined_bytes: float
    joined_small_bytes: float
    graphs_bytes: float = 0.0


# vLLM's non-torch memory as its profile printed it. 0.24 to 0.26 GiB on one H100 and 2.07 to 2.13 at TP2 and TP4 (vLLM
# 0.19.0, llm-d-planner accuracy report, 22 April 2026); 0.35 GiB on one RTX 3090 (issue 10517) and 0.2 on each of 16 at
# TP16 (issue 14447): cards without an NVSwitch have neither multicast buffers nor the custom all-reduce's, and those
# cards are the small ones. Graphs come out of the budget since 0.21 (issue 45178); before they had to find room outside
# it (issue 17469).
_VLLM = EngineMemory("of_total", 0.25 * GIB, 2.1 * GIB, 0.25 * GIB)
_VLLM_WITH_GRAPHS = EngineMemory("of_total", 0.25 * GIB, 2.1 * GIB, 0.25 * GIB, graphs_bytes=0.5 * GIB)
# SGLang takes its fraction of what is free before weights load: 137.9 of 139.8 GiB on H200 at TP8, where 125.65 GiB of
# weights needed a fraction of 0.9113 (InferenceX issue 2128). DeepSeek-R1 at 0.82 then held 509,000 tokens (aisimulate
# issue 263).
_SGLANG = EngineMemory("static_pool", 0.5 * GIB, 2.0 * GIB, 0.6 * GIB)
_TENSORRT_LLM = EngineMemory("of_free", 0.5 * GIB, 2.1 * GIB, 0.6 * GIB)
JOINED_FROM_BYTES = 60 * GIB

ENGINES: dict[str, EngineMemory] = {"vllm": _VLLM_WITH_GRAPHS, "sglang": _SGLANG, "trtllm": _TENSORRT_LLM}


def engine_memory(engine: str) -> EngineMemory:
    """Return the figures of an engine: "vllm", "sglang", "trtllm", or one of a version as in "vllm@0.19".

    Raises:
        ValueError: the engine is unknown, or its version is not numbers and dots.
    """
    name, version = engine_version(engine)
    return _VLLM if name == "vllm" and version and version < GRAPHS_COUNTED_SINCE else ENGINES[name]


def vllm_batch_defaults(gpu: str, gpu_memory_bytes: float) -> tuple[int, int]:
    """Return vLLM's default (max_num_batched_tokens, max_num_seqs) of its API server on this GPU.

    8,192 and 1,024 from 70 GiB up except on A100, else 2,048 and 256 (`EngineArgs.get_batch_defaults`, since vLLM 0.9).
    """
    large = gpu_memory_bytes >= 70 * GIB and "a100" not in gpu.lower()
    return (8192, 1024) if large else (2048, 256)


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """How memory is counted.

    Attributes:
        name: "framework": (weights + cache) x (1 + overhead) within GPU memory x (1 - headroom), activations being part
            of the overhead. "engine": what `engine` would do with its memory fraction.
        overhead: share of weights and cache added for everything else (framework).
        headroom: share of the GPU's memory left free (framework).
        gpu_memory_utilization: the engine's memory fraction (engine): vLLM's gpu_memory_utilization, SGLang's
            mem_fraction_static, TensorRT-LLM's free_gpu_memory_fraction.
        engine: "vllm", "sglang", "trtllm", or of a version: "vllm@0.19" (engine).

    Raises:
        ValueError: a value is out of its range, or a name is unknown.
    """

    name: Literal["framework", "engine"] = "framework"
    overhead: float = 0.15
    headroom: float = 0.20
    gpu_memory_utilization: float = 0.90
    engine: str = "vllm"

    def __post_init__(self) -> None:
        if self.name not in {"framework", "engine"}:
            raise ValueError(f"Expected a memory policy of 'framework' or 'engine', got {self.name!r}.")
        if not 0 <= self.overhead < float("inf"):
            raise ValueError(f"Expected overhead >= 0, got {self.overhead}.")
        if not 0 <= self.headroom < 1:
            raise ValueError(f"Expected 0 <= headroom < 1, got {self.headroom}.")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(f"Expected 0 < gpu_memory_utilization <= 1, got {self.gpu_memory_utilization}.")
        engine_memory(self.engine)


def memory_policy(memory: Memory) -> MemoryPolicy:
    """Return the memory policy that the scenario asks for."""
    return MemoryPolicy(
        name=memory.policy,
        overhead=memory.overhead,
        headroom=memory.headroom,
        gpu_memory_utilization=memory.gpu_memory_utilization,
        engine=memory.engine,
    )


@dataclass(frozen=True, slots=True)
class Demand:
    """Need and what may be used, by cause, in bytes; arrays of one shape or scalars."""

    activations: FloatArray
    overhead: FloatArray
    need: FloatArray
    available: FloatArray


def available_bytes(policy: MemoryPolicy, gpu_memory_bytes: ArrayLike, ranks: ArrayLike = 1) -> FloatArray:
    """Return what the policy lets weights, cache, activations and overhead use of one GPU together."""
    memory = np.asarray(gpu_memory_bytes, dtype=np.float64)
    if policy.name == "framework":
        return np.asarray(memory * (1 - policy.headroom))
    engine = engine_memory(policy.engine)
    if engine.fraction == "of_total":
        return np.asarray(memory * policy.gpu_memory_utilization)
    if engine.fraction == "of_free":
        return memory
    reserved = _reserved_bytes(engine, memory, ranks)
    return np.asarray(reserved + (memory - reserved) * policy.gpu_memory_utilization)


def demand(
    policy: MemoryPolicy,
    gpu_memory_bytes: ArrayLike,
    weights_bytes: ArrayLike,
    kv_bytes: ArrayLike,
    activation_bytes: ArrayLike,
    *,
    ranks: ArrayLike = 1,
) -> Demand:
    """Return what one GPU needs for these weights and this cache, and what it has; feasible where need <= available.

    The one place where feasibility is decided: capacities are corrected against it, so they agree to the last byte.
    """
    memory = np.asarray(gpu_memory_bytes, dtype=np.float64)
    weights = np.asarray(weights_bytes, dtype=np.float64)
    kv = np.asarray(kv_bytes, dtype=np.float64)
    estimate = np.asarray(activation_bytes, dtype=np.float64)
    if policy.name == "framework":
        extra = policy.overhead * (weights + kv)
        activations = np.minimum(estimate, extra)
        overhead = extra - activations
    else:
        activations, overhead = _engine_extra(policy, memory, kv, estimate, ranks)
    need = weights + kv + activations + overhead
    return Demand(activations, overhead, need, available_bytes(policy, memory, ranks))


def kv_budget_bytes(
    policy: MemoryPolicy,
    gpu_memory_bytes: ArrayLike,
    weights_bytes: ArrayLike,
    activation_bytes: ArrayLike = 0.0,
    *,
    ranks: ArrayLike = 1,
) -> FloatArray:
    """Return the bytes per GPU that are left for KV cache; negative where the weights alone do not fit.

    framework: memory x (1 - headroom) / (1 + overhead) - weights. vLLM: memory x fraction - weights - activations -
    context - graphs. SGLang: (memory - context) x fraction - weights, less what activations need beyond the rest.
    TensorRT-LLM: (memory - weights - activations - context) x fraction.

    Args:
        policy: how memory is counted.
        gpu_memory_bytes: memory of one GPU as its driver reports it.
        weights_bytes: weights of one GPU (Footprint.weights_bytes).
        activation_bytes: activations of one GPU (Footprint.activation_bytes).
        ranks: GPUs that talk in collectives inside a stage (Footprint.ranks).

    Returns:
        An array of the arguments' common shape (0-dimensional for scalars).
    """
    fixed = demand(policy, gpu_memory_bytes, weights_bytes, 0.0, activation_bytes, ranks=ranks)
    if policy.name == "framework":
        weights = np.asarray(weights_bytes, dtype=np.float64)
        return np.asarray(fixed.available / (1 + policy.overhead) - weights)
    free = fixed.available - fixed.need
    if engine_memory(policy.engine).fraction == "of_free":
        return np.asarray(np.where(free > 0, free * policy.gpu_memory_utilization, free))
    return np.asarray(free)


def _engine_extra(
    policy: MemoryPolicy, memory: FloatArray, kv: FloatArray, estimate: FloatArray, ranks: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Activations inside the engine's fraction, and the rest of what it takes."""
    engine = engine_memory(policy.engine)
    reserved = _reserved_bytes(engine, memory, ranks)
    if engine.fraction == "of_total":
        return estimate, reserved
    if engine.fraction == "static_pool":
        outside = (memory - reserved) * (1 - policy.gpu_memory_utilization)
        return np.maximum(0.0, estimate - outside), reserved
    return estimate, reserved + kv * (1 / policy.gpu_memory_utilization - 1)


def _reserved_bytes(engine: EngineMemory, memory: FloatArray, ranks: ArrayLike) -> FloatArray:
    joined = np.where(memory >= JOINED_FROM_BYTES, engine.joined_bytes, engine.joined_small_bytes)
    return np.where(np.asarray(ranks) > 1, joined, engine.single_bytes) + engine.graphs_bytes
