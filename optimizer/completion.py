"""Shell completion: which values a flag or an argument takes, read without tables or a solver.

A shell asks on every press of Tab and people wait for it, so names come straight from the catalog's data files. Flags
get their completions by name (see optimizer.cli_options.option), arguments where they are described.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Final

import catalogs

Complete = Callable[[str], list[str]]

_DATA = Path(catalogs.__file__).parent / "data"
_PLAIN = re.compile(r"[\w.+@%:,=-]+")
# As optimizer.scenario, catalogs.gpus and their like have them, which are not light; tests compare the two.
TERMS = ("on-demand", "spot", "reserved-1y", "reserved-3y", "any")
PROVIDER_KINDS = ("hyperscaler", "gpu-cloud", "marketplace", "own", "any")
WEIGHTS = ("checkpoint", "fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "any")
KV_CACHES = ("auto", "fp32", "bf16", "fp16", "fp8", "any")
LEVELS = ("mean", "p50", "p90", "p95", "p99")


def gpus() -> Iterable[str]:
    """Names of GPU types."""
    return list(tomllib.loads((_DATA / "gpus.toml").read_text(encoding="utf-8"))["gpus"])


def providers() -> Iterable[str]:
    """Names of providers."""
    return list(tomllib.loads((_DATA / "providers.toml").read_text(encoding="utf-8")))


def models() -> Iterable[str]:
    """Hub names of the bundled models."""
    return list(json.loads((_DATA / "models" / "index.json").read_text(encoding="utf-8")))


def targets() -> Iterable[str]:
    """What launch files can be written for."""
    return list(import_module("optimizer.export.targets").TARGETS)


def schemas() -> Iterable[str]:
    """Names of JSON schemas."""
    return list(import_module("optimizer.commands.schema").SCHEMAS)


def one_of(values: Callable[[], Iterable[str]]) -> Complete:
    """Complete one of some values, and further ones after commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = set(before.split(","))
        return [f"{before}{comma}{one}" for one in values() if one.startswith(last) and one not in taken]

    return complete


def files(*suffixes: str) -> Complete:
    """Complete folders, and files with one of some suffixes.

    bash puts in what it is told as it is, so names that a shell would act on (blanks, `$(...)`) are left to its own
    completion of files, which quotes them.
    """

    def complete(incomplete: str) -> list[str]:
        folder, slash, start = incomplete.rpartition("/")
        looked = Path(f"{folder}{slash}" or ".").expanduser()
        try:
            found = sorted(looked.iterdir())
        except OSError:
            return []
        fitting = [one for one in found if one.name.startswith(start) and _PLAIN.fullmatch(one.name)]
        if not start:
            fitting = [one for one in fitting if not one.name.startswith(".")]
        return [
            f"{folder}{slash}{one.name}{'/' if one.is_dir() else ''}"
            for one in fitting
            if one.is_dir() or one.suffix.lower() in suffixes
        ]

    return complete


def any_of(*ways: Complete) -> Complete:
    """Complete what any of these would."""
    return lambda incomplete: [one for way in ways for one in way(incomplete)]


SCENARIO: Final = files(".yaml", ".yml")
PLAN: Final = files(".json")
MODEL: Final = any_of(one_of(models), files(".json"))
QUESTION: Final = any_of(SCENARIO, one_of(models))
SCHEMA: Final = one_of(schemas)

# Flag -> how its value is completed, in every command that has it.
OF_FLAGS: Final[dict[str, Complete]] = {
    "--gpu": one_of(gpus),
    "--exclude-gpu": one_of(gpus),
    "--provider": one_of(providers),
    "--exclude-provider": one_of(providers),
    "--remove-provider": one_of(providers),
    "--provider-kind": one_of(lambda: PROVIDER_KINDS),
    "--model": MODEL,
    "--term": one_of(lambda: TERMS),
    "--weights": one_of(lambda: WEIGHTS),
    "--kv-cache": one_of(lambda: KV_CACHES),
    "--at": one_of(lambda: LEVELS),
    "--memory-policy": one_of(lambda: ("framework", "engine")),
    "--engine": one_of(lambda: ("vllm", "sglang", "trtllm")),
    "--performance": one_of(lambda: ("roofline", "aiconfigurator", "auto")),
    "--to": one_of(targets),
    "--scenario": SCENARIO,
    "--offers-file": files(".csv"),
    "--performance-table": files(".csv"),
    "--capacity": files(".json"),
    "--trace": files(".csv"),
}


def of_flag(name: str) -> Complete | None:
    """Return how a flag's value is completed; None where that is up to the shell."""
    return OF_FLAGS.get(name)
