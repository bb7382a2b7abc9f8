"""How fast: latency and throughput of one replica that the user names, with a fixed number of requests in flight."""

from __future__ import annotations

import pandas as pd

from optimizer.errors import QuestionError
from optimizer.fit import Fit, fit
from optimizer.memory import MemoryPolicy
from optimizer.performance.backends.choose import speed_backend, tpot_basis
from optimizer.performance.intervals import latencies_ms
from optimizer.performance.latency import predict_closed_loop
from optimizer.plan import Prediction
from optimizer.replica import Replica, ReplicaAnswer, refuse, replica_columns
from optimizer.scenario import SpeedSource


class Speed(Prediction, ReplicaAnswer):
    """Predicted speed of one replica; what `shardwise predict --json` prints. Means; `_ms` is milliseconds.

    Attributes:
        prefill_ms: the prompt of one request alone.
        fits: whether the requests in flight fit in memory, by the engine policy.
    """

    input_tokens: int
    output_tokens: int
    output_tokens_per_second_per_gpu: float
    prefill_ms: float
    fits: bool


def predict(
    replica: Replica,
    *,
    concurrency: int,
    input_tokens: int,
    output_tokens: int,
    performance: SpeedSource | None = None,
) -> Speed:
    """Predict the speed of a replica with so many requests of this shape always in flight.

    Args:
        replica: which one.
        concurrency: requests always in flight.
        input_tokens: length of a prompt.
        output_tokens: length of an answer.
        performance: where speed figures come from; our own model when not given.

    Raises:
        QuestionError: engines would not load this replica, for reasons that are all named, or a request is longer than
            the model's context.
    """
    refuse(replica)
    longest, asked = replica.model.max_context_tokens, input_tokens + output_tokens
    if asked > longest:
        raise QuestionError(
            f"--input-tokens + --output-tokens is {asked:,}: the context of {replica.model.name} is at most {longest:,}"
        )
    speed = speed_backend(replica.model, pd.DataFrame(replica_columns(replica)), performance or SpeedSource())
    found = predict_closed_loop(speed, float(concurrency), input_tokens, output_tokens)
    context = input_tokens + output_tokens / 2
    held: Fit = fit(
        replica,
        context_tokens=asked,
        concurrency=concurrency,
        policy=MemoryPolicy(name="engine"),
    )
    sources = speed.sources(float(concurrency), context, input_tokens)
    basis, error = tpot_basis(replica.gpu, str(speed.kind[0]), str(sources.decode[0]))
    throughput = float(found.output_tokens_per_second[0])
    return Speed(
        **replica.said(concurrency),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        **latencies_ms(speed, found, 0),
        output_tokens_per_second=throughput,
        output_tokens_per_second_per_gpu=throughput / replica.split.gpus,
        requests_per_second=float(found.requests_per_second[0]),
        prefill_ms=float(speed.prefill_seconds(input_tokens)[0]) * 1e3,
        step_ms={cause: s * 1e3 for cause, s in speed.decode_breakdown(0, concurrency, context).items()},
        basis=basis,
        error_band=error,
        decode_from=str(sources.decode[0]),
        prefill_from=str(sources.prefill[0]),
        fits=held.fits,
    )
