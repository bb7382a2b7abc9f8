"""GPUs: usable memory, bandwidth, dense FLOP/s by dtype, scale-up domain, and the formats that run on them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from catalogs.errors import CatalogError, DataFileError, UnknownNameError

Vendor = Literal["nvidia", "amd", "intel"]
Family = Literal[
    "volta", "turing", "ampere", "ada", "hopper", "blackwell", "cdna2", "cdna3", "cdna4", "gaudi2", "gaudi3"
]
ScaleUpKind = Literal["nvswitch", "nvlink", "nvlink_bridge", "infinity_fabric", "gaudi_roce", "pcie"]
WeightSupport = Literal["native", "emulated", "none"]
Format = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4"]
KvFormat = Literal["fp32", "bf16", "fp16", "fp8"]
ComputeDtype = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

WEIGHT_FORMATS: tuple[str, ...] = get_args(Format)
KV_CACHE_FORMATS: tuple[str, ...] = get_args(KvFormat)
COMPUTE_DTYPES: tuple[str, ...] = get_args(ComputeDtype)
SOURCE_TOPICS = frozenset({"memory", "bandwidth", "flops", "scale_up", "pcie"})
GPUS_FILE = Path(__file__).parent / "data" / "gpus.toml"

_FP4_FORMATS = {"nvfp4", "mxfp4"}
_YEAR = re.compile(r"\b(19|20)\d\d\b")


class FormatSupport(BaseModel):
    """What runs on the GPUs of some compute capabilities.

    Attributes:
        capabilities: compute capabilities the row speaks for, e.g. "8.9" or "gfx942".
        native: weight formats that kernels compute in.
        emulated: weight formats that kernels unpack to 16 bit before they compute.
        kv_cache: dtypes that engines keep a KV cache in.
        compute: native formats whose math runs in another dtype than their own.
        source: citation with date.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    capabilities: tuple[str, ...] = Field(min_length=1)
    native: frozenset[Format]
    emulated: frozenset[Format]
    kv_cache: frozenset[KvFormat]
    compute: dict[str, ComputeDtype] = {}
    source: str

    def weights(self, weights: str) -> WeightSupport:
        """Say how weights in this format run."""
        if weights in self.native:
            return "native"
        return "emulated" if weights in self.emulated else "none"

    def compute_dtype(self, weights: str) -> str:
        """Return the dtype that the math of a format in `native` or `emulated` runs in."""
        if weights in self.emulated:
            return "bf16" if "bf16" in self.native else "fp16"
        own = "fp4" if weights in _FP4_FORMATS else weights
        return self.compute.get(weights, own)


