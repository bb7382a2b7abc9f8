"""Why nothing is feasible: the rules that conflict, and the nearest misses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.capacity import LATENCIES, least_memory_share
from optimizer.choices import MICRO, NEVER, UNLIMITED, nodes_needed
from optimizer.plan import Conflict, Miss
from optimizer.programs.conflict import conflicting_rules
from optimizer.programs.layout import COUNTING_RULES, Choice, Demand, Settings
from optimizer.rules import RULES, bit, bits_of_kind, broken_names, get_rule
from optimizer.scenario import Scenario
from optimizer.wording import gpus_words, milliseconds, node_count, nodes_words, rate, rate_words, summarize_row

Floats = NDArray[np.float64]

COUNTING = bit(*COUNTING_RULES)


@dataclass(frozen=True)
class Table:
    """All that could be rented: choices, candidates, dead candidates, offers kept by shape, offers.

    And the day that is asked on, and the longest context of the model.
    """

    choices: pd.DataFrame
    frame: pd.DataFrame
    dead: pd.DataFrame
    shape_offers: pd.DataFrame
    offers: pd.DataFrame
    today: date
    max_context_tokens: int

    def memory_share(self, scenario: Scenario, row: pd.Series) -> float:
        """Return what one request of a choice needs of the memory that the policy allows."""
        return float(least_memory_share(self.frame.iloc[[int(row["candidate"])]], scenario.memory)[0])


def demand_of(scenario: Scenario) -> Demand:
    """Return what the scenario asks of the counts, in the program's units."""
    budget = scenario.limits.budget_usd_per_hour
    return Demand(
        budget_micro_usd=None if budget is None else round(budget * MICRO),
        replicas_allowed=tuple(sorted(scenario.limits.replicas)) or None,
    )


def to_choices(rows: pd.DataFrame) -> list[Choice]:
    """Return rows of the table of choices as the program's own, ranked in the order given."""
    columns = ["fewest", "nodes", "replicas_per_node", "nodes_per_replica", "node_cap", "price_micro_usd", "broken"]
    found = []
    for rank, values in enumerate(rows[columns].itertuples(index=False)):
        replicas, nodes, per_node, spans, cap, price, broken = (int(value) for value in values)
        names = set(broken_names(broken & ~COUNTING))
        if replicas >= NEVER or nodes > UNLIMITED:
            names.add("traffic")
            replicas = 1
        found.append(Choice(replicas, per_node, spans, min(cap, UNLIMITED), price, rank, frozenset(names)))
    return found


def smallest(masks: Iterable[int]) -> list[int]:
    """Return the sets of rules (as bits) of which no other is a part, smallest first."""
    kept: list[int] = []
    for mask in sorted(masks, key=lambda one: (one.bit_count(), one)):
        if not any(other & mask == other for other in kept):
            kept.append(mask)
    return kept


def find_conflict(scenario: Scenario, table: Table, settings: Settings | None = None) -> tuple[str, ...]:
    """Return the names of rules that cannot hold together, from which none can be left out."""
    if table.choices.empty:
        return conflicting_rules(_impossible(table), demand_of(scenario), settings)
    kept = _extremes(table.choices)
    while True:
        rules = conflicting_rules(to_choices(kept), demand_of(scenario), settings)
        missed = _keeping(scenario, table.choices.drop(index=kept.index), rules)
        if missed.empty:
            return rules
        kept = pd.concat([kept, missed.head(1)])


def _extremes(choices: pd.DataFrame) -> pd.DataFrame:
    """Return the choices that most often decide which rules conflict.

    Of choices that break the same rules whatever the count, those that cost least, fit the quotas best or rent least.
    """
    rows = choices.assign(
        fixed=choices["broken"] & ~COUNTING,
        one_replica=choices["price_micro_usd"] * choices["nodes_per_replica"],
        beyond=choices["nodes"] - choices["node_cap"],
    )
    extremes = [rows.loc[rows.groupby("fixed")[by].idxmin()] for by in ("cost_micro_usd", "one_replica", "beyond")]
    fewest = rows.sort_values(["nodes", "cost_micro_usd"], kind="stable").groupby("fixed").head(1)
    return pd.concat([*extremes, fewest]).drop_duplicates(["candidate", "offer"])


