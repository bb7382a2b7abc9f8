"""Which nodes and which pools are not the same in two fleets, whatever their sites and pools are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from optimizer.fleet.plan import FleetPlan
from optimizer.whatif.fleet_shock_answer import NodesChange, PoolChange
from optimizer.wording import split_words


@dataclass
class _Bought:
    """Nodes that are paid for in one way."""

    by_period: list[int]
    usd_per_hour: float = 0.0


@dataclass
class _Run:
    """Replicas that run alike."""

    targets: Mapping[str, Any]
    by_period: list[int]


Key = TypeVar("Key")
Counted = TypeVar("Counted", _Bought, _Run)


def nodes_changed(before: FleetPlan, after: FleetPlan) -> tuple[NodesChange, ...]:
    """Return the ways of paying for nodes of which there are more or fewer, what is given up first."""
    found = []
    for key, (was, will), (before_by, after_by) in _changed(_bought(before), _bought(after), len(after.hours)):
        provider, region, gpu, gpus_per_node, instance_type, term, contract = key
        found.append(
            NodesChange(
                provider=provider,
                region=region,
                gpu=gpu,
                gpus_per_node=gpus_per_node,
                instance_type=instance_type,
                term=term,
                contract=contract,
                before_by_period=before_by,
                after_by_period=after_by,
                before_usd_per_hour=was.usd_per_hour if was else 0.0,
                after_usd_per_hour=will.usd_per_hour if will else 0.0,
            )
        )
    return tuple(found)


def pools_changed(before: FleetPlan, after: FleetPlan) -> tuple[PoolChange, ...]:
    """Return the pools of which there are more or fewer replicas, what is given up first."""
    found = []
    for key, (was, will), (before_by, after_by) in _changed(_run(before), _run(after), len(after.hours)):
        model, provider, region, gpu, gpus_per_node, replica, _ = key
        known = was or will
        found.append(
            PoolChange(
                model=model,
                provider=provider,
                region=region,
                gpu=gpu,
                gpus_per_node=gpus_per_node,
                replica=replica,
                targets=dict(known.targets) if known else {},
                before_by_period=before_by,
                after_by_period=after_by,
            )
        )
    return tuple(found)


def _changed(
    old: Mapping[Key, Counted], new: Mapping[Key, Counted], periods: int
) -> Iterator[tuple[Key, tuple[Counted | None, Counted | None], tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Yield what is there in other numbers in any period: its key, how it was and will be, and both numbers."""
    for key in dict.fromkeys((*old, *new)):
        was, will = old.get(key), new.get(key)
        before, after = (tuple(one.by_period) if one else (0,) * periods for one in (was, will))
        if before != after:
            yield key, (was, will), (before, after)


def _bought(plan: FleetPlan) -> dict[tuple[str, str, str, int, str, str, int | None], _Bought]:
    found: dict[tuple[str, str, str, int, str, str, int | None], _Bought] = {}
    for site in plan.sites:
        for one in site.purchases:
            key = (
                *(site.provider, site.region, site.gpu, site.gpus_per_node),
                *(one.instance_type, one.term, one.contract),
            )
            bought = found.setdefault(key, _Bought([0] * len(plan.hours)))
            bought.by_period = [mine + more for mine, more in zip(bought.by_period, one.nodes_by_period, strict=True)]
            bought.usd_per_hour += one.usd_per_hour
    return found


def _run(plan: FleetPlan) -> dict[tuple[str, str, str, str, int, str, str], _Run]:
    sites = {site.id: site for site in plan.sites}
    found: dict[tuple[str, str, str, str, int, str, str], _Run] = {}
    for pool in plan.pools:
        site = sites[pool.site]
        replica = split_words(pool)
        spot = " on spot" if site.spot else ""
        key = (
            *(pool.model, site.provider, site.region, site.gpu, site.gpus_per_node),
            *(f"{replica}{spot}", str(sorted(pool.targets.items()))),
        )
        run = found.setdefault(key, _Run(pool.targets, [0] * len(plan.hours)))
        run.by_period = [mine + more for mine, more in zip(run.by_period, pool.replicas_by_period, strict=True)]
    return found
