"""Latency and throughput of replicas under load: from step times to TTFT, TPOT, end-to-end time and rates.

A replica shares its time between decode steps and the prefills of other requests. With c requests in flight, a decode
step t(c), o output tokens and a prefill that keeps the replica busy for s, one round of all c requests takes
T = (o - 1) t(c) + c s. A request waits for its prefill in one part of T and decodes in the other, which gives both as
multiples of one figure, the mean number of other requests ahead in prefill:

    ahead = (c - 1) s / ((o - 1) t(c) + s)      TPOT = t(c) (1 + ahead)      wait for prefill = s x ahead x QUEUED

Source: mean value analysis of a closed network with one server and a delay (Bard 1979, Schweitzer 1979), with the delay
stretched by the server's own work. On answers of under 20 tokens the steps that a request lands in weigh more than they
cost, and throughput under load is understated (by half at 2 tokens). All results are arrays, one value per replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.distributions import Level

Array = npt.NDArray[np.float64]
Triple = tuple[Array, Array, Array]
Integers = npt.NDArray[np.int64]

# Prefills of equal prompts take a constant time, so half of what the exponential formula says (Pollaczek-Khinchine).
QUEUED = 0.5
# Steps of others that a request lands in: half of the one that runs when it arrives, and its own.
LANDING_STEPS = 1.5


@dataclass(frozen=True)
class Prediction:
    """What requests see and a replica delivers, one value per replica.

    Attributes:
        ttft_s, tpot_s, e2e_s: mean seconds to the first token, per further token, and to the last token. TPOT is 0 when
            a request has one output token. Infinite (TTFT, end-to-end) where the replica is saturated.
        output_tokens_per_second, requests_per_second: delivered by the whole replica.
        in_flight: mean requests in flight on the replica.
        utilization: requests per second over the most that the replica can serve with its slots.
        percentiles: TTFT, TPOT and end-to-end time by percentile, where they were asked for.
    """

    ttft_s: Array
    tpot_s: Array
    e2e_s: Array
    output_tokens_per_second: Array
    requests_per_second: Array
    in_flight: Array
    utilization: Array
    percentiles: Mapping[Level, Triple] = field(default_factory=dict)

    def at(self, level: Level) -> Triple:
        """Return TTFT, TPOT and end-to-end time in seconds, at the mean or at a percentile that was worked out."""
        return (self.ttft_s, self.tpot_s, self.e2e_s) if level == "mean" else self.percentiles[level]


@dataclass(frozen=True)
class _Latency:
    """Means at one load, waiting for a slot left out; `lead` is TTFT without any waiting for other prefills."""

    lead: Array
    queued: Array
    tpot: Array
    e2e: Array


class _Traffic:
    """Requests of one shape on a table of replicas: prefill times are computed once, step times at each load."""

    def __init__(self, speed: SpeedBackend, input_tokens: npt.ArrayLike, output_tokens: npt.ArrayLike) -> None:
        inputs, outputs = _column(speed, input_tokens), _column(speed, output_tokens)
        if not ((inputs >= 1.0) & (outputs >= 1.0)).all():
            raise ValueError(
                f"Expected at least 1 input and 1 output token, got {inputs.min():g} and {outputs.min():g}."
            )
        self.speed = speed
        self.further = outputs - 1.0
        self.decodes = outputs > 1.0
        self.context = inputs + outputs / 2.0
        self.alone = speed.prefill_seconds(inputs)
        self.occupancy = speed.prefill_occupancy_seconds(inputs)
        self.queued = QUEUED * speed.waves["prefill_queue"]

    def at(self, in_flight: Array) -> _Latency:
        """Return the latencies with `in_flight` requests (at least 1) on each replica."""
        step = self.speed.decode_step_seconds(in_flight, self.context) * self.decodes
        others = np.maximum(in_flight, 1.0) - 1.0
        ahead = others * self.occupancy / (self.further * step + self.occupancy)
        tpot = step * (1.0 + ahead)
        # A request that arrives among others waits out half a running step, and its own step carries their tokens too.
        lead = self.alone + LANDING_STEPS * tpot * others / (others + 1.0)
        queued = self.occupancy * ahead * np.minimum(self.queued, 1.0)
        served = lead + queued + self.further * tpot
        # Nobody is served faster than the replica works: what one round of all requests takes beyond that is waiting.
        one_round = in_flight * self.occupancy + self.further * step
        queued = queued + np.maximum(one_round - served, 0.0)
        return _Latency(lead=lead, queued=queued, tpot=tpot, e2e=np.maximum(served, one_round))

    def in_step(self, in_flight: Array, waves: Array, together: Array) -> _Latency:
        """Return the latencies when clients wait for this share of all prefills before their first token."""
        steady = self.at(in_flight)
        if not waves.any():
            return steady
        least = self.speed.decode_step_seconds(in_flight, self.context) * self.decodes
        others = (in_flight - 1.0) * self.occupancy
        waited = waves * others / (1.0 + (in_flight - 1.0) / together)
        # Longer queues than one behind all others are met where clients are in step, and cost no throughput elsewhere.
        ahead = others / np.maximum(self.further * least + self.occupancy, 1e-12)
        longer = self.occupancy * ahead * np.maximum(self.queued - 1.0, 0.0)
        tpot = np.maximum(steady.tpot - waited / np.maximum(self.further, 1.0), np.minimum(least, steady.tpot))
        queued = steady.queued + longer + waited
        return _Latency(steady.lead, queued, tpot, steady.lead + queued + self.further * tpot)

    def rate(self, in_flight: Array, latency: _Latency) -> Array:
        """Requests per second when `in_flight` requests each stay for their end-to-end time (Little's law)."""
        return in_flight / latency.e2e


def predict_closed_loop(
    speed: SpeedBackend,
    concurrency: npt.ArrayLike,
    input_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    *,
    waves: npt.ArrayLike = 0.0,
    together: npt.ArrayLike = np.inf,
) -> Prediction:
    """Return what each replica does with a fixed number of requests always in flight.

    Clients that all send requests of one length keep in step: they finish together, and their next prompts arrive
    together. Time that others would have added to each token is then waited before the first one; the end-to-end time
    stays the same.

    Args:
        speed: the table of replicas.
        concurrency: requests in flight per replica (at least 1), a number or one per replica.
        input_tokens: prompt tokens of a request (at least 1), a number or one per replica.
        output_tokens: generated tokens of a request (at least 1), likewise.
        waves: share of the other requests' prefills that one waits for because clients are in step: 0 where lengths
            differ, as in real traffic; a number or one per replica (`SpeedModel.waves` has those of benchmarks).
        together: requests that keep in step; beyond as many, clients fall out of it. Infinite where all start at once
            and the first prompts are what is waited for.

    Raises:
        ValueError: a length is below 1.
    """
    traffic = _Traffic(speed, input_tokens, output_tokens)
    in_flight = np.maximum(_column(speed, concurrency), 1.0)
    latency = traffic.in_step(in_flight, _column(speed, waves), _column(speed, together))
    rate = traffic.rate(in_flight, latency)
    return Prediction(
        ttft_s=latency.lead + latency.queued,
        tpot_s=latency.tpot,
        e2e_s=latency.e2e,
        output_tokens_per_second=rate * _column(speed, output_tokens),
        requests_per_second=rate,
        in_flight=in_flight,
        utilization=np.ones(speed.rows),
    )


def max_concurrency(
    speed: SpeedBackend,
    cap: npt.ArrayLike,
    input_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    *,
    ttft_target_s: npt.ArrayLike | None = None,
    tpot_target_s: npt.ArrayLike | None = None,
    e2e_target_s: npt.ArrayLike | None = None,
) -> Integers:
    """Return the largest number of requests in flight, at most `cap`, at which the mean targets hold.

    TTFT is without waiting for other requests' prefills. 0 where not even one request meets the targets.

    Args:
        speed: the table of replicas.
        cap: the most requests that fit, a whole number or one per replica; 0 or less gives 0.
        input_tokens: prompt tokens of a request (at least 1), a number or one per replica.
        output_tokens: generated tokens of a request (at least 1), likewise.
        ttft_target_s: mean time to first token of a request; None for no target.
        tpot_target_s: mean time per further token, a number or one per replica; None for no target.
        e2e_target_s: mean time to the last token; None for no target.

    Raises:
        ValueError: a length is below 1.
    """
    traffic = _Traffic(speed, input_tokens, output_tokens)
    low = np.zeros(speed.rows, dtype=np.int64)
    high = np.maximum(np.broadcast_to(np.asarray(cap, dtype=np.int64), (speed.rows,)), 0)
    while (low < high).any():
        middle = (low + high + 1) // 2
        latency = traffic.at(middle.astype(np.float64))
        holds = _meets(latency.lead, ttft_target_s) & _meets(latency.tpot, tpot_target_s)
        holds &= _meets(latency.lead + traffic.further * latency.tpot, e2e_target_s)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle - 1)
        high = np.maximum(high, low)
    return low


def _meets(seconds: Array, target_s: npt.ArrayLike | None) -> npt.NDArray[np.bool_]:
    if target_s is None:
        return np.ones(seconds.shape, dtype=np.bool_)
    return np.asarray(seconds <= np.asarray(target_s))


def _column(speed: SpeedBackend, value: npt.ArrayLike) -> Array:
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (speed.rows,))
