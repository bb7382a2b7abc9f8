"""The engine's own flags that give a layout: what to type so that the memory counted here is the memory it takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

from catalogs.model_precision import WEIGHT_FORMATS
from catalogs.model_spec import ModelSpec
from optimizer.engines import engine_version
from optimizer.memory.eras import GRAPHS_IN_BUDGET_SINCE
from optimizer.memory.footprint import DEFAULT_BATCHED_TOKENS, footprint
from optimizer.memory.policy import MemoryPolicy, demand
from optimizer.split import Split

_DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_ONLINE: Final = {"fp8": "fp8"}  # formats that engines make from a 16-bit checkpoint while loading
_HIGHEST_FRACTION: Final = 0.98


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

    The memory fraction is the policy's under "engine"; under "framework" it is the smallest, in hundredths, with which
    the engine holds these requests.

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
    each = max(1, ceil(concurrency / split.attention_dp))
    fraction = _fraction(model, split, policy, gpu_memory_bytes, context_tokens, each, max_batched_tokens)
    build = {"vllm": _vllm, "sglang": _sglang, "trtllm": _tensorrt_llm}[name]
    flags = build(split, fraction, context_tokens, each, max_batched_tokens)
    notes = []
    if fraction >= _HIGHEST_FRACTION:
        notes.append("the engine does not hold this many requests at any memory fraction")
    if name == "vllm" and version and version < GRAPHS_IN_BUDGET_SINCE and fraction > 0.92:
        notes.append("graphs are captured outside the memory fraction before vLLM 0.21: leave room for them")
    quantized, note = _quantization(model, split.weights, name)
    return EngineFlags(policy.engine, (*flags, *quantized), (*notes, *note))


def _fraction(
    model: ModelSpec, split: Split, policy: MemoryPolicy, memory: float, context: int, each: int, batched: int
) -> float:
    if policy.name == "engine":
        return policy.gpu_memory_utilization
    held = footprint(model, split, max_batched_tokens=batched, max_sequences=max(each, 1))
    kv = each * held.kv_bytes_per_sequence(float(context))
    for hundredths in range(30, round(100 * _HIGHEST_FRACTION)):
        tried = MemoryPolicy("engine", gpu_memory_utilization=hundredths / 100, engine=policy.engine)
        asked = demand(tried, memory, held.weights_bytes, kv, held.activation_bytes, ranks=held.ranks)
        if asked.need <= asked.available:
            return hundredths / 100
    return _HIGHEST_FRACTION


def _vllm(split: Split, fraction: float, context: int, each: int, batched: int) -> list[str]:
    flags = [f"--tensor-parallel-size {split.tp}"]
    flags += [f"--pipeline-parallel-size {split.pp}"] if split.pp > 1 else []
    flags += [f"--data-parallel-size {split.attention_dp}"] if split.attention_dp > 1 else []
    flags += ["--enable-expert-parallel"] if split.ep > 1 else []
    flags += [
        f"--gpu-memory-utilization {fraction:.2f}",
        f"--max-model-len {context}",
        f"--max-num-seqs {each}",
        f"--max-num-batched-tokens {batched}",
    ]
    return flags + _types("--dtype", "--kv-cache-dtype", split, "fp8")


def _sglang(split: Split, fraction: float, context: int, each: int, batched: int) -> list[str]:
    # SGLang's tp counts all GPUs of a stage, attention ranks included, and its limit is of the whole server.
    flags = [f"--tp-size {split.tp * split.attention_dp}"]
    flags += [f"--pp-size {split.pp}"] if split.pp > 1 else []
    flags += [f"--dp-size {split.attention_dp}", "--enable-dp-attention"] if split.attention_dp > 1 else []
    flags += [f"--ep-size {split.ep}"] if split.ep > 1 else []
    flags += [
        f"--mem-fraction-static {fraction:.2f}",
        f"--context-length {context}",
        f"--max-running-requests {each * split.attention_dp}",
        f"--chunked-prefill-size {batched}",
    ]
    return flags + _types("--dtype", "--kv-cache-dtype", split, "fp8_e4m3")


def _tensorrt_llm(split: Split, fraction: float, context: int, each: int, batched: int) -> list[str]:
    flags = [f"--tp_size {split.tp * split.attention_dp}"]
    flags += [f"--pp_size {split.pp}"] if split.pp > 1 else []
    flags += [f"--ep_size {split.ep}"] if split.ep > 1 else []
    flags += [
        f"--kv_cache_free_gpu_memory_fraction {fraction:.2f}",
        f"--max_seq_len {context}",
        f"--max_batch_size {each}",
        f"--max_num_tokens {batched}",
    ]
    return flags + (["--kv_cache_dtype fp8"] if split.kv_cache == "fp8" else [])


def _types(dtype: str, kv: str, split: Split, fp8: str) -> list[str]:
    flags = [f"{dtype} {_DTYPES[split.weights]}"] if split.weights in _DTYPES else []
    return flags + ([f"{kv} {fp8}"] if split.kv_cache == "fp8" else [])


def _quantization(model: ModelSpec, weights: str, engine: str) -> tuple[list[str], list[str]]:
    """Flags that quantize while loading, or the note that another checkpoint is needed; formats are the catalog's."""
    if weights in _DTYPES or weights == model.checkpoint.weights or weights not in WEIGHT_FORMATS:
        return [], []
    if weights in _ONLINE and engine in ("vllm", "sglang") and model.checkpoint.weights in _DTYPES:
        return [f"--quantization {_ONLINE[weights]}"], []
    return [], [f"needs a checkpoint of {model.name} in {weights}: this one is {model.checkpoint.weights}"]
