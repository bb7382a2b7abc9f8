"""Rules on a fleet's replicas: what each carries alone, for whom, within which targets, and how full it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from optimizer.check.audit import Audit
from optimizer.check.checks import check_all
from optimizer.check.fleet_audit import LATENCIES, RATE_TOLERANCE, FleetAudit, layout_of
from optimizer.check.fleet_limits import OFFER_RULES
from optimizer.scenario import Targets

_OF_OFFERS = {rule.__name__ for rule in OFFER_RULES}


def replicas(audit: FleetAudit) -> Iterator[str]:
    """One replica carries each class that it serves, alone, at the rate that is stated, by every rule on a layout.

    That covers formats, split, memory, targets and utilization: see optimizer.check.checks.
    """
    together: dict[tuple[str, str, float | None], list[tuple[str, Audit]]] = defaultdict(list)
    for pool in audit.plan.pools:
        site = audit.sites[pool.site]
        for served in pool.serves:
            question = audit.question(pool, served)
            layout = layout_of(site, site.purchases[0], pool, served.concurrency)
            key = (pool.model, served.class_name, question.targets.confidence)
            what = f"{pool.id}, {served.class_name} alone"
            together[key].append((what, Audit(question, audit.model(pool), layout, audit.today)))
    for group in together.values():
        for (what, _), found in zip(group, check_all([one for _, one in group]), strict=True):
            for one in found.violations:
                if one.rule not in _OF_OFFERS:
                    yield f"{what}: {one.rule}: {one.message}"


def capacity(audit: FleetAudit) -> Iterator[str]:
    """The replicas of a pool carry its traffic in every period."""
    for pool in audit.plan.pools:
        for period in audit.periods:
            needed, there = audit.use(pool, period), pool.replicas_by_period[period]
            if needed > there * (1 + RATE_TOLERANCE) + RATE_TOLERANCE:
                yield f"{pool.id} has to carry the traffic of {needed:.6f} replicas on {there} in period {period}"
                break


def utilization(audit: FleetAudit) -> Iterator[str]:
    """Utilization is the share of its replicas' time that a pool's traffic takes in its busiest period."""
    for pool in audit.plan.pools:
        period = audit.busiest(pool)
        there = pool.replicas_by_period[period]
        used = audit.use(pool, period) / there if there else 0.0
        if abs(used - pool.utilization) > 1e-5:
            yield f"{pool.id} is used by {used:.3%} in period {period}, not {pool.utilization:.3%}"


def pool_targets(audit: FleetAudit) -> Iterator[str]:
    """A pool keeps targets that are no looser than those of any class that it serves."""
    for pool in audit.plan.pools:
        kept = audit.targets_kept(pool)
        for served in pool.serves:
            own = audit.targets_asked((pool.model, served.class_name))
            for message in _looser(kept, own):
                yield f"{pool.id}, {served.class_name}: {message}"


def _looser(kept: Targets, own: Targets) -> Iterator[str]:
    asked = [name for name in LATENCIES if getattr(own, name) is not None]
    if asked and kept.at != own.at:
        yield f"targets are kept at {kept.at}, {own.at} is asked for"
    if asked and (own.confidence or 0.0) > (kept.confidence or 0.0):
        yield f"targets are kept with a confidence of {kept.confidence}, {own.confidence} is asked for"
    for name in asked:
        mine, theirs = getattr(own, name), getattr(kept, name)
        if theirs is None or theirs > mine:
            yield f"{name} {theirs if theirs is None else f'{theirs:g}'} is kept, {mine:g} is asked for"
