"""Releases of each engine, and which flags came when.

Releases: the Python package index, read on 2026-11-30. Which flags came when: vLLM's `engine/arg_utils.py` of 0.8.5,
0.9.0, 0.11.0, 0.11.1, 0.12.0 and 0.33.0; SGLang's `server_args.py` of 0.4.6, 0.4.10, 0.5.20, 0.5.21 and 0.5.22, and its
`arg_groups` of 0.5.23; TensorRT-LLM's `commands/serve.py` as of 1.2.
"""

from __future__ import annotations

from datetime import date
from typing import Final

from optimizer.errors import QuestionError

# The newest release when flags were last checked, and its day.
NEWEST: Final[dict[str, tuple[tuple[int, ...], date]]] = {
    "vllm": ((0, 33, 0), date(2026, 11, 1)),
    "sglang": ((0, 5, 23), date(2026, 10, 30)),
    "trtllm": ((1, 2, 1), date(2026, 4, 1)),
}
# Below these no flags were looked at.
OLDEST: Final[dict[str, tuple[int, ...]]] = {"vllm": (0, 8), "sglang": (0, 4, 6), "trtllm": (1, 0)}
# The last release of a series that is known by two numbers.
_SERIES: Final[dict[str, dict[tuple[int, ...], tuple[int, ...]]]] = {
    "vllm": {
        (0, 8): (0, 8, 5),
        (0, 9): (0, 9, 2),
        (0, 10): (0, 10, 2),
        (0, 11): (0, 11, 2),
        (0, 14): (0, 14, 1),
        (0, 15): (0, 15, 1),
        (0, 17): (0, 17, 1),
        (0, 18): (0, 18, 1),
        (0, 19): (0, 19, 1),
        (0, 20): (0, 20, 2),
        (0, 22): (0, 22, 1),
        (0, 25): (0, 25, 1),
        (0, 27): (0, 27, 1),
    },
    "sglang": {(0, 4): (0, 4, 10), (0, 5): (0, 5, 23)},
    "trtllm": {(1, 2): (1, 2, 1)},
}

# vLLM joins nodes by itself (--nnodes, --node-rank, --master-addr; the "mp" executor, and data-parallel ranks inferred
# from them) since 0.11.1; 0.12 is the first release with both in its documentation. Before, pipelines across nodes took
# Ray.
VLLM_JOINS_NODES: Final = (0, 12)
# Data parallelism across nodes (--data-parallel-size-local, --data-parallel-start-rank, --headless).
VLLM_DATA_PARALLEL_NODES: Final = (0, 9)
# A 16-bit cache can be asked for where the checkpoint asks for FP8.
VLLM_BF16_CACHE: Final = (0, 11)
SGLANG_BF16_CACHE: Final = (0, 5, 21)
# One number for data-parallel attention; before, --dp-size with --enable-dp-attention, which goes away after 2026.
SGLANG_ATTENTION_DP_SIZE: Final = (0, 5, 22)
SGLANG_PIPELINES: Final = (0, 4, 10)
# The file of settings is --config; before, --extra_llm_api_options, which is still accepted.
TRTLLM_CONFIG: Final = (1, 2)


def at_least(version: tuple[int, ...], since: tuple[int, ...]) -> bool:
    """Say whether a release (empty: the newest known) has what came with another one."""
    return not version or version >= since


def whole_release(engine: str, version: tuple[int, ...]) -> tuple[int, ...]:
    """Return the release that a version stands for: the newest of its series, or of all where none is named.

    Raises:
        QuestionError: it is older than what is known.
    """
    if not version:
        return NEWEST[engine][0]
    if version < OLDEST[engine]:
        oldest, newest = dotted(OLDEST[engine]), dotted(NEWEST[engine][0])
        raise QuestionError(f"{engine} {dotted(version)}: its flags are not known; expected {oldest} to {newest}")
    if len(version) > 2:
        return version
    padded = (*version, 0, 0)[:2]
    return _SERIES[engine].get(padded, (*padded, 0))


def dotted(version: tuple[int, ...]) -> str:
    """Return a version as it is written."""
    return ".".join(map(str, version))
