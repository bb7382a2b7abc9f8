"""What an audit of a fleet looks at: the question, the plan, and short ways to what belongs together in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import isfinite
from typing import Any

import pandas as pd

from catalogs.models import ModelSpec
from optimizer.errors import ScenarioError
from optimizer.fleet.plan import ClassAnswer, FleetPlan, NodesHeld, Pool, Purchase, Served, Site
from optimizer.fleet.question import FleetScenario, ModelTraffic, TrafficClass, build_fleet_scenario
from optimizer.plan import AnswerPart, Layout
from optimizer.scenario import Scenario, Targets

LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
RATE_TOLERANCE = 1e-6  # relative; of rates that a program found
LEAST_RATE = 1e-6  # requests/s; a replica that carries less carries nothing
ClassKey = tuple[str, str]  # model as the question calls it, name of the class


@dataclass(frozen=True)
class FleetAudit:
    """One fleet under audit.

    Attributes:
        models: by what the question calls them, or by their Hub name or path.
        today: the day that the age of prices is counted to.
        offers: the catalog's offers at list prices; None without a catalog.
    """

    plan: FleetPlan
    scenario: FleetScenario
    models: Mapping[str, ModelSpec]
    today: date
    offers: pd.DataFrame | None = None

    @cached_property
    def periods(self) -> range:
        """Positions of the periods of the cycle."""
        return range(len(self.plan.hours))

    @cached_property
    def cycle_hours(self) -> float:
        """Length of the cycle."""
        return sum(self.plan.hours)

    @cached_property
    def sites(self) -> dict[str, Site]:
        """Sites by id."""
        return {site.id: site for site in self.plan.sites}

    @cached_property
    def pools(self) -> dict[str, Pool]:
        """Pools by id."""
        return {pool.id: pool for pool in self.plan.pools}

    @cached_property
    def traffic(self) -> dict[str, ModelTraffic]:
        """The question's models by what it calls them."""
        return {one.label: one for one in self.scenario.traffic}

    @cached_property
    def classes(self) -> dict[ClassKey, ClassAnswer]:
        """Classes, as the plan has read them."""
        return {(one.model, one.name): one for one in self.plan.classes}

    @cached_property
    def asked(self) -> dict[ClassKey, TrafficClass]:
        """Classes as the question has them; of a histogram or a log, as the plan has read them."""
        found = {}
        for label, model in self.traffic.items():
            for number, one in enumerate(model.classes, start=1):
                found[label, one.name or f"class {number}"] = one
        for key, said in self.classes.items():
            if key not in found and key[0] in self.traffic and not self.traffic[key[0]].classes:
                found[key] = _as_read(self.traffic[key[0]], said)
        return found

    def model(self, pool: Pool) -> ModelSpec:
        """Return the model that a pool runs."""
        return self.models[pool.model] if pool.model in self.models else self.models[pool.model_id]

    def targets_asked(self, key: ClassKey) -> Targets:
        """Return the targets of a class: its own, its model's, or the question's."""
        return self.asked[key].targets or self.traffic[key[0]].targets or self.scenario.targets

    def regions_asked(self, key: ClassKey) -> tuple[str, ...]:
        """Return the regions that a class may be served in; empty where it may be anywhere."""
        return self.asked[key].regions or self.traffic[key[0]].regions

    def targets_kept(self, pool: Pool) -> Targets:
        """Return the targets that a pool keeps."""
        return Targets(**pool.targets)

    def question(self, pool: Pool, served: Served) -> Scenario:
        """Return the question of one replica that serves a class alone at its stated capacity."""
        one = self.asked[pool.model, served.class_name]
        full = one.model_copy(update={"request_rate": served.capacity_requests_per_second})
        return self.scenario.class_scenario(self.traffic[pool.model], full, self.targets_kept(pool))

    def use(self, pool: Pool, period: int) -> float:
        """Return the replicas that a pool's traffic takes in a period."""
        return sum(one.requests_per_second_by_period[period] / one.capacity_requests_per_second for one in pool.serves)

    def busiest(self, pool: Pool) -> int:
        """Return the period in which a pool's replicas are fullest."""
        loads = [self.use(pool, period) / max(pool.replicas_by_period[period], 1e-9) for period in self.periods]
        return loads.index(max(loads))

    def held(self, period: int) -> list[NodesHeld]:
        """Return the nodes of a period with what they hold."""
        return [one for one in self.plan.nodes if one.period == period]

    @cached_property
    def purchases(self) -> list[tuple[Site, Purchase]]:
        """All that is paid for."""
        return [(site, one) for site in self.plan.sites for one in site.purchases]


FleetCheck = Callable[[FleetAudit], Iterator[str]]


def _as_read(model: ModelTraffic, said: ClassAnswer) -> TrafficClass:
    return TrafficClass(
        name=said.name,
        input_tokens=said.input_tokens,
        output_tokens=said.output_tokens,
        request_rate=max(*said.requests_per_second_by_period, LEAST_RATE),
        burstiness=1.0 if model.log is None else model.log.burstiness,
        input_cv=said.input_cv,
        output_cv=said.output_cv,
    )


