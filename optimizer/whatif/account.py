"""Where the dollars of a layout go, and where the difference between two layouts comes from, adding up exactly."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations

import pandas as pd

from optimizer.answer import Answer
from optimizer.choices import MICRO
from optimizer.explain import limited_by
from optimizer.plan import Layout, MemoryUse, Performance
from optimizer.scenario import Scenario
from optimizer.whatif.explain_answer import Comparison, Difference, Money, Side
from optimizer.wording import rate_words, summarize

COMMUNICATION = ("all_reduce", "pipeline", "logits")  # causes of a decode step that are exchanges between GPUs
BOUGHT = ("price per GPU-hour", "GPUs per replica", "replicas", "idle GPUs")
SPENT = ("work", "communication", "idle_capacity", "idle_gpus")


def money_of(layout: Layout, memory: MemoryUse, performance: Performance, usd_per_hour: float) -> Money:
    """Split what an hour costs: idle GPUs, then the idle share of those at work, then what exchanges take of a step."""
    rented = layout.nodes * layout.gpus_per_node
    step = sum(performance.step_ms.values())
    talks = sum(performance.step_ms.get(cause, 0.0) for cause in COMMUNICATION) / step if step > 0.0 else 0.0
    idle_gpus = usd_per_hour * (rented - layout.gpus_used) / rented
    at_work = usd_per_hour - idle_gpus
    busy = at_work * min(performance.utilization, 1.0)
    communication = busy * talks
    has, needs = rented * memory.gpu_memory_gib, layout.gpus_used * memory.need_gib
    stranded = 1 - needs / has
    return Money(
        usd_per_hour=usd_per_hour,
        work=busy - communication,
        communication=communication,
        idle_capacity=at_work - busy,
        idle_gpus=idle_gpus,
        communication_share=talks,
        utilization=performance.utilization,
        memory_rented_gib=has,
        memory_needed_gib=needs,
        memory_stranded_share=stranded,
        memory_stranded_usd=usd_per_hour * stranded,
    )


def side_of(scenario: Scenario, row: pd.Series, answer: Answer) -> Side:
    """Return a layout's figures for a comparison.

    Args:
        scenario: the question.
        row: the choice.
        answer: its answer.
    """
    layout, cost = answer.layout, answer.cost
    rented = layout.nodes * layout.gpus_per_node
    return Side(
        summary=summarize(layout),
        usd_per_hour=cost.usd_per_hour,
        price_usd_per_gpu_hour=layout.price_usd_per_node_hour / layout.gpus_per_node,
        gpus_rented=rented,
        gpus_idle=rented - layout.gpus_used,
        gpus_per_replica=layout.gpus_used // layout.replicas,
        replicas=layout.replicas,
        nodes=layout.nodes,
        capacity_per_replica=rate_words(scenario, float(row["capacity"])),
        limited_by=limited_by(scenario, row),
        usd_per_million_output_tokens=cost.usd_per_million_output_tokens,
        ttft_ms=answer.performance.ttft_ms,
        tpot_ms=answer.performance.tpot_ms,
        money=money_of(layout, answer.memory, answer.performance, cost.usd_per_hour),
    )


def compared(plan: Side, other: Side, reason: str = "") -> Comparison:
    """Return two layouts side by side, with what the other costs more, by what is rented and by where it goes."""
    spent = [
        Difference(
            name=name.replace("_", " ").replace("gpus", "GPUs"),
            usd_per_hour=getattr(other.money, name) - getattr(plan.money, name),
        )
        for name in SPENT
    ]
    return Comparison(
        plan=plan,
        other=other,
        extra_usd_per_hour=round((other.usd_per_hour - plan.usd_per_hour) * MICRO) / MICRO,
        bought=tuple(Difference(name=name, usd_per_hour=float(usd)) for name, usd in bought(plan, other).items()),
        spent=tuple(spent),
        reason=reason,
    )


def bought(plan: Side, other: Side) -> dict[str, Fraction]:
    """Return what each part of what is rented makes of the difference in cost; they add up to it exactly.

    The cost is price per GPU x (GPUs per replica x replicas + idle GPUs). Which part is charged how much depends on the
    order in which they change from one layout to the other, so each is the mean over all orders (its Shapley value).
    """
    sides = [dict(zip(BOUGHT, _parts(side), strict=True)) for side in (plan, other)]
    orders = list(permutations(BOUGHT))
    total = dict.fromkeys(BOUGHT, Fraction(0))
    for order in orders:
        now = dict(sides[0])
        for name in order:
            before = _cost(now)
            now[name] = sides[1][name]
            total[name] += _cost(now) - before
    return {name: value / len(orders) for name, value in total.items()}


def _parts(side: Side) -> tuple[Fraction, ...]:
    micro = round(side.usd_per_hour * MICRO)
    price = Fraction(micro, MICRO * side.gpus_rented)
    return price, Fraction(side.gpus_per_replica), Fraction(side.replicas), Fraction(side.gpus_idle)


def _cost(parts: Mapping[str, Fraction]) -> Fraction:
    price, per_replica, replicas, idle = (parts[name] for name in BOUGHT)
    return price * (per_replica * replicas + idle)
