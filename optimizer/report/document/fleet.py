"""The sections of a report of a fleet."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.fleet.plan import ClassAnswer, FleetCost, FleetPlan, Pool, Served, Survived
from optimizer.report.document.html import Markup, Piece, bullets, drawing, facts, section, table, tag
from optimizer.report.document.launch import launch_section
from optimizer.report.document.parts import (
    conflict_section,
    memory_assumption,
    price_section,
    proof_line,
    proof_section,
    speed_assumptions,
    tiles,
    warnings,
)
from optimizer.report.document.question import limit_rows, reproduce_section, target_words
from optimizer.report.drawings import Bar, draw_costs, draw_fleet_nodes, draw_memory
from optimizer.report.fleet_schedule import hour_rows
from optimizer.report.fleet_words import (
    LEAST_SHARE,
    busiest_period,
    holding_words,
    period_words,
    range_words,
    site_words,
)
from optimizer.report.text import amount_of, count, dollars, milliseconds, share, sources_words
from optimizer.wording import LATENCY_NAMES, split_words

INFEASIBLE = "The rules above cannot hold together for any fleet of the catalog."
NOT_LISTED = ("models", "classes", "histogram", "log", "profile", "model", "description")  # the traffic is told below


def fleet_title(plan: FleetPlan) -> str:
    """Say the answer in one sentence."""
    models = list(dict.fromkeys(one.model for one in plan.classes))
    what = f"{models[0]}" if len(models) == 1 else f"{len(models)} models"
    if plan.cost is None:
        return f"{what}: no fleet in the catalog keeps every rule"
    rented = [max(one.nodes_by_period, default=0) for site in plan.sites for one in site.purchases]
    nodes = amount_of(sum(rented), "node")
    most = " at most" if len(plan.hours) > 1 else ""
    return (
        f"{what} run{'s' if len(models) == 1 else ''} for {dollars(plan.cost.usd_per_hour)} an hour "
        f"({dollars(plan.cost.usd_per_month, 0)} a month) on {nodes}{most}"
    )


def fleet_sections(plan: FleetPlan) -> Iterator[Piece]:
    """Return the sections of a report, feasible or not."""
    if plan.cost is None:
        yield tag("p", plan.summary)
        yield from warnings(plan.warnings)
        yield conflict_section(plan.conflict)
        yield _asked(plan)
    else:
        yield _lead(plan, plan.cost)
        yield from warnings(plan.warnings)
        yield _asked(plan)
        yield _rented(plan)
        yield _nodes(plan)
        yield _schedule(plan)
        yield _pools(plan)
        yield _classes(plan)
        yield _compared(plan, plan.cost)
        yield _survived(plan)
    yield _assumptions(plan)
    used = [
        (f"{site_words(site, one)}, {one.term}", str(one.price_seen_on), one.price_source)
        for site in plan.sites
        for one in site.purchases
    ]
    yield price_section(plan.prices, used)
    yield proof_section(plan, "fleet", INFEASIBLE if plan.conflict else plan.summary)
    yield launch_section(plan)
    yield reproduce_section(plan)


def _lead(plan: FleetPlan, cost: FleetCost) -> Piece:
    figures = [
        (dollars(cost.usd_per_hour), "an hour" + (" on average" if len(plan.hours) > 1 else "")),
        (dollars(cost.usd_per_month, 0), "a month of 730 hours"),
        (dollars(cost.usd_per_million_output_tokens), "per million output tokens"),
    ]
    if len(plan.hours) > 1:
        figures.append((dollars(cost.peak_usd_per_hour), "in the dearest hour"))
    if cost.committed_usd_per_hour > 0:
        figures.append((dollars(cost.committed_usd_per_hour), "an hour of it committed"))
    if cost.upfront_usd > 0:
        figures.append((dollars(cost.upfront_usd, 0), "due at the start"))
    return (
        tag("p", f"{plan.summary}. ", proof_line(plan, "fleet")),
        tiles(figures),
    )


def _asked(plan: FleetPlan) -> Markup:
    rows: list[tuple[str, Piece]] = []
    rows += [("for", str(plan.scenario["description"]))] if plan.scenario.get("description") else []
    rows += [("cycle", f"{len(plan.hours)} hours")] if len(plan.hours) > 1 else []
    classes = [
        [
            one.name,
            one.model,
            f"{one.input_tokens:,} in, {one.output_tokens:,} out",
            _rates(one),
            target_words(one.targets),
        ]
        for one in plan.classes
    ]
    limits = [(name, said) for name, said in limit_rows(plan) if name.partition(".")[0] not in NOT_LISTED]
    return section(
        "What was asked",
        facts([*rows, *limits]) if rows or limits else (),
        table(("class", "model", "tokens", "requests/s", "targets"), classes, right=(3,)),
        [tag("p", f"{note}.", class_="note") for note in plan.notes],
    )


def _rates(one: ClassAnswer) -> str:
    low, high = min(one.requests_per_second_by_period), max(one.requests_per_second_by_period)
    return count(high) if low == high else f"{count(low)}-{count(high)}"


def _rented(plan: FleetPlan) -> Markup:
    rows = [
        [
            site.id,
            range_words(one.nodes_by_period),
            f"{site_words(site, one)}, {one.term}",
            dollars(one.price_usd_per_node_hour),
            dollars(one.usd_per_hour),
        ]
        for site in plan.sites
        for one in site.purchases
    ]
    return section(
        "What to rent", table(("site", "nodes", "what, and where", "$/node-hour", "$/hour"), rows, right=(1, 3, 4))
    )


def _nodes(plan: FleetPlan) -> Markup:
    period = busiest_period(plan)
    when = f" in the busiest hour ({period_words(plan, period)})" if len(plan.hours) > 1 else ""
    nodes = drawing(lambda width: draw_fleet_nodes(plan, period, width=width))
    return section(f"How replicas lie on nodes{when}", nodes)


def _schedule(plan: FleetPlan) -> Piece:
    rows = hour_rows(plan)
    if not rows:
        return ()
    heads = ("hours", "requests/s", "$/hour", "nodes of each site")
    return section("By the hour", table(heads, rows, right=(1, 2)))


def _pools(plan: FleetPlan) -> Markup:
    rows = [
        [
            pool.id,
            f"{pool.model} in {_split(pool)}, {pool.site}",
            range_words(pool.replicas_by_period),
            f"{pool.gpus_per_replica}",
            share(pool.utilization),
            f"{pool.concurrency_per_replica:,}",
        ]
        for pool in plan.pools
    ]
    bars = [(f"{pool.id}: {pool.model}", pool.memory) for pool in plan.pools]
    return section(
        "What runs on it",
        table(("pool", "a replica", "replicas", "GPUs each", "used", "at once"), rows, right=(2, 3, 4, 5)),
        tag("h3", "Memory of the fullest GPU of each pool"),
        drawing(lambda width: draw_memory(bars, width=width)),
    )


def _split(pool: Pool) -> str:
    return split_words(pool)


def _classes(plan: FleetPlan) -> Markup:
    rows = [
        _class_row(one, pool, served)
        for one in plan.classes
        for pool in plan.pools
        for served in pool.serves
        if (pool.model, served.class_name) == (one.model, one.name) and served.share >= LEAST_SHARE
    ]
    heads = ("class", "served by", "share", *LATENCY_NAMES.values(), "")
    return section(
        "Predicted latency of each class",
        tag("p", "Predicted at the mix of the busiest hour, at the level of the targets; of what is asked in brackets.",
            class_="note"),
        table(heads, rows, right=(2, 3, 4, 5)),
    )  # fmt: skip


def _class_row(one: ClassAnswer, pool: Pool, served: Served) -> list[Piece]:
    asked = [one.targets.get(f"{name}_ms") for name in LATENCY_NAMES]
    values = [
        milliseconds(getattr(served, f"{name}_ms")) + (f" ({milliseconds(limit)})" if limit is not None else "")
        for name, limit in zip(LATENCY_NAMES, asked, strict=True)
    ]
    verdict: Piece = ""
    if any(limit is not None for limit in asked):
        verdict = tag("span", "holds" if served.holds else "MISSED", class_="good" if served.holds else "bad")
    return [one.name, pool.id, share(served.share), *values, verdict]


def _compared(plan: FleetPlan, cost: FleetCost) -> Piece:
    if not plan.compared:
        return ()
    bars = [Bar("the answer", cost.usd_per_hour, chosen=True)]
    bars += [Bar(one.rule, one.usd_per_hour) for one in plan.compared if one.usd_per_hour is not None]
    title = "What the same traffic costs otherwise"
    rest = [
        f"{one.rule}: {'no fleet keeps it' if one.proved else 'none was found in time'}"
        for one in plan.compared
        if one.usd_per_hour is None
    ]
    unproved = [f"{one.rule}: at most, not proved" for one in plan.compared if one.usd_per_hour and not one.proved]
    costs = drawing(lambda width: draw_costs(bars, title=title, width=width))
    return section(title, costs, bullets([*rest, *unproved]))


def _survived(plan: FleetPlan) -> Piece:
    if not plan.survived:
        return ()
    worst: dict[str, Survived] = {}
    for one in plan.survived:
        name = str(one.provider or one.site)
        if name not in worst or one.utilization > worst[name].utilization:
            worst[name] = one
    rows = [
        [f"{'a node of ' if one.what == 'node' else 'all of '}{name}", holding_words(one.lost), share(one.utilization)]
        for name, one in sorted(worst.items(), key=lambda item: -item[1].utilization)
    ]
    return section(
        f"What it survives: the loss of any one {plan.survived[0].what}",
        table(("the worst loss of each", "replicas lost", "then used"), rows, right=(2,)),
    )


def _assumptions(plan: FleetPlan) -> Markup:
    said = [memory_assumption(plan.scenario["memory"])]
    done = [pool.performance for pool in plan.pools]
    if done:
        bases: dict[tuple[str, float | None], list[str]] = {}
        for pool in plan.pools:
            bases.setdefault((pool.performance.basis, pool.performance.error_band), []).append(pool.id)
        said += speed_assumptions(bases, plan.calibration)
        said += dict.fromkeys(sources_words(one.decode_from, one.prefill_from) for one in done)
    return section("Assumptions", bullets(one for one in said if one))
