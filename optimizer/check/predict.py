"""Latency and load of all layouts of an answer, predicted anew in one pass of the speed model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd

from catalogs.models import ModelSpec
from optimizer.performance.latency import predict_closed_loop, predict_open_loop
from optimizer.performance.speed import SpeedModel
from optimizer.plan import Layout
from optimizer.scenario import Scenario

_COLUMNS = ("gpu", "weights", "kv_cache", "tp", "pp", "ep", "attention_dp", "gpus_per_node", "fabric", "scale_up_gpus")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one layout does.

    Attributes:
        ttft_s, tpot_s, e2e_s: means at the traffic, waiting included.
        in_flight: requests on each replica at the traffic.
        utilization: traffic over capacity at the concurrency limit.
        output_tokens_per_s: of the whole deployment at the traffic.
        prefill_s: time to first token of a request that is alone: the least there can be.
        full_tpot_s, full_tokens_per_s: of one replica at its concurrency limit.
    """

    ttft_s: float
    tpot_s: float
    e2e_s: float
    in_flight: float
    utilization: float
    output_tokens_per_s: float
    prefill_s: float
    full_tpot_s: float
    full_tokens_per_s: float


def predict(scenario: Scenario, model: ModelSpec, layouts: Sequence[Layout]) -> list[Prediction]:
    """Return the prediction of each layout; every one must be able to run (see check_layout)."""
    if not layouts:
        return []
    work = scenario.workload
    shape = (work.input_tokens, work.output_tokens)
    speed = SpeedModel(model, _table(layouts))
    replicas = np.array([layout.replicas for layout in layouts], dtype=np.float64)
    limit = np.array([layout.concurrency_per_replica for layout in layouts], dtype=np.float64)
    full = predict_closed_loop(speed, limit, *shape)
    if work.kind == "request_rate":
        now = predict_open_loop(speed, work.demand / replicas, limit, *shape)
        used, tokens = now.utilization, np.full(len(layouts), work.demand * work.output_tokens)
    elif work.kind == "concurrency":
        each = np.array([ceil(work.demand / layout.replicas) for layout in layouts], dtype=np.float64)
        now = predict_closed_loop(speed, each, *shape)
        used, tokens = each / limit, work.demand / now.e2e_s * work.output_tokens
    else:
        now = full
        used = work.demand / (replicas * full.output_tokens_per_second)
        tokens = np.full(len(layouts), work.demand)
    alone = speed.prefill_seconds(work.input_tokens)
    columns = [now.ttft_s, now.tpot_s, now.e2e_s, now.in_flight, used, tokens]
    columns += [alone, full.tpot_s, full.output_tokens_per_second]
    return [Prediction(*map(float, values)) for values in zip(*columns, strict=True)]


def _table(layouts: Sequence[Layout]) -> pd.DataFrame:
    columns = {name: [getattr(layout, name) for layout in layouts] for name in (*_COLUMNS, "network")}
    rates = [layout.network_gbit_per_s for layout in layouts]
    return pd.DataFrame(columns | {"network_gbit_per_s": np.array(rates, dtype=np.float64)})
