"""What one replica carries within the targets: memory first, then speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from numpy.typing import NDArray

from optimizer.memory import concurrent_requests, memory_policy
from optimizer.memory.policy import demand
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.distributions import Level
from optimizer.performance.latency import Prediction, max_concurrency, predict_closed_loop
from optimizer.performance.open_loop import OpenLoop, Variability
from optimizer.performance.operating_point import closed_loop_percentiles, max_arrival_rate
from optimizer.rules import bit
from optimizer.scenario import Memory, Scenario, Workload

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LATENCIES = ("ttft", "tpot", "e2e")
FILLED = ("memory_concurrency", "concurrency", "capacity", "alone_ttft_s", "alone_tpot_s", "alone_e2e_s", "broken")
ROUNDING = 1e-9  # 100 requests x 0.29 is 28.999999999999996, and means 29


def other_memory(memory: Memory) -> Memory:
    """Return the scenario's memory settings with the other policy."""
    return memory.model_copy(update={"policy": "engine" if memory.policy == "framework" else "framework"})


def memory_concurrency(frame: pd.DataFrame, memory: Memory) -> Ints:
    """Return the most requests, each with its whole context, that fit on a replica; 0 where not even one does.

    An engine that fills its fraction still needs room beside it to warm up: without it, it dies after it has started.
    """
    policy = memory_policy(memory)
    fitting = concurrent_requests(
        policy,
        frame["gpu_memory_bytes"].to_numpy(),
        frame["weights_bytes"].to_numpy(),
        frame["kv_bytes_per_sequence"].to_numpy(),
        frame["activation_bytes"].to_numpy(),
        attention_dp=frame["attention_dp"].to_numpy(),
        ranks=frame["ranks"].to_numpy(),
    )
    if policy.name == "framework":
        return fitting
    beside = frame["gpu_memory_bytes"].to_numpy() * (1 - policy.gpu_memory_utilization)
    return np.where(frame["warm_up_bytes"].to_numpy() <= beside, fitting, 0)


def least_memory_share(frame: pd.DataFrame, memory: Memory) -> Floats:
    """Return what one request needs of the memory that the policy allows, as a share; above 1 it does not fit."""
    asked = demand(
        memory_policy(memory),
        frame["gpu_memory_bytes"].to_numpy(),
        frame["weights_bytes"].to_numpy(),
        frame["kv_bytes_per_sequence"].to_numpy(),
        frame["activation_bytes"].to_numpy(),
        ranks=frame["ranks"].to_numpy(),
    )
    return np.asarray(asked.need / asked.available)


def latency_factors(scenario: Scenario, speed: SpeedBackend) -> dict[str, Floats]:
    """Return per latency and row what a prediction is multiplied by before it is held against its target.

    1, or what the latency stays below with the probability that the scenario asks for.
    """
    asked = scenario.targets.confidence
    if asked is None:
        return dict.fromkeys(LATENCIES, np.ones(speed.rows))
    return {name: speed.at_confidence(name, asked) for name in LATENCIES}


def latency_targets_s(scenario: Scenario, factors: dict[str, Floats]) -> dict[str, Floats]:
    """Return the targets that are asked for, in seconds by name, as predictions have to meet them: one value a row."""
    asked = {name: getattr(scenario.targets, f"{name}_ms") for name in LATENCIES}
    return {name: target / 1e3 / factors[name] for name, target in asked.items() if target is not None}


def variability(work: Workload) -> Variability:
    """Return how unlike the requests of a workload are."""
    return Variability(work.burstiness, work.input_cv, work.output_cv, work.said_in_flight_tokens)


def always_in_flight(
    speed: SpeedBackend, requests: npt.ArrayLike, scenario: Scenario, levels: Sequence[Level] = ()
) -> Prediction:
    """Return what replicas do with so many requests always in flight on each, with these percentiles."""
    work = scenario.workload
    lengths = work.input_tokens, work.output_tokens
    means = predict_closed_loop(speed, requests, *lengths)
    if not levels:
        return means
    found = closed_loop_percentiles(speed, requests, *lengths, means, vary=variability(work), levels=levels)
    return replace(means, percentiles=found)


def _at_target(speed: SpeedBackend, requests: npt.ArrayLike, scenario: Scenario) -> dict[str, Floats]:
    """Return the latencies that targets are held against with so many requests always in flight, in s by name."""
    level = scenario.targets.at
    found = always_in_flight(speed, requests, scenario, () if level == "mean" else (level,))
    return dict(zip(LATENCIES, found.at(level), strict=True))