class Gpu(BaseModel):
    """One GPU model as a driver reports it.

    Attributes:
        name: canonical name, e.g. "H100-SXM-80GB".
        family: architecture family; calibration figures are shared within one.
        compute_capability: "8.0" and the like for NVIDIA, "gfx942" and the like for AMD, the product for Intel.
        memory_gib: memory the driver reports as usable, in GiB (an "80 GB" H100 has 79.2).
        memory_bandwidth_gb_per_s: peak memory bandwidth in 10^9 bytes/s.
        dense_tflops: peak dense (no sparsity) 10^12 FLOP/s by compute dtype; a dtype that is absent is not native.
        scale_up_kind: the link of the scale-up domain; "pcie" when there is none.
        scale_up_gpus: the most GPUs one scale-up domain joins (1 for PCIe cards, 2 for bridges, 8, 72). What is
            rented may be less: see `catalogs.nodes`.
        scale_up_gb_per_s: bandwidth per GPU into the domain, one direction, 10^9 bytes/s (450 for NVLink 4);
            the PCIe rate where there is no domain.
        pcie_gb_per_s: host link bandwidth, one direction, 10^9 bytes/s.
        sources: topic (memory, bandwidth, flops, scale_up, pcie) -> citation with date.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    vendor: Vendor
    family: Family
    compute_capability: str
    memory_gib: Positive
    memory_bandwidth_gb_per_s: Positive
    dense_tflops: dict[str, Positive]
    scale_up_kind: ScaleUpKind
    scale_up_gpus: int = Field(ge=1)
    scale_up_gb_per_s: Positive
    pcie_gb_per_s: Positive
    sources: dict[str, str]

    @property
    def memory_bytes(self) -> float:
        """Usable memory in bytes."""
        return self.memory_gib * 2**30

    @property
    def bandwidth_bytes_per_second(self) -> float:
        """Peak memory bandwidth in bytes/s."""
        return self.memory_bandwidth_gb_per_s * 1e9

    def flops_per_second(self, dtype: str) -> float:
        """Return the peak dense FLOP/s in a compute dtype (see `compute_dtype`).

        Raises:
            CatalogError: the GPU has no such rate; names those it has.
        """
        if dtype not in self.dense_tflops:
            raise CatalogError(f"{self.name} has no {dtype} rate; it has {', '.join(self.dense_tflops)}.")
        return self.dense_tflops[dtype] * 1e12

    def weight_support(self, weights: str) -> WeightSupport:
        """Say whether weights in this format run on native kernels, on weight-only (emulated) ones, or not at all.

        Raises:
            UnknownNameError: no such weight format.
            CatalogError: nothing is known about this compute capability.
        """
        _check_known("weight format", weights, WEIGHT_FORMATS)
        return self._support().weights(weights)

    def kv_cache_support(self, kv_cache: str) -> bool:
        """Say whether engines keep a KV cache of this dtype on this GPU. Raises as `weight_support` does."""
        _check_known("KV-cache format", kv_cache, KV_CACHE_FORMATS)
        return kv_cache in self._support().kv_cache

    def own_kv_cache(self, kv_cache: str) -> str:
        """Return the dtype of the KV cache that engines keep here by default, for a checkpoint whose own is `kv_cache`.

        On a GPU without BF16 a BF16 model runs in FP16 (vLLM's --dtype half), and its cache follows.
        """
        fp16_instead = kv_cache == "bf16" and not self.kv_cache_support("bf16") and self.kv_cache_support("fp16")
        return "fp16" if fp16_instead else kv_cache

    def compute_dtype(self, weights: str) -> str:
        """Return the dtype, a key of `dense_tflops`, in which GEMMs on weights of this format run.

        Emulated formats are unpacked to BF16 (FP16 where there is no BF16), so they gain bandwidth and no FLOP/s.

        Raises:
            UnknownNameError: no such weight format.
            CatalogError: weights in this format do not run on this GPU.
        """
        if self.weight_support(weights) == "none":
            raise CatalogError(f"{weights} weights do not run on {self.name}: {self._support().source}")
        return self._support().compute_dtype(weights)

    def _support(self) -> FormatSupport:
        table = load_format_support()
        if self.compute_capability not in table:
            raise CatalogError(
                f"Nothing is known about compute capability {self.compute_capability!r} of {self.name}; "
                f"known are {', '.join(table)}."
            )
        return table[self.compute_capability]


def get_gpu(name: str) -> Gpu:
    """Return one GPU by canonical name, case-insensitively. Raises UnknownNameError with near matches."""
    gpus = load_gpus()
    found = gpus.get(name) or _gpus_by_lower_name().get(name.strip().lower())
    if found is None:
        raise UnknownNameError("GPU", name, gpus, "`shardwise catalog gpus` lists all.")
    return found


@cache
def load_gpus(path: Path = GPUS_FILE) -> dict[str, Gpu]:
    """Return the GPUs of a catalog file by canonical name, in file order (cached).

    Raises:
        DataFileError: the file cannot be read or holds anything else than GPUs and format support; names every problem.
    """
    return _load(path)[0]


@cache
def load_format_support(path: Path = GPUS_FILE) -> dict[str, FormatSupport]:
    """Return which formats run, by compute capability (cached). Raises as `load_gpus` does."""
    return _load(path)[1]


@cache
def _gpus_by_lower_name() -> dict[str, Gpu]:
    return {name.lower(): gpu for name, gpu in load_gpus().items()}


@cache
def _load(path: Path) -> tuple[dict[str, Gpu], dict[str, FormatSupport]]:
    document = _read_toml(path)
    problems = [f"{key}: unknown table; gpus and support are known" for key in document.keys() - {"gpus", "support"}]
    support = _parse_support(document.get("support", []), problems)
    gpus = _parse_gpus(document.get("gpus", {}), problems)
    for gpu in gpus.values():
        problems += _gpu_problems(gpu, support)
    if not gpus:
        problems.append("gpus: holds no GPU that could be read")
    if problems:
        raise DataFileError(path, problems)
    return gpus, support


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise DataFileError(path, [f"cannot be read: {error.strerror}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataFileError(path, [f"is not TOML: {error}"]) from error


def _parse_support(rows: object, problems: list[str]) -> dict[str, FormatSupport]:
    """Return the rows by compute capability; adds what is wrong with them to `problems`."""
    table: dict[str, FormatSupport] = {}
    if not isinstance(rows, list):
        problems.append("support: must be an array of tables ([[support]])")
        return table
    for number, row in enumerate(rows, 1):
        try:
            support = FormatSupport.model_validate(row)
        except ValidationError as error:
            problems += describe_validation_error(error, f"support[{number}]")
            continue
        both = sorted(support.native & support.emulated)
        if both:
            problems.append(f"support[{number}]: {', '.join(both)} cannot be both native and emulated")
        for weights in sorted(support.compute.keys() - support.native):
            problems.append(f"support[{number}].compute.{weights}: only a native format can be named here")
        if not _YEAR.search(support.source):
            problems.append(f"support[{number}].source: has no date")
        for capability in support.capabilities:
            if capability in table:
                problems.append(f"support[{number}].capabilities: {capability!r} has a row already")
            table[capability] = support
    return table


def _parse_gpus(tables: object, problems: list[str]) -> dict[str, Gpu]:
    """Return the GPUs that are well-formed; adds what is wrong with the others to `problems`."""
    gpus: dict[str, Gpu] = {}
    if not isinstance(tables, dict):
        problems.append("gpus: must be a table of tables ([gpus.NAME])")
        return gpus
    for name, fields in tables.items():
        if not isinstance(fields, dict):
            problems.append(f"gpus.{name}: must be a table")
            continue
        if "name" in fields:
            problems.append(f"gpus.{name}.name: the table's own name is the GPU's; leave the field out")
        try:
            gpus[name] = Gpu.model_validate({**fields, "name": name})
        except ValidationError as error:
            problems += describe_validation_error(error, f"gpus.{name}")
    return gpus


def _gpu_problems(gpu: Gpu, support: Mapping[str, FormatSupport]) -> list[str]:
    """Return what the fields of one GPU contradict in each other or leave out."""
    where = f"gpus.{gpu.name}"
    problems = [f"{where}.sources.{topic}: missing" for topic in sorted(SOURCE_TOPICS - gpu.sources.keys())]
    problems += [f"{where}.sources.{topic}: unknown topic" for topic in sorted(gpu.sources.keys() - SOURCE_TOPICS)]
    problems += [
        f"{where}.sources.{topic}: has no date" for topic, text in gpu.sources.items() if not _YEAR.search(text)
    ]
    problems += [
        f"{where}.dense_tflops.{dtype}: unknown dtype; known are {', '.join(COMPUTE_DTYPES)}"
        for dtype in gpu.dense_tflops
        if dtype not in COMPUTE_DTYPES
    ]
    if gpu.scale_up_kind == "pcie" and gpu.scale_up_gpus != 1:
        problems.append(f"{where}.scale_up_gpus: must be 1 where scale_up_kind is 'pcie', got {gpu.scale_up_gpus}")
    if gpu.scale_up_kind != "pcie" and gpu.scale_up_gpus == 1:
        problems.append(f"{where}.scale_up_gpus: must be 2 or more where scale_up_kind is {gpu.scale_up_kind!r}")
    if gpu.compute_capability not in support:
        problems.append(f"{where}.compute_capability: no [[support]] row speaks for {gpu.compute_capability!r}")
        return problems
    row = support[gpu.compute_capability]
    needed = {row.compute_dtype(weights) for weights in row.native | row.emulated}
    lacking = sorted(needed - gpu.dense_tflops.keys())
    return problems + [f"{where}.dense_tflops.{dtype}: missing, though weights compute in it" for dtype in lacking]


def describe_validation_error(error: ValidationError, where: str) -> list[str]:
    """Return one line a problem: which field of `where`, what is wrong, and the value."""
    lines = []
    for problem in error.errors(include_url=False):
        field = ".".join(str(part) for part in problem["loc"] if part != "[key]")
        shown = "" if problem["type"] == "missing" else f", got {problem['input']!r}"
        lines.append(f"{where}.{field}: {problem['msg']}{shown}")
    return lines


def _check_known(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UnknownNameError(kind, name, known, f"Known are {', '.join(known)}.")