def _keeping(scenario: Scenario, rows: pd.DataFrame, rules: tuple[str, ...]) -> pd.DataFrame:
    """Return the choices that can keep all these rules, in the smallest number of replicas that could."""
    limits = scenario.limits
    keeps = (rows["broken"].to_numpy() & ~COUNTING & bit(*rules)) == 0
    wanted = limits.replicas if "replicas_allowed" in rules else ()
    replicas = np.full(len(rows), min(wanted, default=1))
    if "traffic" in rules:
        replicas = rows["replicas" if wanted else "fewest"].to_numpy()
        keeps &= replicas < NEVER
    if wanted:
        keeps &= np.isin(replicas, wanted)
    nodes = nodes_needed(replicas, rows["replicas_per_node"].to_numpy(), rows["nodes_per_replica"].to_numpy())
    keeps &= nodes <= UNLIMITED
    if "quota" in rules:
        keeps &= nodes <= rows["node_cap"].to_numpy()
    if "budget" in rules and limits.budget_usd_per_hour is not None:
        keeps &= nodes * rows["price_micro_usd"].to_numpy() <= round(limits.budget_usd_per_hour * MICRO)
    kept: pd.DataFrame = rows[keeps]
    return kept


def _impossible(table: Table) -> list[Choice]:
    """Return choices by the rules they break, where hardware and model rule out everything.

    What they rule out are facts, which enter a conflict only where they leave no choice at all.
    """
    dead = table.dead.merge(table.shape_offers, on="shape", suffixes=("", "_offer"))
    masks = smallest(set((dead["broken"] | dead["broken_offer"]).tolist()))
    return [Choice(1, 1, 1, UNLIMITED, 1, rank, frozenset(broken_names(mask))) for rank, mask in enumerate(masks)]


def describe_conflict(scenario: Scenario, table: Table, rules: tuple[str, ...]) -> tuple[Conflict, ...]:
    """Say of each rule of a conflict what it asks for and what the catalog comes to."""
    return tuple(
        Conflict(
            rule=name,
            meaning=get_rule(name).meaning,
            needs=_needs(scenario, table, name, tuple(other for other in rules if other != name)),
        )
        for name in rules
    )


def _needs(scenario: Scenario, table: Table, rule: str, others: tuple[str, ...]) -> str:
    """Say what a rule asks for, and the least that a layout which keeps the `others` of the conflict comes to."""
    rows = _keeping(scenario, table.choices, others) if len(table.choices) else table.choices
    if rule in LATENCIES and len(rows):
        asked = getattr(scenario.targets, f"{rule}_ms")
        idle = rows[f"alone_{rule}_s"].to_numpy() * 1e3
        said = _least(scenario, table, rows, rule, idle, milliseconds, "{} is the least, on an idle replica")
        return f"at most {milliseconds(asked)} is asked; {said}"
    if rule == "vram_headroom" and len(rows):
        shares = least_memory_share(table.frame, scenario.memory)[rows["candidate"].to_numpy()]
        needs = f"one request needs {{}} of the memory that the {scenario.memory.policy} policy allows, at best"
        return _least(scenario, table, rows, rule, shares, "{:.1%}".format, needs)
    if rule == "budget":
        able = table.choices.loc[(table.choices["broken"] & ~bit("budget")) == 0, "cost_micro_usd"]
        least_cost = f"; the least that works costs ${able.min() / MICRO:,.2f}/h" if len(able) else ""
        return f"at most ${scenario.limits.budget_usd_per_hour:,.2f}/h is asked{least_cost}"
    if rule == "context_length":
        asked = scenario.workload.held_tokens
        return f"a context of {asked:,} tokens is asked; the model's is {table.max_context_tokens:,}"
    if rule == "quota" and len(rows):
        within = rows[(rows["broken"] & ~bit("quota")) == 0]
        beyond = _least_beyond(rows if within.empty else within, "traffic" in others)
        return f"{', '.join(_quotas(scenario))}; {beyond}"
    said = ", ".join(_allowed(scenario).get(rule, ())) or get_rule(rule).meaning
    return said + (_ruled_out_there(table) if rule in ("gpu_allowed", "weights_allowed", "sizes_allowed") else "")


