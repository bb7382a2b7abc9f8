"""The flags of a vLLM command that say its layout, read as vLLM reads them; the others are kept as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from optimizer.errors import QuestionError

_INTEGERS: Final = {
    "--tensor-parallel-size": "tp",
    "--pipeline-parallel-size": "pp",
    "--data-parallel-size": "data_parallel",
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--max-model-len": "max_model_len",
    "--nnodes": "nnodes",
    "--data-parallel-size-local": "data_parallel_local",
    "--decode-context-parallel-size": "decode_context_parallel",
    "--prefill-context-parallel-size": "prefill_context_parallel",
    "--port": "port",
}
_TEXTS: Final = {
    "--model": "model",
    "--served-model-name": "served_name",
    "--dtype": "dtype",
    "--quantization": "quantization",
    "--kv-cache-dtype": "kv_cache_dtype",
}
_SWITCHES: Final = {"--enable-expert-parallel": "expert_parallel", "--trust-remote-code": "trust_remote_code"}
_FRACTION: Final = ("--gpu-memory-utilization", "--device-memory-utilization")
_SHORT: Final = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpl": "--data-parallel-size-local",
    "-dcp": "--decode-context-parallel-size",
    "-pcp": "--prefill-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-q": "--quantization",
    "-n": "--nnodes",
}
# Flags without a value, of vLLM 0.33: what follows them may be the model.
_SWITCH_PREFIXES: Final = ("--enable-", "--disable-", "--no-", "--skip-", "--use-")
_OTHER_SWITCHES: Final = frozenset(
    {
        "--async-scheduling",
        "--calculate-kv-scales",
        "--data-parallel-external-lb",
        "--data-parallel-hybrid-lb",
        "--enforce-eager",
        "--fully-sharded-loras",
        "--headless",
        "--language-model-only",
        "--mm-encoder-only",
        "--return-tokens-as-token-ids",
    }
)
# vLLM reads 1k as 1,000 and 1K as 1,024 (human_readable_int in vllm/engine/arg_utils.py, 0.33).
_SUFFIXES: Final = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
}
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)([kmgKMG]?)")
_SECRET: Final = re.compile(r"key|token$|secret|password", re.IGNORECASE)
_LARGEST: Final = 10**9


@dataclass
class Read:
    """What a command says; None is what it does not say.

    Attributes:
        others: flags that say nothing of the layout, as they are typed.
        config: a file of settings that it names.
    """

    model: str | None = None
    served_name: str | None = None
    tp: int = 1
    pp: int = 1
    data_parallel: int = 1
    data_parallel_local: int | None = None
    decode_context_parallel: int = 1
    prefill_context_parallel: int = 1
    nnodes: int = 1
    expert_parallel: bool = False
    trust_remote_code: bool = False
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    port: int | None = None
    config: str | None = None
    others: list[str] = field(default_factory=list)


def read_arguments(arguments: tuple[str, ...], *, positional_model: bool) -> Read:
    """Read what vLLM is given.

    Args:
        arguments: as a shell would pass them.
        positional_model: a first argument that is no flag is the model (`vllm serve MODEL`).

    Raises:
        QuestionError: a flag lacks its value, or has one that vLLM would refuse.
    """
    found, rest = Read(), list(arguments)
    if positional_model and rest and not rest[0].startswith("-"):
        found.model = rest.pop(0)
    while rest:
        word = rest.pop(0)
        name, value = _flag(word)
        if name in _SWITCHES:
            setattr(found, _SWITCHES[name], value is None or value.lower() in ("true", "1"))
        elif _opposite(name) in _SWITCHES:
            setattr(found, _SWITCHES[_opposite(name)], False)
        elif name in _INTEGERS or name in _TEXTS or name in _FRACTION or name == "--config":
            _note(found, name, _value(word, value, rest))
        elif word.startswith("-") and len(word) > 1:
            found.others.append(_said(word, _values(name, value, rest)))
        elif positional_model and found.model is None:
            found.model = word
        else:
            found.others.append(word)
    return found


def _opposite(name: str) -> str:
    """Return the switch that a flag turns off: --no-trust-remote-code, --no-enable-x and --disable-x."""
    return name.replace("--no-", "--", 1) if name.startswith("--no-") else name.replace("--disable-", "--enable-", 1)


def _flag(word: str) -> tuple[str, str | None]:
    """Return a flag in its long spelling with dashes, and the value that is joined to it by an equals sign."""
    if not word.startswith("-"):
        return word, None
    name, equals, value = word.partition("=")
    if name.startswith("--"):
        # vLLM takes underscores for dashes, but not behind a dot (--compilation-config.mode).
        head, dot, tail = name.partition(".")
        name = head.replace("_", "-") + dot + tail
    return _SHORT.get(name, name), value if equals else None


def _value(word: str, joined: str | None, rest: list[str]) -> str:
    if joined is not None:
        return joined
    if not rest or (rest[0].startswith("-") and _NUMBER.fullmatch(rest[0][1:]) is None):
        raise QuestionError(f"{word}: has no value")
    return rest.pop(0)


def _values(name: str, joined: str | None, rest: list[str]) -> list[str]:
    """Take the values of a flag that is not known: what follows until the next flag."""
    found: list[str] = []
    if joined is not None or name in _OTHER_SWITCHES or name.startswith(_SWITCH_PREFIXES):
        return found
    while rest and not rest[0].startswith("-"):
        found.append(rest.pop(0))
    return found


def _said(word: str, values: list[str]) -> str:
    """Return a flag as it was typed, without what may be a secret."""
    name, equals, _ = word.partition("=")
    if _SECRET.search(name) and (equals or values):
        return f"{name} (not shown)"
    return " ".join((word, *values))


def _note(found: Read, name: str, value: str) -> None:
    if name in _INTEGERS:
        number = _integer(name, value)
        if number is not None:
            setattr(found, _INTEGERS[name], number)
    elif name in _FRACTION:
        found.gpu_memory_utilization = _fraction(name, value)
    elif name == "--config":
        found.config = value
    else:
        setattr(found, _TEXTS[name], value)


def _integer(name: str, value: str) -> int | None:
    """Return a whole number; None where vLLM is told to find it out."""
    if name == "--max-model-len" and value in ("auto", "-1"):
        return None
    match = _NUMBER.fullmatch(value)
    number = float(match[1]) * _SUFFIXES.get(match[2], 1) if match and len(value) <= 20 else 0.0
    if not 1 <= number <= _LARGEST or number != int(number):
        raise QuestionError(f"{name} {value!r}: expected a whole number from 1; variables are not filled in")
    return int(number)


def _fraction(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise QuestionError(f"{name} {value!r}: expected a share above 0 and at most 1")
    return number
