"""What binds in a chosen layout: each thing it must keep with what is left of it, and what giving it up would save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from optimizer.answer import Answer
from optimizer.capacity import LATENCIES
from optimizer.choices import MICRO
from optimizer.plan import Layout
from optimizer.rules import RULE_NAMES
from optimizer.scenario import Quota, Scenario
from optimizer.whatif.explain_answer import Bound

AT_TRAFFIC, AT_LIMIT = "at this traffic", "at the concurrency limit"
MOST_UTILIZATION = 1.0

CostOf = Callable[[Scenario], float | None]


@dataclass(frozen=True, slots=True)
class _GivenUp:
    """The question without one rule."""

    words: str
    scenario: Scenario


def find_bounds(
    scenario: Scenario, answer: Answer, capacity: float, prefill_s: float, cost_of: CostOf
) -> tuple[Bound, ...]:
    """Return what a layout must keep, the tightest first.

    Args:
        scenario: the question.
        answer: the layout.
        capacity: the traffic that one of its replicas carries within the targets.
        prefill_s: seconds that the prefill of a mean prompt takes on it.
        cost_of: the least cost of a changed question; None where nothing is feasible.
    """
    found = [
        *_latencies(scenario, answer, prefill_s),
        *_memory(answer),
        *_traffic(scenario, answer, capacity),
        *_counts(scenario, answer.layout, answer.cost.usd_per_hour),
    ]
    bounds = sorted(found, key=lambda one: (one.left_share, RULE_NAMES.index(one.name)))
    given_up = {name: _given_up(scenario, name) for name in {one.name for one in bounds}}
    costs = {name: cost_of(less.scenario) for name, less in given_up.items() if less is not None}
    return tuple(_tried(one, given_up[one.name], costs.get(one.name), answer.cost.usd_per_hour) for one in bounds)


def _tried(bound: Bound, less: _GivenUp | None, without: float | None, now: float) -> Bound:
    if less is None or without is None:
        return bound
    binds = without < now - 0.5 / MICRO
    return bound.model_copy(update={"given_up": less.words, "without_usd_per_hour": without, "binds": binds})


def _bound(name: str, where: str, used: float, limit: float, unit: str) -> Bound:
    return Bound(name=name, where=where, used=used, limit=limit, unit=unit, left_share=(limit - used) / limit)


def _latencies(scenario: Scenario, answer: Answer, prefill_s: float) -> list[Bound]:
    found = [_bound(one.name, AT_TRAFFIC, one.at_confidence, one.target, "ms") for one in answer.targets]
    full_tpot = answer.performance.saturation.tpot_ms
    full_e2e = prefill_s * 1e3 + (scenario.workload.output_tokens - 1) * full_tpot
    for name, full in (("tpot", full_tpot), ("e2e", full_e2e)):
        target = getattr(scenario.targets, f"{name}_ms")
        if target is not None:
            found.append(_bound(name, AT_LIMIT, full * answer.factors[name], target, "ms"))
    return found


def _memory(answer: Answer) -> list[Bound]:
    memory = answer.memory
    return [_bound("vram_headroom", AT_LIMIT, memory.need_gib, memory.available_gib, "GiB")]


def _traffic(scenario: Scenario, answer: Answer, capacity: float) -> list[Bound]:
    carried = capacity * answer.layout.replicas
    unit = {"request_rate": "requests/s", "concurrency": "requests in flight"}.get(
        scenario.workload.kind, "output tokens/s"
    )
    return [_bound("traffic", "", scenario.workload.demand, carried, unit)]


def _counts(scenario: Scenario, layout: Layout, usd_per_hour: float) -> list[Bound]:
    limits = scenario.limits
    nodes, gpus = layout.nodes, layout.nodes * layout.gpus_per_node
    found = []
    if limits.budget_usd_per_hour is not None:
        found.append(_bound("budget", "", usd_per_hour, limits.budget_usd_per_hour, "USD/h"))
    caps = [("of stock", None, layout.max_nodes), ("in all", limits.max_gpus, limits.max_nodes)]
    caps += [(_of(one), one.max_gpus, one.max_nodes) for one in limits.quotas if _is_on(one, layout)]
    for of, most_gpus, most_nodes in caps:
        if most_gpus is not None:
            found.append(_bound("quota", of, gpus, most_gpus, "GPUs"))
        if most_nodes is not None:
            found.append(_bound("quota", of, nodes, most_nodes, "nodes"))
    return found


def _of(quota: Quota) -> str:
    return f"of {' '.join(part for part in (quota.provider, quota.region, quota.gpu) if part) or 'anything'}"


def _is_on(quota: Quota, layout: Layout) -> bool:
    named = {name: getattr(quota, name) for name in ("gpu", "provider", "region")}
    return all(value is None or getattr(layout, name) == value for name, value in named.items())


def _given_up(scenario: Scenario, name: str) -> _GivenUp | None:
    """Return the question without a rule; None where there is no question without it."""
    if name in LATENCIES:
        return _GivenUp(f"no {name.upper()} target", scenario.changed("targets", **{f"{name}_ms": None}))
    if name == "vram_headroom":
        fields: dict[str, Any] = {"headroom": 0.0, "overhead": 0.0}
        if scenario.memory.policy == "engine":
            fields = {"gpu_memory_utilization": 1.0}
        words = "no headroom and no overhead" if "headroom" in fields else "the engine's memory fraction at 100%"
        return _GivenUp(words, scenario.changed("memory", **fields))
    if name == "traffic" and scenario.max_utilization < MOST_UTILIZATION:
        return _GivenUp(
            "all of a replica's capacity used", scenario.changed("limits", max_utilization=MOST_UTILIZATION)
        )
    if name == "quota":
        limits = scenario.limits
        if limits.max_gpus is not None or limits.max_nodes is not None or limits.quotas:
            freed = scenario.changed("limits", max_gpus=None, max_nodes=None, quotas=[])
            return _GivenUp("no quotas", freed)
    return None
