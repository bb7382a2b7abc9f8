"""Whether a fleet's answer agrees with itself: its status, and what it compares itself with."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.check.audit import TOLERANCE
from optimizer.check.fleet_audit import FleetAudit

OPTIMAL_GAP = 1e-9
MICRO_DOLLAR = 1e-6


def status(audit: FleetAudit) -> Iterator[str]:
    """The status is what the parts of the answer say."""
    plan = audit.plan
    parts = {"cost": plan.cost is not None, "sites": bool(plan.sites), "pools": bool(plan.pools)}
    parts["nodes"] = bool(plan.nodes)
    if plan.status in ("infeasible", "unknown"):
        yield from (f"{plan.status}, and yet there are {name}" for name, there in parts.items() if there)
        if plan.status == "infeasible" and not plan.conflict:
            yield "infeasible, and no rule is named in the conflict"
        return
    yield from (f"{plan.status}, and yet there are no {name}" for name, there in parts.items() if not there)
    if plan.conflict:
        yield f"{plan.status}, and yet rules conflict: {', '.join(one.rule for one in plan.conflict)}"
    if plan.status == "optimal" and plan.cost is not None and abs(plan.cost.gap) > OPTIMAL_GAP:
        yield f"optimal with a gap of {plan.cost.gap:g}"
    days = {one.price_seen_on for _, one in audit.purchases}
    if plan.prices.seen_on is not None and days and plan.prices.seen_on not in days:
        yield f"prices are of {plan.prices.seen_on}, those paid of {', '.join(map(str, sorted(days)))}"


def compared(audit: FleetAudit) -> Iterator[str]:
    """One more rule never makes it cheaper than the least there can be, one rule less never dearer."""
    said = audit.plan.cost
    for one in audit.plan.compared:
        if one.usd_per_hour is None:
            if one.extra_usd_per_hour is not None:
                yield f"{one.rule}: nothing keeps it, and yet it costs ${one.extra_usd_per_hour} more"
            continue
        if said is None:
            yield f"{one.rule}: it costs ${one.usd_per_hour:.6f}, and yet there is no answer"
            continue
        if one.gives_up:
            if one.proved and one.usd_per_hour > said.usd_per_hour * (1 + TOLERANCE) + MICRO_DOLLAR:
                yield f"{one.rule}: it costs ${one.usd_per_hour:.6f}, more than the answer ${said.usd_per_hour:.6f}"
        elif one.usd_per_hour < said.bound_usd_per_hour * (1 - TOLERANCE) - MICRO_DOLLAR:
            yield f"{one.rule}: it costs ${one.usd_per_hour:.6f}, less than the bound ${said.bound_usd_per_hour:.6f}"
        extra = one.usd_per_hour - said.usd_per_hour
        if one.extra_usd_per_hour is None or abs(one.extra_usd_per_hour - extra) > 1e-5:
            yield f"{one.rule}: it costs ${extra:.6f} more, not ${one.extra_usd_per_hour}"
