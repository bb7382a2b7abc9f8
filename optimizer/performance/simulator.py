"""Discrete-event simulator of continuous batching: one replica, or several behind a balancer.

Each engine step decodes one token of every request that is past its prompt and fills what is left of its token budget
with prompts, first come first served (chunked prefill). A step takes as long as the speed model says for the batch and
its context, plus the prefill occupancy of the prompt tokens in it; with nobody decoding, as long as a lone prefill. A
request needs a slot and KV cache for all its tokens before its prompt starts: nothing is preempted later.

Between two events (an arrival, a prompt, a last token) all steps are alike but for the growing context, so the
simulator takes them in one leap: its cost grows with the requests, not with the tokens.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
import numpy.typing as npt

from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.speed import CHUNK_TOKENS

Array = npt.NDArray[np.float64]
Balancing = Literal["least_loaded", "round_robin"]

# The fixed cost of a request is a few layers of software away from the GPU: it delays a request and occupies nothing.
EXACT_BATCHES = 64  # batches whose steps are worked out one by one; larger ones are interpolated
GRID_POINTS = 40


@dataclass(frozen=True)
class Requests:
    """What arrives: seconds from the start in rising order, and tokens in and out of each request (at least 1)."""

    arrival_s: Array
    input_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Simulation:
    """What each request saw, in the order of arrival; NaN where it was refused, and TPOT where it has one token.

    Attributes:
        ttft_s, tpot_s, e2e_s: seconds from arrival to first token, per further token, from arrival to last token.
        waited_s: seconds that a request waited because no slot, or no KV cache, was free.
        refused: requests that need more KV cache than a replica has.
        replica: which replica served it.
        busy_s: seconds that each replica had work.
        batch_seconds: requests in flight summed over time, per replica.
        end_s: when the last token came.
    """

    ttft_s: Array
    tpot_s: Array
    e2e_s: Array
    waited_s: Array
    refused: npt.NDArray[np.bool_]
    replica: npt.NDArray[np.int64]
    busy_s: Array
    batch_seconds: Array
    end_s: float


class StepTimes:
    """Step times of one replica on a grid, as plain lists: looked up hundreds of thousands of times.

    Args:
        speed: a speed model.
        row: its row that is simulated.
        slots: the most requests that run at once.
        longest: the longest context of a request, in tokens.
    """

    def __init__(self, speed: SpeedBackend, row: int, slots: int, longest: int) -> None:
        contexts = np.unique(np.geomspace(1.0, max(float(longest), 2.0), GRID_POINTS).round())
        batches = np.unique(
            np.concatenate([np.arange(1, min(slots, EXACT_BATCHES) + 1), np.geomspace(1, slots, GRID_POINTS).round()])
        )
        one = speed.take(np.full(len(batches), row, dtype=np.intp))
        coarse = np.array([one.decode_step_seconds(batches, context) for context in contexts])
        every = np.arange(slots + 1, dtype=np.float64)
        self._contexts: list[float] = contexts.tolist()
        self._steps: list[list[float]] = np.array([np.interp(every, batches, step) for step in coarse]).T.tolist()

        tokens = np.unique(np.concatenate([[0.0], contexts, np.arange(1, 9) * CHUNK_TOKENS]))
        tokens = tokens[tokens <= max(float(longest), 2.0)]
        many = speed.take(np.full(len(tokens), row, dtype=np.intp))
        at_least_one = np.maximum(tokens, 1.0)
        self.fixed_s = float(speed.fixed_prefill_seconds[row])
        self._tokens: list[float] = tokens.tolist()
        self._occupancy = _from_nothing(many.prefill_occupancy_seconds(at_least_one), tokens)
        self._alone = _from_nothing(many.prefill_seconds(at_least_one) - self.fixed_s, tokens)

    def decode(self, batch: int, context: float) -> float:
        """Seconds of a step that decodes `batch` requests of this mean context."""
        return _interpolate(self._contexts, self._steps[batch], context)

    def occupancy(self, tokens: float) -> float:
        """Seconds that a prompt's first `tokens` keep the replica busy beside a decode step."""
        return _interpolate(self._tokens, self._occupancy, tokens)

    def alone(self, tokens: float) -> float:
        """Seconds from the start of a prompt of so many tokens, alone, to its first token."""
        return _interpolate(self._tokens, self._alone, tokens)


