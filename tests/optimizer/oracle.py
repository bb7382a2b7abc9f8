"""Exhaustive search for the cheapest layout, by loops over everything that could be rented and how it could run.

It shares no code with candidates, capacity, choices or the programs: a layout's static rules are those of the checker,
its memory is `memory.breakdown`, its speed the prediction for just its replicas and its concurrency limit. Nothing is
assumed to be monotone: every concurrency limit and every number of replicas is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.check import CHECKS
from optimizer.check.audit import Audit
from optimizer.memory import MemoryPolicy, breakdown, footprint
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.operating_point import predict_open_loop
from optimizer.performance.speed import SpeedModel
from optimizer.plan import Layout
from optimizer.scenario import KV_DTYPES, WEIGHT_FORMATS, Scenario

OF_THE_OFFER = ("gpu_allowed", "provider_allowed", "provider_kind_allowed", "region_allowed", "instance_type_allowed")
OF_THE_SPLIT = (
    "weights_allowed",
    "kv_cache_allowed",
    "sizes_allowed",
    "dtype_supported",
    "attention_dp_divisible",
    "layers_over_stages",
    "heads_divisible",
    "ffn_divisible",
    "vocabulary_divisible",
    "experts_divisible",
    "quantization_blocks",
    "tp_scale_up",
    "network_known",
    "nodes_per_replica",
    "context_length",
)
SHAPE = ("gpu", "gpus_per_node", "fabric", "scale_up_gpus", "network", "network_gbit_per_s")
SPLIT = ("weights", "kv_cache", "tp", "pp", "ep", "attention_dp")


@dataclass(frozen=True)
class Found:
    """The cheapest layout, in whole micro-dollars an hour, and how many layouts were tried."""

    cost_micro_usd: int
    layout: Layout
    tried: int


@dataclass(frozen=True)
class _Rental:
    """So many replicas of one split on one offer; `row` is its place in the table of runs."""

    cost_micro_usd: int
    layout: Layout
    row: int


class _Runs:
    """Every (node shape, split) with every concurrency limit that its memory holds, and what each does."""

    def __init__(self, scenario: Scenario, model: ModelSpec, layouts: list[Layout]):
        self.scenario = scenario
        rows = [
            (number, limit)
            for number, layout in enumerate(layouts)
            for limit in range(1, scenario.limits.max_concurrency_per_replica + 1)
            if _fits(scenario, model, layout, limit)
        ]
        self.number = np.array([number for number, _ in rows], dtype=np.int64)
        self.limit = np.array([limit for _, limit in rows], dtype=np.float64)
        if not rows:
            return
        table = pd.DataFrame([{name: getattr(layouts[n], name) for name in (*SHAPE, *SPLIT)} for n, _ in rows])
        self.speed = SpeedModel(model, table.astype({"network_gbit_per_s": float}))
        self.full = predict_closed_loop(self.speed, self.limit, *self._lengths)
        self._by_replicas: dict[int, NDArray[np.bool_]] = {}

    @property
    def _lengths(self) -> tuple[int, int]:
        return self.scenario.workload.input_tokens, self.scenario.workload.output_tokens

    def carried_by(self, replicas: int) -> dict[int, int]:
        """Row of layouts -> the largest limit with which so many replicas carry the traffic within every target."""
        if not len(self.number):
            return {}
        if replicas not in self._by_replicas:
            self._by_replicas[replicas] = self._carry(replicas)
        good = self._by_replicas[replicas]
        return {int(number): int(limit) for number, limit in zip(self.number[good], self.limit[good], strict=True)}

    def _carry(self, replicas: int) -> NDArray[np.bool_]:
        work, most, targets = self.scenario.workload, self.scenario.max_utilization, self.scenario.targets
        if work.request_rate is not None:
            now = predict_open_loop(self.speed, work.request_rate / replicas, self.limit, *self._lengths)
            used = now.utilization
        elif work.concurrency is not None:
            each = float(ceil(work.concurrency / replicas))
            now = predict_closed_loop(self.speed, each, *self._lengths)
            used = each / self.limit
        else:
            now = self.full
            used = work.demand / (replicas * now.output_tokens_per_second)
        good: NDArray[np.bool_] = used <= most
        further = work.output_tokens - 1
        least_e2e = self.speed.prefill_seconds(work.input_tokens) + further * self.full.tpot_s
        for target, seconds in (
            (targets.ttft_ms, (now.ttft_s,)),
            (targets.tpot_ms, (now.tpot_s, self.full.tpot_s)),
            (targets.e2e_ms, (now.e2e_s, least_e2e)),
        ):
            for value in seconds if target is not None else ():
                good &= value * 1e3 <= target
        return good


def cheapest_layout(scenario: Scenario, model: ModelSpec, table: OfferTable, *, today: date) -> Found | None:
    """Return the cheapest layout that keeps every rule, or None when there is none.

    Stock or a limit must bound the nodes of every offer.
    """
    rentals, splits = [], []
    numbers: dict[tuple[Any, ...], int] = {}
    for offer in table.frame.to_dict("records"):
        for split in _splits_on(scenario, model, offer, today):
            key = tuple(getattr(split, name) for name in (*SHAPE, *SPLIT))
            row = numbers.setdefault(key, len(splits))
            if row == len(splits):
                splits.append(split)
            rentals += [_Rental(cost, layout, row) for cost, layout in _rented(scenario, split, today)]
    runs = _Runs(scenario, model, splits)
    for tried, rental in enumerate(sorted(rentals, key=lambda one: one.cost_micro_usd), start=1):
        limit = runs.carried_by(rental.layout.replicas).get(rental.row)
        if limit is not None:
            layout = rental.layout.model_copy(update={"concurrency_per_replica": limit})
            return Found(rental.cost_micro_usd, layout, tried)
    return None


def _keeps(scenario: Scenario, model: ModelSpec, layout: Layout, today: date, rules: tuple[str, ...]) -> bool:
    audit = Audit(scenario, model, layout, today)
    return not any(message for rule in rules for message in CHECKS[rule](audit))


def _splits_on(scenario: Scenario, model: ModelSpec, offer: Any, today: date) -> Iterator[Layout]:
    """Every split of the model on one offer, as one replica, that keeps the rules which no count changes."""
    per_node = int(offer["gpus_per_node"])
    single = _single(scenario, offer)
    if not _keeps(scenario, model, single, today, (*OF_THE_OFFER, "term_allowed", "price_age")):
        return
    sizes = range(1, per_node * scenario.limits.max_nodes_per_replica + 1)
    for tp, pp, dp in product(sizes, sizes, sizes):
        gpus = tp * pp * dp
        if gpus > sizes[-1] or (gpus > per_node and gpus % per_node):
            continue
        for ep, weights, kv_cache in product(sorted({1, tp * dp}), WEIGHT_FORMATS, KV_DTYPES):
            split = {"tp": tp, "pp": pp, "ep": ep, "attention_dp": dp, "weights": weights, "kv_cache": kv_cache}
            spans = max(1, gpus // per_node)
            layout = single.model_copy(update=split | {"nodes": spans, "nodes_per_replica": spans, "gpus_used": gpus})
            if _keeps(scenario, model, layout, today, OF_THE_SPLIT):
                yield layout


def _single(scenario: Scenario, offer: Any) -> Layout:
    """One GPU of the offer with one replica on it, at the user's own price."""
    price = float(offer["price_usd_per_node_hour"])
    for terms in scenario.prices.discounts:
        named = {name: getattr(terms, name) for name in ("provider", "gpu", "instance_type", "term")}
        if all(value is None or offer[name] == value for name, value in named.items()):
            price *= 1 - terms.percent / 100
    fields = {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in offer.items()}
    fields |= {"price_usd_per_node_hour": round(price * 1e6) / 1e6, "price_source": fields.pop("source")}
    fields |= {"price_seen_on": fields.pop("seen_on").date(), "weights": "bf16", "kv_cache": "bf16"}
    ones = ("tp", "pp", "ep", "attention_dp", "replicas", "nodes", "nodes_per_replica", "gpus_used")
    return Layout(**fields, **dict.fromkeys(ones, 1), concurrency_per_replica=1)