def layout_of(site: Site, purchase: Purchase, pool: Pool | None = None, concurrency: int = 1) -> Layout:
    """Return one replica of a pool on its nodes, as a layout of its own; of no pool, one GPU's worth of a node.

    A contract of the user's rests on an on-demand offer, and is held against the rules as that.
    """
    split = {name: 1 if pool is None else getattr(pool, name) for name in ("tp", "pp", "ep", "attention_dp")}
    nodes = 1 if pool is None else pool.nodes_per_replica
    shared = ("provider", "provider_kind", "region", "gpu", "gpus_per_node", "fabric")
    return Layout(
        **{name: getattr(site, name) for name in (*shared, "scale_up_gpus", "network", "network_gbit_per_s")},
        **split,
        instance_type=purchase.instance_type,
        weights="bf16" if pool is None else pool.weights,
        kv_cache="bf16" if pool is None else pool.kv_cache,
        nodes=nodes,
        replicas=1,
        nodes_per_replica=nodes,
        gpus_used=split["tp"] * split["pp"] * split["attention_dp"],
        concurrency_per_replica=concurrency,
        term="on-demand" if purchase.contract is not None else purchase.term,
        price_usd_per_node_hour=purchase.price_usd_per_node_hour,
        max_nodes=purchase.max_nodes,
        price_seen_on=purchase.price_seen_on,
        price_source=purchase.price_source,
    )


def where(site: Site, purchase: Purchase) -> str:
    """Name a purchase."""
    contract = "" if purchase.contract is None else f", contract {purchase.contract}"
    return f"{site.id} {purchase.term}{contract}"


def well_formed(audit: FleetAudit) -> Iterator[str]:
    """Say what keeps a plan from being looked at any further: names that nothing has, figures that are none."""
    plan = audit.plan
    if not plan.hours or not all(isfinite(one) and one > 0 for one in plan.hours):
        yield f"hours are {list(plan.hours)}"
        return
    for what, ids in (
        ("sites", [one.id for one in plan.sites]),
        ("pools", [one.id for one in plan.pools]),
        ("classes", [f"{one.name} of {one.model}" for one in plan.classes]),
    ):
        yield from (f"two {what} are called {one}" for one in sorted({one for one in ids if ids.count(one) > 1}))
    for path, part in _parts(plan):
        yield from _figures(path, part, len(plan.hours))
    yield from _names(audit)


def _names(audit: FleetAudit) -> Iterator[str]:
    """Say which names in the plan nothing has."""
    for key in audit.classes:
        if key not in audit.asked:
            yield f"class {key[1]} of model {key[0]} is not in the question"
    for pool in audit.plan.pools:
        if pool.model not in audit.traffic:
            yield f"{pool.id} runs {pool.model}, which is not in the question"
            continue
        if pool.model not in audit.models and pool.model_id not in audit.models:
            yield f"nothing is known of {pool.model_id}, the model of {pool.id}"
        if pool.site not in audit.sites or not audit.sites[pool.site].purchases:
            yield f"{pool.id} runs on {pool.site}, of which no node is paid for"
        missing = [one.class_name for one in pool.serves if (pool.model, one.class_name) not in audit.classes]
        yield from (f"{pool.id} serves {name}, which is no class of {pool.model}" for name in missing)
        if not missing:
            yield from _targets_read(audit, pool)
    for held in audit.plan.nodes:
        if held.site not in audit.sites or held.period not in audit.periods:
            yield f"nodes of {held.site} in period {held.period} are held, where there are none"
        yield from (f"nodes hold replicas of {name}, which is no pool" for name in held.replicas.keys() - audit.pools)
    for loss in audit.plan.survived:
        if loss.period not in audit.periods:
            yield f"a loss in period {loss.period} is survived, where there is none"
        named = loss.lost.keys() | loss.requests_per_second.keys()
        yield from (f"a loss names {name}, which is no pool" for name in sorted(named - audit.pools.keys()))


def _targets_read(audit: FleetAudit, pool: Pool) -> Iterator[str]:
    try:
        audit.targets_kept(pool)
    except ValueError:
        yield f"{pool.id} keeps targets that are none: {pool.targets}"


def _parts(plan: FleetPlan) -> Iterator[tuple[str, AnswerPart]]:
    yield from (((f"class {one.name}"), one) for one in plan.classes)
    for site in plan.sites:
        yield site.id, site
        yield from ((where(site, one), one) for one in site.purchases)
    for pool in plan.pools:
        yield pool.id, pool
        yield from ((f"{pool.id}, {one.class_name}", one) for one in pool.serves)
    yield from ((f"nodes of {one.site}", one) for one in plan.nodes)


_AT_LEAST_ONE = {
    *("tp", "pp", "ep", "attention_dp", "gpus_per_replica", "nodes_per_replica", "concurrency_per_replica"),
    *("concurrency", "gpus_per_node", "scale_up_gpus", "units", "span", "input_tokens", "output_tokens"),
}
_MAY_BE_ANY = {"network_gbit_per_s"}


def _figures(path: str, part: AnswerPart, periods: int) -> Iterator[str]:
    """Say which figures of a part are none: negative, not finite, below one, or not one a period."""
    for name in type(part).model_fields:
        value: Any = getattr(part, name)
        if name.endswith("_by_period") and len(value) != periods:
            yield f"{path}: {name} has {len(value)} values for {periods} periods"
        if isinstance(value, dict):
            value = tuple(one for one in value.values() if isinstance(one, (int, float)))
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, bool) or not isinstance(one, (int, float)) or name in _MAY_BE_ANY:
                continue
            if not isfinite(one) or one < (1 if name in _AT_LEAST_ONE else 0):
                yield f"{path}: {name} is {one}"
    for name in ("capacity_requests_per_second", "price_usd_per_node_hour"):
        if getattr(part, name, 1.0) < (LEAST_RATE if name.startswith("capacity") else 1e-9):
            yield f"{path}: {name} is {getattr(part, name)}"


def scenario_of(plan: FleetPlan) -> FleetScenario | str:
    """Return the question of a plan, or what is wrong with it."""
    try:
        return build_fleet_scenario(plan.scenario)
    except ScenarioError as error:
        return str(error)
