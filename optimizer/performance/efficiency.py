"""Efficiencies: the few fitted coefficients between a data sheet's peak and what serving engines reach.

A coefficient of a run is a value that all runs share times one factor for each level that applies to it: its GPU
family, its GPU, its engine, its engine's era and release, the model's architecture, and some pairs of them. Factors are
fitted together and held near 1 by priors, so a level that was never measured has the factor 1: that costs nothing but
certainty.

They live in data/efficiency.toml, written by calibration/fit_efficiency.py from measured runs. A user's own runs may
put factors of their own on top (see own_calibration.py).
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from catalogs.gpus import Gpu, get_gpu
from catalogs.model_spec import ModelSpec
from optimizer.performance.bands import Bands
from optimizer.performance.own_calibration import OwnCalibration, own_calibration

Array = npt.NDArray[np.float64]
Kind = Literal["fitted", "borrowed"]

DATA_FILE = Path(__file__).parent / "data" / "efficiency.toml"
DEFAULT_ENGINE = "vllm"

# Shares of a peak are in (0, 1]; times are in seconds.
COEFFICIENTS: dict[str, str] = {
    "weight_bandwidth": "share of memory bandwidth reached when reading weights",
    "expert_bandwidth": "the same for the routed experts of a MoE layer",
    "kv_bandwidth": "share of memory bandwidth reached when reading the KV cache",
    "compute_16bit": "share of dense 16-bit FLOP/s that a large matrix product reaches",
    "compute_8bit": "share of dense 8-bit FLOP/s",
    "compute_4bit": "share of dense 4-bit FLOP/s",
    "compute_weight_only": "share of dense 16-bit FLOP/s when weights are expanded to 16 bits first",
    "compute_decode": "factor on the share for a decode batch, whose products are short",
    "compute_experts": "factor on the share for the grouped products of routed experts",
    "distinct_experts": "share of the tokens of a batch after the first that choose experts of their own",
    "compute_attention": "share of dense 16-bit FLOP/s that attention reaches",
    "layer_seconds": "fixed cost of one layer",
    "moe_layer_seconds": "extra fixed cost of a MoE layer (routing, permutation, grouped products)",
    "state_layer_seconds": "extra fixed cost of a linear-attention or Mamba layer",
    "block_scale_layer_seconds": "extra fixed cost of a layer whose FP8 weights and activations have block scales",
    "step_seconds": "fixed cost of one step (scheduling, sampling)",
    "sequence_seconds": "cost per request in a step",
    "communication": "factor on measured collective times",
    "prefill_sharing": "factor on a prefill's time when it shares steps with decode",
    "prefill_seconds": "fixed cost of a request before its first token (HTTP, tokenizing, scheduling)",
    "prefill_queue": "factor on the mean wait behind other requests' prefills in a closed loop",
    "wave_same_lengths": "share of all others' prefills that a request waits for, in closed loops of one length",
    "wave_tokens": "prompt tokens in flight beyond which clients of one length fall out of step",
    "wave_near_lengths": "the same where lengths vary a little: only the first prompts come together",
}
LARGEST_SHARE, CAP_SHARPNESS = 0.98, 8.0
ONE_SIDED = frozenset({"prefill_queue", "wave_same_lengths", "wave_tokens", "wave_near_lengths"})
# Up to which release an era of an engine reaches; later releases are of the last era.
ERAS: dict[str, tuple[tuple[tuple[int, ...], str], ...]] = {
    "vllm": (((0, 11), "2025"), ((0, 13), "late-2025"), ((99,), "2026")),
    "sglang": (((0, 5, 4), "2025"), ((0, 5, 8), "late-2025"), ((99,), "2026")),
    "tensorrt-llm": (((0, 99), "0.x"), ((1, 0), "1.0"), ((99,), "1.x")),
}
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class Routing:
    """How uneven real expert routing is, against even routing.

    Attributes:
        distinct: in operator timings, distinct experts grow with this share of the tokens after the first; the prior of
            `distinct_experts`.
        imbalance: the busiest GPU's share of expert work under expert parallelism, over the mean.
    """

    distinct: float
    imbalance: float


@dataclass(frozen=True)
class Setting:
    """What a run's coefficients depend on.

    Attributes:
        gpu: canonical GPU name.
        engine: "vllm", "sglang", "tensorrt-llm", ...; any name.
        era: an era of the engine (see `engine_era`), or "" when not known.
        architecture: of the model (see `architecture_key`), or "".
        weights: weight format.
        release: the engine's release as its makers write it, or "" when not known.
    """

    gpu: str
    engine: str
    era: str
    architecture: str
    weights: str
    release: str = ""

    def levels(self) -> tuple[str, ...]:
        """Return the levels that apply, by which factors are looked up."""
        family = calibration_group(get_gpu(self.gpu))
        era = f"{self.engine} {self.era}"
        return (
            f"family {family}",
            f"gpu {self.gpu}",
            f"engine {self.engine}",
            f"era {era}",
            f"release {self.engine} {self.release}",
            f"engine-family {self.engine} {family}",
            f"model {self.architecture}",
            f"model-weights {self.architecture} {self.weights}",
            f"engine-model {self.engine} {self.architecture} {self.weights}",
            f"engine-model-family {self.engine} {self.architecture} {self.weights} {family}",
        )

    def own_level(self) -> str:
        """Return what a user's own runs are known by: GPU, engine and model."""
        return f"own {self.gpu} {self.engine} {self.architecture}"


