"""A pool at its own mix of classes: what one workload of the same means and spreads does on its replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, sqrt

import pandas as pd

from catalogs.gpus import get_gpu
from optimizer.answer import Answer, answers
from optimizer.capacity import LATENCIES, latency_factors
from optimizer.fit import memory_use
from optimizer.fleet.kinds import ModelKinds
from optimizer.fleet.traffic import Demand
from optimizer.memory import memory_policy
from optimizer.plan import MemoryUse
from optimizer.replica import Replica
from optimizer.scenario import Scenario, Workload
from optimizer.split import Split

MOST_VARIATION = 4.0  # as far as a workload's lengths may vary


@dataclass(frozen=True, slots=True)
class Part:
    """One class on a pool.

    Attributes:
        rate: requests/s of it on the pool in the period looked at.
        capacity: requests/s that a replica carries of it alone.
        concurrency: requests that it then runs at once.
    """

    demand: Demand
    rate: float
    capacity: float
    concurrency: int


@dataclass(frozen=True, slots=True)
class Mix:
    """What a pool does at its mix.

    Attributes:
        answer: of the workload that has the mix's means and spreads.
        latencies_ms: for each part, "ttft", "tpot" and "e2e" at the level of the targets.
        holds: for each part, whether its own targets are met.
    """

    answer: Answer
    memory: MemoryUse
    concurrency: int
    latencies_ms: tuple[dict[str, float], ...]
    holds: tuple[bool, ...]


def at_mix(
    kinds: ModelKinds,
    row: int,
    parts: Sequence[Part],
    replicas: int,
    scenario: Scenario,
    offer: int,
    offers: pd.DataFrame,
) -> Mix:
    """Predict a pool.

    Args:
        kinds: of its model.
        row: of the pool's kind in their table.
        parts: the classes that it serves.
        replicas: how many there are.
        scenario: the question of any class within the pool's targets.
        offer: row of an offer that its nodes are rented from.
        offers: the offers.
    """
    facts = kinds.table.iloc[row]
    weights = [part.rate / part.capacity for part in parts]
    total = sum(weights)
    at_once = sum(weight / total * part.concurrency for weight, part in zip(weights, parts, strict=True))
    tokens = sum(
        weight / total * part.concurrency * part.demand.traffic.workload.held_tokens
        for weight, part in zip(weights, parts, strict=True)
    )
    mixed = _mixed(parts, ceil(tokens / at_once - 1e-9))
    question = scenario.model_copy(update={"workload": mixed})
    concurrency, memory = _that_fits(kinds, facts, question, max(floor(at_once + 1e-9), 1))
    spans = int(facts["nodes_per_replica"])
    nodes = replicas * spans if spans > 1 else ceil(replicas / int(facts["replicas_per_node"]))
    chosen = kinds.table.iloc[[row]].assign(
        concurrency=concurrency, replicas=replicas, nodes=nodes, price_micro_usd=1, offer=offer
    )
    speed = kinds.candidates.speed.take(chosen["replica"].to_numpy())
    [answer] = answers(question, kinds.spec, chosen, kinds.candidates.speed, offers)
    prompts = {
        tokens: float(speed.prefill_seconds(float(tokens))[0]) * 1e3
        for tokens in {mixed.input_tokens, *(part.demand.traffic.input_tokens for part in parts)}
    }
    factors = {name: float(values[0]) for name, values in latency_factors(question, speed).items()}
    latencies = tuple(_latencies(part, answer, mixed, prompts, scenario.targets.at) for part in parts)
    holds = tuple(_holds(part, found, factors) for part, found in zip(parts, latencies, strict=True))
    return Mix(replace(answer, memory=memory), memory, concurrency, latencies, holds)


def _mixed(parts: Sequence[Part], held_tokens: int) -> Workload:
    """Return the workload with the means of all requests of the parts, and the spread of their lengths about them."""
    total = sum(part.rate for part in parts)
    shares = [part.rate / total for part in parts]

    def mean_and_cv(tokens: str, cv: str) -> tuple[float, float]:
        values = [(float(getattr(one.demand.traffic, tokens)), getattr(one.demand.traffic, cv)) for one in parts]
        mean = sum(share * value for share, (value, _) in zip(shares, values, strict=True))
        square = sum(share * value**2 * (1 + spread**2) for share, (value, spread) in zip(shares, values, strict=True))
        return mean, min(sqrt(max(square / mean**2 - 1, 0.0)), MOST_VARIATION)

    (inputs, input_cv), (outputs, output_cv) = (
        mean_and_cv("input_tokens", "input_cv"),
        mean_and_cv("output_tokens", "output_cv"),
    )
    input_tokens, output_tokens = max(round(inputs), 1), max(round(outputs), 1)
    return Workload(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        request_rate=max(total, 1e-6),
        context_tokens=max(held_tokens, input_tokens + output_tokens),
        burstiness=sum(share * part.demand.traffic.burstiness for share, part in zip(shares, parts, strict=True)),
        input_cv=input_cv,
        output_cv=output_cv,
        in_flight_tokens=_in_flight(parts),
    )


def _in_flight(parts: Sequence[Part]) -> int:
    """Return the mean context of a request in flight: a class is found there in proportion to the tokens it answers."""
    weights = [part.rate * part.demand.traffic.output_tokens for part in parts]
    tokens = 0.0
    for weight, part in zip(weights, parts, strict=True):
        traffic = part.demand.traffic
        tokens += weight * (traffic.input_tokens + 0.5 * traffic.output_tokens * (1 + traffic.output_cv**2))
    return max(round(tokens / sum(weights)), 1)


def _that_fits(kinds: ModelKinds, facts: pd.Series, question: Scenario, most: int) -> tuple[int, MemoryUse]:
    """Return the requests at once, at most so many, that memory holds; rounding may leave one or two too many."""
    split = Split(
        facts["weights"], facts["kv_cache"], *(int(facts[name]) for name in ("tp", "pp", "ep", "attention_dp"))
    )
    replica = Replica(kinds.spec, get_gpu(facts["gpu"]), split)
    policy, tokens = memory_policy(question.memory), question.workload.held_tokens
    for concurrency in range(most, 0, -1):
        memory = memory_use(replica, tokens, concurrency, policy, question.memory.max_batched_tokens)
        if memory.fits or concurrency == 1:
            return concurrency, memory
    raise ValueError(f"expected at least one request at once, got {most}")


def _latencies(part: Part, answer: Answer, mixed: Workload, prompts: dict[int, float], at: str) -> dict[str, float]:
    """Return a class's latencies in ms: the pool's, with the class's own prompt and answer in place of the mean."""
    traffic, done = part.demand.traffic, answer.performance
    ttft = done.latency_ms("ttft", at) + prompts[traffic.input_tokens] - prompts[mixed.input_tokens]
    tpot = done.latency_ms("tpot", at)
    ttft = max(ttft, prompts[traffic.input_tokens])
    return {"ttft": ttft, "tpot": tpot, "e2e": ttft + (traffic.output_tokens - 1) * tpot}


def _holds(part: Part, latencies_ms: dict[str, float], factors: dict[str, float]) -> bool:
    asked = {name: getattr(part.demand.targets, f"{name}_ms") for name in LATENCIES}
    return all(
        target is None or latencies_ms[name] * factors[name] <= target * (1 + 1e-6) for name, target in asked.items()
    )
