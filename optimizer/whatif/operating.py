"""Every layout up to a cost, with what requests see on it at the scenario's traffic: one table, filled in bulk.

What a layout costs depends on the offer; what requests see depends only on the replica and on how many of them share
the traffic. So of all layouts with as many of one replica the cheapest stands for all, which loses nothing, and the
speed model is asked once for each (replica, number of replicas).

A replica runs as many requests at once as an answer of `solve` would: all that memory and targets hold. Under random
arrivals fewer would only let requests wait; it is a setting of the engine, and rents nothing else. Where output is to
be produced with no one waiting, the limit itself is the load: there a replica runs the fewest that carry the traffic.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.answer import ROUNDING
from optimizer.capacity import LATENCIES, always_in_flight, latency_factors, variability
from optimizer.choices import MICRO, most_replicas, nodes_needed
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.latency import predict_closed_loop
from optimizer.performance.operating_point import predict_open_loop
from optimizer.scenario import Scenario
from optimizer.solve import Problem

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DIGITS = 6  # latencies are compared to so many: what bisections leave lies below
AT_ONCE = 20_000  # rows of the speed model in one call
IDLE_SLACK = 0.98  # no traffic is taken to make a replica faster than this share of what a lone request sees


def operating_table(
    problem: Problem, most_micro_usd: int, *, below_ms: Mapping[str, float] | None = None, widest: bool = False
) -> pd.DataFrame:
    """Return the layouts that keep every rule and cost at most so much, each with its latencies at the traffic.

    Columns: `choice` (index in the table of choices), `replica`, `replicas`, `nodes`, `cost_micro_usd`, `concurrency`;
    `ttft_ms`, `tpot_ms`, `e2e_ms`, as they are held against targets: at `targets.at` and at the confidence asked for;
    `traffic`, the most that the layout carries. Sorted by cost, then as the choices are.

    Args:
        problem: the question with everything it is answered from.
        most_micro_usd: the most that a layout may cost an hour.
        below_ms: latency -> value; only replicas that get below one of these are of use.
        widest: where the concurrency limit is the load, also with the largest limit (which carries the most).
    """
    rows = problem.feasible
    if below_ms is not None:
        rows = rows[_can_get_below(rows, below_ms)]
    table = _at_limits(problem, _counted(problem.scenario, rows, most_micro_usd), widest)
    seen = latencies_ms(problem, table)
    table = table.assign(**{f"{name}_ms": values for name, values in seen.items()})
    return table[_holds(problem.scenario, seen)].reset_index(drop=True)


def layouts_up_to(problem: Problem, most_micro_usd: int) -> int:
    """Return how many (choice, number of replicas) cost at most so much: the size of the work."""
    fewest, most = _range(problem.scenario, problem.feasible, most_micro_usd)
    return int(np.maximum(most - fewest + 1, 0).sum())


def as_choices(problem: Problem, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of an operating table as rows of choices, for `answers`."""
    counts = ("replicas", "nodes", "cost_micro_usd", "concurrency")
    choices = problem.choices.frame.loc[rows["choice"].to_numpy()].reset_index(drop=True)
    return choices.assign(**{name: rows[name].to_numpy() for name in counts})


