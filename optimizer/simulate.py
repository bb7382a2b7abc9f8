"""Replaying a trace on a plan: what its requests would see, against the targets and against the closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, ConfigDict

from catalogs.models import ModelSpec, load_model
from optimizer.calibration_used import calibration_used
from optimizer.errors import QuestionError
from optimizer.performance.backends.choose import speed_backend
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.distributions import PERCENTILES, SHARES
from optimizer.performance.open_loop import Variability
from optimizer.performance.operating_point import predict_open_loop
from optimizer.performance.simulator import Requests, Simulation, simulate
from optimizer.plan import Calibration, Layout, Performance
from optimizer.plan_file import read_plan
from optimizer.scenario import Scenario, SpeedSource, build_scenario
from optimizer.trace import Trace, read_trace

Array = npt.NDArray[np.float64]

LATENCIES = ("ttft", "tpot", "e2e")
MINUTE = 60.0


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Traffic(_Part):
    """What the trace is like.

    Attributes:
        seconds: from the first to the last arrival.
        peak_requests_per_second: in the busiest minute; of the whole where there is less.
        burstiness: squared coefficient of variation of the times between arrivals; 1 for Poisson.
        input_cv, output_cv: standard deviation over mean of the lengths.
    """

    requests: int
    seconds: float
    requests_per_second: float
    peak_requests_per_second: float
    burstiness: float
    input_tokens: float
    input_cv: float
    output_tokens: float
    output_cv: float


class Latencies(_Part):
    """Milliseconds by "mean", "p50", "p90", "p95" and "p99"."""

    ttft_ms: dict[str, float]
    tpot_ms: dict[str, float]
    e2e_ms: dict[str, float]


class Attainment(_Part):
    """One target of the plan's question against the simulation.

    Attributes:
        at: "mean" or the percentile that the target is on.
        simulated: that figure in the simulation, in ms; null where no request has it.
        attained: share of all requests within the target; refused ones are not.
        holds: whether the simulated figure is within the target, with no request refused.
    """

    name: str
    at: str
    target_ms: float
    simulated_ms: float | None
    attained: float
    holds: bool


class Replay(_Part):
    """What `shardwise simulate --json` prints.

    Attributes:
        refused: requests that need more KV cache than a replica has, or are longer than the model's context.
        simulated: latencies of the requests that were served.
        closed_form: the formulas' answer to traffic as the trace is on average; null where it is more than the layout
            serves (`saturated`), or where fewer than two requests came.
        planned: what the plan says of its own traffic.
        utilization: share of the time that replicas had work, on average.
        load: arrival rate over what all slots together serve, by the closed form.
        queue_peak: the most requests that waited for a slot at once, over all replicas.
        calibration: the user's own, where speeds rest on one now.
        requests_in_flight: mean per replica.
    """

    summary: str
    trace: str
    speedup: float
    traffic: Traffic
    refused: int
    targets: tuple[Attainment, ...]
    simulated: Latencies
    closed_form: Latencies | None
    planned: Latencies | None
    saturated: bool
    load: float
    output_tokens_per_second: float
    requests_per_second: float
    utilization: float
    requests_in_flight: float
    queue_peak: int
    calibration: Calibration | None = None


def replay(
    plan_path: Path,
    trace_path: Path,
    *,
    speedup: float = 1.0,
    limit: int | None = None,
    performance: SpeedSource | None = None,
) -> Replay:
    """Replay a trace on the layout of a plan.

    Args:
        plan_path: what `shardwise solve --json` printed.
        trace_path: a CSV file of requests (see optimizer.trace).
        speedup: arrivals come so many times as fast.
        limit: use only the first so many requests.
        performance: where speed figures come from; as the plan's question says when not given.

    Raises:
        QuestionError: a file cannot be used, or the plan has no layout.
        CatalogError: the plan's model or GPU is not in the catalog.
    """
    plan = read_plan(plan_path)
    if plan.layout is None or plan.memory is None or plan.performance is None:
        raise QuestionError(f"{plan_path}: is {plan.status} and has no layout to replay on")
    scenario = build_scenario(plan.scenario, f"{plan_path}: scenario")
    trace = read_trace(trace_path, speedup=speedup, limit=limit)
    model = load_model(scenario.model)
    speed = speed_of(model, plan.layout, performance or scenario.performance)
    held = min(plan.memory.kv_tokens, model.max_context_tokens)
    served = _served(trace, held)
    done = simulate(
        speed,
        Requests(served.arrival_s, served.input_tokens, served.output_tokens),
        slots=plan.layout.concurrency_per_replica,
        replicas=plan.layout.replicas,
        kv_tokens=float(plan.memory.kv_tokens),
        step_tokens=float(scenario.memory.max_batched_tokens),
    )
    refused = len(trace.arrival_s) - len(served.arrival_s)
    traffic = describe(trace)
    closed_form, load = _closed_form(speed, plan.layout, traffic)
    return Replay(
        summary=plan.summary,
        trace=str(trace_path),
        speedup=speedup,
        traffic=traffic,
        refused=refused,
        targets=_attainment(scenario, done, refused),
        simulated=_latencies(done),
        closed_form=closed_form,
        planned=_planned(plan.performance),
        saturated=load >= 1.0,
        load=load,
        output_tokens_per_second=float(served.output_tokens.sum()) / done.end_s,
        requests_per_second=len(served.arrival_s) / done.end_s,
        utilization=float(done.busy_s.mean()) / done.end_s,
        requests_in_flight=float(done.batch_seconds.mean()) / done.end_s,
        calibration=calibration_used(),
        queue_peak=queue_peak(served.arrival_s + float(speed.fixed_prefill_seconds[0]), done.waited_s),
    )


def speed_of(model: ModelSpec, layout: Layout, performance: SpeedSource | None = None) -> SpeedBackend:
    """Return the speed backend of a layout's replica, the roofline when none is asked for."""
    row = pd.DataFrame([layout.model_dump(exclude={"price_seen_on"})])
    return speed_backend(model, row.astype({"network_gbit_per_s": float}), performance or SpeedSource())


