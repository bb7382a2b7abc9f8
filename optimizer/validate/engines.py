"""From "vLLM 0.9/0.10 V1" to an engine and its version; the day of a report stands in where it names no version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal

EngineName = Literal["vllm", "sglang", "trtllm", "other"]

# The first day of each minor release, to a week or two: what a report of that day ran when it does not say.
_VLLM_RELEASES: Final = (
    ("2023-06-20", (0, 1)), ("2023-09-28", (0, 2)), ("2024-01-31", (0, 3)), ("2024-03-30", (0, 4)),
    ("2024-06-11", (0, 5)), ("2024-09-05", (0, 6)), ("2025-01-27", (0, 7)), ("2025-03-18", (0, 8)),
    ("2025-05-27", (0, 9)), ("2025-07-24", (0, 10)), ("2025-10-02", (0, 11)), ("2025-12-03", (0, 12)),
    ("2025-12-19", (0, 13)), ("2026-01-20", (0, 14)), ("2026-01-29", (0, 15)), ("2026-02-13", (0, 16)),
    ("2026-03-07", (0, 17)), ("2026-03-20", (0, 18)), ("2026-04-03", (0, 19)), ("2026-04-27", (0, 20)),
    ("2026-05-11", (0, 21)), ("2026-06-05", (0, 22)), ("2026-06-20", (0, 23)), ("2026-07-06", (0, 24)),
    ("2026-07-16", (0, 25)), ("2026-08-01", (0, 26)), ("2026-08-14", (0, 27)), ("2026-09-10", (0, 28)),
)  # fmt: skip
_SGLANG_RELEASES: Final = (
    ("2024-01-17", (0, 1)), ("2024-07-25", (0, 2)), ("2024-09-20", (0, 3)), ("2024-12-03", (0, 4)),
    ("2025-09-01", (0, 5)),
)  # fmt: skip
_TRTLLM_RELEASES: Final = (("2023-10-19", (0, 5)), ("2024-04-16", (0, 9)), ("2025-09-24", (1, 0)))
_NAMES: Final[tuple[tuple[str, EngineName], ...]] = (
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("tensorrt-llm", "trtllm"),
    ("tensorrt_llm", "trtllm"),
    ("trtllm", "trtllm"),
    ("trt-llm", "trtllm"),
)
_VERSION = re.compile(r"(?<![\w.])v?(\d{1,3}(?:\.\d{1,3}){1,2})")
_DAY = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?")
_LAST_V0: Final = (0, 7)


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine of a report.

    Attributes:
        name: "other" for engines whose memory is not modelled.
        version: as said, or as of the report's day; empty where neither is known.
        rocm: whether the report says that it ran on AMD's stack.
        text: what the report calls it.
    """

    name: EngineName
    version: tuple[int, ...]
    rocm: bool
    text: str

    @property
    def spec(self) -> str:
        """The engine as MemoryPolicy takes it, e.g. "vllm@0.19"."""
        return f"{self.name}@{'.'.join(map(str, self.version))}" if self.version else self.name


def read_engine(text: str, day: str) -> Engine:
    """Return the engine that a report names; the first, where it names two."""
    lowered = text.lower()
    found = [(lowered.index(spelling), name) for spelling, name in _NAMES if spelling in lowered]
    rocm = "rocm" in lowered
    if not found:
        return Engine("other", (), rocm, text.strip())
    place, name = min(found)
    said = _VERSION.search(lowered, place)
    version = tuple(map(int, said.group(1).split("."))) if said else _as_of(name, day)
    if name == "vllm" and re.search(r"\bv0\b", lowered) and (not said or version > _LAST_V0):
        version = _LAST_V0 if version > _LAST_V0 or not version else version
    return Engine(name, version, rocm, text.strip())


def read_day(text: str) -> date | None:
    """Return the day of a report: "2025-04-29", "2024-02" (its first day), "2026-02/03"; None where it says none."""
    found = _DAY.search(text)
    if found is None:
        return None
    try:
        return date(int(found.group(1)), int(found.group(2)), int(found.group(3) or 1))
    except ValueError:
        return None


def _as_of(name: EngineName, day: str) -> tuple[int, ...]:
    seen = read_day(day)
    releases: tuple[tuple[str, tuple[int, ...]], ...] = {
        "vllm": _VLLM_RELEASES, "sglang": _SGLANG_RELEASES, "trtllm": _TRTLLM_RELEASES
    }.get(name, ())  # fmt: skip
    if seen is None:
        return ()
    past = [version for first, version in releases if date.fromisoformat(first) <= seen]
    return past[-1] if past else releases[0][1] if releases else ()
