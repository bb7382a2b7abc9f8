"""From a row of the table of choices to the parts of a Plan: layout, cost, memory, performance, targets."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec
from optimizer.capacity import LATENCIES, always_in_flight, latency_factors, variability
from optimizer.choices import MICRO
from optimizer.fit import memory_use
from optimizer.memory import memory_policy
from optimizer.performance.backends.choose import tpot_basis
from optimizer.performance.backends.protocol import Sources, SpeedBackend
from optimizer.performance.distributions import PERCENTILES
from optimizer.performance.intervals import latencies_ms, probability_below
from optimizer.performance.latency import Prediction
from optimizer.performance.operating_point import predict_open_loop
from optimizer.plan import HOURS_PER_MONTH, Cost, Layout, MemoryUse, Performance, Saturation, TargetCheck
from optimizer.replica import Replica
from optimizer.scenario import Memory, Scenario
from optimizer.split import Split

Floats = NDArray[np.float64]

ROUNDING = 1 + 1e-6  # a target met to the last digit of a bisection is met


@dataclass(frozen=True, slots=True)
class Answer:
    """One layout with all that is said of it.

    `factors` are what latencies are multiplied by to hold with the probability asked for (see `latency_factors`).
    """

    layout: Layout
    cost: Cost
    memory: MemoryUse
    performance: Performance
    targets: tuple[TargetCheck, ...]
    factors: Mapping[str, float]


def answers(
    scenario: Scenario,
    model: ModelSpec,
    rows: pd.DataFrame,
    speed: SpeedBackend,
    offers: pd.DataFrame,
    memory: Memory | None = None,
) -> list[Answer]:
    """Work out the answer of each row of choices, all in one pass of the speed model.

    Args:
        scenario: the question.
        model: its model.
        rows: rows of Choices.frame.
        speed: the speed model of the replicas that the rows point to.
        offers: the offers that the rows point to.
        memory: memory settings that the rows were filled with, where not the scenario's.
    """
    if rows.empty:
        return []
    speeds = _speeds(scenario, rows, speed.take(rows["replica"].to_numpy()))
    rented = offers.iloc[rows["offer"].to_numpy()].to_dict("records")
    found = []
    for position, (row, offer) in enumerate(zip(rows.to_dict("records"), rented, strict=True)):
        layout = _layout(row, offer)
        performance = _performance(scenario, layout, speeds, position)
        factors = {name: float(speeds.factors[name][position]) for name in LATENCIES}
        found.append(
            Answer(
                layout=layout,
                cost=_cost(layout, performance),
                memory=_memory(scenario, model, layout, memory or scenario.memory),
                performance=performance,
                targets=_targets(scenario, performance, factors),
                factors=factors,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class _Speeds:
    """Speeds of all rows: at this traffic, at the concurrency limit, and of one decode step by cause."""

    now: Prediction
    saturated: Prediction
    utilization: Floats
    step_s: dict[str, Floats]
    kind: NDArray[np.str_]
    sources: Sources
    latencies_ms: list[dict[str, float]]
    factors: dict[str, Floats]


def _speeds(scenario: Scenario, rows: pd.DataFrame, speed: SpeedBackend) -> _Speeds:
    work = scenario.workload
    limit, count = rows["concurrency"].to_numpy(dtype=np.float64), rows["replicas"].to_numpy()
    saturated = always_in_flight(speed, limit, scenario)
    if work.kind == "request_rate":
        lengths = work.input_tokens, work.output_tokens
        rates = work.demand / count
        now = predict_open_loop(speed, rates, limit, *lengths, vary=variability(work), levels=PERCENTILES)
        utilization = now.utilization
    elif work.kind == "concurrency":
        in_flight = np.ceil(work.demand / count)
        now = always_in_flight(speed, in_flight, scenario, PERCENTILES)
        utilization = in_flight / limit
    else:
        now = always_in_flight(speed, limit, scenario, PERCENTILES)
        utilization = work.demand / (count * saturated.output_tokens_per_second)
    load = np.maximum(now.in_flight, 1.0), work.context_in_flight
    step_s, sources = speed.decode_terms(*load), speed.sources(*load, work.input_tokens)
    latencies = [latencies_ms(speed, now, row) for row in range(speed.rows)]
    return _Speeds(
        now, saturated, utilization, step_s, speed.kind, sources, latencies, latency_factors(scenario, speed)
    )


def _layout(row: Mapping[Hashable, Any], offer: Mapping[Hashable, Any]) -> Layout:
    network_rate, stock = offer["network_gbit_per_s"], offer["max_nodes"]
    return Layout(
        provider=str(offer["provider"]),
        provider_kind=str(offer["provider_kind"]),
        region=str(offer["region"]),
        instance_type=str(offer["instance_type"]),
        gpu=str(offer["gpu"]),
        gpus_per_node=int(offer["gpus_per_node"]),
        nodes=int(row["nodes"]),
        term=str(offer["term"]),
        price_usd_per_node_hour=int(row["price_micro_usd"]) / MICRO,
        fabric=str(offer["fabric"]),
        scale_up_gpus=int(offer["scale_up_gpus"]),
        network=str(offer["network"]),
        network_gbit_per_s=None if pd.isna(network_rate) else float(network_rate),
        max_nodes=None if pd.isna(stock) else int(stock),
        weights=str(row["weights"]),
        kv_cache=str(row["kv_cache"]),
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        ep=int(row["ep"]),
        attention_dp=int(row["attention_dp"]),
        replicas=int(row["replicas"]),
        nodes_per_replica=int(row["nodes_per_replica"]),
        gpus_used=int(row["replicas"]) * int(row["gpus"]),
        concurrency_per_replica=int(row["concurrency"]),
        price_seen_on=offer["seen_on"].date(),
        price_source=str(offer["source"]),
    )


def _performance(scenario: Scenario, layout: Layout, speeds: _Speeds, position: int) -> Performance:
    work, now, saturated = scenario.workload, speeds.now, speeds.saturated
    if work.kind == "request_rate":
        requests_per_s = float(work.demand)
    elif work.kind == "concurrency":
        requests_per_s = work.demand / float(now.e2e_s[position])
    else:
        requests_per_s = work.demand / work.output_tokens
    decode_from, prefill_from = (str(names[position]) for names in speeds.sources)
    basis, error = tpot_basis(get_gpu(layout.gpu), str(speeds.kind[position]), decode_from)
    return Performance(
        **speeds.latencies_ms[position],
        percentiles={
            name: {level: float(now.at(level)[index][position]) * 1e3 for level in PERCENTILES}
            for index, name in enumerate(LATENCIES)
        },
        output_tokens_per_second=requests_per_s * work.output_tokens,
        requests_per_second=requests_per_s,
        requests_in_flight=float(now.in_flight[position]),
        utilization=float(speeds.utilization[position]),
        step_ms={cause: float(seconds[position]) * 1e3 for cause, seconds in speeds.step_s.items()},
        basis=basis,
        error_band=error,
        decode_from=decode_from,
        prefill_from=prefill_from,
        saturation=Saturation(
            concurrency=layout.concurrency_per_replica,
            tpot_ms=float(saturated.tpot_s[position]) * 1e3,
            output_tokens_per_second=float(saturated.output_tokens_per_second[position]),
            requests_per_second=float(saturated.requests_per_second[position]),
        ),
    )


def _cost(layout: Layout, performance: Performance) -> Cost:
    per_hour = round(layout.nodes * layout.price_usd_per_node_hour * MICRO) / MICRO
    saturated = layout.replicas * performance.saturation.output_tokens_per_second
    return Cost(
        usd_per_hour=per_hour,
        usd_per_month=per_hour * HOURS_PER_MONTH,
        usd_per_million_output_tokens=usd_per_million(per_hour, performance.output_tokens_per_second),
        usd_per_million_output_tokens_at_saturation=usd_per_million(per_hour, saturated),
        bound_usd_per_hour=per_hour,
        gap=0.0,
    )


def usd_per_million(usd_per_hour: float, tokens_per_second: float) -> float:
    """Return the price of a million tokens that come at this rate."""
    return usd_per_hour / 3600 / tokens_per_second * 1e6


def _memory(scenario: Scenario, model: ModelSpec, layout: Layout, memory: Memory) -> MemoryUse:
    split = Split(layout.weights, layout.kv_cache, layout.tp, layout.pp, layout.ep, layout.attention_dp)
    replica = Replica(model, get_gpu(layout.gpu), split)
    tokens, requests = scenario.workload.held_tokens, layout.concurrency_per_replica
    return memory_use(replica, tokens, requests, memory_policy(memory), memory.max_batched_tokens)


def _targets(scenario: Scenario, performance: Performance, factors: Mapping[str, float]) -> tuple[TargetCheck, ...]:
    checks = []
    at = scenario.targets.at
    for name in LATENCIES:
        target = getattr(scenario.targets, f"{name}_ms")
        if target is not None:
            mean, high = getattr(performance, f"{name}_ms"), getattr(performance, f"{name}_ms_high")
            predicted = performance.latency_ms(name, at)
            # A percentile is as far off as its mean, in proportion.
            high *= predicted / mean if mean > 0.0 else 1.0
            sure = predicted * factors[name]
            checks.append(
                TargetCheck(
                    name=name,
                    unit="ms",
                    at=at,
                    target=target,
                    predicted=predicted,
                    at_confidence=sure,
                    holds=sure <= target * ROUNDING,
                    probability=probability_below(target, predicted, high),
                    close_call=high > target,
                )
            )
    return tuple(checks)
