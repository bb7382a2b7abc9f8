"""From a fleet's plan to what has to be started: a deployment for each pool and offer that its nodes are bought at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, Nodes, Placement
from optimizer.export.engines.launch import launch
from optimizer.export.fallbacks import Market, fallbacks, market_of
from optimizer.export.options import ExportOptions
from optimizer.export.placing import OnNode, place
from optimizer.export.replicas import Held, label_of, longest_request, replica_spec
from optimizer.fleet.plan import FleetPlan, NodesHeld, Pool, Purchase, Site
from optimizer.fleet.question import FleetScenario, build_fleet_scenario
from optimizer.scenario import Scenario, Workload
from optimizer.split import Split
from optimizer.wording import dollars


@dataclass
class _Bought:
    """Nodes that one purchase pays for, and what of each pool lies on them."""

    purchase: Purchase
    nodes: dict[str, int] = field(default_factory=dict)
    placements: dict[str, list[Placement]] = field(default_factory=dict)

    def hold(self, pool: str, nodes: int, placed: Placement) -> None:
        """Note that a pool lies on some of the nodes."""
        self.nodes[pool] = self.nodes.get(pool, 0) + nodes
        self.placements.setdefault(pool, []).append(placed)


def fleet_deployments(plan: FleetPlan, options: ExportOptions) -> tuple[Deployment, ...]:
    """Return the deployments of a fleet, in its busiest period.

    Each pool is taken in the period in which most of its replicas run. Nodes under contract are filled before those
    by the hour.

    Raises:
        QuestionError: the plan has no fleet, or an engine cannot run a pool of it.
        CatalogError: a model is not there.
    """
    if not plan.pools:
        raise QuestionError(f"the plan is {plan.status} ({plan.summary}): there is nothing to start")
    if options.model is not None and len({pool.model for pool in plan.pools}) > 1:
        raise QuestionError("--model: the fleet runs several models; export a plan of one of them, or leave it out")
    asked = build_fleet_scenario({**plan.scenario, "prices": {**plan.scenario.get("prices", {}), "as_of": None}})
    market = market_of(_offers_question(asked), plan.prices.as_of)
    labels = _labels(plan, options)
    found: list[Deployment] = []
    for pool in plan.pools:
        site = next(site for site in plan.sites if site.id == pool.site)
        period = _busiest(pool)
        bought = [one for one in _bought(plan, site, period, options.port) if pool.id in one.placements]
        for number, one in enumerate(bought):
            suffix = "" if len(bought) == 1 else f"-{one.purchase.term.replace('-', '')}{number + 1}"
            found.append(_deployment(plan, asked, market, pool, site, one, labels[pool.id] + suffix, options))
    return tuple(_with_neighbours(one, found) for one in found)


def _with_neighbours(one: Deployment, all_of: list[Deployment]) -> Deployment:
    """Say which other deployments lie on the same nodes: they are rented once."""
    groups = {at.group for at in one.placements}
    others = [other.name for other in all_of if other is not one and groups & {at.group for at in other.placements}]
    if not others:
        return one
    return replace(one, context=(*one.context, f"shares its nodes with {', '.join(others)}"))


def _deployment(
    plan: FleetPlan,
    asked: FleetScenario,
    market: Market,
    pool: Pool,
    site: Site,
    bought: _Bought,
    name: str,
    options: ExportOptions,
) -> Deployment:
    spec = replica_spec(pool.model_id, _held(plan, asked, pool, site), asked.memory, options)
    nodes, placements = _nodes(site, bought, pool.id), tuple(bought.placements[pool.id])
    replicas = sum(one.units * len(one.ports) for one in placements)
    return Deployment(
        name=name,
        replica=spec,
        launch=launch(spec, site.gpu, port=options.port, image=options.image),
        replicas=replicas,
        nodes=nodes,
        fallbacks=fallbacks(market, nodes, nodes_per_replica=pool.nodes_per_replica, scale_up_gpus=site.scale_up_gpus),
        context=_context(plan, pool, replicas, market.problem),
        placements=placements,
    )


def _labels(plan: FleetPlan, options: ExportOptions) -> dict[str, str]:
    """Return a DNS label for each pool, unique in the plan."""
    names = [options.name or label_of(pool.model) for pool in plan.pools]
    if len(plan.pools) == 1:
        return {plan.pools[0].id: names[0]}
    number_of = {name: names.count(name) for name in names}
    return {
        pool.id: name if number_of[name] == 1 else f"{name}-{_number(pool.id)}"
        for pool, name in zip(plan.pools, names, strict=True)
    }


def _number(pool: str) -> str:
    return label_of(pool).removeprefix("model-")


def _busiest(pool: Pool) -> int:
    return max(range(len(pool.replicas_by_period)), key=lambda period: (pool.replicas_by_period[period], -period))


def _held(plan: FleetPlan, asked: FleetScenario, pool: Pool, site: Site) -> Held:
    return Held(
        split=Split(pool.weights, pool.kv_cache, pool.tp, pool.pp, pool.ep, pool.attention_dp),
        gpu=site.gpu,
        nodes=pool.nodes_per_replica,
        concurrency=pool.concurrency_per_replica,
        context_tokens=pool.memory.context_tokens,
        longest_tokens=_longest(plan, asked, pool),
        kv_tokens=pool.memory.kv_tokens,
    )


def _longest(plan: FleetPlan, asked: FleetScenario, pool: Pool) -> int:
    """Return the longest request of the classes that a pool serves, be it after a loss only."""
    kept = {one.name: one.context_tokens for model in asked.traffic for one in model.classes if one.name}
    served = {one.class_name for one in pool.serves}
    classes = [one for one in plan.classes if one.name in served and one.model == pool.model]
    lengths = [
        kept.get(one.name) or longest_request(one.input_tokens, one.output_tokens, one.input_cv, one.output_cv)
        for one in classes
    ]
    return max(lengths, default=pool.memory.context_tokens)


def _bought(plan: FleetPlan, site: Site, period: int, port: int) -> list[_Bought]:
    """Deal the nodes that are held in a period out over the purchases that pay for them, contracts first."""
    held = [one for one in plan.nodes if one.site == site.id and one.period == period and one.replicas]
    purchases = sorted(site.purchases, key=lambda one: (-one.committed_years, one.effective_usd_per_node_hour))
    bought = [_Bought(one) for one in purchases if one.nodes_by_period[period]]
    left = [one.purchase.nodes_by_period[period] for one in bought]
    gpus = {pool.id: -(-pool.gpus_per_replica // pool.nodes_per_replica) for pool in plan.pools}
    for number, one in enumerate(held):
        for part, (at, units) in enumerate(_dealt(one, left)):
            name = _group(site, period, number, part)
            on_node = {pool: OnNode(count, gpus[pool]) for pool, count in one.replicas.items()}
            for pool, placed in place(name, units, on_node, port).items():
                bought[at].hold(pool, units * one.span, placed)
    return bought


def _dealt(held: NodesHeld, left: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (purchase, units) until all units have their nodes; takes what it yields off `left`."""
    units = held.units
    for at, nodes in enumerate(left):
        taken = min(units, nodes // held.span)
        if taken:
            left[at] -= taken * held.span
            units -= taken
            yield at, taken
    if units:  # a set of nodes that no one purchase pays for as a whole
        left[-1] -= units * held.span
        yield len(left) - 1, units


def _group(site: Site, period: int, number: int, part: int) -> str:
    parts = [label_of(site.id), f"h{period}" if period else "", f"n{number + 1}", f"p{part + 1}" if part else ""]
    return "-".join(filter(None, parts))


def _nodes(site: Site, bought: _Bought, pool: str) -> Nodes:
    purchase = bought.purchase
    return Nodes(
        provider=site.provider,
        region=site.region,
        instance_type=purchase.instance_type,
        term=purchase.term,
        gpu=site.gpu,
        gpus_per_node=site.gpus_per_node,
        count=bought.nodes[pool],
        price_usd_per_node_hour=purchase.price_usd_per_node_hour,
        price_seen_on=purchase.price_seen_on,
        fabric=site.fabric,
        network=site.network,
        network_gbit_per_s=site.network_gbit_per_s,
    )


def _offers_question(asked: FleetScenario) -> Scenario:
    """Return a question whose limits and prices are the fleet's, to look at offers by; its traffic does not matter."""
    return Scenario(
        model=asked.traffic[0].model,
        workload=Workload(input_tokens=1, output_tokens=1, request_rate=1),
        limits=asked.limits,
        memory=asked.memory,
        prices=asked.prices,
    )


def _context(plan: FleetPlan, pool: Pool, replicas: int, no_fallbacks: str) -> tuple[str, ...]:
    lines = [f"shardwise {plan.shardwise_version}: {plan.summary}"]
    if plan.cost is not None:
        lines.append(f"{dollars(plan.cost.usd_per_hour)}/hour on average for the whole fleet")
    serves = ", ".join(one.class_name for one in pool.serves if one.share > 0) or "what others cannot, after a loss"
    lines.append(f"{pool.id} of {pool.model} serves {serves}")
    least, most = min(pool.replicas_by_period), max(pool.replicas_by_period)
    if least != most:
        lines.append(f"{least} to {most} replicas over the cycle; these are {replicas} of the busiest period's {most}")
    if no_fallbacks:
        lines.append(f"no fallbacks: {no_fallbacks}")
    return tuple(lines)
