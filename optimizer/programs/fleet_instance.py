"""What the fleet program works on: numbers only. No names of GPUs or models, no prices in dollars, no OR-Tools.

Time is a cycle of periods (a day, a week, or one period for demand that never changes). A replica kind is one split of
one model on the nodes of one site; replicas of any models share the nodes of a site. Shares of a class of traffic go to
kinds continuously: a replica of kind k that gives class c the share u of its time serves u x rates[c] requests/s of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

UNLIMITED = 100_000  # nodes, where nothing says how many there are

Survive = Literal["nothing", "node", "provider"]


@dataclass(frozen=True, slots=True)
class Option:
    """One way to pay for nodes of a site.

    Attributes:
        price_micro_usd: of one node hour.
        node_cap: the most nodes to be had this way.
        committed: paid in every period, whatever runs; else paid in the periods in which it is on.
        start_micro_usd: paid once for each node that is switched on (start-up time, what billing rounds up).
        min_periods: a node that is switched on is paid for at least so many periods.
    """

    price_micro_usd: int
    node_cap: int = UNLIMITED
    committed: bool = False
    start_micro_usd: int = 0
    min_periods: int = 1


@dataclass(frozen=True, slots=True)
class Site:
    """One shape of node of one provider in one region; its nodes are alike, however they are paid for.

    Attributes:
        spot: nodes that may be taken back; they are a site of their own.
    """

    gpus_per_node: int
    options: tuple[Option, ...]
    provider: str = ""
    region: str = ""
    spot: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A replica kind.

    Attributes:
        site: position of its site.
        gpus: GPUs of one replica.
        nodes: nodes that one replica spans; above 1 it has them for itself.
        rates: per class, the requests/s of it that one replica serves if it serves nothing else; 0 where it cannot.
        label: kinds of the same label count as one against a limit on kinds; its position when -1.
    """

    site: int
    gpus: int
    rates: tuple[float, ...]
    nodes: int = 1
    label: int = -1


@dataclass(frozen=True, slots=True)
class NodeLimit:
    """At most `most` of the sum of weight x nodes over some sites, in every period (a quota).

    Attributes:
        name: how a conflict names it.
        weights: position of a site -> what one node of it counts (1, or its GPUs).
    """

    name: str
    weights: Mapping[int, int]
    most: int


@dataclass(frozen=True, slots=True)
class FleetInstance:
    """The whole program.

    Attributes:
        demand: by period, then by class: requests/s that arrive.
        hours: length of each period; periods follow each other and the last is followed by the first.
        groups: class -> the model it belongs to, by position.
        budget_micro_usd: the most that an hour may cost, on average over the cycle.
        max_kinds, max_kinds_per_group: the most different kinds in all, and for one model.
        min_providers, min_regions: nodes are paid for from at least so many.
        survive: the load still fits, dealt anew, when any one node or all nodes of any one provider are gone.
        max_spot_share: the most of a model's requests that may be served on spot nodes, in every period.
        whole_classes: a class goes to one kind as a whole (the same in every period).
    """

    sites: tuple[Site, ...]
    kinds: tuple[Kind, ...]
    demand: tuple[tuple[float, ...], ...]
    hours: tuple[float, ...] = (1.0,)
    groups: tuple[int, ...] = ()
    limits: tuple[NodeLimit, ...] = ()
    budget_micro_usd: int | None = None
    max_kinds: int | None = None
    max_kinds_per_group: int | None = None
    min_providers: int = 1
    min_regions: int = 1
    survive: Survive = "nothing"
    max_spot_share: float = 1.0
    whole_classes: bool = False


@dataclass(frozen=True, slots=True)
class Packed:
    """Units of nodes of a site that hold the same replicas.

    Attributes:
        units: how many there are.
        span: nodes of a unit: 1, or what one replica spans.
        replicas: kind -> replicas on one unit; empty for nodes that are paid for and hold nothing.
    """

    site: int
    units: int
    replicas: Mapping[int, int]
    span: int = 1


@dataclass(frozen=True, slots=True)
class Failure:
    """What may be lost, and how the load is dealt then: the proof that it still fits.

    Attributes:
        period: when.
        lost: kind -> replicas gone.
        rates: (kind, class) -> requests/s, where above 0.
        site, provider: what is lost: one node of a site, or everything of a provider.
    """

    period: int
    lost: Mapping[int, int]
    rates: Mapping[tuple[int, int], float]
    site: int | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """What the fleet program found; all values are None or empty unless there is a solution.

    Attributes:
        status: as the layout program's.
        cost_micro_usd: of the whole cycle, exactly: whole nodes x whole micro-dollars x hours, and starts.
        bound_micro_usd: no fleet of this instance costs less over the cycle.
        nodes: (site, option, period) -> nodes paid for, where above 0.
        replicas: (kind, period) -> replicas, where above 0.
        rates: (kind, class, period) -> requests/s, where above 0.
        packing: by period, the nodes that hold replicas, with what they hold.
        failures: where the fleet has to survive one, each that could be.
        scale: for `most_traffic`, how many times the demand is carried; and its proved bound.
    """

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    seconds: float
    cost_micro_usd: float | None = None
    bound_micro_usd: float | None = None
    nodes: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    replicas: Mapping[tuple[int, int], int] = field(default_factory=dict)
    rates: Mapping[tuple[int, int, int], float] = field(default_factory=dict)
    packing: tuple[tuple[Packed, ...], ...] = ()
    failures: tuple[Failure, ...] = ()
    scale: float | None = None
    scale_bound: float | None = None