def simulate(
    speed: SpeedBackend,
    requests: Requests,
    *,
    slots: int,
    row: int = 0,
    replicas: int = 1,
    kv_tokens: float = float("inf"),
    step_tokens: float = CHUNK_TOKENS,
    balancing: Balancing = "least_loaded",
) -> Simulation:
    """Serve the requests on replicas of one row of the speed model and return what each of them saw.

    Args:
        speed: a speed model.
        requests: what arrives, at least one request.
        slots: the most requests that a replica runs at once (an engine's --max-num-seqs), at least 1.
        row: the row of the speed model.
        replicas: how many replicas there are.
        kv_tokens: tokens that a replica's KV cache holds.
        step_tokens: tokens that one step may process (an engine's --max-num-batched-tokens).
        balancing: who gets the next request: the replica with the fewest, or each in turn.

    Raises:
        ValueError: there is nothing to serve or nothing to serve it with.
    """
    count = len(requests.arrival_s)
    if count == 0 or slots < 1 or replicas < 1:
        raise ValueError(f"Expected requests, slots and replicas, got {count}, {slots} and {replicas}.")
    lengths = requests.input_tokens + requests.output_tokens
    times = StepTimes(speed, row, slots, int(lengths.max()))
    log = _Log(count)
    engines = [_Engine(times, slots, kv_tokens, max(step_tokens, 1.0), log) for _ in range(replicas)]
    chosen = np.full(count, -1, dtype=np.int64)
    columns = (requests.arrival_s, requests.input_tokens, requests.output_tokens, lengths)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    turn = 0
    for index, (arrival, inputs, outputs, length) in enumerate(rows):
        if length > kv_tokens:
            continue
        ready = arrival + times.fixed_s
        if balancing == "round_robin" or replicas == 1:
            at = turn % replicas
        else:
            for engine in engines:
                engine.advance(ready)
            # Each in turn among equals, so that an idle deployment does not load its first replica only.
            at = min(range(replicas), key=lambda one: (engines[one].held, (one - turn) % replicas))
        turn = at + 1
        engines[at].advance(ready)
        engines[at].push(_Request(index, ready, inputs, outputs))
        chosen[index] = at
    for engine in engines:
        engine.advance(float("inf"))
    return _collect(requests, log, engines, chosen)


@dataclass(slots=True)
class _Request:
    index: int
    ready: float
    inputs: int
    outputs: int
    prefilled: int = 0
    started: float = 0.0
    blocked: bool = False


class _Log:
    """How long each request waited for a slot, and when it got its first token and its last one."""

    def __init__(self, count: int) -> None:
        self.waited = [0.0] * count
        self.first, self.last = ([float("nan")] * count for _ in range(2))


