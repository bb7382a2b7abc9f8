"""From what the fleet program found to the parts of a FleetPlan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optimizer.fleet.hours import Hours
from optimizer.fleet.plan import ClassAnswer, NodesHeld, Pool, Site, Survived
from optimizer.fleet.pools import describe_pool
from optimizer.fleet.purchases import describe_site, fleet_cost
from optimizer.programs.fleet_instance import Failure, FleetAnswer
from optimizer.wording import node_words, split_words, unmeasured_words

if TYPE_CHECKING:
    from optimizer.fleet.problem import FleetProblem


Shares = dict[tuple[str, str], dict[str, float]]  # model and class -> pool -> share of the class


def class_answers(problem: FleetProblem, shares: Shares | None = None) -> tuple[ClassAnswer, ...]:
    """Return the classes as they were read, with the pools that serve each."""
    found = []
    for one in problem.traffic.demands:
        model = problem.scenario.traffic[one.model].label
        found.append(
            ClassAnswer(
                name=one.name,
                model=model,
                input_tokens=one.traffic.input_tokens,
                output_tokens=one.traffic.output_tokens,
                input_cv=one.traffic.input_cv,
                output_cv=one.traffic.output_cv,
                requests_per_second_by_period=one.rates,
                targets=one.targets.model_dump(),
                regions=one.regions,
                pools=(shares or {}).get((model, one.name), {}),
            )
        )
    return tuple(found)


def describe(problem: FleetProblem, answer: FleetAnswer) -> dict[str, Any]:
    """Return the fields of a FleetPlan that say what the program found."""
    hours = Hours(problem, answer)
    used_sites = sorted({site for site, _, _ in answer.nodes})
    used_kinds = sorted({kind for kind, _ in answer.replicas})
    site_ids = {site: f"site {number}" for number, site in enumerate(used_sites, start=1)}
    pool_ids = {kind: f"pool {number}" for number, kind in enumerate(used_kinds, start=1)}
    sites = tuple(describe_site(hours, site, site_ids[site]) for site in used_sites)
    pools = tuple(describe_pool(hours, kind, pool_ids[kind], site_ids) for kind in used_kinds)
    shares: Shares = {}
    for pool in pools:
        for one in pool.serves:
            shares.setdefault((pool.model, one.class_name), {})[pool.id] = one.share
    optimal = answer.status == "optimal"
    return {
        "status": "optimal" if optimal else "feasible",
        "summary": _summary(sites, pools),
        "classes": class_answers(problem, shares),
        "cost": fleet_cost(problem, answer, sites),
        "sites": sites,
        "pools": pools,
        "nodes": tuple(_held(hours, site_ids, pool_ids)),
        "survived": tuple(_survived(problem, hours, one, site_ids, pool_ids) for one in _by_hour(hours)),
        "warnings": tuple(_warnings(pools, sites)),
    }


def _held(hours: Hours, site_ids: Mapping[int, str], pool_ids: Mapping[int, str]) -> list[NodesHeld]:
    return [
        NodesHeld(
            period=hour,
            site=site_ids[unit.site],
            units=unit.units,
            span=unit.span,
            replicas={pool_ids[kind]: count for kind, count in sorted(unit.replicas.items()) if count},
        )
        for hour, period in enumerate(hours.period_of)
        for unit in hours.answer.packing[period]
    ]


def _by_hour(hours: Hours) -> list[tuple[int, Failure]]:
    failures = hours.answer.failures
    return [(hour, one) for hour, period in enumerate(hours.period_of) for one in failures if one.period == period]


def _survived(
    problem: FleetProblem,
    hours: Hours,
    at: tuple[int, Failure],
    site_ids: Mapping[int, str],
    pool_ids: Mapping[int, str],
) -> Survived:
    hour, one = at
    dealt: dict[str, dict[str, float]] = {}
    loads: dict[int, float] = {}
    for (kind, index), rate in one.rates.items():
        dealt.setdefault(pool_ids[kind], {})[problem.traffic.demands[index].name] = rate
        loads[kind] = loads.get(kind, 0.0) + rate / problem.instance.kinds[kind].rates[index]
    left = {kind: hours.replicas(kind)[hour] - one.lost.get(kind, 0) for kind in loads}
    return Survived(
        period=hour,
        what="node" if one.site is not None else "provider",
        site=None if one.site is None else site_ids[one.site],
        provider=one.provider,
        lost={pool_ids[kind]: count for kind, count in sorted(one.lost.items()) if count},
        requests_per_second=dealt,
        utilization=max((load / left[kind] for kind, load in loads.items() if left[kind]), default=0.0),
    )


def _summary(sites: tuple[Site, ...], pools: tuple[Pool, ...]) -> str:
    """Say a fleet in one line: nodes, then replicas."""
    bought = []
    for site in sites:
        counts = [sum(counts) for counts in zip(*(one.nodes_by_period for one in site.purchases), strict=True)]
        least, most = min(counts), max(counts)
        what = node_words(most, site.gpus_per_node, site.gpu)
        bought.append(f"{what} ({site.provider})" if least == most else f"{least} to {what} ({site.provider})")
    run = []
    for pool in pools:
        split = split_words(pool)
        least, most = min(pool.replicas_by_period), max(pool.replicas_by_period)
        run.append(f"{pool.model} {most if least == most else f'{least}-{most}'}x {split}")
    return f"{', '.join(bought)}: {', '.join(run)}"


def _warnings(pools: tuple[Pool, ...], sites: tuple[Site, ...]) -> list[str]:
    late = {pool.id: [one.class_name for one in pool.serves if not one.holds] for pool in pools}
    found = [
        f"{pool}: at its own mix {', '.join(names)} may miss targets, as classes share steps: ask for tighter ones"
        for pool, names in late.items()
        if names
    ]
    found += [
        f"next to no run with {unmeasured} was measured: its speed may be off by more than is said"
        for unmeasured in dict.fromkeys(filter(None, map(unmeasured_words, pools)))
    ]
    for site in sites:
        for one in site.purchases:
            if one.committed_years > 0 and one.term != "owned":
                years = f"{one.committed_years:g} year{'s' if one.committed_years > 1 else ''}"
                count = max(one.nodes_by_period)
                nodes = f"{count} node{'s' if count > 1 else ''} at {site.provider}"
                found.append(f"{nodes} under contract for {years}: ${one.committed_usd:,.0f} in all")
        if site.spot:
            found.append(f"spot nodes at {site.provider} can be taken back at any time")
    return found