def describe(trace: Trace) -> Traffic:
    """Return what a trace is like on average."""
    count, seconds = len(trace.arrival_s), float(trace.arrival_s[-1])
    gaps = np.diff(trace.arrival_s)
    spread = {
        name: (float(values.mean()), float(values.std() / values.mean()))
        for name, values in (("input", trace.input_tokens), ("output", trace.output_tokens))
    }
    return Traffic(
        requests=count,
        seconds=seconds,
        requests_per_second=(count - 1) / seconds if seconds > 0.0 else 0.0,
        peak_requests_per_second=_peak_rate(trace.arrival_s),
        burstiness=float(gaps.var() / gaps.mean() ** 2) if seconds > 0.0 else 0.0,
        input_tokens=spread["input"][0],
        input_cv=spread["input"][1],
        output_tokens=spread["output"][0],
        output_cv=spread["output"][1],
    )


def _peak_rate(arrival_s: Array) -> float:
    """Return requests per second in the busiest minute that begins with an arrival."""
    seconds = float(arrival_s[-1])
    if seconds <= 0.0:
        return 0.0
    if seconds < MINUTE:
        return (len(arrival_s) - 1) / seconds
    ends = np.searchsorted(arrival_s, arrival_s + MINUTE)
    return float((ends - np.arange(len(arrival_s))).max() / MINUTE)


def queue_peak(ready_s: Array, waited_s: Array) -> int:
    """Return the most requests that waited for a slot at once, each from when it is ready."""
    waits = waited_s > 0.0
    if not waits.any():
        return 0
    begins, ends = ready_s[waits], ready_s[waits] + waited_s[waits]
    moments = np.concatenate([ends, begins])  # at one moment, those that leave go first
    change = np.concatenate([np.full(len(ends), -1), np.full(len(begins), 1)])
    return int(np.cumsum(change[np.argsort(moments, kind="stable")]).max())


def _served(trace: Trace, most_tokens: int) -> Trace:
    fits = trace.input_tokens + trace.output_tokens <= most_tokens
    if not fits.any():
        raise QuestionError(f"no request of the trace fits in the {most_tokens:,} tokens that a replica can hold")
    return Trace(trace.arrival_s[fits], trace.input_tokens[fits], trace.output_tokens[fits])


def _closed_form(speed: SpeedBackend, layout: Layout, traffic: Traffic) -> tuple[Latencies | None, float]:
    """Return the formulas' latencies at the trace's averages, and the load; no latencies where it is saturated."""
    if traffic.requests_per_second <= 0.0:
        return None, 0.0
    # Requests dealt to replicas in no order of their arrival: bursts thin out.
    vary = Variability(
        burstiness=1.0 + (traffic.burstiness - 1.0) / layout.replicas,
        input_cv=traffic.input_cv,
        output_cv=traffic.output_cv,
    )
    now = predict_open_loop(
        speed,
        traffic.requests_per_second / layout.replicas,
        layout.concurrency_per_replica,
        traffic.input_tokens,
        traffic.output_tokens,
        vary=vary,
        levels=PERCENTILES,
    )
    load = float(now.utilization[0])
    if load >= 1.0:
        return None, load
    by_level = {level: [float(value[0]) * 1e3 for value in now.at(level)] for level in ("mean", *PERCENTILES)}
    ttft, tpot, e2e = ({level: values[index] for level, values in by_level.items()} for index in range(3))
    return Latencies(ttft_ms=ttft, tpot_ms=tpot, e2e_ms=e2e), load


def _latencies(done: Simulation) -> Latencies:
    ttft, tpot, e2e = (_levels(values) for values in (done.ttft_s, done.tpot_s, done.e2e_s))
    return Latencies(ttft_ms=ttft, tpot_ms=tpot, e2e_ms=e2e)


def _levels(seconds: Array) -> dict[str, float]:
    known = seconds[np.isfinite(seconds)] * 1e3
    if not len(known):
        return {}
    shares = [100.0 * SHARES[level] for level in PERCENTILES]
    return {"mean": float(known.mean())} | dict(zip(PERCENTILES, np.percentile(known, shares).tolist(), strict=True))


def _planned(performance: Performance) -> Latencies | None:
    ttft, tpot, e2e = (
        {"mean": performance.latency_ms(name, "mean")} | performance.percentiles.get(name, {}) for name in LATENCIES
    )
    return Latencies(ttft_ms=ttft, tpot_ms=tpot, e2e_ms=e2e)


def _attainment(scenario: Scenario, done: Simulation, refused: int) -> tuple[Attainment, ...]:
    found = []
    at = scenario.targets.at
    for name in LATENCIES:
        target_ms = getattr(scenario.targets, f"{name}_ms")
        if target_ms is None:
            continue
        seconds = getattr(done, f"{name}_s")
        known = seconds[np.isfinite(seconds)]
        simulated = _levels(seconds).get(at)
        attained = float((known * 1e3 <= target_ms).sum()) / max(len(known) + refused, 1)
        holds = not refused and (simulated is None or simulated <= target_ms)
        found.append(
            Attainment(name=name, at=at, target_ms=target_ms, simulated_ms=simulated, attained=attained, holds=holds)
        )
    return tuple(found)
