"""What a pool does with its own mix of classes, worked out anew, and the memory that the mix takes.

Of the requests that a pool gets in its busiest period the mean lengths are means by arrival, and their variances those
of the mixture. A replica's time is shared out over the classes in proportion to what their traffic takes of it: by
those shares it runs so many requests at once, and each is kept as many tokens as those in flight are on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.gpus import get_gpu
from optimizer.check.audit import close, exceeds
from optimizer.check.fleet_audit import LATENCIES, FleetAudit
from optimizer.check.floors import least_kv_bytes, least_weight_bytes
from optimizer.check.layout import GIB
from optimizer.fleet.plan import Pool, Served
from optimizer.memory import breakdown, footprint, memory_policy
from optimizer.performance.backends.choose import speed_backend
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.distributions import PERCENTILES
from optimizer.performance.latency import Prediction, predict_closed_loop
from optimizer.performance.open_loop import Variability
from optimizer.performance.operating_point import predict_open_loop
from optimizer.plan import MemoryUse
from optimizer.split import Split

MIX_TOLERANCE = 1e-3  # relative; classes that come at other hours only count for next to nothing, or for nothing
LEAST_RATE = 1e-6
MOST_VARIATION = 4.0  # as a workload's lengths may vary
_COLUMNS = ("gpu", "gpus_per_node", "fabric", "scale_up_gpus", "network")
_SPLIT = ("weights", "kv_cache", "tp", "pp", "ep", "attention_dp")


@dataclass(frozen=True, slots=True)
class Mix:
    """The requests that a pool gets in its busiest period.

    Attributes:
        rate: requests/s on each replica; copies: how many there are.
        input_tokens, output_tokens: means by arrival, in whole tokens; input_cv, output_cv: of the mixture.
        concurrency, held_tokens: requests at once and tokens kept for each, by shares of time.
    """

    rate: float
    copies: int
    input_tokens: int
    output_tokens: int
    vary: Variability
    concurrency: float
    held_tokens: float


def mix_of(audit: FleetAudit, pool: Pool) -> Mix | None:
    """Return a pool's mix; None where it serves nothing."""
    period = audit.busiest(pool)
    copies = pool.replicas_by_period[period]
    rates = np.array([max(one.requests_per_second_by_period[period], LEAST_RATE) for one in pool.serves])
    if not pool.serves or not copies:
        return None
    at_once = np.array([float(one.concurrency) for one in pool.serves])
    times = rates / np.array([one.capacity_requests_per_second for one in pool.serves])
    of, in_flight = rates / rates.sum(), times / times.sum() * at_once
    asked = [audit.asked[pool.model, one.class_name] for one in pool.serves]
    inputs, input_cv = _mixture(of, [one.input_tokens for one in asked], [one.input_cv for one in asked])
    outputs, output_cv = _mixture(of, [one.output_tokens for one in asked], [one.output_cv for one in asked])
    held = np.array([float(one.context_tokens or one.input_tokens + one.output_tokens) for one in asked])
    burstiness = float(of @ np.array([one.burstiness for one in asked]))
    # A step finds a class in flight in proportion to the tokens that it answers.
    found = rates * np.array([float(one.output_tokens) for one in asked])
    met = np.array([one.input_tokens + one.output_tokens * (1 + one.output_cv**2) / 2 for one in asked])
    context = max(round(float(found @ met / found.sum())), 1)
    return Mix(
        rate=float(rates.sum() / copies),
        copies=copies,
        input_tokens=max(round(inputs), 1),
        output_tokens=max(round(outputs), 1),
        vary=Variability(burstiness, input_cv, output_cv, context),
        concurrency=float(in_flight.sum()),
        held_tokens=float(in_flight @ held / in_flight.sum()),
    )


def _mixture(shares: npt.NDArray[np.float64], means: list[int], variations: list[float]) -> tuple[float, float]:
    """Return mean and coefficient of variation of a mixture."""
    of, cv = np.array(means, dtype=np.float64), np.array(variations)
    mean = float(shares @ of)
    variance = float(shares @ (np.square(of) * np.square(cv) + np.square(of - mean)))
    return mean, min(sqrt(variance) / mean, MOST_VARIATION)


def mix(audit: FleetAudit) -> Iterator[str]:
    """A pool's speed, and each class's on it, is what is predicted for its own mix of classes."""
    for pool in audit.plan.pools:
        found = mix_of(audit, pool)
        if found is not None:
            yield from (f"{pool.id}: {message}" for message in _speed(audit, pool, found))


def _speed(audit: FleetAudit, pool: Pool, found: Mix) -> Iterator[str]:
    site, said = audit.sites[pool.site], pool.performance
    row = {name: getattr(site, name) for name in _COLUMNS} | {name: getattr(pool, name) for name in _SPLIT}
    network = np.nan if site.network_gbit_per_s is None else float(site.network_gbit_per_s)
    speed = speed_backend(
        audit.model(pool), pd.DataFrame([row | {"network_gbit_per_s": network}]), audit.scenario.performance
    )
    lengths, limit = (found.input_tokens, found.output_tokens), float(pool.concurrency_per_replica)
    now = predict_open_loop(speed, found.rate, limit, *lengths, vary=found.vary, levels=PERCENTILES)
    full = predict_closed_loop(speed, limit, *lengths)
    expected = {
        "ttft_ms": now.ttft_s[0] * 1e3,
        "tpot_ms": now.tpot_s[0] * 1e3,
        "e2e_ms": now.e2e_s[0] * 1e3,
        "requests_in_flight": now.in_flight[0],
        "utilization": now.utilization[0],
        "requests_per_second": found.rate * found.copies,
        "output_tokens_per_second": found.rate * found.copies * found.output_tokens,
    }
    yield from _off("performance", said, expected)
    at_limit = {
        "concurrency": limit,
        "tpot_ms": full.tpot_s[0] * 1e3,
        "requests_per_second": full.requests_per_second[0],
        "output_tokens_per_second": full.output_tokens_per_second[0],
    }
    yield from _off("performance.saturation", said.saturation, at_limit)
    total, reduced = sum(said.step_ms.values()), said.step_ms.get("all_reduce", 0.0)
    if not close(pool.communication_share, reduced / total if total else 0.0):
        yield f"communication is {reduced / total if total else 0.0:.2%} of a step, not {pool.communication_share:.2%}"
    for served in pool.serves:
        yield from (f"{served.class_name}: {one}" for one in _class(audit, pool, served, speed, now, found))


