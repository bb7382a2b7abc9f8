"""One rule given up at a time: the same question without it, to see which rules hold an answer back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from optimizer.capacity import LATENCIES
from optimizer.scenario import Limits, Scenario
from optimizer.whatif.ground import Ground
from optimizer.wording import milliseconds

MOST_AT_ONCE = 4096  # the field's own bound
MOST_ENGINE_SHARE = 0.97  # of its GPU's memory that an engine is given: beside it, it has to start
LONGER = 64  # times the context that the model takes
NAMED: tuple[tuple[str, str, str, str], ...] = (
    # rule, field of limits, what the user calls it, what gives it up
    ("gpu_allowed", "gpus", "GPU types", ""),
    ("gpu_allowed", "exclude_gpus", "excluded GPU types", ""),
    ("provider_allowed", "providers", "providers", ""),
    ("provider_allowed", "exclude_providers", "excluded providers", ""),
    ("provider_kind_allowed", "provider_kinds", "kinds of provider", "any"),
    ("region_allowed", "regions", "regions", ""),
    ("instance_type_allowed", "instance_types", "instance types", ""),
    ("term_allowed", "terms", "terms", "any"),
    ("weights_allowed", "weights", "weight formats", "any"),
    ("kv_cache_allowed", "kv_cache", "KV cache dtypes", "any"),
    ("sizes_allowed", "tp", "tensor parallel sizes", ""),
    ("sizes_allowed", "pp", "pipeline sizes", ""),
    ("sizes_allowed", "ep", "expert parallel sizes", ""),
    ("sizes_allowed", "attention_dp", "attention-DP sizes", ""),
    ("replicas_allowed", "replicas", "numbers of replicas", ""),
)


@dataclass(frozen=True, slots=True)
class Relaxation:
    """A rule, how it is said, and how the ground looks without it."""

    rule: str
    words: str
    give_up: Callable[[Ground], Ground]


def relaxations(ground: Ground) -> Iterator[Relaxation]:
    """Yield every rule that the user or a default can give up, but for the budget; each alone."""
    scenario = ground.scenario
    yield from _targets(scenario)
    yield from _memory(scenario)
    yield from _supply(ground)
    if scenario.max_utilization < 1.0:
        words = f"at most {scenario.max_utilization:.0%} of capacity used"
        yield Relaxation("traffic", words, _with("limits", max_utilization=1.0))
    limits = scenario.limits
    if limits.max_concurrency_per_replica < MOST_AT_ONCE:
        words = f"at most {limits.max_concurrency_per_replica:,} requests at once on a replica"
        yield Relaxation("max_concurrency", words, _with("limits", max_concurrency_per_replica=MOST_AT_ONCE))
    for rule, field, words, given_up in NAMED:
        values = getattr(limits, field)
        free = _free(field, given_up)
        if values and set(values) != set(free):
            yield Relaxation(rule, f"{words}: {_joined(values)}", _with("limits", **{field: free}))
    if not limits.tp_across_nodes:
        words = "a tensor parallel group lies inside one node"
        yield Relaxation("tp_scale_up", words, _with("limits", tp_across_nodes=True))
    if scenario.prices.max_age_days is not None:
        words = f"prices at most {scenario.prices.max_age_days} days old"
        yield Relaxation("price_age", words, _with("prices", max_age_days=None))


def longer_context(ground: Ground) -> Relaxation:
    """Return the same question for a model that takes a longer context."""
    most = ground.model.max_context_tokens
    return Relaxation(
        "context_length",
        f"the model's own context of {most:,} tokens",
        lambda other: other.with_context(most * LONGER),
    )


def _targets(scenario: Scenario) -> Iterator[Relaxation]:
    at = "" if scenario.targets.at == "mean" else f" at {scenario.targets.at}"
    for name in LATENCIES:
        asked = getattr(scenario.targets, f"{name}_ms")
        if asked is not None:
            words = f"{name.upper()} of {milliseconds(asked)}{at}"
            yield Relaxation(name, words, _with("targets", **{f"{name}_ms": None}))
    if scenario.targets.confidence is not None:
        words = f"targets held with {scenario.targets.confidence:.0%} confidence"
        yield Relaxation("confidence", words, _with("targets", confidence=None))


def _memory(scenario: Scenario) -> Iterator[Relaxation]:
    memory = scenario.memory
    if memory.policy == "framework" and memory.headroom > 0:
        words = f"memory with {memory.headroom:.0%} headroom"
        yield Relaxation("vram_headroom", words, _with("memory", headroom=0.0))
    if memory.policy == "engine" and memory.gpu_memory_utilization < MOST_ENGINE_SHARE:
        words = f"{memory.gpu_memory_utilization:.0%} of memory for the engine"
        yield Relaxation("vram_headroom", words, _with("memory", gpu_memory_utilization=MOST_ENGINE_SHARE))


def _supply(ground: Ground) -> Iterator[Relaxation]:
    limits = ground.scenario.limits
    quotas = limits.max_gpus is not None or limits.max_nodes is not None or limits.quotas
    stock = bool(ground.listed.frame["max_nodes"].notna().any())
    if quotas or stock:
        words = " and ".join(name for name, there in (("quotas", quotas), ("stock", stock)) if there)
        free = _with("limits", max_gpus=None, max_nodes=None, quotas=())
        yield Relaxation("quota", words, lambda other: free(other).without_stock() if stock else free(other))


def _with(section: str, **fields: Any) -> Callable[[Ground], Ground]:
    return lambda ground: ground.with_scenario(ground.scenario.changed(section, **fields))


def _free(field: str, given_up: str) -> tuple[str, ...]:
    """Return what a field of limits holds when it allows everything."""
    return () if not given_up else tuple(getattr(Limits(**{field: (given_up,)}), field))


def _joined(values: tuple[Any, ...]) -> str:
    shown = ", ".join(map(str, values[:4]))
    return f"{shown}, ..." if len(values) > 4 else shown