@dataclass(frozen=True)
class Efficiencies:
    """The shared coefficients, the factors of every level, and what is known of each family.

    Attributes:
        common: coefficients that all runs share.
        factors: {level: {coefficient: factor}}; a level or coefficient that is not there has the factor 1.
        kinds: by family, whether its own runs were fitted or another's figures are borrowed.
        lenders: {family: family whose factors it takes}.
        routing: how uneven expert routing is.
        measured: levels of GPUs, models and engines that runs of the fit have.
        bands: how far off predictions are.
        own: eras and releases of the user's own runs, by what they ran (see `Setting.own_level`).
    """

    common: Mapping[str, float]
    factors: Mapping[str, Mapping[str, float]]
    kinds: Mapping[str, Kind]
    lenders: Mapping[str, str]
    routing: Routing
    measured: frozenset[str] = frozenset()
    bands: Bands = field(default_factory=Bands)
    own: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def coefficients(self, setting: Setting) -> dict[str, float]:
        """Return each coefficient under a setting: the shared value times its factors; a share stays below a peak.

        Where the release is not said, and the user has runs of that very GPU, engine and model, it is theirs.
        """
        values = dict(self.common)
        if self.own and not setting.release and (known := self.own.get(setting.own_level())):
            setting = replace(setting, era=known[0], release=known[1])
        for level in setting.levels():
            for name, factor in self.factors_of(level).items():
                values[name] *= factor
        return {name: float(below_cap(value)) if name in _SHARES else value for name, value in values.items()}

    def unmeasured(self, setting: Setting) -> frozenset[str]:
        """Return what of a setting no run of the fit had: "family", "gpu" (in a measured family), "model", "engine"."""
        if setting.own_level() in self.own:
            return frozenset()
        found = set()
        if self.kinds.get(calibration_group(get_gpu(setting.gpu))) != "fitted":
            found.add("family")
        elif f"gpu {setting.gpu}" not in self.measured:
            found.add("gpu")
        if f"model {setting.architecture}" not in self.measured:
            found.add("model")
        if f"engine {setting.engine}" not in self.measured:
            found.add("engine")
        return frozenset(found)

    def table(self, settings: Sequence[Setting]) -> dict[str, Array]:
        """Return each coefficient as an array, one value a setting."""
        rows = [self.coefficients(setting) for setting in settings]
        return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in COEFFICIENTS}

    def factors_of(self, level: str) -> Mapping[str, float]:
        """Return the factors of a level, a borrowed family's from its lender; those that are 1 are left out."""
        kind, _, name = level.partition(" ")
        borrowed = kind == "family" and name in self.lenders
        return self.factors.get(f"family {self.lenders[name]}" if borrowed else level, {})


def below_cap(share: npt.ArrayLike) -> Array:
    """Return shares of a peak that level off below LARGEST_SHARE, smoothly, so that a fit feels it come."""
    value = np.asarray(share, dtype=np.float64)
    return np.asarray((value**-CAP_SHARPNESS + LARGEST_SHARE**-CAP_SHARPNESS) ** (-1.0 / CAP_SHARPNESS))


def shares_of_a_peak() -> tuple[str, ...]:
    """Return the coefficients that are shares of a peak, which no run exceeds."""
    return tuple(name for name in COEFFICIENTS if name.startswith("compute_") or name.endswith("_bandwidth"))


_SHARES = frozenset(shares_of_a_peak())


