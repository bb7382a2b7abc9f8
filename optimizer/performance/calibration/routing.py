"""How uneven expert routing is, from operator timings of MoE layers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from optimizer.performance.efficiency import Routing


def measured_routing(moe: pd.DataFrame) -> Routing:
    """Return routing figures from operator timings: power-law against balanced routing of the same shapes."""
    keys = [name for name in moe.columns if name not in {"distribution", "latency_us"}]
    wide = moe.pivot_table(index=keys, columns="distribution", values="latency_us").reset_index()
    wide = wide.dropna(subset=["balanced", "power_law_1.2"])
    wide["ratio"] = wide["power_law_1.2"] / wide["balanced"]
    sparse = wide[(wide["num_tokens"] > 8) & (wide["num_tokens"] <= 512)]
    share = sparse["topk"] / sparse["num_experts"]
    candidates = np.linspace(0.05, 1.0, 96)
    even = -np.expm1(np.log1p(-share) * sparse["num_tokens"])
    errors = [
        np.median(np.abs(-np.expm1(np.log1p(-share) * (1 + c * (sparse["num_tokens"] - 1))) / even - sparse["ratio"]))
        for c in candidates
    ]
    spread = wide[(wide["num_tokens"] > 4096) & (wide["moe_ep_size"] > 1)]["ratio"]
    return Routing(float(candidates[int(np.argmin(errors))]), float(spread.median()))
