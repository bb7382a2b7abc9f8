"""Why a fleet is as it is: which rules cannot hold together, and what the traffic costs under other rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.choices import MICRO
from optimizer.fleet.plan import Compared
from optimizer.plan import Conflict
from optimizer.programs.fleet import cheapest_fleet
from optimizer.programs.fleet_instance import FleetAnswer, FleetInstance, NodeLimit, Site
from optimizer.programs.layout import Settings
from optimizer.solve import solve as solve_layout

if TYPE_CHECKING:
    from optimizer.fleet.problem import FleetProblem
    from optimizer.fleet.traffic import Demand

GIVES_UP = "without surviving"
MOST_STUCK = 3  # classes that are named when nothing carries them
COMPARE_SECONDS = 5.0  # for each other question; what is not proved by then says so


def compared(problem: FleetProblem, answer: FleetAnswer, settings: Settings | None) -> tuple[Compared, ...]:
    """Return what the same traffic costs with one freedom less that the answer uses, or one demand less."""
    if answer.cost_micro_usd is None:
        return ()
    chosen = settings or Settings()
    limited = replace(chosen, time_limit_s=min(chosen.time_limit_s, COMPARE_SECONDS))
    hours = sum(problem.instance.hours)
    cost = answer.cost_micro_usd / MICRO / hours
    found = []
    for rule, instance in _others(problem, answer):
        other = cheapest_fleet(instance, limited)
        usd = None if other.cost_micro_usd is None else other.cost_micro_usd / MICRO / sum(instance.hours)
        found.append(
            Compared(
                rule=rule,
                gives_up=rule.startswith(GIVES_UP),
                usd_per_hour=usd,
                extra_usd_per_hour=None if usd is None else usd - cost,
                proved=other.status in ("optimal", "infeasible"),
            )
        )
    return tuple(found)


def _others(problem: FleetProblem, answer: FleetAnswer) -> Iterator[tuple[str, FleetInstance]]:
    instance, scenario = problem.instance, problem.scenario
    groups = {instance.groups[index] for index in range(len(instance.groups))}
    labels: dict[int, set[int]] = {group: set() for group in groups}
    for kind, index, _ in answer.rates:
        labels[instance.groups[index]].add(instance.kinds[kind].label)
    if any(len(used) > 1 for used in labels.values()) and instance.max_kinds_per_group != 1:
        yield (
            ("one replica kind for each model" if len(groups) > 1 else "one replica kind only"),
            replace(instance, max_kinds_per_group=1),
        )
    if len(groups) > 1 and _shares_nodes(instance, answer):
        yield "no node shared between models", _apart(instance)
    used = {(site, option) for site, option, _ in answer.nodes}
    payments = [problem.posed.sites[site].payments[option] for site, option in used]
    for rule, words in ((True, "no hardware of one's own"), (False, "nothing committed")):
        if any(one.committed_years > 0 and (one.term == "owned") == rule for one in payments):
            yield words, _without(problem, owned=rule)
    if len(instance.hours) > 1 and any(one.committed_years == 0 for one in payments):
        peak = tuple(max(column) for column in zip(*instance.demand, strict=True))
        yield "the peak's nodes in every hour", replace(instance, demand=(peak,), hours=(1.0,))
    if any(instance.sites[site].spot for site, _ in used):
        yield "no spot nodes", replace(instance, max_spot_share=0.0)
    if scenario.fleet.survive != "nothing":
        yield f"{GIVES_UP} the loss of a {scenario.fleet.survive}", replace(instance, survive="nothing")


def _shares_nodes(instance: FleetInstance, answer: FleetAnswer) -> bool:
    group = {kind: instance.groups[index] for kind, index, _ in answer.rates}
    return any(
        len({group[kind] for kind in unit.replicas if kind in group}) > 1
        for packing in answer.packing
        for unit in packing
    )


def _apart(instance: FleetInstance) -> FleetInstance:
    """Return the instance with nodes of each model's own; stock and quotas still hold for all together."""
    groups = sorted(set(instance.groups))
    sites: list[Site] = []
    place: dict[tuple[int, int], int] = {}
    for position, site in enumerate(instance.sites):
        for group in groups:
            place[position, group] = len(sites)
            sites.append(site)
    kinds = []
    for kind in instance.kinds:
        group = next(instance.groups[index] for index, rate in enumerate(kind.rates) if rate > 0)
        kinds.append(replace(kind, site=place[kind.site, group]))
    limits = [
        NodeLimit(
            limit.name,
            {place[site, group]: weight for site, weight in limit.weights.items() for group in groups},
            limit.most,
        )
        for limit in instance.limits
    ]
    for position, site in enumerate(instance.sites):
        stock = sum(option.node_cap for option in site.options)
        limits.append(NodeLimit("stock", {place[position, group]: 1 for group in groups}, stock))
    return replace(instance, sites=tuple(sites), kinds=tuple(kinds), limits=tuple(limits))


