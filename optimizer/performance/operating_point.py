"""Where replicas work: latencies at a rate, the highest rate within targets, percentiles of a closed loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.distributions import Level
from optimizer.performance.latency import Prediction, Triple
from optimizer.performance.open_loop import STEADY, OpenLoop, Variability, largest
from optimizer.performance.queueing import SlotWait

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

BELOW = (0.98, 0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2)  # of the requests in flight, where percentiles are looked at again


def predict_open_loop(
    speed: SpeedBackend,
    arrival_rate: npt.ArrayLike,
    slots: npt.ArrayLike,
    input_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    *,
    vary: Variability = STEADY,
    levels: Sequence[Level] = (),
) -> Prediction:
    """Return the operating point of each replica under random arrivals.

    At or beyond the rate that all slots together serve, the replica is saturated: TTFT and end-to-end time are
    infinite, at the mean and at every percentile, and it delivers its full rate.

    Args:
        speed: the table of replicas.
        arrival_rate: requests per second and replica, a number or one per replica.
        slots: the most requests a replica runs at once, a number or one per replica; 0 can serve nothing.
        input_tokens: mean prompt tokens of a request (at least 1), a number or one per replica.
        output_tokens: mean generated tokens of a request (at least 1), likewise.
        vary: how unlike requests are.
        levels: percentiles to work out as well.

    Raises:
        ValueError: a length is below 1.
    """
    load = OpenLoop(speed, slots, input_tokens, output_tokens, vary)
    wanted = np.broadcast_to(np.asarray(arrival_rate, dtype=np.float64), (speed.rows,))
    stable = wanted < load.most
    in_flight = load.in_flight(wanted)
    state = load.state(in_flight)

    def seen(level: Level) -> Triple:
        ttft, tpot, e2e = load.read(state, level)
        return np.where(stable, ttft, np.inf), tpot, np.where(stable, e2e, np.inf)

    ttft, tpot, e2e = seen("mean")
    served = np.where(stable, wanted, load.most)
    with np.errstate(divide="ignore", invalid="ignore"):
        utilization = np.where(load.most > 0.0, wanted / load.most, np.inf)
    return Prediction(
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=e2e,
        output_tokens_per_second=served * load.outputs,
        requests_per_second=served,
        in_flight=in_flight,
        utilization=utilization,
        percentiles={level: seen(level) for level in levels},
    )


def max_arrival_rate(
    speed: SpeedBackend,
    slots: npt.ArrayLike,
    input_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    *,
    ttft_target_s: npt.ArrayLike | None = None,
    tpot_target_s: npt.ArrayLike | None = None,
    e2e_target_s: npt.ArrayLike | None = None,
    max_utilization: float = 1.0,
    at: Level = "mean",
    vary: Variability = STEADY,
) -> Array:
    """Return the largest arrival rate per replica, in requests/s, at which the targets hold.

    0 where they do not hold even for a single request alone.

    Args:
        speed: the table of replicas.
        slots: the most requests a replica runs at once, a number or one per replica.
        input_tokens: mean prompt tokens of a request (at least 1), a number or one per replica.
        output_tokens: mean generated tokens of a request (at least 1), likewise.
        ttft_target_s: time to first token, waiting included, a number or one per replica; None for no target.
        tpot_target_s: time per further token; None for no target.
        e2e_target_s: time to the last token; None for no target.
        max_utilization: share of the saturated rate that may be used, in (0, 1].
        at: what the targets are on: the mean or a percentile.
        vary: how unlike requests are.

    Raises:
        ValueError: a length is below 1.
    """
    load = OpenLoop(speed, slots, input_tokens, output_tokens, vary)
    targets = (ttft_target_s, tpot_target_s, e2e_target_s)

    def holds(in_flight: Array) -> Bools:
        if all(target is None for target in targets):
            return np.asarray(load.arrival_rate(in_flight) <= max_utilization * load.most)
        state = load.state(in_flight)
        within = np.asarray(state.rate <= max_utilization * load.most)
        for seconds, target in zip((load.first_token, load.per_token, load.whole), targets, strict=True):
            if target is not None:
                within &= seconds(state, at) <= np.asarray(target)
        return within

    found = largest(holds, load.slots)
    return load.arrival_rate(found if at == "mean" else _held_below(holds, found))


def _held_below(holds: Callable[[Array], Bools], found: Array) -> Array:
    """Lower a value to where targets hold at smaller ones too.

    Means grow with the requests in flight; a percentile may fall where slots run out, as there is less to vary.
    """
    high = found
    for share in BELOW:
        high = np.where((found > 0.0) & ~holds(share * found), share * found, high)
    return found if np.array_equal(high, found) else np.minimum(found, largest(holds, high))


def closed_loop_percentiles(
    speed: SpeedBackend,
    concurrency: npt.ArrayLike,
    input_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    means: Prediction,
    *,
    vary: Variability = STEADY,
    levels: Sequence[Level] = (),
) -> dict[Level, Triple]:
    """Return percentiles with a fixed number of requests in flight: what is left to vary are lengths and prompts.

    They are the means of `predict_closed_loop` times the spread, percentile over mean, of random arrivals that keep as
    many in flight.

    Args:
        speed: the table of replicas.
        concurrency: requests in flight per replica, as for `predict_closed_loop`.
        input_tokens: mean prompt tokens of a request, likewise.
        output_tokens: mean generated tokens of a request, likewise.
        means: the answer of `predict_closed_loop`.
        vary: how unlike requests are; arrivals follow from those that end.
        levels: which percentiles.
    """
    load = OpenLoop(speed, concurrency, input_tokens, output_tokens, replace(vary, burstiness=1.0))
    none = np.zeros(speed.rows)
    # Of a lone request the only thing to vary are its lengths.
    lone = np.where(load.slots > 1.0, load.slots, 0.0)
    state = replace(load.state(lone), deviation=none, wait=SlotWait(none, none))
    plain = load.read(state, "mean")
    found: dict[Level, Triple] = {}
    for level in levels:
        spread = [
            np.divide(value, mean, out=np.ones(speed.rows), where=mean > 0.0)
            for value, mean in zip(load.read(state, level), plain, strict=True)
        ]
        found[level] = (means.ttft_s * spread[0], means.tpot_s * spread[1], means.e2e_s * spread[2])
    return found
