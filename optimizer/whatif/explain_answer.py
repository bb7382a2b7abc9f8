"""What `shardwise explain --json` prints: what binds in a plan, where its money goes, and why not another layout."""

from __future__ import annotations

from datetime import date
from typing import Literal

from optimizer.plan import AnswerPart, Calibration, Conflict, LadderStep, LeastChange, Miss

Verdict = Literal["is_the_plan", "dearer", "same_cost", "cheaper", "breaks_rules", "cannot_run", "not_on_offer"]


class Bound(AnswerPart):
    """One thing that a layout must keep, with how much of it is left.

    Attributes:
        name: the rule or limit.
        where: at which operating point: "at this traffic", "at the concurrency limit", or empty.
        used, limit: in `unit`; latencies at the confidence asked for.
        left_share: (limit - used) / limit.
        given_up: what giving it up means, where that was tried: "no TTFT target".
        without_usd_per_hour: the least cost when it is given up entirely; null where that was not tried.
        binds: giving it up makes the answer cheaper.
    """

    name: str
    where: str
    used: float
    limit: float
    unit: str
    left_share: float
    given_up: str = ""
    without_usd_per_hour: float | None = None
    binds: bool = False


class Money(AnswerPart):
    """Where the dollars of one hour go; work + communication + idle_capacity + idle_gpus = usd_per_hour.

    Attributes:
        work: what is spent while replicas serve, communication aside.
        communication: the share of a decode step (at this traffic) that exchanges between GPUs take.
        idle_capacity: 1 - utilization of the GPUs that hold a replica.
        idle_gpus: GPUs that are rented and hold no replica.
        memory_stranded_usd: on another scale, part of all of the above: the share of rented GPU memory that nothing
            uses with every replica at its concurrency limit, headroom included.
        memory_rented_gib, memory_needed_gib: of all rented GPUs together.
        memory_stranded_share: share of rented memory that nothing uses.
    """

    usd_per_hour: float
    work: float
    communication: float
    idle_capacity: float
    idle_gpus: float
    communication_share: float
    utilization: float
    memory_rented_gib: float
    memory_needed_gib: float
    memory_stranded_share: float
    memory_stranded_usd: float


class Side(AnswerPart):
    """One layout of a comparison, in the figures that its cost comes from.

    Attributes:
        capacity_per_replica: traffic that one replica carries within the targets, in words; limited_by says what
            limits it.
        gpus_rented: GPUs paid for.
        gpus_idle: of them, those that hold no replica.
        gpus_per_replica: GPUs of one replica.
        limited_by: what limits the traffic of a replica.
        money: where its dollars go.
    """

    summary: str
    usd_per_hour: float
    price_usd_per_gpu_hour: float
    gpus_rented: int
    gpus_idle: int
    gpus_per_replica: int
    replicas: int
    nodes: int
    capacity_per_replica: str
    limited_by: str
    usd_per_million_output_tokens: float
    ttft_ms: float
    tpot_ms: float
    money: Money


class Difference(AnswerPart):
    """One part of what a layout costs more than the plan, in dollars an hour (negative: less)."""

    name: str
    usd_per_hour: float


class Comparison(AnswerPart):
    """A layout beside the plan.

    Attributes:
        extra_usd_per_hour: what it costs more.
        bought: that by what is rented: price per GPU, GPUs per replica, replicas, idle GPUs; adds up to the extra. Each
            is what changing it alone makes, on average over all orders in which the four can change.
        spent: that by where the money goes: work, communication, idle capacity, idle GPUs; adds up to it as well.
        reason: why the plan was preferred, where the two cost the same.
        plan: the plan's side.
        other: the other layout's side.
    """

    plan: Side
    other: Side
    extra_usd_per_hour: float
    bought: tuple[Difference, ...]
    spent: tuple[Difference, ...]
    reason: str


class WayOut(AnswerPart):
    """A layout that works, and is the one named but for one part.

    Attributes:
        instead: the part that is changed, and to what.
    """

    instead: str
    summary: str
    usd_per_hour: float
    extra_usd_per_hour: float


class WhyNot(AnswerPart):
    """Why the plan is not the layout that was named.

    Attributes:
        verdict: "is_the_plan"; "dearer", "same_cost" or "cheaper" than the plan while keeping every rule;
            "breaks_rules"; "cannot_run": the model or the hardware rules it out; "not_on_offer".
        understood: what was read from the words.
        matches: choices in the catalog that fit the words.
        comparison: with the cheapest that keeps every rule; where none does, with the cheapest way out.
        nearest: the one that breaks the fewest rules by the least, with each rule that it breaks.
        least_changes: to the question, that would admit it, each solved.
        ways_out: to the layout.
        asked: the layout, in the user's words.
    """

    asked: str
    understood: dict[str, str]
    verdict: Verdict
    matches: int
    comparison: Comparison | None = None
    nearest: Miss | None = None
    least_changes: tuple[LeastChange, ...] = ()
    ways_out: tuple[WayOut, ...] = ()


class Explained(AnswerPart):
    """Why a plan is as it is.

    Attributes:
        reproduced: solving its question again, at the prices of its day, gave the same layout at the same cost.
        differences: what came out otherwise, and what that may be due to.
        bounds: what the layout must keep, the tightest first.
        sized_by: what sets the number of GPUs.
        money: where the dollars go; null where the plan has no layout.
        plan: the file, or what else the plan was read from.
        ladder: the four steps that lead to the answer.
        why_not: why it is not the layout that was named; null where none was.
    """

    schema_version: Literal["1"] = "1"
    plan: str
    summary: str
    status: str
    usd_per_hour: float | None
    reproduced: bool
    differences: tuple[str, ...]
    bounds: tuple[Bound, ...] = ()
    sized_by: str = ""
    money: Money | None = None
    ladder: tuple[LadderStep, ...] = ()
    conflict: tuple[Conflict, ...] = ()
    nearest_misses: tuple[Miss, ...] = ()
    least_changes: tuple[LeastChange, ...] = ()
    why_not: WhyNot | None = None
    prices_as_of: date
    calibration: Calibration | None = None