def fill_capacity(
    frame: pd.DataFrame,
    speed: SpeedBackend,
    scenario: Scenario,
    memory: Memory | None = None,
    at_least: Floats | None = None,
) -> pd.DataFrame:
    """Fill in what one replica carries within the targets, and which targets it breaks.

    Columns added: `concurrency`, the most requests it may run at once; `capacity`, the traffic it carries in the
    workload's own unit (requests/s, requests in flight, or output tokens/s), 0 where a rule is broken;
    `memory_concurrency`, what memory alone would hold; `alone_ttft_s`, `alone_tpot_s`, `alone_e2e_s`, the latencies
    of a request that has the replica for itself, which no traffic can improve on (at the confidence asked for); and in
    `broken` the bits of memory and targets.

    Args:
        frame: alive candidates.
        speed: the speed model of those rows.
        scenario: the question.
        memory: memory settings to use instead of the scenario's.
        at_least: per row, the least capacity that is of any use; a row that cannot carry as much may have 0.
    """
    work, factors = scenario.workload, latency_factors(scenario, speed)
    targets = latency_targets_s(scenario, factors)
    by_memory = memory_concurrency(frame, memory or scenario.memory)
    alone = _at_target(speed, 1.0, scenario)
    broken = frame["broken"].to_numpy() & ~bit("vram_headroom", *LATENCIES)
    broken = broken | np.where(by_memory < 1, bit("vram_headroom"), 0)
    for name, target in targets.items():
        broken = broken | np.where(alone[name] > target, bit(name), 0)

    fits = (broken & bit("vram_headroom", *LATENCIES)) == 0
    cap = np.where(fits, np.minimum(by_memory, scenario.limits.max_concurrency_per_replica), 0)
    limit = max_concurrency(
        speed, cap, work.input_tokens, work.output_tokens, tpot_target_s=_tpot_at_limit_s(targets, alone, speed, work)
    )
    if work.kind == "output_tokens_per_second":
        limit = _most_in_flight(speed, limit, scenario, targets)
    if work.kind != "concurrency":
        limit = _of_most_use(speed, limit, work)
    return frame.assign(
        memory_concurrency=by_memory,
        concurrency=limit,
        capacity=_capacity(speed, scenario, limit, targets, at_least),
        alone_ttft_s=alone["ttft"] * factors["ttft"],
        alone_tpot_s=alone["tpot"] * factors["tpot"],
        alone_e2e_s=alone["e2e"] * factors["e2e"],
        broken=broken,
    )


def give_up_targets(replicas: pd.DataFrame, speed: SpeedBackend, scenario: Scenario) -> pd.DataFrame:
    """Return the replicas with what those that break memory or a target would carry if it were given up.

    It is an upper bound: no latency target is kept, and a replica that has no room runs as many requests at once as the
    scenario allows. So the fewest replicas that follow from it are needed whatever gives way.
    """
    frame = replicas.reset_index(drop=True)
    broken = frame["broken"].to_numpy()
    stuck = np.nonzero(broken & bit("vram_headroom", *LATENCIES))[0]
    if not len(stuck):
        return frame
    most = scenario.limits.max_concurrency_per_replica
    no_room = (broken[stuck] & bit("vram_headroom")) != 0
    limit = np.where(no_room, most, np.minimum(frame["memory_concurrency"].to_numpy()[stuck], most))
    rows = speed.take(stuck)
    if scenario.workload.kind != "concurrency":
        limit = _of_most_use(rows, limit, scenario.workload)
    capacity = frame["capacity"].to_numpy(dtype=np.float64, copy=True)
    capacity[stuck] = _carried(rows, scenario, limit, {})
    return frame.assign(capacity=capacity)


def with_capacity(frame: pd.DataFrame, replicas: pd.DataFrame) -> pd.DataFrame:
    """Return candidates with what `fill_capacity` worked out for their replicas (the column `replica` says which)."""
    of_row = frame["replica"].to_numpy()
    return frame.assign(**{name: replicas[name].to_numpy()[of_row] for name in FILLED})


def _tpot_at_limit_s(
    targets: dict[str, Floats], alone: dict[str, Floats], speed: SpeedBackend, work: Workload
) -> Floats:
    """Return the time per token that the concurrency limit may reach: the target, and what end-to-end time leaves.

    Only waiting comes on top of a request's own prefill, and how much of that there is depends on the traffic. At a low
    percentile a prompt may be shorter than the mean: the limit is kept for the mean one.
    """
    most = targets.get("tpot", np.full(len(alone["ttft"]), np.inf))
    if "e2e" in targets and work.output_tokens > 1:
        prefill = np.maximum(alone["ttft"], speed.prefill_seconds(work.input_tokens))
        most = np.minimum(most, (targets["e2e"] - prefill) / (work.output_tokens - 1))
    return most


