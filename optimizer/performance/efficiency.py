"""Efficiencies: the few fitted coefficients between a data sheet's peak and what serving engines reach.

They live in data/efficiency.toml, written by calibration/fit_efficiency.py from measured runs, by GPU family, with
factors by engine. A family without measurements borrows another's figures and says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from catalogs.gpus import Gpu

Array = npt.NDArray[np.float64]
Kind = Literal["fitted", "borrowed"]

DATA_FILE = Path(__file__).parent / "data" / "efficiency.toml"
DEFAULT_ENGINE = "vllm"

# Coefficients of a family. Shares of a peak are in (0, 1]; times are in seconds.
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
}
# What an engine changes, as factors on the family's coefficients.
ENGINE_FACTORS: dict[str, tuple[str, ...]] = {
    "launch": ("layer_seconds", "moe_layer_seconds", "state_layer_seconds", "block_scale_layer_seconds"),
    "host": ("step_seconds", "sequence_seconds"),
    "compute": ("compute_16bit", "compute_8bit", "compute_4bit", "compute_weight_only", "compute_attention"),
    "communication": ("communication",),
    "prefill": ("prefill_seconds",),
}


@dataclass(frozen=True)
class Routing:
    """How uneven real expert routing is, against even routing.

    Attributes:
        distinct: distinct experts grow with this share of the tokens after the first.
        imbalance: the busiest GPU's share of expert work under expert parallelism, over the mean.
    """

    distinct: float
    imbalance: float


@dataclass(frozen=True)
class Efficiencies:
    """The coefficients of every family and the factors of every engine.

    Attributes:
        families, kinds: by family: coefficients, and whether they were fitted or borrowed.
        errors: by family: the mean absolute error of TPOT on held-out runs, as a share. For a borrowed family twice the
            worst of the fitted ones: nothing says that it is nearer.
        engines: factors by engine.
        routing: how uneven expert routing is.
    """

    families: Mapping[str, Mapping[str, float]]
    kinds: Mapping[str, Kind]
    engines: Mapping[str, Mapping[str, float]]
    routing: Routing
    errors: Mapping[str, float] = field(default_factory=dict)

    def table(self, groups: Sequence[str], engine: str = DEFAULT_ENGINE) -> dict[str, Array]:
        """Return each coefficient as an array, one value a group, with the engine's factors applied."""
        factors = self.engines[engine]
        by_coefficient = {name: factors[factor] for factor, names in ENGINE_FACTORS.items() for name in names}
        return {
            name: np.array([self.families[group][name] for group in groups]) * by_coefficient.get(name, 1.0)
            for name in COEFFICIENTS
        }


@lru_cache(maxsize=1)
def load_efficiencies() -> Efficiencies:
    """Read data/efficiency.toml (cached)."""
    with DATA_FILE.open("rb") as stream:
        raw: dict[str, Any] = tomllib.load(stream)
    families = {name: {key: float(row[key]) for key in COEFFICIENTS} for name, row in raw["families"].items()}
    kinds: dict[str, Kind] = {name: row["kind"] for name, row in raw["families"].items()}
    measured = {
        name: float(row["tpot_mean_error_percent"]) / 100
        for name, row in raw["families"].items()
        if "tpot_mean_error_percent" in row
    }
    errors = {name: measured.get(name, 2 * max(measured.values())) for name in kinds}
    engines = {name: {key: float(row[key]) for key in ENGINE_FACTORS} for name, row in raw["engines"].items()}
    routing = Routing(float(raw["routing"]["distinct"]), float(raw["routing"]["imbalance"]))
    return Efficiencies(families, kinds, engines, routing, errors)


def calibration_group(gpu: Gpu) -> str:
    """Return the group whose coefficients a GPU uses: its family, with GDDR Blackwell (sm_120) apart from HBM."""
    if gpu.family == "blackwell" and gpu.compute_capability.startswith("12"):
        return "blackwell_rtx"
    return gpu.family


def tpot_error(gpu: Gpu) -> float:
    """Return by what share TPOT is off on average on this GPU (see Efficiencies.errors)."""
    return load_efficiencies().errors[calibration_group(gpu)]