def _least(
    scenario: Scenario,
    table: Table,
    rows: pd.DataFrame,
    rule: str,
    values: Floats,
    say: Callable[[float], str],
    phrase: str,
) -> str:
    """Say in a phrase the least value of the choices that break no other rule, and a lesser one that more would give.

    The least in the whole catalog may be of a layout that another limit rules out: it shows that the conflict stands
    whatever else gives way, and is no figure to plan with. Counting rules are the business of the conflict itself.
    """
    others = rows["broken"].to_numpy() & ~COUNTING & ~bit(rule)
    count = np.bitwise_count(others)
    nearest, lowest = np.lexsort([values, count])[0], np.lexsort([count, values])[0]
    figures = [say(float(values[at])) for at in (nearest, lowest)]
    also = [_given_up(scenario, table, rows.iloc[at], broken_names(int(others[at]))) for at in (nearest, lowest)]
    said = f"{phrase.format(figures[0])}{also[0]}"
    return said if figures[1] == figures[0] else f"{said}; {figures[1]}{also[1]}"


def _given_up(scenario: Scenario, table: Table, row: pd.Series, rules: tuple[str, ...]) -> str:
    """Say which rules a choice needs given up, and for what; nothing where there are none."""
    said = " and ".join(f"{name} ({_breaks(scenario, table, row, name)})" for name in rules)
    return f" with {said} given up too" if said else ""


def _least_beyond(rows: pd.DataFrame, with_traffic: bool) -> str:
    """Say what the choice that is the least beyond what can be rented of it takes."""
    nodes = rows["nodes" if with_traffic else "nodes_per_replica"]
    at = np.lexsort([nodes * rows["gpus_per_node"], nodes / rows["node_cap"].clip(lower=0.5)])[0]
    each, cap = int(rows["gpus_per_node"].iloc[at]), int(rows["node_cap"].iloc[at])
    return f"{node_count(int(nodes.iloc[at]), each)} at the least, where {cap:,} can be rented"


def _ruled_out_there(table: Table) -> str:
    """Say which fact rules out most of what the user's limits leave, where facts rule out all of it."""
    limits = bits_of_kind("limit")
    if ((table.frame["broken"] & limits) == 0).any():
        return ""
    left = table.dead[(table.dead["broken"] & limits) == 0]
    if left.empty:
        return ": nothing of that kind is on offer"
    breaks = {
        rule.meaning: int(left.loc[(left["broken"] & bit(rule.name)) != 0, "count"].sum())
        for rule in RULES
        if rule.kind in ("shape", "model")
    }
    meaning, most = max(breaks.items(), key=lambda one: one[1])
    share = "nothing there keeps" if most == int(left["count"].sum()) else "most of that breaks"
    return f": {share} the rule that {meaning}"


