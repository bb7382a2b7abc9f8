"""Where the dollars of a fleet go: by how nodes are paid for, by site, by pool, by class; each adds up to the whole.

Nodes of a site are alike, however they are paid for: in each hour a GPU of it costs what all of its nodes cost then,
divided by their GPUs. GPUs that hold a replica are the pool's; of their time, the share that the load takes of what the
targets allow is work, the rest idle capacity. Classes share a pool's time in proportion to the load that each puts on
it in that hour.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import mul

from optimizer.fleet.plan import FleetPlan, Pool, Purchase, Site
from optimizer.fleet.repriced import purchase_words
from optimizer.whatif.account import COMMUNICATION
from optimizer.whatif.fleet_explain_answer import ClassMoney, FleetMoney, Paid, PoolMoney, SiteMoney

SECONDS_PER_HOUR = 3600


@dataclass
class _Pot:
    """Dollars over the cycle, as they are put together."""

    pools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    busy: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    classes: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    standing_by: float = 0.0


def fleet_money(plan: FleetPlan) -> FleetMoney:
    """Return where the dollars of a fleet go, an hour on average over its cycle."""
    cycle, pot = sum(plan.hours), _Pot()
    sites = tuple(_site(plan, site, pot) for site in plan.sites)
    total = sum(one.usd_per_hour for one in sites)
    pools = tuple(_pool(pool, pot, plan.hours) for pool in plan.pools)
    return FleetMoney(
        usd_per_hour=total,
        work=sum(one.work for one in pools),
        communication=sum(one.communication for one in pools),
        idle_capacity=sum(one.idle_capacity for one in pools),
        idle_gpus=sum(one.idle_gpus for one in sites),
        idle_nodes=sum(one.idle_nodes for one in sites),
        starts=sum(one.starts for one in sites),
        standing_by=pot.standing_by / cycle,
        paid=tuple(_paid(plan, site, one) for site in plan.sites for one in site.purchases),
        sites=sites,
        pools=pools,
        classes=_classes(plan, pot, total),
        committed_usd_per_hour=sum(
            one.usd_per_hour for site in plan.sites for one in site.purchases if one.committed_years > 0
        ),
    )


def _node_hours(plan: FleetPlan, one: Purchase) -> float:
    return float(sum(map(mul, one.nodes_by_period, plan.hours)))


def _paid(plan: FleetPlan, site: Site, one: Purchase) -> Paid:
    cycle, node_hours = sum(plan.hours), _node_hours(plan, one)
    billed = node_hours * one.price_usd_per_node_hour / cycle
    effective = node_hours * one.effective_usd_per_node_hour / cycle
    starts = one.starts * one.start_usd / cycle
    return Paid(
        site=site.id,
        what=f"{site.gpus_per_node}x {site.gpu}, {site.provider}",
        term=one.term,
        contract=one.contract,
        nodes=node_hours / cycle,
        usd_per_hour=effective + starts,
        billed=billed,
        beyond_price=effective - billed,
        starts=starts,
    )


def _site(plan: FleetPlan, site: Site, pot: _Pot) -> SiteMoney:
    """Return where the dollars of a site go, and put what its pools take into the pot."""
    mine = [pool for pool in plan.pools if pool.site == site.id]
    cycle = sum(plan.hours)
    taken = idle_gpus = idle_nodes = idle_hours = 0.0
    for period, length in enumerate(plan.hours):
        paid = sum(one.nodes_by_period[period] for one in site.purchases)
        if not paid:
            continue
        dollars = length * sum(one.nodes_by_period[period] * one.effective_usd_per_node_hour for one in site.purchases)
        per_gpu = dollars / (paid * site.gpus_per_node)
        held = [one for one in plan.nodes if one.site == site.id and one.period == period and one.replicas]
        in_use = sum(one.units * one.span for one in held)
        by_pools = sum(_of_pool(pool, period, per_gpu, pot) for pool in mine)
        taken += by_pools
        idle_nodes += (paid - in_use) * site.gpus_per_node * per_gpu
        idle_hours += (paid - in_use) * length
        idle_gpus += in_use * site.gpus_per_node * per_gpu - by_pools
    starts = sum(one.starts * one.start_usd for one in site.purchases) / cycle
    whole = sum(_node_hours(plan, one) * one.effective_usd_per_node_hour for one in site.purchases) / cycle
    return SiteMoney(
        id=site.id,
        what=purchase_words(site, site.purchases[0]) if site.purchases else f"{site.gpus_per_node}x {site.gpu}",
        usd_per_hour=whole + starts,
        pools=taken / cycle,
        idle_gpus=idle_gpus / cycle,
        idle_nodes=idle_nodes / cycle,
        idle_node_hours=idle_hours,
        starts=starts,
    )


def _of_pool(pool: Pool, period: int, per_gpu: float, pot: _Pot) -> float:
    """Return what the GPUs of a pool cost in a period, and put it into the pot by class."""
    replicas = pool.replicas_by_period[period]
    dollars = replicas * pool.gpus_per_replica * per_gpu
    loads = {
        one.class_name: one.requests_per_second_by_period[period] / one.capacity_requests_per_second
        for one in pool.serves
    }
    load = sum(loads.values())
    pot.pools[pool.id] += dollars
    if not replicas:
        return 0.0
    pot.busy[pool.id] += dollars * min(load / replicas, 1.0)
    if load <= 0:
        pot.standing_by += dollars
        return dollars
    for name, share in loads.items():
        pot.classes[pool.model, name] += dollars * share / load
    return dollars


def _pool(pool: Pool, pot: _Pot, hours: tuple[float, ...]) -> PoolMoney:
    cycle, dollars, busy = sum(hours), pot.pools[pool.id], pot.busy[pool.id]
    step = sum(pool.performance.step_ms.values())
    talks = sum(pool.performance.step_ms.get(cause, 0.0) for cause in COMMUNICATION) / step if step > 0.0 else 0.0
    replica_hours = sum(map(mul, pool.replicas_by_period, hours))
    load = sum(
        sum(map(mul, one.requests_per_second_by_period, hours)) / one.capacity_requests_per_second
        for one in pool.serves
    )
    return PoolMoney(
        id=pool.id,
        usd_per_hour=dollars / cycle,
        work=busy * (1 - talks) / cycle,
        communication=busy * talks / cycle,
        idle_capacity=(dollars - busy) / cycle,
        utilization=load / replica_hours if replica_hours else 0.0,
    )


def _classes(plan: FleetPlan, pot: _Pot, total: float) -> tuple[ClassMoney, ...]:
    cycle, found = sum(plan.hours), []
    for one in plan.classes:
        dollars = pot.classes.get((one.model, one.name), 0.0) / cycle
        tokens = sum(map(mul, one.requests_per_second_by_period, plan.hours)) * one.output_tokens
        millions = tokens * SECONDS_PER_HOUR / cycle / 1e6
        found.append(
            ClassMoney(
                model=one.model,
                class_name=one.name,
                usd_per_hour=dollars,
                share=dollars / total if total else 0.0,
                usd_per_million_output_tokens=dollars / millions if millions else None,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.usd_per_hour))