def _without(problem: FleetProblem, *, owned: bool) -> FleetInstance:
    """Return the instance without commitments of one sort: hardware of one's own, or contracts."""
    sites = []
    for site, rental in zip(problem.instance.sites, problem.posed.sites, strict=True):
        kept = tuple(
            option if not (one.committed_years > 0 and (one.term == "owned") == owned) else replace(option, node_cap=0)
            for option, one in zip(site.options, rental.payments, strict=True)
        )
        sites.append(replace(site, options=kept))
    return replace(problem.instance, sites=tuple(sites))


def conflict(problem: FleetProblem, rules: tuple[str, ...]) -> tuple[Conflict, ...]:
    """Say which rules cannot hold together, with their numbers."""
    return tuple(_said(problem, rule) for rule in rules)


def _said(problem: FleetProblem, rule: str) -> Conflict:
    scenario = problem.scenario
    fleet, limits = scenario.fleet, scenario.limits
    name, _, index = rule.partition(":")
    if name == "traffic":
        return Conflict(
            rule="traffic", meaning="all traffic is served within its targets", needs=_served(problem, index)
        )
    known: dict[str, tuple[str, str]] = {
        "budget": ("the fleet costs no more than the budget", _budget(problem) if name == "budget" else ""),
        "stock": ("no more nodes are rented than are in stock", "what offers say of their stock"),
        "max_gpus": ("no more GPUs are rented than allowed", f"at most {limits.max_gpus} GPUs"),
        "max_nodes": ("no more nodes are rented than allowed", f"at most {limits.max_nodes} nodes"),
        "max_kinds": ("few different replica kinds", f"at most {fleet.max_kinds}"),
        "max_kinds_per_group": ("few different replica kinds of a model", f"at most {fleet.max_kinds_per_model}"),
        "min_providers": ("nodes come from several providers", f"at least {fleet.min_providers}"),
        "min_regions": ("nodes are in several regions", f"at least {fleet.min_regions}"),
        "survive": ("the load still fits after a loss", f"of any one {fleet.survive}"),
        "spot_share": ("few requests are served on spot nodes", f"at most {fleet.max_spot_share:.0%} of a model's"),
    }
    if name.startswith("quotas."):
        quota = limits.quotas[int(name.removeprefix("quotas."))]
        of = " ".join(part for part in (quota.provider, quota.region, quota.gpu) if part) or "anything"
        most = [f"{quota.max_gpus} GPUs"] if quota.max_gpus is not None else []
        most += [f"{quota.max_nodes} nodes"] if quota.max_nodes is not None else []
        return Conflict(rule=name, meaning=f"the quota of {of}", needs=f"at most {' and '.join(most)}")
    meaning, needs = known.get(name, (name, ""))
    return Conflict(rule=name, meaning=meaning, needs=needs)


def _budget(problem: FleetProblem) -> str:
    """Say the budget, and the least that the other rules cost without it."""
    asked = f"at most ${problem.scenario.limits.budget_usd_per_hour or 0:,.2f}/h is asked"
    free = cheapest_fleet(replace(problem.instance, budget_micro_usd=None), Settings(time_limit_s=COMPARE_SECONDS))
    if free.cost_micro_usd is None:
        return asked
    least = free.cost_micro_usd / MICRO / sum(problem.instance.hours)
    return f"{asked}; {'the least' if free.status == 'optimal' else 'the least found'} that works costs ${least:,.2f}/h"


def _served(problem: FleetProblem, index: str) -> str:
    """Say what traffic cannot be served: classes that no replica carries, else how much there is of it."""
    demands, kinds = problem.traffic.demands, problem.instance.kinds
    stuck = [number for number in range(len(demands)) if not any(kind.rates[number] > 0 for kind in kinds)]
    if stuck:
        more = f"; and {len(stuck) - MOST_STUCK} more classes" if len(stuck) > MOST_STUCK else ""
        return "; ".join(_nowhere(problem, demands[number]) for number in stuck[:MOST_STUCK]) + more
    if not index:
        return f"{sum(one.peak for one in demands):,.4g} requests/s at the peak, in {len(demands)} classes"
    one = demands[int(index)]
    return f"{one.peak:,.4g} requests/s of {one.name!r} at the peak"


def _nowhere(problem: FleetProblem, one: Demand) -> str:
    """Say why no replica carries a class: what a layout for it alone would conflict with."""
    model = problem.scenario.traffic[one.model]
    said = f"no replica of {model.label} that may be rented carries {one.name!r}"
    alone = problem.scenario.class_scenario(model, one.traffic, one.targets)
    spec = problem.models[one.model].spec
    plan = solve_layout(alone, model=spec, catalog=problem.listed, today=problem.today, reasons=False)
    if plan.status != "infeasible":
        return f"{said} in {' or '.join(one.regions)}" if one.regions else said
    return f"{said} ({', '.join(f'{rule.rule}: {rule.needs}' for rule in plan.conflict)})"
