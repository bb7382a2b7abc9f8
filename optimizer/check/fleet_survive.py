"""What a fleet has to survive: each node, or each provider, is really taken away, and the rest carries the traffic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from optimizer.check.audit import TOLERANCE, close
from optimizer.check.fleet_audit import RATE_TOLERANCE, FleetAudit
from optimizer.fleet.plan import Survived

Loss = tuple[int, str, tuple[tuple[str, int], ...]]  # period, site or provider, replicas gone


def survives(audit: FleetAudit) -> Iterator[str]:
    """Every loss that the question names is answered, and the answer carries all traffic on what is left."""
    asked = audit.scenario.fleet.survive
    answered = {
        what: {_key(one, where) for one in audit.plan.survived if one.what == what and (where := _where(one))}
        for what in ("node", "provider")
    }
    losses = {"node": _nodes, "provider": _providers}
    if asked != "nothing":
        missing = [loss for loss in losses[asked](audit) if loss not in answered[asked]]
        for period, where, lost in missing[:3]:
            gone = ", ".join(f"{count} of {pool}" for pool, count in lost)
            yield f"period {period}: nothing says how the loss of a {asked} of {where} ({gone}) is survived"
    real = {what: set(find(audit)) for what, find in losses.items()}
    for one in audit.plan.survived:
        where = _where(one)
        if where is None or _key(one, where) not in real[one.what]:
            yield f"period {one.period}: a loss of {dict(one.lost)} at {where} is survived, which cannot happen"
        yield from (f"period {one.period}, without {where}: {message}" for message in _carries(audit, one))


def _where(one: Survived) -> str | None:
    return one.site if one.what == "node" else one.provider


def _key(one: Survived, where: str) -> Loss:
    return one.period, where, tuple(sorted((pool, count) for pool, count in one.lost.items() if count))


def _nodes(audit: FleetAudit) -> Iterator[Loss]:
    """Return what each node that holds replicas takes with it; one of a spanning replica takes it whole."""
    seen = set()
    for held in audit.plan.nodes:
        loss = (held.period, held.site, tuple(sorted((pool, count) for pool, count in held.replicas.items() if count)))
        if loss[2] and loss not in seen:
            seen.add(loss)
            yield loss


def _providers(audit: FleetAudit) -> Iterator[Loss]:
    """Return what each provider takes with it, in each period in which replicas run there."""
    for period in audit.periods:
        for provider in sorted({site.provider for site in audit.plan.sites}):
            lost: Counter[str] = Counter()
            for held in audit.held(period):
                if audit.sites[held.site].provider == provider:
                    for pool, count in held.replicas.items():
                        lost[pool] += held.units * count
            if lost:
                yield period, provider, tuple(sorted(lost.items()))


def _carries(audit: FleetAudit, one: Survived) -> Iterator[str]:
    """Deal the traffic as the answer says, on the replicas that are left, and look whether it fits."""
    left = {
        pool.id: pool.replicas_by_period[one.period] - one.lost.get(pool.id, 0)
        for pool in audit.plan.pools
    }  # fmt: skip
    served: Counter[tuple[str, str]] = Counter()
    fullest = 0.0
    for name, rates in one.requests_per_second.items():
        pool = audit.pools[name]
        capacities = {served.class_name: served.capacity_requests_per_second for served in pool.serves}
        use = 0.0
        for class_name, rate in rates.items():
            served[pool.model, class_name] += rate  # type: ignore[assignment]
            if rate < 0 or class_name not in capacities:
                yield f"{name} is said to serve {rate:.6g} requests/s of {class_name}, of which it has no capacity"
                continue
            regions = audit.regions_asked((pool.model, class_name))
            if rate > 0 and regions and audit.sites[pool.site].region not in regions:
                yield f"{name} is said to serve {class_name} in {audit.sites[pool.site].region}, where it may not be"
            use += rate / capacities[class_name]
        if use > left[name] * (1 + RATE_TOLERANCE) + RATE_TOLERANCE:
            yield f"{name} has to carry the traffic of {use:.6f} replicas on {left[name]}"
        fullest = max(fullest, use / left[name] if left[name] > 0 else 0.0)
    yield from _covered(audit, one.period, served)
    if not close(fullest, one.utilization, 1e-5) and abs(fullest - one.utilization) > TOLERANCE:
        yield f"the fullest pool is used by {fullest:.2%}, not {one.utilization:.2%}"


def _covered(audit: FleetAudit, period: int, served: Mapping[tuple[str, str], float]) -> Iterator[str]:
    for key, said in audit.classes.items():
        arrives = said.requests_per_second_by_period[period]
        if served[key] < arrives - RATE_TOLERANCE * max(arrives, 1.0):
            yield f"{served[key]:.6g} of {arrives:.6g} requests/s of {said.name} are served"
