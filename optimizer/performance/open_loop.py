"""Replicas under random arrivals: mean and percentiles of TTFT, TPOT and end-to-end time in closed form.

Prompts that arrive during one engine step run together in the next. With t a decode step, s the prefill occupancy of a
prompt and rho = arrival rate x s, a step lasts C = t / (1 - rho) on average, and one that a request arrives in lasts
L = C + s rho (d + v) / (1 - rho^2): d the dispersion of arrivals during a prompt, v the squared coefficient of
variation of prompts. A request waits for half of L, then for its own step, with the prompts of L in it:

    TTFT = L / 2 + t + s + rho L + s (d - 1)

Source: gated polling of one queue with set-up time t (Takagi, Analysis of Polling Systems, 1986), with everyone served
at the end of the gate. Requests in flight B follow from Little's law, B = rate x S(B), and vary about B like a linear
birth-death process: variance z B / (1 - e), with z the peakedness of the arrivals and e the elasticity of S in B.
Waiting for a slot joins that normal below the slots to an exponential above them (Halfin and Whitt 1981).

tests/optimizer/performance/test_open_loop.py says how close this comes to the simulator: means of TPOT and end-to-end
time within 4% on average over loads of 0.2 to 0.9, of TTFT within 8%, and p99 within 7% and 15%.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.distributions import Cumulants, Level, Mixture, count_dispersion, lognormal, moments
from optimizer.performance.latency import Triple
from optimizer.performance.queueing import SlotWait, slot_wait
from optimizer.performance.speed import CHUNK_TOKENS

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Bisection steps on the requests in flight: 26 halvings of 4096 slots leave under 0.0001 of a request.
HALVINGS = 26
MOST_PREFILL = 0.995  # of the time that prompts may take in the formulas; slots end the load before
NEWTON = 8
# Strata of the lengths of answers: their shares, and the normal quantile in the middle of each.
STRATA = (0.02, 0.08, 0.20, 0.40, 0.30)
MIDDLES = (-2.326, -1.555, -0.842, 0.0, 1.036)


@dataclass(frozen=True)
class Variability:
    """How unlike requests are.

    Attributes:
        burstiness: squared coefficient of variation of the times between arrivals: 1 Poisson, more bursts.
        input_cv, output_cv: standard deviation over mean of the lengths.
        in_flight_tokens: mean context of a request in flight; None where the lengths of prompt and answer do not depend
            on each other, from which it follows.
    """

    burstiness: float = 1.0
    input_cv: float = 0.0
    output_cv: float = 0.0
    in_flight_tokens: float | None = None


STEADY = Variability()


@dataclass(frozen=True)
class _Round:
    """A request's stay in its slot, in seconds.

    Attributes:
        own: the steps of its own prompt, without those of others in them.
        slot_s: the whole stay.
        load: share of the time that prompts take.
        burst: variance over mean of the arrivals during a prompt.
        landing: the step that a request arrives in.
    """

    own: Array
    slot_s: Array
    load: Array
    burst: Array
    landing: Array


@dataclass(frozen=True)
class _State:
    """A replica at one load; times in seconds, all arrays over replicas.

    Attributes:
        rate: requests per second.
        ttft: time to first token, waiting for a slot left out.
        tpot: time per further token, averaged over requests.
        round_tpot: the same averaged over tokens, which long answers have more of.
        wait: for a slot.
        seen: requests in flight that a request shares the replica with, itself included.
        deviation: standard deviation of the requests in flight.
        averaged: share of that deviation that is left of the average over a request's stay.
        follows: seconds that prompts which came during a request's own add to it.
        stalls: variance of the seconds that prompts of others add, per second of a request's stay.
    """

    rate: Array
    ttft: Mixture
    tpot: Array
    round_tpot: Array
    wait: SlotWait
    seen: Array
    deviation: Array
    averaged: Array
    follows: Array
    stalls: Array


class OpenLoop:
    """Replicas under random arrivals, by the mean number of requests in flight: every rate and latency grows with it.

    Args:
        speed: the table of replicas.
        slots: the most requests a replica runs at once; 0 can serve nothing.
        input_tokens, output_tokens: mean lengths of a request (at least 1), a number or one per replica.
        vary: how unlike requests are.

    Raises:
        ValueError: a length is below 1.
    """

    def __init__(
        self,
        speed: SpeedBackend,
        slots: npt.ArrayLike,
        input_tokens: npt.ArrayLike,
        output_tokens: npt.ArrayLike,
        vary: Variability = STEADY,
    ) -> None:
        inputs, outputs = (
            np.broadcast_to(np.asarray(tokens, dtype=np.float64), (speed.rows,))
            for tokens in (input_tokens, output_tokens)
        )
        if not ((inputs >= 1.0) & (outputs >= 1.0)).all():
            raise ValueError(
                f"Expected at least 1 input and 1 output token, got {inputs.min():g} and {outputs.min():g}."
            )
        self.speed, self.vary, self.inputs, self.outputs = speed, vary, inputs, outputs
        sigma = np.sqrt(np.log1p(vary.output_cv**2))
        self.strata = [float(np.exp(sigma * middle - 0.5 * sigma**2)) for middle in MIDDLES]
        self.slots = np.maximum(np.broadcast_to(np.asarray(slots, dtype=np.float64), (speed.rows,)), 0.0)
        self.further = outputs - 1.0
        self.decodes = outputs > 1.0
        # A request in flight is found there in proportion to its length.
        self.context = inputs + 0.5 * outputs * (1.0 + vary.output_cv**2)
        if vary.in_flight_tokens is not None:
            self.context = np.full(speed.rows, vary.in_flight_tokens)
        fixed = speed.fixed_prefill_seconds
        self.prompt = moments(lambda tokens: speed.prefill_seconds(tokens) - fixed, inputs, vary.input_cv)
        busy = moments(speed.prefill_occupancy_seconds, inputs, vary.input_cv)
        self.alone, self.occupancy = self.prompt.mean, busy.mean
        self.unlike = busy.variance / np.square(busy.mean)
        self.chunks = np.maximum(inputs / CHUNK_TOKENS, 1.0)
        full = np.maximum(self.slots, 1.0)
        self.full_step, self.least_step = self._step(full), self._step(np.ones(speed.rows))
        # A full replica takes a new prompt as soon as another request ends: nobody waits for a step.
        self.full_s = self._own(full, self.full_step) + self._decoding(full, self.full_step)
        self.most = self.slots / self.full_s

    def _step(self, in_flight: Array) -> Array:
        return self.speed.decode_step_seconds(in_flight, self.context)

    def _own(self, in_flight: Array, step: Array) -> Array:
        """Return how long a request's own prompt takes: alone, or in steps that others decode in."""
        return np.where(in_flight > 1.0, np.maximum(self.alone, self.chunks * step + self.occupancy), self.alone)

    def _decoding(self, in_flight: Array, step: Array) -> Array:
        """Return the seconds of all further tokens: everyone else's prompt runs once in that time."""
        return (self.further * step + (in_flight - 1.0) * self.occupancy) * self.decodes

    def _seen(self, in_flight: Array) -> tuple[Array, Array]:
        """Return the requests that a request is in flight with, itself included, and their peakedness."""
        vary = self.vary
        peaked = 1.0 + (count_dispersion(in_flight, vary.burstiness) - 1.0) / (1.0 + vary.output_cv**2)
        return np.clip(in_flight + peaked, 1.0, np.maximum(self.slots, 1.0)), peaked

    def _round(self, in_flight: Array, seen: Array, step: Array) -> _Round:
        """Return what one request's stay in its slot is made of."""
        own = self._own(seen, step)
        apart = own + self._decoding(seen, step)
        burst = count_dispersion(in_flight * own / apart, self.vary.burstiness)
        # Prompts of the step a request arrives in run with its own, and how many depends on the load that follows from
        # its stay: load x (apart + shared(load)) = in_flight x occupancy, by Newton's method from above.
        variety = self.occupancy * (burst + self.unlike)
        # On a full replica a prompt starts when another request ends, and not with all that came in a step.
        free_slots = 1.0 - np.minimum(in_flight / np.maximum(self.slots, 1.0), 1.0) ** 4
        load = np.minimum(in_flight * self.occupancy / apart, MOST_PREFILL)
        for _ in range(NEWTON):
            free, square = 1.0 - load, 1.0 - load * load
            shared = free_slots * load * (step / free + variety * load / square)
            growth = free_slots * (step / (free * free) + 2.0 * variety * load / (square * square))
            load = load - (load * (apart + shared) - in_flight * self.occupancy) / (apart + shared + load * growth)
            load = np.clip(load, 0.0, MOST_PREFILL)
        landing = step / (1.0 - load) + variety * load / (1.0 - load * load)
        return _Round(own, apart + free_slots * load * landing, load, burst, landing)

    def arrival_rate(self, in_flight: Array) -> Array:
        """Requests per second that keep `in_flight` requests in flight."""
        seen, _ = self._seen(in_flight)
        return np.minimum(in_flight / self._round(in_flight, seen, self._step(seen)).slot_s, self.most)

    def in_flight(self, arrival_rate: Array) -> Array:
        """Return the mean requests in flight at this rate; all slots at or beyond the most they serve."""
        found = largest(lambda b: self.arrival_rate(b) <= arrival_rate, self.slots)
        return np.where(arrival_rate < self.most, found, self.slots)

    def state(self, in_flight: Array) -> _State:
        """Return what happens with `in_flight` requests in flight on average."""
        vary = self.vary
        seen, peaked = self._seen(in_flight)
        step = self._step(seen)
        stay = self._round(in_flight, seen, step)
        rate, load = np.minimum(in_flight / stay.slot_s, self.most), stay.load
        # Time in a slot grows about linearly with those in flight, up to all slots: by steps, and by prompts.
        room = np.maximum(self.slots - seen, 1.0)
        slope = np.maximum(self.full_step - step, 0.0) / room
        by_steps = np.clip(self.further * slope * rate, 0.0, 0.9 * (1.0 - load))
        deviation = np.sqrt(peaked * in_flight / ((1.0 - load) * (1.0 - load - by_steps)))
        wait = slot_wait(
            in_flight + 0.5 * (count_dispersion(in_flight, vary.burstiness) - 1.0),
            deviation,
            self.slots,
            rate,
            self.most,
            arrivals_cv2=vary.burstiness,
            slot_cv2=vary.output_cv**2,
        )
        ttft, own = self._first_token(stay, step, in_flight, slope * deviation)
        per_round = self._decoding(seen, step) / np.maximum(self.further, 1.0)
        lengths = [np.maximum(self.further * factor, 1.0) for factor in self.strata]
        follows = load * own / (1.0 - load)  # seconds that prompts after its own add to a request, over all its tokens
        even = np.maximum(self.further, 1.0)
        short = sum(share * (1.0 / length - 1.0 / even) for share, length in zip(STRATA, lengths, strict=True))
        memory = 1.0 - load - by_steps  # a request's stay over the time in which the number in flight forgets
        return _State(
            rate=rate,
            ttft=ttft,
            tpot=np.minimum(per_round + follows * short, np.maximum(self._most_tpot(), per_round)),
            round_tpot=per_round,
            wait=wait,
            seen=seen,
            # Slots bound how far it can be from the mean, however slowly it moves.
            deviation=np.minimum(deviation, np.sqrt(seen * np.maximum(self.slots - in_flight, 0.0))),
            averaged=np.sqrt(2.0 * (memory + np.expm1(-memory))) / memory,
            follows=follows,
            stalls=load * self.occupancy * (1.0 + self.unlike) / np.square(1.0 - load),
        )

    def _first_token(self, stay: _Round, step: Array, in_flight: Array, slower: Array) -> tuple[Mixture, Array]:
        """Return TTFT without waiting for a slot, and how long the steps of its own prompt take.

        A request finds the replica idle, in a step without prompts, or in one with prompts.
        """
        occupancy, unlike, load, burst = self.occupancy, self.unlike, stay.load, stay.burst
        fixed = self.speed.fixed_prefill_seconds
        own = np.maximum(stay.own, self.chunks * step + occupancy)
        scale = occupancy * load * (burst + unlike) / (1.0 - load * load)
        crowd = occupancy * (burst - 1.0)
        # Steps with prompts take `load` of the time.
        with_prompts = np.where(load > 0.0, (stay.landing - (1.0 - load) * step) / np.maximum(load, 1e-9), step)
        parts = []
        for landing in (step, with_prompts):
            others = load * landing + crowd
            varies = np.where(landing > step, np.minimum(scale, with_prompts - step) * landing, 0.0)
            reach = 0.5 + load
            parts.append(
                Cumulants(
                    fixed + 0.5 * landing + own + others,
                    landing * landing / 12.0
                    + (reach * reach + 1.0 / 12.0) * varies
                    + occupancy * others * (burst + unlike)
                    + slower * slower
                    + self.prompt.variance,
                    2.0 * reach**3 * varies * varies / landing + occupancy**2 * others * burst + self.prompt.third,
                )
            )
        idle = np.exp(-in_flight)
        shares = (idle, (1.0 - idle) * (1.0 - load), (1.0 - idle) * load)
        first = Mixture(shares, (Cumulants(fixed + self.alone, self.prompt.variance, self.prompt.third), *parts))
        return first, own + load * stay.landing + crowd

    def latencies(self, in_flight: Array, level: Level) -> Triple:
        """Return TTFT, TPOT and end-to-end time at the mean or a percentile, in seconds."""
        return self.read(self.state(in_flight), level)

    def read(self, state: _State, level: Level) -> Triple:
        """Return TTFT, TPOT and end-to-end time of a state at the mean or a percentile, in seconds."""
        return self.first_token(state, level), self.per_token(state, level), self.whole(state, level)

    def first_token(self, state: _State, level: Level) -> Array:
        """Return TTFT."""
        if level == "mean":
            return state.ttft.mean + state.wait.mean_s
        return state.wait.add(state.ttft.mean, state.ttft.at(level), state.wait.at(level))

    def per_token(self, state: _State, level: Level) -> Array:
        """Return TPOT; 0 where answers are of one token."""
        if level == "mean":
            return state.tpot * self.decodes
        if self.vary.output_cv > 0.0:
            seconds = self._over_lengths(state, self._crowded(state, state.deviation)).at(level)
        else:
            seconds = state.tpot + self._crowded_at(state, level)
        return np.clip(seconds, self.least_step, np.maximum(self._most_tpot(), state.tpot)) * self.decodes

    def whole(self, state: _State, level: Level) -> Array:
        """Return end-to-end time."""
        answer = lognormal(self.further * state.round_tpot, self.vary.output_cv)
        mean = state.ttft.mean + answer.mean
        if level == "mean":
            return mean + state.wait.mean_s
        served = (state.ttft.cumulants + answer).at(level) - mean
        apart = _together(served, self.further * self._crowded_at(state, level))
        return state.wait.add(mean, mean + apart, state.wait.at(level))

    def _crowded_at(self, state: _State, level: Level) -> Array:
        """Return how much longer a token takes at a percentile of the requests in flight."""
        variance = state.deviation**2
        apart = Cumulants(np.zeros_like(variance), variance, variance * variance / state.seen).at(level)
        return self._crowded(state, apart)

    def _crowded(self, state: _State, apart: Array) -> Array:
        """Return how much longer a token takes with so many more requests in flight than on average."""
        apart = np.clip(apart, 1.0 - state.seen, np.maximum(self.slots - state.seen, 0.0))
        by_steps = self._step(state.seen + apart * state.averaged) - self._step(state.seen)
        return _related(by_steps, apart * self.occupancy / np.maximum(self.further, 1.0)) * self.decodes

    def _most_tpot(self) -> Array:
        """Return the time per token when every step is full of prompts."""
        return self.full_step + self.occupancy * np.maximum(CHUNK_TOKENS / self.inputs, 1.0)

    def _over_lengths(self, state: _State, spread: Array) -> Mixture:
        """Return TPOT over answers of different lengths: the prompts of others weigh more on a short one."""
        even = np.maximum(self.further, 1.0)
        parts = []
        for factor in self.strata:
            length = np.maximum(self.further * factor, 1.0)
            shorter = 1.0 / length - 1.0 / even
            more = state.stalls * (state.follows * (1.0 / length**2 - 1.0 / even**2) + state.round_tpot * shorter)
            mean = state.round_tpot + state.follows * shorter
            more = np.minimum(more, mean * mean)  # near saturation the sum over queues grows without bound, a wait not
            variance = np.maximum(spread**2 + more, 0.3 * spread**2)
            third = variance * spread * state.deviation / state.seen + np.maximum(more, 0.0) * self.occupancy / length
            parts.append(Cumulants(mean, variance, third))
        shares = tuple(np.full_like(even, share) for share in STRATA)
        return Mixture(shares, tuple(parts))


def _related(one: Array, other: Array) -> Array:
    """Return the deviation of two parts that go together by 0.6, as arrivals after a request and its company do."""
    both = np.sqrt(np.maximum(one * one + other * other + 1.2 * one * other, 0.0))
    return np.asarray(np.where(one + other >= 0.0, both, -both))


def _together(one: Array, other: Array) -> Array:
    """Return the deviation from the mean of two independent parts, each given by its own at the same percentile."""
    alike = (one >= 0.0) & (other >= 0.0)
    return np.asarray(np.where(alike, np.hypot(one, other), one + other))


def largest(holds: Callable[[Array], Bools], high: Array) -> Array:
    """The largest value in [0, high] at which `holds`, which is true up to one value and false beyond; 0 if nowhere."""
    low = np.zeros_like(high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        inside = holds(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low
