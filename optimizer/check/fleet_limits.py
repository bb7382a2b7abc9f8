"""Rules on how much is bought, from whom, and of how many kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from optimizer.check import layout as layouts
from optimizer.check import offer
from optimizer.check.audit import Audit, Check
from optimizer.check.fleet_audit import RATE_TOLERANCE, FleetAudit, layout_of, where
from optimizer.fleet.plan import Pool, Site
from optimizer.scenario import Limits, Scenario, Workload

MICRO_DOLLAR = 1e-6
OFFER_RULES: tuple[Check, ...] = (
    layouts.gpu_allowed,
    offer.provider_allowed,
    offer.provider_kind_allowed,
    offer.region_allowed,
    offer.instance_type_allowed,
    offer.term_allowed,
    offer.price_age,
)


def offers_allowed(audit: FleetAudit) -> Iterator[str]:
    """Every node is of a GPU, provider, region, instance type and term that is allowed, at a price not too old."""
    question, any_model = _any_question(audit), next(iter(audit.models.values()))
    for site, one in audit.purchases:
        as_layout = Audit(question, any_model, layout_of(site, one), audit.today)
        for rule in OFFER_RULES:
            yield from (f"{where(site, one)}: {message}" for message in rule(as_layout))
        if (one.term == "spot") != site.spot:
            yield f"{where(site, one)}: the site is {'' if site.spot else 'not '}one of spot nodes"


def _any_question(audit: FleetAudit) -> Scenario:
    """Return the question with what offers are held against, and any traffic."""
    limits = Limits(**audit.scenario.limits.model_dump())
    work = Workload(input_tokens=1, output_tokens=1, request_rate=1.0)
    return Scenario(model="any", workload=work, limits=limits, prices=audit.scenario.prices)


def stock(audit: FleetAudit) -> Iterator[str]:
    """No more nodes are paid for than are in stock."""
    for site, one in audit.purchases:
        most = max(one.nodes_by_period)
        if one.max_nodes is not None and most > one.max_nodes:
            yield f"{where(site, one)}: {most} nodes, {one.max_nodes} are in stock"


def quota(audit: FleetAudit) -> Iterator[str]:
    """Quotas, and the most GPUs and nodes in all, are kept in every period."""
    limits = audit.scenario.limits
    caps: list[tuple[str, dict[str, str], int | None, int | None]] = [
        ("allowed in all", {}, limits.max_gpus, limits.max_nodes)
    ]
    for one in limits.quotas:
        named = {"gpu": one.gpu, "provider": one.provider, "region": one.region}
        given = {name: value for name, value in named.items() if value is not None}
        caps.append((f"allowed of {', '.join(given.values()) or 'anything'}", given, one.max_gpus, one.max_nodes))
    for what, given, most_gpus, most_nodes in caps:
        sites = [one for one in audit.plan.sites if all(getattr(one, name) == value for name, value in given.items())]
        for unit, most, weight in (("nodes", most_nodes, _one), ("GPUs", most_gpus, _gpus)):
            if most is None:
                continue
            held = [sum(weight(site) * _nodes(site, period) for site in sites) for period in audit.periods]
            if max(held) > most:
                yield f"{max(held)} {unit} in period {held.index(max(held))}, {most} are {what}"


def _one(_: Site) -> int:
    return 1


def _gpus(site: Site) -> int:
    return site.gpus_per_node


def _nodes(site: Site, period: int) -> int:
    return sum(one.nodes_by_period[period] for one in site.purchases)


def budget(audit: FleetAudit) -> Iterator[str]:
    """The fleet costs no more than the budget, on average over the cycle."""
    most = audit.scenario.limits.budget_usd_per_hour
    if most is None or audit.plan.cost is None:
        return
    asked = sum(one.usd_per_hour for _, one in audit.purchases)
    if asked > most + MICRO_DOLLAR:
        yield f"${asked:.4f} an hour is over the budget of ${most:.4f}"


def kind_of(audit: FleetAudit, pool: Pool) -> tuple[object, ...]:
    """Return what makes a replica kind: the model, the GPU, how it runs on it and within which targets."""
    split = (pool.weights, pool.kv_cache, pool.tp, pool.pp, pool.ep, pool.attention_dp)
    return (pool.model, audit.sites[pool.site].gpu, *split, audit.targets_kept(pool))


def max_kinds(audit: FleetAudit) -> Iterator[str]:
    """There are no more different replica kinds than allowed, in all and for one model."""
    fleet = audit.scenario.fleet
    by_model: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for pool in audit.plan.pools:
        if max(pool.replicas_by_period) > 0:
            by_model[pool.model].add(kind_of(audit, pool))
    total = sum(map(len, by_model.values()))
    if fleet.max_kinds is not None and total > fleet.max_kinds:
        yield f"{total} replica kinds, {fleet.max_kinds} are allowed"
    for model, kinds in by_model.items():
        if fleet.max_kinds_per_model is not None and len(kinds) > fleet.max_kinds_per_model:
            yield f"{len(kinds)} replica kinds of {model}, {fleet.max_kinds_per_model} are allowed"


def spread(audit: FleetAudit) -> Iterator[str]:
    """Nodes come from at least so many providers and regions, in every period."""
    fleet = audit.scenario.fleet
    for what, field, least in (
        ("providers", "provider", fleet.min_providers),
        ("regions", "region", fleet.min_regions),
    ):
        for period in audit.periods:
            found = sorted({str(getattr(site, field)) for site in audit.plan.sites if _nodes(site, period)})
            if audit.plan.pools and len(found) < least:
                named = ", ".join(found) or "none"
                yield f"nodes come from {len(found)} {what} ({named}) in period {period}, {least} are asked for"
                break


def spot_share(audit: FleetAudit) -> Iterator[str]:
    """No more of a model's requests than allowed are served on spot nodes, in every period."""
    most = audit.scenario.fleet.max_spot_share
    for label in audit.traffic:
        pools = [pool for pool in audit.plan.pools if pool.model == label]
        for period in audit.periods:
            rates = {pool.id: sum(one.requests_per_second_by_period[period] for one in pool.serves) for pool in pools}
            on_spot = sum(rates[pool.id] for pool in pools if audit.sites[pool.site].spot)
            total = sum(rates.values())
            if on_spot > most * total + RATE_TOLERANCE * max(total, 1.0):
                yield f"{label}: {on_spot / total:.1%} of its requests are on spot nodes in period {period}, " + (
                    f"{most:.1%} may be"
                )
                break
