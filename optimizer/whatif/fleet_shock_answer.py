"""What `shardwise whatif shock FLEET.yaml --json` prints: a fleet before and after prices change, keep it or move."""

from __future__ import annotations

from datetime import date
from typing import Literal

from optimizer.fleet.plan import FleetPlan
from optimizer.plan import AnswerPart, Calibration

FleetVerdict = Literal["keep", "move", "start", "infeasible", "unknown"]


class PricedFleet(AnswerPart):
    """A fleet in one line, with what it costs and how far that is proved.

    Attributes:
        status: "optimal" where no fleet costs less; "feasible" where the solver stopped at its time limit.
        usd_per_hour: on average over the cycle.
        bound_usd_per_hour: no fleet that keeps every rule costs less.
        gap: (usd_per_hour - bound) / usd_per_hour; 0 when proved optimal.
        committed_usd_per_hour: the part of usd_per_hour that is paid whatever runs.
        upfront_usd: due on signing, or for machines that are bought.
    """

    summary: str
    status: str
    usd_per_hour: float
    bound_usd_per_hour: float
    gap: float
    committed_usd_per_hour: float
    upfront_usd: float


class FleetStaying(AnswerPart):
    """The fleet from before at the prices after: the same nodes, paid for in the same ways.

    Attributes:
        available: whether all of its offers are still to be had; gone: those that are not.
        usd_per_hour, usd_per_month: at the prices after; null where an offer is gone.
        committed_usd_per_hour: the part of it that is paid whatever runs.
        upfront_usd: due on signing, or for machines that are bought, at the prices after.
        breaks: rules of the question that it breaks then, with their numbers.
        extra_usd_per_hour, extra_usd_per_month: what staying costs more than the fleet that was found after the shock
            (negative: that one is dearer, as the solver stopped at its time limit); null where either is not possible.
        within_open: that is above zero, and no more than what the solver left open (see `open_usd_per_hour` of the
            whole): it is not counted as a saving.
        most_usd_per_hour: proved: no move saves more; null where the fleet cannot stay, or nothing is proved.
    """

    available: bool
    gone: tuple[str, ...]
    usd_per_hour: float | None
    usd_per_month: float | None
    committed_usd_per_hour: float | None
    upfront_usd: float | None
    breaks: dict[str, str]
    extra_usd_per_hour: float | None = None
    extra_usd_per_month: float | None = None
    within_open: bool = False
    most_usd_per_hour: float | None = None


class FleetEffect(AnswerPart):
    """One part of the shock alone, or all of it.

    Attributes:
        change: the part, as it was given.
        offers: how many it touches.
        verdict: as that of the whole.
        proved: the least cost then is proved, or that nothing is feasible.
        staying_usd_per_hour: of the fleet from before; null where it cannot stay.
        answer: the best fleet that was found; null where there is none.
    """

    change: str
    offers: int
    verdict: FleetVerdict
    proved: bool
    staying_usd_per_hour: float | None
    answer: PricedFleet | None


class NodesChange(AnswerPart):
    """Nodes that are paid for in one way, of which there are more or fewer after the move.

    Attributes:
        before_by_period, after_by_period: nodes paid for, in each period of the cycle.
        before_usd_per_hour: what they cost before the shock; after_usd_per_hour: what they cost after the move.
        contract: position of the user's own contract among `commitments`; null for a catalog price.
    """

    provider: str
    region: str
    gpu: str
    gpus_per_node: int
    instance_type: str
    term: str
    contract: int | None
    before_by_period: tuple[int, ...]
    after_by_period: tuple[int, ...]
    before_usd_per_hour: float
    after_usd_per_hour: float


class PoolChange(AnswerPart):
    """Replicas that run alike, of which there are more or fewer after the move.

    Attributes:
        model: as the question calls it.
        replica: how it runs, in words.
        targets: what its replicas keep for every class they serve: at, ttft_ms, tpot_ms, e2e_ms.
        before_by_period, after_by_period: replicas, in each period of the cycle.
    """

    model: str
    provider: str
    region: str
    gpu: str
    gpus_per_node: int
    replica: str
    targets: dict[str, float | str | None]
    before_by_period: tuple[int, ...]
    after_by_period: tuple[int, ...]


class FleetShock(AnswerPart):
    """What a change of prices does to a fleet.

    Attributes:
        verdict: "keep" the fleet from before, "move" to another, "start" where none was found before, "infeasible"
            where none is possible now, or "unknown" where the solver found none within its time limit.
        proved: both fleets are the cheapest there are, proved; or that there is none.
        open_usd_per_hour: what the solver left open after the shock: from the cost of the fleet to what is proved. A
            difference no larger than that is no saving.
        before: the fleet before the shock; null where none was found.
        staying: what keeping it comes to; null where none was found before.
        effects: each part alone, then all together where there are several.
        nodes, pools: what is not the same after the move; empty where the fleet is kept.
        after: the whole answer after the shock.
    """

    schema_version: Literal["1"] = "1"
    kind: Literal["fleet"] = "fleet"
    question: str
    verdict: FleetVerdict
    proved: bool
    open_usd_per_hour: float
    before: PricedFleet | None
    staying: FleetStaying | None
    effects: tuple[FleetEffect, ...]
    nodes: tuple[NodesChange, ...]
    pools: tuple[PoolChange, ...]
    after: FleetPlan
    prices_as_of: date
    calibration: Calibration | None = None
