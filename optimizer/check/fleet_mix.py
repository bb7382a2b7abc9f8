"""What a pool does with its own mix of classes, worked out anew, and the memory that the mix takes.

Of the requests that a pool gets in its busiest period the mean lengths are means by arrival, and their variances those of the mixture.
A replica's time is shared out over the classes in proportion to what their traffic takes of it; requests at once and
tokens kept for each are means by those shares of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np
import pandas as pd

from catalogs.gpus import get_gpu
from optimizer.check.audit import close, exceeds
from optimizer.check.fleet_audit import FleetAudit
from optimizer.check.floors import least_weight_bytes
from optimizer.check.layout import GIB
from optimizer.fleet.plan import Pool
from optimizer.memory import breakdown, footprint, memory_policy
from optimizer.performance.backends.choose import speed_backend
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.open_loop import Variability
from optimizer.performance.operating_point import predict_open_loop
from optimizer.split import Split

MIX_TOLERANCE = 0.005  # relative; a mean length is a whole number of tokens, or it is not
_COLUMNS = ("gpu", "gpus_per_node", "fabric", "scale_up_gpus", "network")
_SPLIT = ("weights", "kv_cache", "tp", "pp", "ep", "attention_dp")


@dataclass(frozen=True, slots=True)
class Mix:
    """The requests that a pool gets in its busiest period.

    Attributes:
        rate: requests/s on each replica.
        input_tokens, output_tokens: means by arrival; input_cv, output_cv: of the mixture; so burstiness.
        concurrency, held_tokens: requests at once and tokens kept for each, by shares of time.
    """

    period: int
    rate: float
    input_tokens: float
    output_tokens: float
    input_cv: float
    output_cv: float
    burstiness: float
    concurrency: float
    held_tokens: float


def mix_of(audit: FleetAudit, pool: Pool) -> Mix | None:
    """Return a pool's mix; None where it serves nothing."""
    period = audit.busiest(pool)
    copies = pool.replicas_by_period[period]
    parts = [one for one in pool.serves if one.requests_per_second_by_period[period] > 0]
    if not parts or not copies:
        return None
    rates = np.array([one.requests_per_second_by_period[period] for one in parts])
    times = rates / np.array([one.capacity_requests_per_second for one in parts])
    of, time = rates / rates.sum(), times / times.sum()
    asked = [audit.asked[pool.model, one.class_name] for one in parts]
    inputs, input_cv = _mixture(of, [one.input_tokens for one in asked], [one.input_cv for one in asked])
    outputs, output_cv = _mixture(of, [one.output_tokens for one in asked], [one.output_cv for one in asked])
    held = [one.context_tokens or one.input_tokens + one.output_tokens for one in asked]
    return Mix(
        period=period,
        rate=float(rates.sum() / copies),
        input_tokens=inputs,
        output_tokens=outputs,
        input_cv=input_cv,
        output_cv=output_cv,
        burstiness=float(of @ np.array([one.burstiness for one in asked])),
        concurrency=float(time @ np.array([one.concurrency for one in parts])),
        held_tokens=float(time @ np.array(held)),
    )


def _mixture(shares: np.ndarray, means: list[int], variations: list[float]) -> tuple[float, float]:
    """Return mean and coefficient of variation of a mixture."""
    of, cv = np.array(means, dtype=np.float64), np.array(variations)
    mean = float(shares @ of)
    variance = float(shares @ (np.square(of) * (1 + np.square(cv)))) - mean**2
    return mean, sqrt(max(variance, 0.0)) / mean


def mix(audit: FleetAudit) -> Iterator[str]:
    """A pool's speed is what is predicted for its own mix of classes."""
    for pool in audit.plan.pools:
        found = mix_of(audit, pool)
        if found is None:
            continue
        low, high = max(floor(found.concurrency + 1e-6), 1), max(ceil(found.concurrency - 1e-6), 1)
        if not low <= pool.concurrency_per_replica <= high:
            yield f"{pool.id} runs {found.concurrency:.2f} requests at once, not {pool.concurrency_per_replica}"
        yield from (f"{pool.id}: {message}" for message in _speed(audit, pool, found))


