"""Serving engines by name and version; what each does with memory and speed is said where that is counted."""

from __future__ import annotations

ENGINE_NAMES = ("vllm", "sglang", "trtllm")


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
