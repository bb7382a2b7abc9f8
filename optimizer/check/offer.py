"""Rules on what is rented and how much of it. One function per rule, named as the rule."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.check.audit import Audit


def _not_in(what: str, value: str, allowed: tuple[str, ...]) -> Iterator[str]:
    if allowed and value not in allowed:
        yield f"{what} {value} is not one of {', '.join(allowed)}"


def provider_allowed(audit: Audit) -> Iterator[str]:
    """The provider is one that the scenario allows."""
    limits = audit.scenario.limits
    yield from _not_in("provider", audit.layout.provider, limits.providers)
    if audit.layout.provider in limits.exclude_providers:
        yield f"provider {audit.layout.provider} is excluded"


def provider_kind_allowed(audit: Audit) -> Iterator[str]:
    """The kind of provider is one that the scenario allows; one asked for by name is wanted whatever its kind."""
    if audit.layout.provider not in audit.scenario.limits.providers:
        yield from _not_in("a provider of kind", audit.layout.provider_kind, audit.scenario.limits.provider_kinds)


def region_allowed(audit: Audit) -> Iterator[str]:
    """The region is one that the scenario allows."""
    return _not_in("region", audit.layout.region, audit.scenario.limits.regions)


def instance_type_allowed(audit: Audit) -> Iterator[str]:
    """The instance type is one that the scenario allows."""
    return _not_in("instance type", audit.layout.instance_type, audit.scenario.limits.instance_types)


def term_allowed(audit: Audit) -> Iterator[str]:
    """The term is one that the scenario allows; hardware of one's own is in the question because it is wanted."""
    if audit.layout.term != "owned":
        yield from _not_in("term", audit.layout.term, audit.scenario.limits.terms)


def price_age(audit: Audit) -> Iterator[str]:
    """The price is not older than the scenario accepts."""
    most = audit.scenario.prices.max_age_days
    age = (audit.today - audit.layout.price_seen_on).days
    if most is not None and age > most:
        seen = audit.layout.price_seen_on
        yield f"the price was seen on {seen}, {age} days before {audit.today}; at most {most} are accepted"


def budget(audit: Audit) -> Iterator[str]:
    """The layout costs no more than the budget."""
    most = audit.scenario.limits.budget_usd_per_hour
    asked = audit.layout.nodes * audit.layout.price_usd_per_node_hour
    if most is not None and asked > most + 1e-6:  # money is counted in whole micro-dollars
        yield f"${asked:.4f} an hour is over the budget of ${most:.4f}"


def quota(audit: Audit) -> Iterator[str]:
    """No more GPUs or nodes are rented than quotas and stock allow."""
    layout, limits = audit.layout, audit.scenario.limits
    nodes, gpus = layout.nodes, layout.nodes * layout.gpus_per_node
    caps = [("in stock", None, layout.max_nodes), ("allowed in all", limits.max_gpus, limits.max_nodes)]
    for one in limits.quotas:
        of = {"gpu": one.gpu, "provider": one.provider, "region": one.region}
        named = {name: value for name, value in of.items() if value is not None}
        if all(getattr(layout, name) == value for name, value in named.items()):
            caps.append((f"allowed of {', '.join(named.values()) or 'anything'}", one.max_gpus, one.max_nodes))
    for what, most_gpus, most_nodes in caps:
        if most_gpus is not None and gpus > most_gpus:
            yield f"{gpus} GPUs are rented, {most_gpus} are {what}"
        if most_nodes is not None and nodes > most_nodes:
            yield f"{nodes} nodes are rented, {most_nodes} are {what}"


def replicas_allowed(audit: Audit) -> Iterator[str]:
    """The number of replicas is one that the scenario allows."""
    allowed = audit.scenario.limits.replicas
    if allowed and audit.layout.replicas not in allowed:
        yield f"{audit.layout.replicas} replicas, where {', '.join(map(str, allowed))} are allowed"
