"""Rules on a fleet's nodes: replicas really placed on them, and nodes switched on and off as they are paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil

from optimizer.check.fleet_audit import FleetAudit, where
from optimizer.fleet.plan import NodesHeld, Site

HOUR_S = 3600.0


def packing(audit: FleetAudit) -> Iterator[str]:
    """Every replica lies on nodes that are paid for, within their GPUs, and every node that is paid for is placed."""
    for period in audit.periods:
        problems = list(_packed(audit, period))
        yield from problems
        if problems:
            return  # other periods break it alike


def _packed(audit: FleetAudit, period: int) -> Iterator[str]:
    placed: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for held in audit.held(period):
        site = audit.sites[held.site]
        nodes[held.site] += held.units * held.span
        for name, replicas in held.replicas.items():
            placed[name] += held.units * replicas
        yield from (f"period {period}, {held.site}: {message}" for message in _on_a_node(audit, site, held))
    for site in audit.plan.sites:
        paid = sum(one.nodes_by_period[period] for one in site.purchases)
        if nodes[site.id] != paid:
            yield f"period {period}, {site.id}: {paid} nodes are paid for, {nodes[site.id]} are placed"
    for pool in audit.plan.pools:
        said = pool.replicas_by_period[period]
        if placed[pool.id] != said:
            yield f"period {period}: {said} replicas of {pool.id} are said to run, {placed[pool.id]} lie on nodes"


def _on_a_node(audit: FleetAudit, site: Site, held: NodesHeld) -> Iterator[str]:
    """Say what is wrong with what one node, or the nodes of one replica, are said to hold."""
    if any(count < 1 for count in held.replicas.values()):
        yield f"replicas of {dict(held.replicas)} on a node"
    for name in held.replicas:
        pool = audit.pools[name]
        if pool.site != site.id:
            yield f"{name} runs on {pool.site}"
        if pool.nodes_per_replica != held.span:
            yield f"a replica of {name} spans {pool.nodes_per_replica} nodes and lies on {held.span}"
    gpus = sum(audit.pools[name].gpus_per_replica * count for name, count in held.replicas.items())
    if gpus > site.gpus_per_node * held.span:
        yield f"replicas of {gpus} GPUs lie on {site.gpus_per_node * held.span}"
    if held.span > 1 and sum(held.replicas.values()) != 1:
        yield f"{held.span} nodes hold {sum(held.replicas.values())} replicas; one that spans nodes has them for itself"


def replica_sizes(audit: FleetAudit) -> Iterator[str]:
    """GPUs and nodes of a replica are those of its split."""
    for pool in audit.plan.pools:
        gpus, per_node = pool.tp * pool.pp * pool.attention_dp, audit.sites[pool.site].gpus_per_node
        if pool.gpus_per_replica != gpus:
            yield f"{pool.id}: a replica has {gpus} GPUs, not {pool.gpus_per_replica}"
        nodes = max(1, ceil(gpus / per_node))
        if pool.nodes_per_replica != nodes:
            yield f"{pool.id}: a replica of {gpus} GPUs lies on {nodes} nodes, not {pool.nodes_per_replica}"


def committed_nodes(audit: FleetAudit) -> Iterator[str]:
    """What is committed to is paid for in every period alike."""
    for site, one in audit.purchases:
        if one.committed_years > 0 and len(set(one.nodes_by_period)) > 1:
            yield f"{where(site, one)}: committed nodes change from {min(one.nodes_by_period)} to " + (
                f"{max(one.nodes_by_period)}"
            )


def switched_on(nodes: Sequence[int]) -> list[int]:
    """Return how many nodes are switched on at the beginning of each period of a cycle."""
    if len(nodes) == 1:
        return [0]
    return [max(0, now - nodes[position - 1]) for position, now in enumerate(nodes)]


def starts(audit: FleetAudit) -> Iterator[str]:
    """Starts are the nodes that come on over the cycle, of nodes by the hour."""
    for site, one in audit.purchases:
        counted = 0 if one.committed_years > 0 else sum(switched_on(one.nodes_by_period))
        if one.starts != counted:
            yield f"{where(site, one)}: {counted} nodes are switched on over the cycle, not {one.starts}"


def minimum_billing(audit: FleetAudit) -> Iterator[str]:
    """A node that is switched on is paid for as long as billing asks for at the least."""
    fleet, periods = audit.scenario.fleet, len(audit.plan.hours)
    least = min(max(ceil(max(fleet.min_billing_s, fleet.billing_s) / HOUR_S), 1), periods)
    if least == 1:
        return
    for site, one in audit.purchases:
        if one.committed_years > 0:
            continue
        on = switched_on(one.nodes_by_period)
        for period in audit.periods:
            recent = sum(on[(period - back) % periods] for back in range(least))
            if one.nodes_by_period[period] < recent:
                yield (
                    f"{where(site, one)}: {recent} nodes came on within {least} periods, "
                    f"{one.nodes_by_period[period]} are paid for in period {period}"
                )
                break