class _Engine:
    """One replica; `held` is how many requests it has, waiting ones included."""

    def __init__(self, times: StepTimes, slots: int, kv_tokens: float, step_tokens: float, log: _Log) -> None:
        self.times, self.slots, self.kv_free, self.step_tokens, self.log = times, slots, kv_tokens, step_tokens, log
        self.now = self.busy_s = self.batch_seconds = 0.0
        self.held = 0
        self.waiting: deque[_Request] = deque()
        self.prefilling: deque[_Request] = deque()
        # (decode step at which its last token comes, tie-break, request)
        self.decoding: list[tuple[int, int, _Request]] = []
        self.steps = 0  # decode steps so far
        self.context = 0.0  # tokens of context of all decoding requests together

    def push(self, request: _Request) -> None:
        """Take a request that is ready at or after all that came before it."""
        self.waiting.append(request)
        self.held += 1

    def advance(self, until: float) -> None:
        """Run all steps that begin before `until`."""
        while self.now < until:
            self._admit()
            if self.prefilling:
                self._mixed_step()
            elif self.decoding:
                self._leap(until)
            elif self.waiting:
                self.now = max(self.now, self.waiting[0].ready)
                if self.now >= until:
                    return
            else:
                return

    def _admit(self) -> None:
        while self.waiting and self.waiting[0].ready <= self.now:
            request = self.waiting[0]
            need = request.inputs + request.outputs
            if len(self.prefilling) + len(self.decoding) >= self.slots or need > self.kv_free:
                self._block()
                return
            self.waiting.popleft()
            self.kv_free -= need
            self.log.waited[request.index] = self.now - request.ready if request.blocked else 0.0
            self.prefilling.append(request)

    def _block(self) -> None:
        """Mark those who wait for a slot, and not only for a step to end."""
        for request in reversed(self.waiting):
            if request.blocked:
                return
            request.blocked = request.ready <= self.now

    def _mixed_step(self) -> None:
        """One step with prompts in it, and a token of every decoding request."""
        batch = len(self.decoding)
        begun = self.now
        budget = max(self.step_tokens - batch, 1.0)
        seconds = self.times.decode(batch, self.context / batch) if batch else 0.0
        done: list[_Request] = []
        in_flight = batch + len(self.prefilling)
        for request in self.prefilling:
            tokens = int(min(budget, request.inputs - request.prefilled))
            if request.prefilled == 0:
                request.started = begun
            of = self.times.occupancy if seconds else self.times.alone
            seconds += of(request.prefilled + tokens) - of(request.prefilled)
            request.prefilled += tokens
            budget -= tokens
            if request.prefilled == request.inputs:
                done.append(request)
            if budget <= 0:
                break
        self._pass(seconds, in_flight)
        if batch:
            self._decoded(1)
        for request in done:
            self.prefilling.popleft()
            # Through pipeline stages a prompt takes longer than it keeps any one of them busy.
            first = max(self.now, request.started + self.times.alone(request.inputs))
            self.log.first[request.index] = first
            if request.outputs == 1:
                self._finish(request, first)
            else:
                self.context += request.inputs + 1
                heapq.heappush(self.decoding, (self.steps + request.outputs - 1, request.index, request))

    def _leap(self, until: float) -> None:
        """All decode steps until a request ends, or until a step begins at or after an arrival or `until`."""
        batch = len(self.decoding)
        most = self.decoding[0][0] - self.steps
        mean = self.context / batch
        step = self.times.decode(batch, mean)
        free = batch < self.slots
        event = min(until, self.waiting[0].ready) if self.waiting and free else until
        if event > self.now:
            most = min(most, max(ceil(min((event - self.now) / step, 1e9)), 1))
        if most > 1:
            step = self.times.decode(batch, mean + 0.5 * (most - 1))
        self._pass(most * step, batch)
        self._decoded(most)

    def _decoded(self, steps: int) -> None:
        self.context += steps * len(self.decoding)
        self.steps += steps
        while self.decoding and self.decoding[0][0] <= self.steps:
            _, _, request = heapq.heappop(self.decoding)
            self.context -= request.inputs + request.outputs
            self._finish(request, self.now)

    def _finish(self, request: _Request, at: float) -> None:
        self.log.last[request.index] = at
        self.kv_free += request.inputs + request.outputs
        self.held -= 1

    def _pass(self, seconds: float, in_flight: int) -> None:
        self.now += seconds
        self.busy_s += seconds
        self.batch_seconds += seconds * in_flight


def _collect(requests: Requests, log: _Log, engines: Sequence[_Engine], chosen: npt.NDArray[np.int64]) -> Simulation:
    first, last = np.array(log.first), np.array(log.last)
    further = requests.output_tokens - 1
    tpot = np.full(len(first), np.nan)
    np.divide(last - first, further, out=tpot, where=further > 0)
    ends = last[chosen >= 0]
    return Simulation(
        ttft_s=first - requests.arrival_s,
        tpot_s=tpot,
        e2e_s=last - requests.arrival_s,
        waited_s=np.array(log.waited),
        refused=chosen < 0,
        replica=chosen,
        busy_s=np.array([engine.busy_s for engine in engines]),
        batch_seconds=np.array([engine.batch_seconds for engine in engines]),
        end_s=float(ends.max()) if len(ends) else float(requests.arrival_s[-1]),
    )


def _from_nothing(seconds: Array, tokens: Array) -> list[float]:
    """No tokens take no time."""
    found: list[float] = np.where(tokens > 0.0, seconds, 0.0).tolist()
    return found


def _interpolate(at: list[float], values: list[float], x: float) -> float:
    right = min(max(bisect_left(at, x), 1), len(at) - 1)
    low, high = at[right - 1], at[right]
    part = (x - low) / (high - low)
    return values[right - 1] + part * (values[right] - values[right - 1])
