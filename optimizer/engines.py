"""Serving engines by name and version; what each does with memory and speed is said where that is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from catalogs.gpus import Gpu

ENGINE_NAMES = ("vllm", "sglang", "trtllm")
# The least compute capability, by release: vLLM's installation pages of 0.14.0 (7.0) and 0.21.0 (7.5); SGLang's kernels
# are FlashInfer's, from 7.5 on; TensorRT-LLM's support matrix of 1.x begins with Ampere. Read on 2026-11-30.
_LEAST_CAPABILITY: Final = {
    "vllm": (((0, 21), 7.5), ((0,), 7.0)),
    "sglang": (((0,), 7.5),),
    "trtllm": (((0,), 8.0),),
}


def engine_version(engine: str) -> tuple[str, tuple[int, ...]]:
    """Split "vllm@0.19.1" into its name and version; an empty version stands for the newest.

    Raises:
        ValueError: the engine is unknown, or its version is not numbers and dots.
    """
    name, at, version = engine.partition("@")
    if name not in ENGINE_NAMES:
        raise ValueError(f"Expected an engine of {', '.join(ENGINE_NAMES)} (vllm@0.19 for a version), got {engine!r}.")
    parts = version.split(".") if at else []
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise ValueError(f"Expected an engine version of numbers and dots, got {version!r}.")
    return name, tuple(map(int, parts))


def why_not_on(engine: str, version: tuple[int, ...], gpu: Gpu) -> str:
    """Say why an engine does not run on a GPU, whatever the layout; empty where it does, or nothing is known.

    Args:
        engine: its name.
        version: an empty one stands for the newest.
        gpu: the type of GPU.
    """
    if gpu.vendor != "nvidia":
        return f"TensorRT-LLM runs on NVIDIA GPUs only, not on {gpu.name}" if engine == "trtllm" else ""
    least = next(capability for since, capability in _LEAST_CAPABILITY[engine] if not version or version >= since)
    if float(gpu.compute_capability) >= least:
        return ""
    name = " ".join(filter(None, (engine, ".".join(map(str, version)))))
    return f"{name} runs from compute capability {least} on, and {gpu.name} has {gpu.compute_capability}"