def _off(what: str, said: object, expected: dict[str, float]) -> Iterator[str]:
    for name, value in expected.items():
        if not close(float(getattr(said, name)), float(value), MIX_TOLERANCE):
            yield f"{what}.{name} is {getattr(said, name):.6g}, not {value:.6g}"


def _class(
    audit: FleetAudit, pool: Pool, served: Served, speed: SpeedBackend, now: Prediction, found: Mix
) -> Iterator[str]:
    """Compare a class's times: the pool's, with the class's own prompt and answer in place of the mean."""
    key = (pool.model, served.class_name)
    kept, own, one = audit.targets_kept(pool), audit.targets_asked(key), audit.asked[key]
    ttft, tpot = (float(seconds[0]) * 1e3 for seconds in now.at(kept.at)[:2])
    prompt, mean_prompt = (
        float(speed.prefill_seconds(float(tokens))[0]) * 1e3 for tokens in (one.input_tokens, found.input_tokens)
    )
    ttft = max(ttft + prompt - mean_prompt, prompt)
    yield from _off("", served, {"ttft_ms": ttft, "tpot_ms": tpot, "e2e_ms": ttft + (one.output_tokens - 1) * tpot})
    whole = served.ttft_ms + (one.output_tokens - 1) * served.tpot_ms
    if not close(served.e2e_ms, whole):
        yield f"TTFT and {one.output_tokens - 1:,} more tokens take {whole:.3f} ms, not {served.e2e_ms:.3f}"
    sure = {
        name: 1.0
        if kept.confidence is None
        else float(speed.at_confidence(name.removesuffix("_ms"), kept.confidence)[0])
        for name in LATENCIES
    }
    over = [
        name
        for name in LATENCIES
        if getattr(own, name) is not None and exceeds(getattr(served, name) * sure[name], getattr(own, name))
    ]
    if served.holds != (not over):
        figures = ", ".join(f"{name} {getattr(served, name):.6g}" for name in over or LATENCIES)
        yield f"its targets are said {'' if served.holds else 'not '}to hold at {figures}"


def pool_memory(audit: FleetAudit) -> Iterator[str]:
    """A GPU holds what its pool's requests at once take, each with the tokens that it is kept on average."""
    for pool in audit.plan.pools:
        found = mix_of(audit, pool)
        if found is not None:
            yield from (f"{pool.id}: {message}" for message in _memory(audit, pool, found))


def _memory(audit: FleetAudit, pool: Pool, found: Mix) -> Iterator[str]:
    said, model, at_once = pool.memory, audit.model(pool), pool.concurrency_per_replica
    split = Split(pool.weights, pool.kv_cache, pool.tp, pool.pp, pool.ep, pool.attention_dp)
    held = footprint(model, split, max_batched_tokens=audit.scenario.memory.max_batched_tokens)
    policy, gpu = memory_policy(audit.scenario.memory), get_gpu(audit.sites[pool.site].gpu)
    tokens = max(ceil(found.held_tokens - 1e-6), found.input_tokens + found.output_tokens)
    if abs(said.context_tokens - tokens) > 1:
        yield f"{found.held_tokens:.1f} tokens are kept for a request on average, not {said.context_tokens}"

    @cache
    def use(requests: int) -> MemoryUse:
        return breakdown(policy, gpu.memory_bytes, held, ceil(requests / pool.attention_dp), said.context_tokens)

    for name in ("weights_gib", "kv_cache_gib", "need_gib", "available_gib", "headroom_left_gib", "gpu_memory_gib"):
        if not close(getattr(said, name), getattr(use(at_once), name)):
            yield f"memory.{name} is {getattr(said, name):.4f}, not {getattr(use(at_once), name):.4f}"
    if exceeds(said.need_gib, said.available_gib):
        yield f"{said.need_gib:.2f} GiB are needed of {said.available_gib:.2f} GiB"
    most, least = (max(int(found.concurrency + rounding), 1) for rounding in (1e-6, -1e-6))
    # Whole requests of a mean length may be one or two too many for memory; then as many as go in.
    if at_once > most or (at_once < least and not exceeds(use(at_once + 1).need_gib, use(at_once + 1).available_gib)):
        yield f"a replica runs {most} requests at once, not {at_once}"
    floors = (
        least_weight_bytes(model, split),
        ceil(at_once / pool.attention_dp) * least_kv_bytes(model, split, said.context_tokens),
    )
    for name, floor in zip(("weights_gib", "kv_cache_gib"), floors, strict=True):
        if exceeds(floor / GIB, getattr(said, name)):
            yield f"memory.{name} is {getattr(said, name):.4f}, less than the least there can be: {floor / GIB:.4f}"
