"""FleetPlan: the answer to a fleet's question. What `--json` prints; every field is documented here.

Money is USD, rates are requests per second, `_by_period` is one value for each period of the cycle (`hours` long each).
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from optimizer.display import flat
from optimizer.plan import AnswerPart, Calibration, Conflict, MemoryUse, Performance, PriceBasis, SolverRun

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION: Literal["1"] = "1"


class Purchase(AnswerPart):
    """One way in which nodes of a site are paid for.

    Attributes:
        instance_type: what to ask the provider for; nodes of one shape may go by several names.
        term: "on-demand", "spot", "reserved-1y", "reserved-3y" or "owned".
        price_usd_per_node_hour: as it is billed, after the user's own discounts.
        effective_usd_per_node_hour: what an hour of use costs, which the cost counts: with what spot interruptions
            waste, with hours that a contract outlasts the traffic, with what paying in advance costs.
        committed_years: paid for in every hour of so many years; 0 by the hour.
        nodes_by_period: nodes paid for.
        starts: nodes that are switched on over the cycle; start_usd: what each costs.
        usd_per_hour: on average over the cycle.
        upfront_usd: due on signing (of a contract), or the price of the machines (owned).
        committed_usd: what the whole commitment comes to.
        max_nodes: stock seen; null when not stated.
        contract: position of the user's own contract among `commitments`; null for a catalog price.
    """

    instance_type: str
    term: str
    price_usd_per_node_hour: float
    effective_usd_per_node_hour: float
    committed_years: float
    nodes_by_period: tuple[int, ...]
    starts: int
    start_usd: float
    usd_per_hour: float
    upfront_usd: float
    committed_usd: float
    max_nodes: int | None
    price_seen_on: date
    price_source: str
    contract: int | None = None


class Site(AnswerPart):
    """Nodes of one shape of one provider in one region.

    Attributes:
        instance_type: of the cheapest of them.
        spot: nodes that can be taken back.
        scale_up_gpus: GPUs per scale-up domain inside a node; 1 where GPUs talk over PCIe.
        purchases: the ways in which its nodes are paid for.
    """

    id: str
    provider: str
    provider_kind: str
    region: str
    instance_type: str
    gpu: str
    gpus_per_node: int
    spot: bool
    fabric: str
    scale_up_gpus: int
    network: str
    network_gbit_per_s: float | None
    purchases: tuple[Purchase, ...]


class Served(AnswerPart):
    """What a pool serves of one class, be it after a loss only.

    Attributes:
        share: of the class's requests over the cycle; 0 where it serves them after a loss only, or stands by.
        requests_per_second_by_period: of the class, on this pool.
        capacity_requests_per_second: what one replica carries of it if it serves nothing else, within the pool's
            targets; concurrency: requests that it then runs at once.
        ttft_ms, tpot_ms, e2e_ms: predicted at the pool's own mix in its busiest period, at the level of its targets.
        holds: whether its own targets are met then.
        class_name: the class.
    """

    class_name: str
    share: float
    requests_per_second_by_period: tuple[float, ...]
    capacity_requests_per_second: float
    concurrency: int
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    holds: bool


class Pool(AnswerPart):
    """Replicas of one model that run alike.

    Attributes:
        model: as the question calls it; model_id: its Hub name or path.
        site: id of the nodes that it runs on.
        tp, pp, ep, attention_dp: the split of a replica (see optimizer.split.Split).
        targets: the targets that its replicas keep for every class they serve: at, ttft_ms, tpot_ms, e2e_ms.
        replicas_by_period: copies of the model.
        utilization: of the capacity within the targets, in the busiest period.
        concurrency_per_replica: requests at once at that mix when full (an engine's --max-num-seqs).
        memory: per GPU, at that concurrency; a request's tokens are the mean over those in flight (by time share and
            concurrency of their classes).
        performance: predicted at the mix of the busiest period.
        communication_share: of a decode step.
        gpus_per_replica, nodes_per_replica: what one replica takes.
        serves: what it serves of each class.
    """

    id: str
    model: str
    model_id: str
    site: str
    weights: str
    kv_cache: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    gpus_per_replica: int
    nodes_per_replica: int
    targets: dict[str, Any]
    replicas_by_period: tuple[int, ...]
    serves: tuple[Served, ...]
    utilization: float
    concurrency_per_replica: int
    memory: MemoryUse
    performance: Performance
    communication_share: float


class NodesHeld(AnswerPart):
    """Nodes that hold the same replicas, in one period.

    Attributes:
        units: how many; span: nodes of each (above 1 where one replica spans several).
        replicas: pool -> replicas on each; empty for nodes that are paid for and idle.
    """

    period: int
    site: str
    units: int
    span: int
    replicas: dict[str, int]


class Survived(AnswerPart):
    """A loss that the fleet survives, and how the traffic is dealt then.

    Attributes:
        what: "node" or "provider"; site or provider: which.
        lost: pool -> replicas gone.
        requests_per_second: pool -> class -> requests/s on the replicas that are left.
        utilization: of the fullest pool that is left.
    """

    period: int
    what: Literal["node", "provider"]
    site: str | None = None
    provider: str | None = None
    lost: dict[str, int]
    requests_per_second: dict[str, dict[str, float]]
    utilization: float


class ClassAnswer(AnswerPart):
    """One class of traffic, as it was read.

    Attributes:
        requests_per_second_by_period: that arrive.
        targets: what it asks: at, ttft_ms, tpot_ms, e2e_ms.
        pools: pool -> share of its requests over the cycle.
        regions: where it may be served; everywhere when empty.
    """

    name: str
    model: str
    input_tokens: int
    output_tokens: int
    input_cv: float
    output_cv: float
    requests_per_second_by_period: tuple[float, ...]
    targets: dict[str, Any]
    regions: tuple[str, ...]
    pools: dict[str, float]


class FleetCost(AnswerPart):
    """What the fleet costs.

    Attributes:
        usd_per_hour: on average over the cycle; peak_usd_per_hour: in its dearest period.
        committed_usd_per_hour: the part of usd_per_hour that is paid whatever runs.
        upfront_usd: due on signing, or for machines that are bought.
        usd_per_million_output_tokens: of the traffic as it is.
        bound_usd_per_hour: no fleet of this table that keeps every rule costs less.
        gap: (usd_per_hour - bound) / usd_per_hour; 0 when proved optimal.
    """

    usd_per_hour: float
    peak_usd_per_hour: float
    usd_per_month: float
    committed_usd_per_hour: float
    upfront_usd: float
    usd_per_million_output_tokens: float
    usd_per_million_tokens: float
    bound_usd_per_hour: float
    gap: float


class Compared(AnswerPart):
    """What the same traffic costs under one more rule (the worth of what it forbids), or under one demand less.

    Attributes:
        rule: in words.
        usd_per_hour: null where nothing keeps it.
        extra_usd_per_hour: what it costs more than the answer.
        proved: whether that is the least.
        gives_up: it is a demand less instead, which may cost less.
    """

    rule: str
    gives_up: bool = False
    usd_per_hour: float | None
    extra_usd_per_hour: float | None
    proved: bool


class FleetPlan(AnswerPart):
    """The answer to a FleetScenario.

    Attributes:
        hours: length of each period of the cycle.
        notes: how the traffic was read.
        classes: the traffic, as it was read.
        sites: what is rented.
        pools: replicas that run alike.
        survived: losses that it survives, with the traffic dealt anew.
        compared: what the same traffic costs under other rules.
    """

    schema_version: Literal["1"] = SCHEMA_VERSION
    shardwise_version: str
    kind: Literal["fleet"] = "fleet"
    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    summary: str
    scenario: dict[str, Any]
    hours: tuple[float, ...]
    classes: tuple[ClassAnswer, ...]
    cost: FleetCost | None = None
    sites: tuple[Site, ...] = ()
    pools: tuple[Pool, ...] = ()
    nodes: tuple[NodesHeld, ...] = ()
    survived: tuple[Survived, ...] = ()
    compared: tuple[Compared, ...] = ()
    conflict: tuple[Conflict, ...] = ()
    calibration: Calibration | None = None
    prices: PriceBasis
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    solver: SolverRun

    def to_frame(self) -> pd.DataFrame:
        """Return what is rented as a table: a row for each way in which the nodes of a site are paid for."""
        import pandas as pd  # noqa: PLC0415  answers are read without tables

        places = ("id", "provider", "region", "gpu", "gpus_per_node", "spot")
        rows = [
            {("site" if name == "id" else name): getattr(site, name) for name in places} | flat(one)
            for site in self.sites
            for one in site.purchases
        ]
        return pd.DataFrame(rows)