def latencies_ms(problem: Problem, rows: pd.DataFrame) -> dict[str, Floats]:
    """Return the latencies of rows of (replica, replicas, concurrency) at the scenario's traffic, by name.

    At the level and the confidence that targets are held at, to DIGITS digits.
    """
    parts = [rows.iloc[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]
    found = [_latencies_ms(problem.scenario, problem.candidates.speed, part) for part in parts]
    return {name: np.concatenate([one[name] for one in found]) if found else np.zeros(0) for name in LATENCIES}


def _can_get_below(rows: pd.DataFrame, below_ms: Mapping[str, float]) -> NDArray[np.bool_]:
    able = np.zeros(len(rows), dtype=bool)
    for name, value in below_ms.items():
        able |= rows[f"alone_{name}_s"].to_numpy() * 1e3 * IDLE_SLACK < value
    return able


def _range(scenario: Scenario, rows: pd.DataFrame, most_micro_usd: int) -> tuple[Ints, Ints]:
    """Return the fewest and the most replicas of each choice, by traffic, cost, nodes to be had and the user's list."""
    fewest = rows["replicas"].to_numpy()
    nodes = np.minimum(rows["node_cap"].to_numpy(), most_micro_usd // rows["price_micro_usd"].to_numpy())
    most = most_replicas(scenario, nodes, rows["replicas_per_node"].to_numpy(), rows["nodes_per_replica"].to_numpy())
    if scenario.workload.kind == "concurrency":  # a replica without a request would stay idle
        most = np.minimum(most, np.maximum(fewest, int(scenario.workload.demand)))
    return fewest, most


def _counted(scenario: Scenario, rows: pd.DataFrame, most_micro_usd: int) -> pd.DataFrame:
    """Return every number of replicas of every replica, each on the offer on which it costs the least."""
    fewest, most = _range(scenario, rows, most_micro_usd)
    times = np.maximum(most - fewest + 1, 0)
    of = np.repeat(np.arange(len(rows)), times)
    replicas = fewest[of] + np.arange(len(of)) - np.repeat(np.cumsum(times) - times, times)
    if scenario.limits.replicas:
        allowed = np.isin(replicas, scenario.limits.replicas)
        of, replicas = of[allowed], replicas[allowed]
    names = ("replica", "replicas_per_node", "nodes_per_replica", "price_micro_usd", "concurrency", "capacity")
    column = {name: rows[name].to_numpy()[of] for name in names}
    nodes = nodes_needed(replicas, column["replicas_per_node"], column["nodes_per_replica"])
    cost = nodes * column["price_micro_usd"]
    order = np.lexsort([of, cost])  # rows are in the order of the choices
    same = column["replica"][order] * (int(replicas.max(initial=0)) + 1) + replicas[order]
    kept = order[np.sort(np.unique(same, return_index=True)[1])]
    return pd.DataFrame(
        {
            "choice": rows.index.to_numpy()[of[kept]],
            "replica": column["replica"][kept],
            "replicas": replicas[kept],
            "nodes": nodes[kept],
            "cost_micro_usd": cost[kept],
            "concurrency": column["concurrency"][kept],
            "traffic": replicas[kept] * column["capacity"][kept],
        }
    )


def _at_limits(problem: Problem, table: pd.DataFrame, widest: bool) -> pd.DataFrame:
    """Return the layouts at the concurrency limits that they are run with (see the top of this file)."""
    scenario = problem.scenario
    if scenario.workload.kind != "output_tokens_per_second" or table.empty:
        return table
    speed = problem.candidates.speed.take(table["replica"].to_numpy())
    work, replicas = scenario.workload, table["replicas"].to_numpy()

    def carried(limit: Ints) -> Floats:
        full = predict_closed_loop(speed, limit, work.input_tokens, work.output_tokens)
        return np.asarray(full.output_tokens_per_second * replicas * scenario.max_utilization)

    high = table["concurrency"].to_numpy()
    low = np.ones_like(high)
    while (low < high).any():
        middle = (low + high) // 2
        enough = carried(middle) >= work.demand
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    least = table.assign(concurrency=high, traffic=carried(high))
    if not widest:
        return least
    both = pd.concat([least, table]).drop_duplicates(["replica", "replicas", "concurrency"])
    return both.sort_values(["cost_micro_usd", "choice"], kind="stable", ignore_index=True)


def _latencies_ms(scenario: Scenario, speed: SpeedBackend, rows: pd.DataFrame) -> dict[str, Floats]:
    work, at = scenario.workload, scenario.targets.at
    levels = () if at == "mean" else (at,)
    speed = speed.take(rows["replica"].to_numpy())
    replicas, limit = rows["replicas"].to_numpy(), rows["concurrency"].to_numpy(dtype=np.float64)
    if work.kind == "request_rate":
        lengths = work.input_tokens, work.output_tokens
        rates = work.demand / replicas
        now = predict_open_loop(speed, rates, limit, *lengths, vary=variability(work), levels=levels)
    else:
        in_flight = np.ceil(work.demand / replicas) if work.kind == "concurrency" else limit
        now = always_in_flight(speed, in_flight, scenario, levels)
    factors = latency_factors(scenario, speed)
    return {name: _rounded(seconds * factors[name] * 1e3) for name, seconds in zip(LATENCIES, now.at(at), strict=True)}


def _rounded(values: Floats) -> Floats:
    """Round to DIGITS significant digits; what is not finite, or 0, stays."""
    sized = np.isfinite(values) & (values > 0.0)
    digits = DIGITS - 1 - np.floor(np.log10(values, out=np.zeros(len(values)), where=sized))
    # Dividing by a power of ten gives the number nearest to the decimal one; multiplying by its inverse may not.
    scale = 10.0 ** np.abs(digits)
    with np.errstate(invalid="ignore"):
        short = np.where(digits >= 0, np.rint(values * scale) / scale, np.rint(values / scale) * scale)
    return np.where(sized, short, values)


def _holds(scenario: Scenario, seen: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Say of each layout whether every latency is finite and within its target where it would run.

    On means that follows from the capacity; the closed form of a percentile is not quite monotone.
    """
    holds = np.all([np.isfinite(values) for values in seen.values()], axis=0)
    if scenario.targets.at != "mean":
        for name, values in seen.items():
            target = getattr(scenario.targets, f"{name}_ms")
            if target is not None:
                holds &= values <= target * ROUNDING
    return np.asarray(holds)


def micro(usd: float) -> int:
    """Return money as whole micro-dollars."""
    return round(usd * MICRO)
