"""Cheaper answers that a limit rules out: one line each, so that a user knows what a default or a choice costs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.answer import Answer, answers
from optimizer.candidates import allowed_weights, next_precision
from optimizer.capacity import fill_capacity, other_memory, with_capacity
from optimizer.choices import MICRO, build_choices
from optimizer.plan import CheaperIf
from optimizer.relax import SIZES
from optimizer.rules import bit, bits_of_kind
from optimizer.scenario import Scenario
from optimizer.wording import policy_words, summarize

if TYPE_CHECKING:
    from optimizer.solve import Problem

Floats = NDArray[np.float64]

LEAST_SAVING = 0.005  # share of the cost under which a saving is not worth a line


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that may cost money: its rule, the column that tells the ways apart, and how many are worth a line."""

    rule: str
    column: str
    words: str
    flag: str
    lines: int = 1


LIMITS = (
    Limit("weights_allowed", "weights", "weights in {}", "--weights {}"),
    Limit("term_allowed", "term", "{} terms", "--term {}", lines=3),
    Limit("provider_kind_allowed", "provider_kind", "{} providers", "--provider-kind {}", lines=3),
    Limit("gpu_allowed", "gpu", "GPU {}", "--gpu {}"),
    Limit("provider_allowed", "provider", "provider {}", "--provider {}"),
    Limit("region_allowed", "region", "region {}", "--region {}"),
    Limit("sizes_allowed", "tp", "tp {}", "--tp {}"),
)


@dataclass(frozen=True, slots=True)
class Saving:
    """A choice (a row number of the table of choices) that costs less but for one limit."""

    row: int
    change: str
    flag: str


def cheaper_choices(problem: Problem, cost_micro_usd: int) -> list[Saving]:
    """Return, for each limit, the cheapest choices that break it alone and cost less than the answer."""
    choices = problem.choices.frame
    broken = choices["broken"].to_numpy()
    cheap = choices["cost_micro_usd"].to_numpy() <= cost_micro_usd * (1 - LEAST_SAVING)
    narrower = next_precision(allowed_weights(problem.scenario, problem.model))
    found = []
    for limit in LIMITS:
        rows = np.nonzero(cheap & (broken == bit(limit.rule)))[0]
        source = choices if limit.column in choices else problem.offers
        values = source[limit.column].to_numpy()[rows if source is choices else choices["offer"].to_numpy()[rows]]
        if limit.rule == "weights_allowed":
            kept = np.isin(values.astype(str), narrower)
            rows, values = rows[kept], values[kept]
        # The table is sorted by cost: the first of each value is its cheapest.
        first = sorted(np.unique(values.astype(str), return_index=True)[1].tolist())[: limit.lines]
        found += [_saving(problem.scenario, limit, int(rows[at]), str(values[at]), choices) for at in first]
    return found


def _saving(scenario: Scenario, limit: Limit, row: int, value: str, choices: pd.DataFrame) -> Saving:
    """Say what would have to be allowed for this choice, and by which flags."""
    limits = scenario.limits
    if limit.rule == "sizes_allowed":
        asked = {size: getattr(limits, size) for size in SIZES}
        used = {size: choices[size].iloc[row] for size in SIZES}
        other = {size: used[size] for size, kept in asked.items() if kept and used[size] not in kept}
        flags = [f"--{size.replace('_', '-')} {count}" for size, count in other.items()]
        return Saving(row, ", ".join(f"{size} {count}" for size, count in other.items()), " ".join(flags))
    flag = limit.flag.format(shlex.quote(value))
    kept, excluded = (getattr(limits, name.format(limit.column), ()) for name in ("{}s", "exclude_{}s"))
    if value in excluded:
        without = f"without --exclude-{limit.column} {value}"
        flag = f"{flag} {without}" if kept and value not in kept else without
    return Saving(row, limit.words.format(value), flag)


def cheaper_if(problem: Problem, best: Answer, savings: list[Saving], found: list[Answer]) -> tuple[CheaperIf, ...]:
    """Return the cheaper answers that giving up one limit, or the other memory policy, would give; cheapest first.

    Args:
        problem: the question and what it is answered from.
        best: the answer.
        savings: what `cheaper_choices` found.
        found: the answer of each of them.
    """
    lines = [_line(best, saving.change, saving.flag, answer) for saving, answer in zip(savings, found, strict=True)]
    lines += _other_policy(problem, best)
    return tuple(sorted(lines, key=lambda one: (one.usd_per_hour, one.change)))


def _line(best: Answer, change: str, flag: str, answer: Answer) -> CheaperIf:
    return CheaperIf(
        change=change,
        summary=summarize(answer.layout),
        usd_per_hour=answer.cost.usd_per_hour,
        saving_usd_per_hour=best.cost.usd_per_hour - answer.cost.usd_per_hour,
        flag=flag,
    )


def _other_policy(problem: Problem, best: Answer) -> list[CheaperIf]:
    """Return the cheapest answer under the other memory policy, where it is cheaper."""
    scenario = problem.scenario
    most = best.cost.usd_per_hour * (1 - LEAST_SAVING) * MICRO
    affordable = problem.choices.shape_offers["price_micro_usd"].to_numpy() <= most
    offers = problem.choices.shape_offers[affordable & (problem.choices.shape_offers["broken"].to_numpy() == 0)]
    if offers.empty:
        return []
    memory = other_memory(scenario.memory)
    frame = problem.candidates.frame
    allowed = (frame["broken"].to_numpy() & bits_of_kind("limit")) == 0
    able = np.nonzero(allowed & np.isin(frame["shape"].to_numpy(), offers["shape"].to_numpy()))[0]
    used, of_row = np.unique(frame["replica"].to_numpy()[able], return_inverse=True)
    speed = problem.candidates.speed.take(used)
    rows = frame.iloc[able].assign(replica=of_row)
    floors = np.full(len(used), np.inf)
    np.minimum.at(floors, of_row, _least_capacity(scenario, rows, offers, most))
    replicas = fill_capacity(problem.candidates.replicas.iloc[used], speed, scenario, memory, floors)
    refilled = with_capacity(rows, replicas)
    choices = build_choices(scenario, refilled, offers).frame
    cheapest = choices[(choices["broken"] == 0) & (choices["cost_micro_usd"] <= most)].head(1)
    found = answers(scenario, problem.model, cheapest, speed, problem.offers, memory)
    return [_line(best, policy_words(memory), f"--memory-policy {memory.policy}", answer) for answer in found]


def _least_capacity(scenario: Scenario, rows: pd.DataFrame, offers: pd.DataFrame, most_micro_usd: float) -> Floats:
    """Return what a replica of each candidate has to carry at the least, for the traffic to cost no more than this."""
    shapes = rows["shape"].to_numpy()
    price = np.full(int(shapes.max(initial=-1)) + 1, np.inf)
    known = offers["shape"].to_numpy() < len(price)
    np.minimum.at(price, offers["shape"].to_numpy()[known], offers["price_micro_usd"].to_numpy()[known])
    nodes = np.floor(most_micro_usd / price[shapes])
    spans = rows["nodes_per_replica"].to_numpy()
    replicas = np.where(spans > 1, nodes // spans, nodes * rows["replicas_per_node"].to_numpy())
    with np.errstate(divide="ignore"):
        return np.asarray(scenario.workload.demand / replicas)
