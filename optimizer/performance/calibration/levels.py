"""What the fit may move: the coefficients that all runs share, and a factor for each level of each run's setting.

Priors and spreads are natural logarithms. They come from data sheets and operator timings (matrix products reach 0.7
to 0.8 of a 16-bit peak and of bandwidth, grouped ones 0.2 to 0.5) and from how alike levels of one kind turned out to
be on cells held out of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optimizer.performance.efficiency import COEFFICIENTS, Routing, Setting, shares_of_a_peak

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

NAMES = tuple(COEFFICIENTS)
SHARES = frozenset(shares_of_a_peak())
# The common value of each coefficient and how far the data may move it.
PRIORS: dict[str, tuple[float, float]] = {
    "weight_bandwidth": (0.82, 0.06),
    "expert_bandwidth": (0.70, 0.25),
    "kv_bandwidth": (0.75, 0.10),
    "compute_16bit": (0.75, 0.10),
    "compute_8bit": (0.58, 0.15),
    "compute_4bit": (0.45, 0.25),
    "compute_weight_only": (0.50, 0.20),
    "compute_decode": (0.80, 0.15),
    "compute_experts": (0.60, 0.25),
    "compute_attention": (0.50, 0.10),
    "layer_seconds": (25e-6, 0.7),
    "moe_layer_seconds": (20e-6, 0.7),
    "state_layer_seconds": (20e-6, 0.7),
    "block_scale_layer_seconds": (15e-6, 0.7),
    "step_seconds": (0.8e-3, 0.5),
    "sequence_seconds": (6e-6, 0.4),
    "communication": (1.0, 0.10),
    "prefill_sharing": (1.0, 0.15),
    "prefill_seconds": (20e-3, 0.8),
    "prefill_queue": (1.0, 0.5),
    "wave_same_lengths": (0.50, 0.7),
    "wave_tokens": (40e3, 0.7),
    "wave_near_lengths": (0.05, 0.3),
}
DISTINCT_SPREAD = 0.3
# Kinds of coefficients: shares of a peak are alike everywhere, fixed costs and waiting less so, and
# how a model routes is its own.
SHARE, COST, EXCHANGE, WAIT, ROUTING = range(5)
SPREADS: dict[str, tuple[float, float, float, float, float]] = {
    "family": (0.15, 0.35, 0.15, 0.3, 0.0),
    "gpu": (0.06, 0.12, 0.15, 0.1, 0.0),
    "engine": (0.12, 0.40, 0.15, 0.8, 0.0),
    "era": (0.06, 0.20, 0.10, 0.4, 0.0),
    "release": (0.05, 0.15, 0.08, 0.4, 0.0),
    "engine-family": (0.06, 0.20, 0.10, 0.3, 0.0),
    "model": (0.06, 0.15, 0.05, 0.1, 0.5),
    "model-weights": (0.05, 0.10, 0.0, 0.0, 0.0),
    "engine-model": (0.10, 0.30, 0.10, 0.3, 0.0),
    "engine-model-family": (0.06, 0.15, 0.05, 0.15, 0.0),
}
WAITS = frozenset({"prefill_seconds", "prefill_queue", "wave_same_lengths", "wave_tokens", "wave_near_lengths"})
# ROCm's kernels and launches owe nothing to CUDA's; boxes joined by PCIe differ in sockets and switches.
OTHER_STACK, OTHER_STACKS = 2.5, frozenset({"family cdna3"})
# Large matrices are read at 0.77 to 0.86 of bandwidth in operator timings of every GPU: what is slower in a layer of
# small ones is its fixed cost, and must not slow down the reading of large ones.
WEIGHT_SPREAD = 0.4
PCIE_SPREAD, PCIE_LEVELS = 0.40, frozenset({"family ada"})


def kind_of(name: str) -> int:
    """Return the kind of a coefficient: the column of SPREADS."""
    if name in SHARES or name == "prefill_sharing":
        return SHARE
    if name == "communication":
        return EXCHANGE
    if name == "distinct_experts":
        return ROUTING
    return WAIT if name in WAITS else COST


@dataclass(frozen=True)
class Design:
    """Parameters of a fit.

    Attributes:
        levels: names of all levels, "" first for the common values.
        of_row: levels that apply to each row (rows x levels of a setting), as positions in `levels`.
        mean, spread: prior of each parameter; parameter `level * len(NAMES) + coefficient`.
    """

    levels: tuple[str, ...]
    of_row: Index
    mean: Array
    spread: Array


def design(settings: Sequence[Setting], routing: Routing) -> Design:
    """Return the parameters that the settings of all rows call for.

    Args:
        settings: of each row.
        routing: how uneven measured layers were, which the prior takes over.
    """
    priors = PRIORS | {"distinct_experts": (routing.distinct, DISTINCT_SPREAD)}
    of_setting = {setting: ("", *setting.levels()) for setting in set(settings)}
    levels = tuple(sorted({level for names in of_setting.values() for level in names}))
    at = {level: position for position, level in enumerate(levels)}
    positions = {setting: [at[level] for level in names] for setting, names in of_setting.items()}
    mean, spread = np.zeros((len(levels), len(NAMES))), np.zeros((len(levels), len(NAMES)))
    for row, level in enumerate(levels):
        for column, name in enumerate(NAMES):
            if not level:
                mean[row, column], spread[row, column] = np.log(priors[name][0]), priors[name][1]
                continue
            spread[row, column] = SPREADS[level.split(" ")[0]][kind_of(name)]
            if name == "weight_bandwidth":
                spread[row, column] *= WEIGHT_SPREAD
            if level in OTHER_STACKS:
                spread[row, column] *= OTHER_STACK
            if level in PCIE_LEVELS and name == "communication":
                spread[row, column] = PCIE_SPREAD
    return Design(levels, np.array([positions[setting] for setting in settings]), mean.ravel(), spread.ravel())
