"""What `shardwise explain FLEET_PLAN.json --json` prints: what binds in a fleet, and where its money goes."""

from __future__ import annotations

from datetime import date
from typing import Literal

from optimizer.plan import AnswerPart, Calibration, Conflict
from optimizer.whatif.explain_answer import Bound


class PoolExplained(AnswerPart):
    """Why a pool is as large as it is.

    Attributes:
        id: as the plan calls it.
        replicas: what runs, in words.
        bounds: what it must keep, the tightest first: targets of each class at its own mix ("at this traffic") and
            when every replica is full ("at the concurrency limit"), memory per GPU, and the traffic.
        limited_by: what keeps a replica from running more requests at once.
        sized_by: what sets the number of replicas.
    """

    id: str
    replicas: str
    bounds: tuple[Bound, ...]
    limited_by: str
    sized_by: str


class GivenUp(AnswerPart):
    """What the fleet would cost without one of the things asked of it.

    Attributes:
        rule: what is given up, in words.
        usd_per_hour: the least found then; null where none was found within the time limit.
        proved: whether that is the least.
        saves_usd_per_hour: what the fleet costs more now; never below zero, for the fleet itself is still allowed.
        binds: giving it up makes the fleet cheaper, by more than the solver left open of the fleet.
    """

    rule: str
    usd_per_hour: float | None
    proved: bool
    saves_usd_per_hour: float
    binds: bool


class Paid(AnswerPart):
    """One way in which the nodes of a site are paid for.

    Attributes:
        site: as the plan calls it.
        what: the nodes, in words.
        term: "on-demand", "spot", "reserved-1y", "reserved-3y" or "owned".
        contract: position of the user's own contract among `commitments`; null for a catalog price.
        nodes: on average over the cycle.
        billed: nodes at their price; beyond_price: what hours of use cost besides (spot interruptions, hours after the
            traffic has gone, paying in advance); starts: switching nodes on. All in dollars an hour; they add up to
            usd_per_hour.
    """

    site: str
    what: str
    term: str
    contract: int | None
    nodes: float
    usd_per_hour: float
    billed: float
    beyond_price: float
    starts: float


class SiteMoney(AnswerPart):
    """Where the dollars of a site go, an hour on average; pools + idle_gpus + idle_nodes + starts = usd_per_hour.

    Attributes:
        id: as the plan calls it.
        what: its nodes, in words.
        pools: GPUs that hold a replica.
        idle_gpus: GPUs that hold none, on nodes that do.
        idle_nodes: nodes that are paid for and hold nothing; idle_node_hours: of them, over the cycle.
        starts: switching nodes on.
    """

    id: str
    what: str
    usd_per_hour: float
    pools: float
    idle_gpus: float
    idle_nodes: float
    idle_node_hours: float
    starts: float


class PoolMoney(AnswerPart):
    """Where the dollars of a pool go, an hour on average; work + communication + idle_capacity = usd_per_hour.

    Attributes:
        id: as the plan calls it.
        work: what is spent while its replicas serve, communication aside.
        communication: the share of a decode step that exchanges between GPUs take.
        idle_capacity: what its replicas could carry and do not, hour by hour.
        utilization: on average over the cycle, of what the targets allow.
    """

    id: str
    usd_per_hour: float
    work: float
    communication: float
    idle_capacity: float
    utilization: float


class ClassMoney(AnswerPart):
    """What serving a class of requests costs an hour: its share of the time of each pool, idle capacity included.

    Which pool serves how much of a class that several can serve is not unique, so neither is this; the sum is.

    Attributes:
        model: as the question calls it.
        class_name: the class.
        share: of the cost of the fleet.
        usd_per_million_output_tokens: of its own tokens; null where none arrive.
    """

    model: str
    class_name: str
    usd_per_hour: float
    share: float
    usd_per_million_output_tokens: float | None


class FleetMoney(AnswerPart):
    """Where the dollars of a fleet go, an hour on average. Each of the ways to split them adds up to the whole.

    Attributes:
        usd_per_hour: work + communication + idle_capacity + idle_gpus + idle_nodes + starts.
        work: what is spent while replicas serve, communication aside.
        communication: the share of a decode step that exchanges between GPUs take.
        idle_capacity: what replicas could carry and do not, hour by hour.
        idle_gpus: GPUs that hold no replica, on nodes that do.
        idle_nodes: nodes that are paid for and hold nothing.
        starts: switching nodes on.
        standing_by: of idle_capacity, pools in hours in which they serve nothing; with the classes' own dollars,
            idle_gpus, idle_nodes and starts it adds up to the whole.
        paid: by how nodes are paid for.
        sites: by site.
        pools: by pool; with idle_gpus, idle_nodes and starts they add up to the whole.
        classes: by class of requests.
        committed_usd_per_hour: the part that is paid whatever runs.
    """

    usd_per_hour: float
    work: float
    communication: float
    idle_capacity: float
    idle_gpus: float
    idle_nodes: float
    starts: float
    standing_by: float
    paid: tuple[Paid, ...]
    sites: tuple[SiteMoney, ...]
    pools: tuple[PoolMoney, ...]
    classes: tuple[ClassMoney, ...]
    committed_usd_per_hour: float


class FleetExplained(AnswerPart):
    """Why a fleet is as it is.

    Attributes:
        plan: the file, or what else the plan was read from.
        reproduced: the plan keeps every rule at the prices of its day, and solving its question again gave nothing
            that contradicts its cost or its proof.
        differences: what came out otherwise, and what that may be due to.
        solved_again_usd_per_hour: what the fleet costs that was found again; null where none was.
        limits: what holds for the whole fleet (budget, quotas, stock, kinds), the tightest first.
        pools: what binds in each pool.
        given_up: what the fleet would cost without one of the things asked of it, what saves the most first.
        money: where the dollars go; null where the plan has no fleet.
        conflict: of a plan without one, the rules that cannot hold together.
    """

    schema_version: Literal["1"] = "1"
    kind: Literal["fleet"] = "fleet"
    plan: str
    summary: str
    status: str
    usd_per_hour: float | None
    reproduced: bool
    differences: tuple[str, ...]
    solved_again_usd_per_hour: float | None
    limits: tuple[Bound, ...] = ()
    pools: tuple[PoolExplained, ...] = ()
    given_up: tuple[GivenUp, ...] = ()
    money: FleetMoney | None = None
    conflict: tuple[Conflict, ...] = ()
    prices_as_of: date
    calibration: Calibration | None = None