def _speed(audit: FleetAudit, pool: Pool, found: Mix) -> Iterator[str]:
    site, said, copies = audit.sites[pool.site], pool.performance, pool.replicas_by_period[found.period]
    row = {name: getattr(site, name) for name in _COLUMNS} | {name: getattr(pool, name) for name in _SPLIT}
    rate = np.nan if site.network_gbit_per_s is None else site.network_gbit_per_s
    table = pd.DataFrame([row | {"network_gbit_per_s": float(rate)}])
    speed = speed_backend(audit.model(pool), table, audit.scenario.performance)
    limit = np.array([float(pool.concurrency_per_replica)])
    vary = Variability(found.burstiness, found.input_cv, found.output_cv)
    now = predict_open_loop(speed, found.rate, limit, found.input_tokens, found.output_tokens, vary=vary)
    full = predict_closed_loop(speed, limit, found.input_tokens, found.output_tokens)
    expected = {
        "ttft_ms": float(now.ttft_s[0]) * 1e3,
        "tpot_ms": float(now.tpot_s[0]) * 1e3,
        "e2e_ms": float(now.e2e_s[0]) * 1e3,
        "requests_in_flight": float(now.in_flight[0]),
        "utilization": float(now.utilization[0]),
        "requests_per_second": found.rate * copies,
        "output_tokens_per_second": found.rate * copies * found.output_tokens,
    }
    for name, value in expected.items():
        if not close(getattr(said, name), value, MIX_TOLERANCE):
            yield f"performance.{name} is {getattr(said, name):.6g}, not {value:.6g}"
    at_limit = {
        "concurrency": pool.concurrency_per_replica,
        "tpot_ms": float(full.tpot_s[0]) * 1e3,
        "requests_per_second": float(full.requests_per_second[0]),
        "output_tokens_per_second": float(full.output_tokens_per_second[0]),
    }
    for name, value in at_limit.items():
        if not close(getattr(said.saturation, name), value, MIX_TOLERANCE):
            yield f"performance.saturation.{name} is {getattr(said.saturation, name):.6g}, not {value:.6g}"
    if not 0 <= pool.communication_share <= 1:
        yield f"communication is {pool.communication_share:.1%} of a step"


def pool_memory(audit: FleetAudit) -> Iterator[str]:
    """A GPU holds what its pool's requests at once take, each with the tokens that it is kept on average."""
    policy = memory_policy(audit.scenario.memory)
    for pool in audit.plan.pools:
        said, model = pool.memory, audit.model(pool)
        split = Split(pool.weights, pool.kv_cache, pool.tp, pool.pp, pool.ep, pool.attention_dp)
        held = footprint(model, split, max_batched_tokens=audit.scenario.memory.max_batched_tokens)
        per_rank = ceil(pool.concurrency_per_replica / pool.attention_dp)
        gpu = get_gpu(audit.sites[pool.site].gpu)
        anew = breakdown(policy, gpu.memory_bytes, held, per_rank, said.context_tokens)
        for name in ("weights_gib", "kv_cache_gib", "need_gib", "available_gib", "headroom_left_gib", "gpu_memory_gib"):
            if not close(getattr(said, name), getattr(anew, name)):
                yield f"{pool.id}: memory.{name} is {getattr(said, name):.4f}, not {getattr(anew, name):.4f}"
        if exceeds(said.need_gib, said.available_gib):
            yield f"{pool.id}: {said.need_gib:.2f} GiB are needed of {said.available_gib:.2f} GiB"
        if exceeds(least_weight_bytes(model, split) / GIB, said.weights_gib):
            yield f"{pool.id}: memory.weights_gib is {said.weights_gib:.4f}, less than the least there can be"
        found = mix_of(audit, pool)
        if found is not None and abs(said.context_tokens - found.held_tokens) > 1.0:
            yield f"{pool.id}: {found.held_tokens:.1f} tokens are kept for a request, not {said.context_tokens}"