def _most_in_flight(speed: SpeedBackend, cap: Ints, scenario: Scenario, targets: dict[str, Floats]) -> Ints:
    """Return the most requests, at most `cap`, that may always be in flight within the targets, waiting included."""
    low, high = np.zeros_like(cap), np.maximum(cap, 0)
    while targets and (low < high).any():
        middle = (low + high + 1) // 2
        now = _at_target(speed, middle, scenario)
        holds = np.all([now[name] <= target for name, target in targets.items()], axis=0)
        low, high = np.where(holds, middle, low), np.where(holds, high, np.maximum(middle - 1, low))
    return high


def _of_most_use(speed: SpeedBackend, limit: Ints, work: Workload) -> Ints:
    """Return the requests at once, at most `limit`, that deliver the most: fewer, where more of them deliver less.

    Throughput rises with the requests in flight, then stays or falls: its top is looked for by halving, and only on
    replicas whose limit lies on the fall.
    """
    falls = np.nonzero((limit > 1) & ~_rises(speed, limit - 1, work))[0]
    if not len(falls):
        return limit
    rows, full = speed.take(falls), limit[falls]
    low, high = np.ones_like(full), full - 1
    while (low < high).any():
        middle = (low + high) // 2
        rises = _rises(rows, middle, work)
        low, high = np.where(rises, np.minimum(middle + 1, high), low), np.where(rises, high, middle)
    # A step of the efficiency curves can look like the top: the limit itself may be better.
    better = _rate(rows, high, work) > _rate(rows, full, work)
    best = limit.copy()
    best[falls] = np.where(better, high, full)
    return best


def _rises(speed: SpeedBackend, in_flight: Ints, work: Workload) -> NDArray[np.bool_]:
    """Say of each replica whether one request more in flight delivers at least as much."""
    more = _rate(speed, in_flight + 1, work)
    return np.asarray(more >= _rate(speed, in_flight, work) * (1 - ROUNDING))


def _rate(speed: SpeedBackend, in_flight: Ints, work: Workload) -> Floats:
    """Return the requests per second of each replica with so many always in flight."""
    lengths = work.input_tokens, work.output_tokens
    return predict_closed_loop(speed, np.maximum(in_flight, 1), *lengths).requests_per_second


def _capacity(
    speed: SpeedBackend, scenario: Scenario, limit: Ints, targets: dict[str, Floats], at_least: Floats | None
) -> Floats:
    """Return the traffic a replica carries at this limit, in the workload's unit; 0 where it runs none, or too little.

    What it carries is looked for only where the most that it could is `at_least` as much as is of use.
    """
    worth = limit > 0
    if at_least is not None:
        worth &= _most_carried(speed, scenario, limit) >= at_least * (1 - ROUNDING)
    able = np.nonzero(worth)[0]
    carried = np.zeros(len(limit))
    if len(able):
        of_able = {name: target[able] for name, target in targets.items()}
        carried[able] = _carried(speed.take(able), scenario, limit[able], of_able)
    return carried


def _most_carried(speed: SpeedBackend, scenario: Scenario, limit: Ints) -> Floats:
    """Return a bound on the traffic a replica carries at this limit: what it does when full, whatever the targets."""
    work, share = scenario.workload, scenario.max_utilization
    lengths = work.input_tokens, work.output_tokens
    if work.kind == "request_rate":
        return OpenLoop(speed, limit, *lengths, variability(work)).most * share
    return np.asarray(limit * share) if work.kind == "concurrency" else np.full(len(limit), np.inf)


def _carried(speed: SpeedBackend, scenario: Scenario, limit: Ints, targets: dict[str, Floats]) -> Floats:
    work, share = scenario.workload, scenario.max_utilization
    lengths = work.input_tokens, work.output_tokens
    if work.kind == "request_rate":
        return max_arrival_rate(
            speed,
            limit,
            work.input_tokens,
            work.output_tokens,
            ttft_target_s=targets.get("ttft"),
            tpot_target_s=targets.get("tpot"),
            e2e_target_s=targets.get("e2e"),
            max_utilization=share,
            at=scenario.targets.at,
            vary=variability(work),
        )
    if work.kind == "concurrency":
        used = np.floor(limit * share * (1 + ROUNDING)).astype(np.int64)
        return _most_in_flight(speed, used, scenario, targets).astype(np.float64)
    return predict_closed_loop(speed, limit, *lengths).output_tokens_per_second * share