def _allowed(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """What the scenario allows, by the rule that holds it to that."""
    limits = scenario.limits
    return {
        "gpu_allowed": limits.gpus or tuple(f"not {name}" for name in limits.exclude_gpus),
        "weights_allowed": limits.weights,
        "kv_cache_allowed": limits.kv_cache,
        "sizes_allowed": _sizes(scenario),
        "provider_allowed": limits.providers or tuple(f"not {name}" for name in limits.exclude_providers),
        "provider_kind_allowed": limits.provider_kinds,
        "region_allowed": limits.regions,
        "instance_type_allowed": limits.instance_types,
        "term_allowed": limits.terms,
        "price_age": (f"at most {scenario.prices.max_age_days} days old",),
        "traffic": (f"{rate(scenario)} is asked",),
        "quota": _quotas(scenario),
        "replicas_allowed": tuple(map(str, limits.replicas)),
        "nodes_per_replica": (f"at most {limits.max_nodes_per_replica}",),
    }


def _sizes(scenario: Scenario) -> tuple[str, ...]:
    sizes = {name: getattr(scenario.limits, name) for name in ("tp", "pp", "ep", "attention_dp")}
    return tuple(f"{name} {' or '.join(map(str, wanted))}" for name, wanted in sizes.items() if wanted)


def _quotas(scenario: Scenario) -> tuple[str, ...]:
    limits = scenario.limits
    said = [f"at most {gpus_words(limits.max_gpus)}"] if limits.max_gpus is not None else []
    said += [f"at most {nodes_words(limits.max_nodes)}"] if limits.max_nodes is not None else []
    for quota in limits.quotas:
        of = " ".join(str(part) for part in (quota.provider, quota.region, quota.gpu) if part) or "anything"
        said += [f"at most {gpus_words(quota.max_gpus)} of {of}"] if quota.max_gpus is not None else []
        said += [f"at most {nodes_words(quota.max_nodes)} of {of}"] if quota.max_nodes is not None else []
    return tuple(said) or (f"stock, or {UNLIMITED:,} nodes",)


def excess(scenario: Scenario, table: Table) -> pd.Series:
    """Return, per row of choices, by what share it is over the rules that have a number, added up."""
    rows = table.choices
    over: dict[str, pd.Series] = {}
    for name in LATENCIES:
        target = getattr(scenario.targets, f"{name}_ms")
        if target is not None:
            over[name] = rows[f"alone_{name}_s"] * 1e3 / target - 1
    shares = least_memory_share(table.frame, scenario.memory)[rows["candidate"].to_numpy()]
    over["vram_headroom"] = pd.Series(shares - 1, index=rows.index)
    if scenario.limits.budget_usd_per_hour is not None:
        over["budget"] = rows["cost_micro_usd"] / MICRO / scenario.limits.budget_usd_per_hour - 1
    over["traffic"] = rows["fewest"] / rows["replicas"] - 1
    over["quota"] = rows["nodes"] / rows["node_cap"].clip(lower=0.5) - 1
    total = pd.Series(0.0, index=rows.index)
    for name, shares_over in over.items():
        total += shares_over.where((rows["broken"] & bit(name)) != 0, 0.0).clip(upper=1e6)
    return total


def find_nearest_misses(scenario: Scenario, table: Table, most: int = 3) -> tuple[Miss, ...]:
    """Return the layouts that break the fewest rules by the least, one a GPU type, with the numbers."""
    rows = table.choices
    if rows.empty:
        return ()
    counts = [int(mask).bit_count() for mask in rows["broken"]]
    order = rows.assign(rules=counts, over=excess(scenario, table))
    nearest = order.sort_values(["rules", "over", "cost_micro_usd"], kind="stable").drop_duplicates("gpu").head(most)
    return tuple(_miss(scenario, table, nearest.iloc[position]) for position in range(len(nearest)))


def _miss(scenario: Scenario, table: Table, row: pd.Series) -> Miss:
    # What does not fit in memory is said as one replica: no number of them would run.
    runs = row["replicas"] < NEVER and not int(row["broken"]) & bit("vram_headroom")
    nodes = int(row["nodes"]) if runs else int(row["nodes_per_replica"])
    return Miss(
        summary=summarize_row(row, nodes, table.offers.iloc[int(row["offer"])]),
        usd_per_hour=int(row["cost_micro_usd"]) / MICRO if runs else None,
        breaks={name: _breaks(scenario, table, row, name) for name in broken_names(int(row["broken"]))},
    )


def _breaks(scenario: Scenario, table: Table, row: pd.Series, rule: str) -> str:
    if rule in LATENCIES:
        target = getattr(scenario.targets, f"{rule}_ms")
        alone = float(row[f"alone_{rule}_s"]) * 1e3
        return f"{milliseconds(alone)} on an idle replica, over {milliseconds(target)}"
    if rule == "vram_headroom":
        share = table.memory_share(scenario, row)
        return f"one request needs {share:.1%} of the memory that the {scenario.memory.policy} policy allows"
    offer = table.offers.iloc[int(row["offer"])]
    shown = {
        "budget": f"${row['cost_micro_usd'] / MICRO:,.2f}/h, over ${scenario.limits.budget_usd_per_hour or 0:,.2f}/h",
        "quota": f"{node_count(row['nodes'], row['gpus_per_node'])}, where {row['node_cap']:,} can be rented",
        "traffic": _too_little(scenario, row),
        "gpu_allowed": row["gpu"],
        "weights_allowed": row["weights"],
        "kv_cache_allowed": row["kv_cache"],
        "sizes_allowed": f"tp {row['tp']}, pp {row['pp']}, ep {row['ep']}",
        "replicas_allowed": f"{row['replicas']} replicas",
        "provider_allowed": offer["provider"],
        "provider_kind_allowed": offer["provider_kind"],
        "region_allowed": offer["region"],
        "instance_type_allowed": offer["instance_type"],
        "term_allowed": offer["term"],
        "price_age": f"seen {offer['seen_on'].date()}",
    }
    return str(shown.get(rule, get_rule(rule).meaning))


def _too_little(scenario: Scenario, row: pd.Series) -> str:
    """Say how much of the traffic a choice carries, in the number of replicas that it stands for."""
    if max(int(row["replicas"]), int(row["fewest"])) >= NEVER:
        return f"does not carry {rate(scenario)} in any number"
    replicas = "1 replica carries" if row["replicas"] == 1 else f"{row['replicas']:,} replicas carry"
    carried = rate_words(scenario, float(row["replicas"]) * float(row["capacity"]))
    return f"{replicas} {carried} of {rate(scenario)}; {row['fewest']:,} are needed"
