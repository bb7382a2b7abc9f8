"""The least change that makes an infeasible question feasible, each confirmed by solving the changed question."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from optimizer.answer import Answer
from optimizer.capacity import LATENCIES, other_memory
from optimizer.choices import MICRO, UNLIMITED, most_replicas
from optimizer.infeasible import Table, excess
from optimizer.plan import LeastChange
from optimizer.rules import RULE_NAMES, bit, broken_names
from optimizer.scenario import Quota, Scenario, Targets
from optimizer.wording import policy_words, rate, summarize

MOST_CHANGES = 6
MOST_TRIED = 24  # sets of rules; each costs a solve or three
MOST_RULES = 3  # that give way together; a longer list is no advice
LATENCY_SLACK = 1.05  # a target at the very edge leaves no room for traffic: 5% above it is the least that is of use
KNEE_SLACK = 1.25  # a target so much looser again is worth it ...
KNEE_COST = 0.5  # ... where the cost falls to less than this share
MOST_STEPS = 8  # of that size, one after the other
HALVINGS = 4  # of the room between two targets, to find the tightest that a cost is enough for

CheapestOf = Callable[[Scenario], Answer | None]

# Rule -> (field of limits, column of the choice or of its offer, flag).
NAMED_LIMITS: dict[str, tuple[str, str, str]] = {
    "gpu_allowed": ("gpus", "gpu", "--gpu"),
    "weights_allowed": ("weights", "weights", "--weights"),
    "kv_cache_allowed": ("kv_cache", "kv_cache", "--kv-cache"),
    "provider_allowed": ("providers", "provider", "--provider"),
    "provider_kind_allowed": ("provider_kinds", "provider_kind", "--provider-kind"),
    "region_allowed": ("regions", "region", "--region"),
    "instance_type_allowed": ("instance_types", "instance_type", "--instance-type"),
    "term_allowed": ("terms", "term", "--term"),
}
SIZES = ("tp", "pp", "ep", "attention_dp")


@dataclass(frozen=True, slots=True)
class _Change:
    """A change to one section of the question, in words and as a flag."""

    section: str
    fields: dict[str, Any] = field(hash=False)
    words: str
    flag: str


@dataclass(frozen=True, slots=True)
class _Confirmed:
    """A change that has been solved: as it is said, the targets as changed, and the cheapest answer then."""

    said: LeastChange
    targets: Targets
    answer: Answer


def find_least_changes(
    scenario: Scenario, table: Table, conflict: tuple[str, ...], cheapest_of: CheapestOf
) -> tuple[LeastChange, ...]:
    """Return the smallest sets of rules to give way, each with the least change that does and its cost then.

    Args:
        scenario: the infeasible question.
        table: its table.
        conflict: the rules that cannot hold together.
        cheapest_of: solves a changed question; None if it is infeasible too.
    """
    rows = table.choices
    if rows.empty:
        return tuple(_shorter_context(scenario, table, cheapest_of))
    over = excess(scenario, table)
    found: list[LeastChange] = []
    helped: list[int] = []
    for mask in sorted(set(rows["broken"].tolist()), key=lambda one: (one.bit_count(), one))[:MOST_TRIED]:
        # More rules than are enough need not give way; where fewer were not enough, more may be.
        if (
            len(helped) == MOST_CHANGES
            or mask.bit_count() > MOST_RULES
            or any(other & mask == other for other in helped)
        ):
            continue
        able = rows[rows["broken"] == mask]
        row = able.assign(over=over).sort_values(["over", "cost_micro_usd"], kind="stable").iloc[0]
        rules = broken_names(mask)
        least = _give_way(scenario, table, row, rules, cheapest_of)
        changes = [] if least is None else [least.said, *_knee(scenario, rules, least, cheapest_of)]
        changes += _without_targets(scenario, rules, min(changes, key=_cost, default=None), cheapest_of)
        helped += [mask] if changes else []
        found += changes
    found += _compromise(scenario, conflict, found, cheapest_of)
    found += _other_policy(scenario, found, cheapest_of)
    if not found or {"budget", "quota"} & {rule for change in found for rule in change.rules}:
        found += _less_traffic(scenario, table, cheapest_of)
    return tuple(sorted(found, key=lambda one: (len(one.rules), one.usd_per_hour)))


def _give_way(
    scenario: Scenario, table: Table, row: pd.Series, rules: tuple[str, ...], cheapest_of: CheapestOf
) -> _Confirmed | None:
    """Change the scenario just enough for this row and solve it; None where a rule cannot give way."""
    changes = [_change(scenario, table, row, rule) for rule in rules]
    able = [change for change in changes if change is not None]
    if len(able) < len(rules):
        return None
    if "budget" in rules and (targets := _targets_only(rules)):
        # What the row costs without its targets is too little for them: the budget follows from them.
        slower = {rule: float(row[f"alone_{rule}_s"]) * 1e3 * LATENCY_SLACK for rule in targets}
        return _at_targets(scenario, rules, {rule: round_up(value) for rule, value in slower.items()}, cheapest_of)
    return _confirmed(scenario, rules, able, cheapest_of)


def _confirmed(
    scenario: Scenario, rules: tuple[str, ...], changes: list[_Change], cheapest_of: CheapestOf
) -> _Confirmed | None:
    """Solve the scenario as changed; None where it is infeasible still."""
    changed = scenario
    for change in changes:
        changed = changed.changed(change.section, **change.fields)
    answer = cheapest_of(changed)
    return None if answer is None else _Confirmed(_least_change(rules, changes, answer), changed.targets, answer)


def _least_change(rules: tuple[str, ...], changes: list[_Change], answer: Answer) -> LeastChange:
    return LeastChange(
        rules=rules,
        change=" and ".join(change.words for change in changes),
        flag=" ".join(change.flag for change in changes),
        summary=summarize(answer.layout),
        usd_per_hour=answer.cost.usd_per_hour,
    )


def _cost(change: LeastChange) -> float:
    return change.usd_per_hour


def _targets_only(rules: tuple[str, ...]) -> list[str]:
    """Return the latency targets among the rules; empty where other rules than a budget give way with them."""
    targets = [rule for rule in rules if rule in LATENCIES]
    return [] if set(rules) - {*targets, "budget"} else targets


def _unpriced(scenario: Scenario, rules: tuple[str, ...]) -> Scenario:
    """Return the scenario without its budget, where that gives way."""
    return scenario.changed("limits", budget_usd_per_hour=None) if "budget" in rules else scenario


def _knee(scenario: Scenario, rules: tuple[str, ...], least: _Confirmed, cheapest_of: CheapestOf) -> list[LeastChange]:
    """Return somewhat looser targets than the least ones, where they cost less than half as much.

    At the edge of a target a replica has room for next to no traffic. Targets are loosened by a quarter for as long as
    each time the cost falls to less than half; where they end is as tight as the layout reached there still holds.
    """
    targets, unpriced = _targets_only(rules), _unpriced(scenario, rules)
    asked = {rule: getattr(least.targets, f"{rule}_ms") for rule in targets}
    answer = least.answer
    for _ in range(MOST_STEPS if targets else 0):
        looser = {rule: round_up(value * KNEE_SLACK) for rule, value in asked.items()}
        found = cheapest_of(_with_targets(unpriced, looser))
        if found is None or found.cost.usd_per_hour >= answer.cost.usd_per_hour * KNEE_COST:
            break
        asked, answer = looser, found
    if answer is least.answer:
        return []
    tightest = _as_reached(scenario, rules, answer, cheapest_of)
    if tightest is None or _cost(tightest.said) > answer.cost.usd_per_hour:
        tightest = _at_targets(scenario, rules, asked, cheapest_of)
    return [] if tightest is None else [tightest.said]


def _with_targets(scenario: Scenario, targets_ms: Mapping[str, float | None]) -> Scenario:
    return scenario.changed("targets", **{f"{rule}_ms": value for rule, value in targets_ms.items()})


def _at_targets(
    scenario: Scenario, rules: tuple[str, ...], targets_ms: Mapping[str, float], cheapest_of: CheapestOf
) -> _Confirmed | None:
    """Solve with these targets; a budget that gives way with them becomes what that costs."""
    changed = _with_targets(_unpriced(scenario, rules), targets_ms)
    answer = cheapest_of(changed)
    if answer is None:
        return None
    changes = [_target(scenario, rule, value) for rule, value in targets_ms.items()]
    changes += [_budget(scenario, answer.cost.usd_per_hour)] if "budget" in rules else []
    return _Confirmed(_least_change(rules, changes, answer), changed.targets, answer)


def _as_reached(
    scenario: Scenario, rules: tuple[str, ...], answer: Answer, cheapest_of: CheapestOf
) -> _Confirmed | None:
    """Solve with the tightest targets that an answer's cost is enough for; None where none is found.

    A target holds at the traffic, and without waiting at the concurrency limit. What is reached at the traffic is
    enough where the same layout does with fewer requests at once; what is reached when full is, else. Between the two
    the tightest is looked for by halving.
    """
    targets = _targets_only(rules)

    def solved(share: float) -> _Confirmed | None:
        asked = {rule: round_up(now[rule] * (full[rule] / now[rule]) ** share) for rule in targets}
        return _at_targets(scenario, rules, asked, cheapest_of)

    def is_enough(found: _Confirmed | None) -> bool:
        return found is not None and _cost(found.said) <= answer.cost.usd_per_hour

    now, full = (_reached_ms(scenario, answer, full=full) for full in (False, True))
    tight, loose = solved(0.0), solved(1.0)
    if is_enough(tight) or not is_enough(loose):
        return tight or loose
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = solved(middle)
        low, high, loose = (low, middle, found) if is_enough(found) else (middle, high, loose)
    return loose


def _without_targets(
    scenario: Scenario, rules: tuple[str, ...], least: LeastChange | None, cheapest_of: CheapestOf
) -> list[LeastChange]:
    """Return what the targets would be on the cheapest layout without them, where the least change costs more.

    Or where there is no least change: a target that an idle replica just meets may leave no room for the traffic. A
    budget that has to give way with them becomes what that layout costs.
    """
    targets = _targets_only(rules)
    if not targets:
        return []
    answer = cheapest_of(_with_targets(_unpriced(scenario, rules), dict.fromkeys(targets)))
    if answer is None or (least is not None and answer.cost.usd_per_hour >= least.usd_per_hour):
        return []
    found = _as_reached(scenario, rules, answer, cheapest_of)
    if found is None or (least is not None and _cost(found.said) >= _cost(least)):
        return []
    return [found.said]


def _compromise(
    scenario: Scenario, conflict: tuple[str, ...], found: list[LeastChange], cheapest_of: CheapestOf
) -> list[LeastChange]:
    """Return what targets and budget would be if all in conflict gave way, where one alone costs more.

    Where that is no cheaper, and a budget is in conflict, what they would be if every target gave way with it.
    """
    if not found:
        return []
    least = min(found, key=_cost)
    every = [rule for rule in LATENCIES if getattr(scenario.targets, f"{rule}_ms") is not None]
    for targets in ([rule for rule in LATENCIES if rule in conflict], every if "budget" in conflict else []):
        rules = tuple(rule for rule in RULE_NAMES if rule in {*targets, *conflict} & {*LATENCIES, "budget"})
        if len(rules) > 1 and not any(change.rules == rules for change in found):
            compromise = _without_targets(scenario, rules, least, cheapest_of)
            if compromise:
                return compromise
    return []


def _other_policy(scenario: Scenario, found: list[LeastChange], cheapest_of: CheapestOf) -> list[LeastChange]:
    """Return the cheapest layout under the other memory policy, where that alone is enough and less headroom is not."""
    memory = other_memory(scenario.memory)
    answer = cheapest_of(scenario.changed("memory", policy=memory.policy))
    headroom = min((one.usd_per_hour for one in found if one.rules == ("vram_headroom",)), default=math.inf)
    if answer is None or answer.cost.usd_per_hour >= headroom:
        return []
    change = _Change("memory", {"policy": memory.policy}, policy_words(memory), f"--memory-policy {memory.policy}")
    return [_least_change(("vram_headroom",), [change], answer)]


def _reached_ms(scenario: Scenario, answer: Answer, full: bool) -> dict[str, float]:
    """Return the latencies of an answer at the confidence asked for, in ms by name: at its traffic, or full."""
    done, sure = answer.performance, answer.factors
    reached = {name: done.latency_ms(name, scenario.targets.at) for name in LATENCIES}
    if full:
        reached["tpot"] = max(reached["tpot"], done.saturation.tpot_ms)
        whole = reached["ttft"] + (scenario.workload.output_tokens - 1) * reached["tpot"]
        reached["e2e"] = max(reached["e2e"], whole)
    return {name: value * sure[name] for name, value in reached.items()}


def _change(scenario: Scenario, table: Table, row: pd.Series, rule: str) -> _Change | None:
    if rule in LATENCIES:
        return _slower(scenario, row, rule)
    if rule in NAMED_LIMITS:
        return _also(scenario, table, row, rule)
    by_rule: dict[str, Callable[[Scenario, Table, pd.Series], _Change | None]] = {
        "vram_headroom": _less_headroom,
        "budget": _more_budget,
        "quota": _more_quota,
        "sizes_allowed": _other_sizes,
        "replicas_allowed": _other_replicas,
        "price_age": _older_prices,
    }
    return by_rule[rule](scenario, table, row) if rule in by_rule else None


def _slower(scenario: Scenario, row: pd.Series, rule: str) -> _Change:
    return _target(scenario, rule, round_up(float(row[f"alone_{rule}_s"]) * 1e3 * LATENCY_SLACK))


def _target(scenario: Scenario, rule: str, value: float) -> _Change:
    asked = getattr(scenario.targets, f"{rule}_ms")
    words = f"{rule.upper()} of {value:g} ms instead of {asked:g} ms"
    return _Change("targets", {f"{rule}_ms": value}, words, f"--{rule}-ms {value:g}")


def _also(scenario: Scenario, table: Table, row: pd.Series, rule: str) -> _Change:
    """Allow one more value; where only exclusions stand, drop them."""
    name, column, flag = NAMED_LIMITS[rule]
    value = str(row[column] if column in row else table.offers.iloc[int(row["offer"])][column])
    kept = getattr(scenario.limits, name)
    fields: dict[str, Any] = {}
    flags = []
    if kept and value not in kept:
        fields[name] = (*kept, value)
        flags.append(f"{flag} {','.join(map(shlex.quote, (*kept, value)))}")
    excluded = getattr(scenario.limits, f"exclude_{name}", ())
    if value in excluded:
        fields[f"exclude_{name}"] = tuple(other for other in excluded if other != value)
        flags.append(f"without --exclude-{flag.removeprefix('--')} {value}")
    return _Change("limits", fields, f"also {value}", " ".join(flags))


def _less_headroom(scenario: Scenario, table: Table, row: pd.Series) -> _Change | None:
    memory = scenario.memory
    if memory.policy != "framework":
        return None
    headroom = math.floor((1 - table.memory_share(scenario, row) * (1 - memory.headroom)) * 100) / 100
    if headroom < 0:
        return None
    words = f"memory headroom of {headroom:.0%} instead of {memory.headroom:.0%}"
    return _Change("memory", {"headroom": headroom}, words, f"--headroom {headroom:g}")


def _more_budget(scenario: Scenario, _: Table, row: pd.Series) -> _Change:
    return _budget(scenario, int(row["cost_micro_usd"]) / MICRO)


def _budget(scenario: Scenario, usd_per_hour: float) -> _Change:
    value = math.ceil(round(usd_per_hour * 100, 6)) / 100
    words = f"a budget of ${value:,.2f}/h instead of ${scenario.limits.budget_usd_per_hour:,.2f}/h"
    return _Change("limits", {"budget_usd_per_hour": value}, words, f"--budget-usd-per-hour {value:g}")


def _more_quota(scenario: Scenario, table: Table, row: pd.Series) -> _Change | None:
    limits, offer = scenario.limits, table.offers.iloc[int(row["offer"])]
    nodes, gpus = int(row["nodes"]), int(row["nodes"]) * int(row["gpus_per_node"])
    fields: dict[str, Any] = {}
    flags = []
    for name, needed in (("max_gpus", gpus), ("max_nodes", nodes)):
        most = getattr(limits, name)
        if most is not None and needed > most:
            fields[name] = needed
            flags.append(f"--{name.replace('_', '-')} {needed}")
    quotas = tuple(_raised(quota, offer, gpus, nodes) for quota in limits.quotas)
    if quotas != limits.quotas:
        fields["quotas"] = [quota.model_dump() for quota in quotas]
        flags.append("limits.quotas")
    if not fields:
        return None  # stock, which no limit of the user's changes
    said = f"a quota of {nodes} node{'s' if nodes > 1 else ''} ({gpus} GPU{'s' if gpus > 1 else ''})"
    return _Change("limits", fields, said, " ".join(flags))


def _raised(quota: Quota, offer: pd.Series, gpus: int, nodes: int) -> Quota:
    """Return the quota with room for so many GPUs and nodes, where it is one on this offer."""
    named = {name: getattr(quota, name) for name in ("gpu", "provider", "region")}
    if any(value is not None and offer[name] != value for name, value in named.items()):
        return quota
    return quota.model_copy(
        update={
            "max_gpus": None if quota.max_gpus is None else max(quota.max_gpus, gpus),
            "max_nodes": None if quota.max_nodes is None else max(quota.max_nodes, nodes),
        }
    )


def _other_sizes(scenario: Scenario, _: Table, row: pd.Series) -> _Change:
    limits = scenario.limits
    limited = {name: getattr(limits, name) for name in SIZES}
    fields = {name: (*kept, int(row[name])) for name, kept in limited.items() if kept and row[name] not in kept}
    words = ", ".join(f"{name} {row[name]}" for name in fields)
    flags = [f"--{name.replace('_', '-')} {','.join(map(str, sizes))}" for name, sizes in fields.items()]
    return _Change("limits", fields, words, " ".join(flags))


def _other_replicas(scenario: Scenario, _: Table, row: pd.Series) -> _Change:
    value = int(row["replicas"])
    fields = {"replicas": (*scenario.limits.replicas, value)}
    return _Change("limits", fields, f"{value} replicas", f"--replicas {','.join(map(str, fields['replicas']))}")


def _older_prices(_scenario: Scenario, table: Table, row: pd.Series) -> _Change:
    seen = table.offers.iloc[int(row["offer"])]["seen_on"]
    age = int((pd.Timestamp(table.today) - seen).days)
    return _Change("prices", {"max_age_days": age}, f"prices of {age} days ago", f"--max-price-age-days {age}")


def _shorter_context(scenario: Scenario, table: Table, cheapest_of: CheapestOf) -> list[LeastChange]:
    """Return the longest context that the model takes, as a change: less room to grow, or shorter prompts."""
    work, most = scenario.workload, table.max_context_tokens
    if work.held_tokens <= most:
        return []
    shortest = work.input_tokens + work.output_tokens
    if shortest <= most:
        words = f"a context of {most:,} tokens instead of {work.held_tokens:,}"
        change = _Change("workload", {"context_tokens": most}, words, f"--context {most}")
    elif (prompt := most - work.output_tokens) > 0:
        words = f"{prompt:,} input tokens instead of {work.input_tokens:,}"
        fields = {"input_tokens": prompt, "context_tokens": None}
        change = _Change("workload", fields, words, f"--input-tokens {prompt}")
    else:
        return []
    answer = cheapest_of(scenario.changed(change.section, **change.fields))
    return [] if answer is None else [_least_change(("context_length",), [change], answer)]


def _less_traffic(scenario: Scenario, table: Table, cheapest_of: CheapestOf) -> list[LeastChange]:
    """Return the most traffic that budget and quotas carry, as a change of its own; nothing where they carry none."""
    able = table.choices[(table.choices["broken"] & ~bit("budget", "quota", "traffic")) == 0]
    most = _most_carried(scenario, able) if len(able) else 0.0
    kind = scenario.workload.kind
    amount = math.floor(most) if kind == "concurrency" else round_down(most)
    if not 0 < amount < scenario.workload.demand:
        return []
    changed = scenario.changed("workload", **{kind: amount})
    answer = cheapest_of(changed)
    if answer is None:
        return []
    words = f"{rate(changed)} instead of {rate(scenario)}"
    change = _Change("workload", {kind: amount}, words, f"--{kind.replace('_', '-')} {amount:g}")
    return [_least_change(("traffic",), [change], answer)]


def _most_carried(scenario: Scenario, rows: pd.DataFrame) -> float:
    """Return the most traffic that any of these choices carries within its nodes to be had and the budget."""
    nodes = np.minimum(rows["node_cap"].to_numpy(), UNLIMITED)
    budget = scenario.limits.budget_usd_per_hour
    if budget is not None:
        nodes = np.minimum(nodes, round(budget * MICRO) // rows["price_micro_usd"].to_numpy())
    replicas = most_replicas(
        scenario, nodes, rows["replicas_per_node"].to_numpy(), rows["nodes_per_replica"].to_numpy()
    )
    return float((replicas * rows["capacity"].to_numpy()).max())


def round_up(value: float, digits: int = 3) -> float:
    """Return the least number of so many significant digits that is not below `value`."""
    return _rounded(value, digits, math.ceil)


def round_down(value: float, digits: int = 3) -> float:
    """Return the largest number of so many significant digits that is not above `value`."""
    return _rounded(value, digits, math.floor)


def _rounded(value: float, digits: int, to_whole: Callable[[float], int]) -> float:
    if value <= 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{to_whole(round(value / unit, 9)) * unit:.12g}")
