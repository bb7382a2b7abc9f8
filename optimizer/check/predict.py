"""Latency and load of all layouts of an answer, predicted anew in one pass of the speed model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.models import ModelSpec
from optimizer.performance.backends.choose import speed_backend
from optimizer.performance.distributions import PERCENTILES
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.open_loop import Variability
from optimizer.performance.operating_point import closed_loop_percentiles, predict_open_loop
from optimizer.plan import Layout
from optimizer.scenario import Scenario

Floats = NDArray[np.float64]
LATENCIES = ("ttft", "tpot", "e2e")
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
        sure_ttft, sure_tpot, sure_e2e: factors on latencies to hold with the probability asked for; 1 when none is.
        decode_from, prefill_from: the backends that decode steps and prefills at the traffic come from.
        percentiles: TTFT, TPOT and end-to-end time by percentile, in seconds.
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
    sure_ttft: float
    sure_tpot: float
    sure_e2e: float
    decode_from: str = field(default="roofline", kw_only=True)
    prefill_from: str = field(default="roofline", kw_only=True)
    percentiles: Mapping[str, tuple[float, ...]] = field(default_factory=dict, kw_only=True)

    def at(self, level: str) -> tuple[float, ...]:
        """Return TTFT, TPOT and end-to-end time in seconds, at the mean or at a percentile."""
        return (self.ttft_s, self.tpot_s, self.e2e_s) if level == "mean" else self.percentiles[level]


def predict(
    scenario: Scenario, model: ModelSpec, layouts: Sequence[Layout], demands: Sequence[float] | None = None
) -> list[Prediction]:
    """Return the prediction of each layout; every one must be able to run (see check_layout).

    Args:
        scenario: the question.
        model: its model.
        layouts: what is predicted.
        demands: how much traffic each of them gets, in place of the question's.
    """
    if not layouts:
        return []
    work = scenario.workload
    shape = (work.input_tokens, work.output_tokens)
    speed = speed_backend(model, _table(layouts), scenario.performance)
    replicas = np.array([layout.replicas for layout in layouts], dtype=np.float64)
    limit = np.array([layout.concurrency_per_replica for layout in layouts], dtype=np.float64)
    demand = np.array([work.demand] * len(layouts) if demands is None else demands, dtype=np.float64)
    full = predict_closed_loop(speed, limit, *shape)
    in_flight = work.in_flight_tokens if work.kind == "request_rate" else None
    vary = Variability(work.burstiness, work.input_cv, work.output_cv, in_flight)
    if work.kind == "request_rate":
        now = predict_open_loop(speed, demand / replicas, limit, *shape, vary=vary, levels=PERCENTILES)
        spread = dict(now.percentiles)
        used, tokens = now.utilization, demand * work.output_tokens
    elif work.kind == "concurrency":
        each = np.ceil(demand / replicas)
        now = predict_closed_loop(speed, each, *shape)
        spread = closed_loop_percentiles(speed, each, *shape, now, vary=vary, levels=PERCENTILES)
        used, tokens = each / limit, demand / now.e2e_s * work.output_tokens
    else:
        now = full
        spread = closed_loop_percentiles(speed, limit, *shape, now, vary=vary, levels=PERCENTILES)
        used = demand / (replicas * full.output_tokens_per_second)
        tokens = demand
    by_level = {level: _rows(triple) for level, triple in spread.items()}
    alone = speed.prefill_seconds(work.input_tokens)
    columns = [now.ttft_s, now.tpot_s, now.e2e_s, now.in_flight, used, tokens]
    columns += [alone, full.tpot_s, full.output_tokens_per_second]
    asked = scenario.targets.confidence
    columns += [np.ones(len(layouts)) if asked is None else speed.at_confidence(name, asked) for name in LATENCIES]
    context = in_flight or work.input_tokens + work.output_tokens / 2
    sources = speed.sources(np.maximum(now.in_flight, 1.0), context, work.input_tokens)
    return [
        Prediction(
            *values,
            decode_from=str(sources.decode[row]),
            prefill_from=str(sources.prefill[row]),
            percentiles={level: triples[row] for level, triples in by_level.items()},
        )
        for row, values in enumerate(_rows(columns))
    ]


def _rows(columns: Iterable[Floats]) -> list[tuple[float, ...]]:
    return [tuple(map(float, values)) for values in zip(*columns, strict=True)]


def _table(layouts: Sequence[Layout]) -> pd.DataFrame:
    columns = {name: [getattr(layout, name) for layout in layouts] for name in (*_COLUMNS, "network")}
    rates = [layout.network_gbit_per_s for layout in layouts]
    return pd.DataFrame(columns | {"network_gbit_per_s": np.array(rates, dtype=np.float64)})