@lru_cache(maxsize=1)
def read_data_file() -> dict[str, Any]:
    """Read data/efficiency.toml as it is written (cached)."""
    with DATA_FILE.open("rb") as stream:
        return tomllib.load(stream)


def load_efficiencies() -> Efficiencies:
    """Return the coefficients that predictions use: the bundled ones, with the user's own calibration on top.

    The same object until the calibration changes or is switched off.

    Raises:
        QuestionError: the file of the user's calibration is damaged.
    """
    own = used_calibration()
    return bundled_efficiencies() if own is None else _calibrated(own)


def used_calibration() -> OwnCalibration | None:
    """Return the user's own calibration where there is one that was fitted on top of these bundled coefficients.

    Raises:
        QuestionError: its file is damaged.
    """
    own = own_calibration()
    return own if own is not None and own.bundled == bundled_digest() else None


@lru_cache(maxsize=4)
def _calibrated(own: OwnCalibration) -> Efficiencies:
    return with_own(bundled_efficiencies(), own.factors, own.own)


def with_own(
    bundled: Efficiencies, factors: Mapping[str, Mapping[str, float]], own: Mapping[str, tuple[str, str]]
) -> Efficiencies:
    """Return coefficients with a user's factors on top of the bundled ones, and what their runs were of."""
    merged = dict(bundled.factors)
    for level, row in factors.items():
        known = merged.get(level, {})
        merged[level] = {**known, **{name: known.get(name, 1.0) * factor for name, factor in row.items()}}
    return replace(bundled, factors=merged, own=own)


@lru_cache(maxsize=1)
def bundled_digest() -> str:
    """Return the SHA-256 of data/efficiency.toml: a user's calibration is on top of these very coefficients."""
    return hashlib.sha256(DATA_FILE.read_bytes()).hexdigest()


@lru_cache(maxsize=1)
def bundled_efficiencies() -> Efficiencies:
    """Read the coefficients of data/efficiency.toml (cached)."""
    raw = read_data_file()
    kinds: dict[str, Kind] = {name: row["kind"] for name, row in raw["families"].items()}
    lenders = {name: str(row["lender"]) for name, row in raw["families"].items() if "lender" in row}
    routing = Routing(float(raw["routing"]["distinct"]), float(raw["routing"]["imbalance"]))
    bands = Bands({name: (ends[0], ends[1]) for name, ends in raw["bands"].items()}, raw["widening"])
    measured = frozenset(f"{kind} {name}" for kind, names in raw["measured"].items() for name in names)
    return Efficiencies(raw["common"], raw["factors"], kinds, lenders, routing, measured, bands)


@lru_cache(maxsize=1)
def _tpot_errors() -> dict[str, float]:
    families = read_data_file()["families"]
    name = "tpot_mean_error_percent"
    measured = {family: float(row[name]) / 100 for family, row in families.items() if name in row}
    return {family: measured.get(family, 2 * max(measured.values())) for family in families}


def tpot_error(gpu: Gpu) -> float:
    """Return by what share TPOT is off on average on this GPU's family, on cells that the fit had not seen.

    For a borrowed family twice the worst of the fitted ones: nothing says that it is nearer.
    """
    return _tpot_errors()[calibration_group(gpu)]


def calibration_group(gpu: Gpu) -> str:
    """Return the group whose coefficients a GPU uses: its family, with GDDR Blackwell (sm_120) apart from HBM."""
    if gpu.family == "blackwell" and gpu.compute_capability.startswith("12"):
        return "blackwell_rtx"
    return gpu.family


def engine_era(engine: str, version: object) -> str:
    """Return the era of an engine's release; "" where the version is no release number or the engine has no eras."""
    found = _RELEASE.match(str(version))
    if found is None or engine not in ERAS:
        return ""
    release = tuple(int(part) for part in found[1].split("."))
    return next(era for last, era in ERAS[engine] if release[: len(last)] <= last)


def newest_era(engine: str) -> str:
    """Return the era of an engine's releases of today."""
    return ERAS[engine][-1][1] if engine in ERAS else ""


def architecture_key(model: ModelSpec) -> str:
    """Return what models of one architecture and size have in common, whoever trained them: "80x8192-kv8-71B"."""
    heads = "mla" if model.mla else f"kv{max(model.kv_head_counts, default=0)}"
    experts = f"-{max(model.expert_counts)}e" if model.is_moe else ""
    return f"{len(model.layers)}x{model.hidden_size}-{heads}{experts}-{model.total_parameters / 1e9:.0f}B"
