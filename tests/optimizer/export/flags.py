"""Commands held against what engines accept: flags with types and choices, as restated from their packages."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data" / "engine_flags.toml"
PROGRAMS = {"vllm": ("vllm", "serve"), "sglang": ("python3", "-m", "sglang.launch_server"), "trtllm": ("trtllm-serve",)}
PLACEHOLDERS = ("$LEADER_ADDRESS", "$NODE_RANK")


@cache
def known_flags(engine: str, version: str) -> dict[str, dict[str, Any]]:
    """The flags of the newest release that is restated and not newer than `version`."""
    releases = [one for one in tomllib.loads(DATA.read_text(encoding="utf-8"))["release"] if one["engine"] == engine]
    fitting = [one for one in releases if _numbers(one["version"]) <= _numbers(version)]
    assert fitting, f"no flags of {engine} {version} or before are restated"
    return dict(max(fitting, key=lambda one: _numbers(one["version"]))["flags"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def server_of(command: Sequence[str]) -> list[str]:
    """The engine's own command inside a shell's or MPI's."""
    words = list(command)
    if words[:2] == ["bash", "-c"]:
        words = shlex.split(re.sub(r"\$\(\(\$NODE_RANK \* (\d+)\)\)", r"\1", words[2]))
        words = words[words.index("exec") + 1 :]
    if "trtllm-llmapi-launch" in words:
        words = words[words.index("trtllm-llmapi-launch") + 1 :]
    return words


def parsed(command: Sequence[str], engine: str, version: str) -> dict[str, str | bool]:
    """Return the flags of a command; an unknown flag, a wrong type or a value that is no choice fails."""
    words, known = server_of(command), known_flags(engine, version)
    program = PROGRAMS[engine]
    assert tuple(words[: len(program)]) == program, words
    rest = words[len(program) :]
    found: dict[str, str | bool] = {}
    if engine != "sglang":
        found["model"] = rest.pop(0)
    while rest:
        name = rest.pop(0)
        assert name in known, f"{engine} {version} has no flag {name}"
        assert name not in found, f"{name} is given twice"
        one = known[name]
        if one["type"] == "switch":
            found[name] = True
            continue
        value = rest.pop(0)
        if value not in PLACEHOLDERS:
            {"int": int, "float": float, "str": str}[one["type"]](value)
            assert value in one.get("choices", [value]), f"{name} {value}: expected one of {one['choices']}"
        found[name] = value
    return found