def _rented(scenario: Scenario, split: Layout, today: date) -> Iterator[tuple[int, Layout]]:
    """The split in every number of replicas that quotas, stock, budget and the user's own numbers allow."""
    gpus = split.tp * split.pp * split.attention_dp
    replicas = 0
    while True:
        replicas += 1
        nodes = replicas * split.nodes_per_replica
        if gpus <= split.gpus_per_node:
            nodes = ceil(replicas / (split.gpus_per_node // gpus))
        counts = {"replicas": replicas, "nodes": nodes, "gpus_used": replicas * gpus}
        audit = Audit(scenario, None, split.model_copy(update=counts), today)  # type: ignore[arg-type]
        if any(CHECKS["quota"](audit)):
            return
        if not any(message for rule in ("budget", "replicas_allowed") for message in CHECKS[rule](audit)):
            yield nodes * round(split.price_usd_per_node_hour * 1e6), audit.layout


def _fits(scenario: Scenario, model: ModelSpec, layout: Layout, limit: int) -> bool:
    asked = scenario.memory
    policy = MemoryPolicy(asked.policy, asked.overhead, asked.headroom, asked.gpu_memory_utilization)
    audit = Audit(scenario, model, layout, layout.price_seen_on)
    held = footprint(model, audit.split, max_batched_tokens=asked.max_batched_tokens)
    per_rank = ceil(limit / layout.attention_dp)
    return breakdown(policy, get_gpu(layout.gpu).memory_bytes, held, per_rank, scenario.workload.held_tokens).fits
