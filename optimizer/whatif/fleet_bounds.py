"""What a fleet must keep, pool by pool and as a whole, with what is left of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import ceil

from optimizer.fleet.plan import ClassAnswer, FleetPlan, Pool, Served
from optimizer.fleet.question import FleetScenario
from optimizer.scenario import Quota
from optimizer.whatif.bounds import AT_LIMIT, AT_TRAFFIC
from optimizer.whatif.explain_answer import Bound
from optimizer.whatif.fleet_explain_answer import PoolExplained
from optimizer.wording import nodes_words, split_words

LATENCIES = ("ttft", "tpot", "e2e")
TIGHT = 0.01  # of a limit: with less left than this, it is what holds back
OF_CAPACITY = "of what the targets allow"

Factors = Mapping[str, Mapping[str, float]]  # pool -> latency -> what a prediction is multiplied by


def pools_explained(plan: FleetPlan, scenario: FleetScenario, factors: Factors) -> tuple[PoolExplained, ...]:
    """Return what binds in each pool.

    Args:
        plan: the fleet.
        scenario: its question.
        factors: of pools whose targets have to hold with a probability: what a prediction stays below with it.
    """
    classes = {(one.model, one.name): one for one in plan.classes}
    return tuple(_pool(plan, scenario, pool, classes, factors.get(pool.id, {})) for pool in plan.pools)


def _pool(
    plan: FleetPlan,
    scenario: FleetScenario,
    pool: Pool,
    classes: Mapping[tuple[str, str], ClassAnswer],
    factors: Mapping[str, float],
) -> PoolExplained:
    found = []
    for one in [one for one in pool.serves if one.share > 0] or pool.serves:
        found += _latencies(one, classes[pool.model, one.class_name], factors)
    full = pool.performance.saturation.tpot_ms * factors.get("tpot", 1.0)
    if pool.targets.get("tpot_ms") is not None:
        found.append(_bound("tpot", AT_LIMIT, full, float(pool.targets["tpot_ms"]), "ms"))
    found.append(_bound("vram_headroom", AT_LIMIT, pool.memory.need_gib, pool.memory.available_gib, "GiB"))
    found.append(_bound("traffic", "in the fullest hour", pool.utilization, 1.0, OF_CAPACITY))
    site = next(one for one in plan.sites if one.id == pool.site)
    split = split_words(pool)
    most, least = max(pool.replicas_by_period), min(pool.replicas_by_period)
    count = f"{most:,}" if most == least else f"{least:,}-{most:,}"
    spans = f" across {nodes_words(pool.nodes_per_replica)}" if pool.nodes_per_replica > 1 else ""
    return PoolExplained(
        id=pool.id,
        replicas=f"{pool.model} {count}x {split} on {site.gpu}{spans}, {pool.site}",
        bounds=tuple(sorted(found, key=lambda one: one.left_share)),
        limited_by=_limited_by(pool, scenario, full),
        sized_by=_sized_by(plan, pool),
    )


def _bound(name: str, where: str, used: float, limit: float, unit: str) -> Bound:
    left = (limit - used) / limit if limit else 0.0
    return Bound(name=name, where=where, used=used, limit=limit, unit=unit, left_share=left)


def _latencies(served: Served, asked: ClassAnswer, factors: Mapping[str, float]) -> list[Bound]:
    found = []
    for name in LATENCIES:
        target = asked.targets.get(f"{name}_ms")
        if target is not None:
            predicted = float(getattr(served, f"{name}_ms")) * factors.get(name, 1.0)
            found.append(_bound(name, f"of {served.class_name}, {AT_TRAFFIC}", predicted, float(target), "ms"))
    return found


def _limited_by(pool: Pool, scenario: FleetScenario, full_tpot_ms: float) -> str:
    """Say what keeps a replica from running more requests at once."""
    at_once = pool.concurrency_per_replica
    held = (at_once + 1) * pool.memory.context_tokens
    if held > pool.memory.kv_tokens:
        return f"memory holds {at_once:,} requests of {pool.memory.context_tokens:,} tokens at once"
    if at_once >= scenario.limits.max_concurrency_per_replica:
        return f"at most {at_once:,} requests at once are allowed"
    tpot = pool.targets.get("tpot_ms")
    if tpot is not None and full_tpot_ms > float(tpot) * (1 - 3 * TIGHT):
        return f"with more than {at_once:,} requests at once TPOT would be over {float(tpot):g} ms"
    asked = [name.upper() for name in LATENCIES if pool.targets.get(f"{name}_ms") is not None]
    if not asked:
        return f"more than {at_once:,} requests at once deliver no more"
    return f"the targets ({', '.join(asked)}) hold up to {at_once:,} requests at once, class by class"


def _sized_by(plan: FleetPlan, pool: Pool) -> str:
    """Say what sets the number of replicas: the load of the fullest hour, or a loss that has to be survived."""
    loads = [
        sum(one.requests_per_second_by_period[period] / one.capacity_requests_per_second for one in pool.serves)
        for period in range(len(plan.hours))
    ]
    most = max(pool.replicas_by_period)
    needed = ceil(max(loads) * (1 - 1e-9))
    if max(loads) <= 0:
        return "it serves nothing as long as nothing is lost: it stands by"
    said = f"the load of the fullest hour fills {max(loads):,.2f} replicas"
    if most <= max(needed, 1):
        return f"{said}, so {'1 is' if most == 1 else f'{most:,} are'} needed"
    lost = "to survive a loss, or " if plan.survived else ""
    return f"{said}; {most:,} run, {lost}as its nodes have room for them"


def limits_kept(plan: FleetPlan, scenario: FleetScenario) -> tuple[Bound, ...]:
    """Return what holds for the whole fleet, the tightest first."""
    limits, fleet, cost = scenario.limits, scenario.fleet, plan.cost
    found = []
    if limits.budget_usd_per_hour is not None and cost is not None:
        found.append(_bound("budget", "", cost.usd_per_hour, limits.budget_usd_per_hour, "USD/h"))
    caps: list[tuple[str, Quota | None, int | None, int | None]] = [("in all", None, limits.max_gpus, limits.max_nodes)]
    caps += [(_quota_words(one), one, one.max_gpus, one.max_nodes) for one in limits.quotas]
    for where, quota, most_gpus, most_nodes in caps:
        if most_gpus is not None:
            found.append(_bound("quota", where, _most(plan, quota, gpus=True), most_gpus, "GPUs"))
        if most_nodes is not None:
            found.append(_bound("quota", where, _most(plan, quota, gpus=False), most_nodes, "nodes"))
    for site in plan.sites:
        for one in site.purchases:
            if one.max_nodes is not None:
                where = f"of {site.id}, {one.term}"
                found.append(_bound("stock", where, max(one.nodes_by_period), one.max_nodes, "nodes"))
    found += _kinds(plan, fleet.max_kinds, fleet.max_kinds_per_model)
    if any(site.spot for site in plan.sites) and fleet.max_spot_share < 1:
        found += [
            _bound("spot_share", f"of {model}", *one, "of its requests")
            for model, one in _spot(plan, fleet.max_spot_share)
        ]
    return tuple(sorted(found, key=lambda one: one.left_share))


def _quota_words(quota: Quota) -> str:
    return f"of {' '.join(part for part in (quota.provider, quota.region, quota.gpu) if part) or 'anything'}"


def _most(plan: FleetPlan, quota: Quota | None, *, gpus: bool) -> float:
    """Return the nodes, or GPUs, of the period with the most of them."""
    named = {} if quota is None else {name: getattr(quota, name) for name in ("gpu", "provider", "region")}
    sites = [
        site
        for site in plan.sites
        if all(value is None or getattr(site, name) == value for name, value in named.items())
    ]
    return max(
        sum(
            one.nodes_by_period[period] * (site.gpus_per_node if gpus else 1)
            for site in sites
            for one in site.purchases
        )
        for period in range(len(plan.hours))
    )


def _kinds(plan: FleetPlan, most: int | None, most_per_model: int | None) -> list[Bound]:
    gpus = {site.id: site.gpu for site in plan.sites}
    kinds: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for pool in plan.pools:
        split = (pool.weights, pool.kv_cache, pool.tp, pool.pp, pool.ep, pool.attention_dp)
        kinds[pool.model].add((gpus[pool.site], *split, str(sorted(pool.targets.items()))))
    found = []
    if most is not None:
        found.append(_bound("max_kinds", "", sum(map(len, kinds.values())), most, "kinds"))
    if most_per_model is not None:
        found += [
            _bound("max_kinds_per_model", f"of {model}", len(of), most_per_model, "kinds")
            for model, of in kinds.items()
        ]
    return found


def _spot(plan: FleetPlan, most: float) -> list[tuple[str, tuple[float, float]]]:
    spot = {site.id for site in plan.sites if site.spot}
    found = []
    for model in dict.fromkeys(pool.model for pool in plan.pools):
        mine = [pool for pool in plan.pools if pool.model == model]
        shares = []
        for period in range(len(plan.hours)):
            rates = {pool.id: sum(one.requests_per_second_by_period[period] for one in pool.serves) for pool in mine}
            total = sum(rates.values())
            shares.append(sum(rates[pool.id] for pool in mine if pool.site in spot) / total if total else 0.0)
        found.append((model, (max(shares), most)))
    return found
