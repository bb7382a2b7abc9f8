"""A FleetPlan as tables: the cost first, then what to rent, how it runs, and what it stands on."""

from __future__ import annotations

from rich.console import Console

from optimizer.fleet.plan import FleetPlan, Survived
from optimizer.report.fleet_bought import print_pools, print_purchases
from optimizer.report.fleet_classes import print_classes
from optimizer.report.fleet_schedule import print_schedule
from optimizer.report.fleet_words import busiest_period, holding_words, period_words
from optimizer.report.text import (
    age_words,
    bullet,
    calibration_words,
    count,
    dollars,
    heading,
    make_console,
    make_table,
    offers_words,
    proof_words,
    share,
    sources_words,
    speed_basis,
    step_words,
)


def print_fleet(plan: FleetPlan, *, explain: bool = False, console: Console | None = None) -> None:
    """Print a fleet.

    Args:
        plan: the answer.
        explain: show memory and the parts of a decode step of each pool as well.
        console: where to print; the terminal when not given.
    """
    out = console or make_console()
    if plan.cost is None:
        _print_none(out, plan)
    else:
        _print_cost(out, plan)
        print_purchases(out, plan)
        print_pools(out, plan)
        print_classes(out, plan)
        _print_nodes(out, plan)
        print_schedule(out, plan)
        _print_survived(out, plan)
        _print_compared(out, plan)
        if explain:
            _print_insides(out, plan)
        _print_speed(out, plan)
    _print_prices(out, plan)


def _print_none(out: Console, plan: FleetPlan) -> None:
    out.print(f"{plan.status.upper()}  {plan.summary}", style="bold red")
    if plan.conflict:
        heading(out, "These rules cannot hold together")
        table = make_table(("rule", "left"), ("what it asks", "left"), ("here", "left"))
        for conflict in plan.conflict:
            table.add_row(conflict.rule, conflict.meaning, conflict.needs)
        out.print(table)


def _print_cost(out: Console, plan: FleetPlan) -> None:
    cost = plan.cost
    if cost is None:
        return
    out.print(f"{plan.status.upper()}  {plan.summary}", style="bold green")
    hourly = f"{dollars(cost.usd_per_hour)}/hour"
    if len(plan.hours) > 1:
        hourly += f" on average ({dollars(cost.peak_usd_per_hour)} in the dearest hour)"
    out.print(f"{hourly}, {dollars(cost.usd_per_month)}/month")
    out.print(
        f"{dollars(cost.usd_per_million_output_tokens)} per million output tokens at this traffic, "
        f"{dollars(cost.usd_per_million_tokens)} per million tokens in and out"
    )
    if cost.committed_usd_per_hour > 0:
        ahead = f"; {dollars(cost.upfront_usd)} is due at the start" if cost.upfront_usd > 0 else ""
        out.print(f"{dollars(cost.committed_usd_per_hour)}/hour of it is committed, whatever runs{ahead}.")
    out.print(proof_words(plan.status, cost.bound_usd_per_hour, cost.gap, "fleet"))


def _print_nodes(out: Console, plan: FleetPlan) -> None:
    period = busiest_period(plan)
    when = f", {period_words(plan, period)}" if len(plan.hours) > 1 else ""
    heading(out, f"How replicas lie on nodes{when}")
    table = make_table(("nodes", "right"), ("site", "right"), ("GPUs in use", "right"), ("each holds", "left"))
    models = {pool.id: pool for pool in plan.pools}
    sites = {site.id: site for site in plan.sites}
    for held in (one for one in plan.nodes if one.period == period):
        gpus = sum(models[name].gpus_per_replica * amount for name, amount in held.replicas.items())
        sharing = {models[name].model for name in held.replicas}
        shared = f" - shared by {len(sharing)} models" if len(sharing) > 1 else ""
        together = f", {held.span} nodes together" if held.span > 1 else ""
        table.add_row(
            f"{held.units * held.span:,}",
            held.site.removeprefix("site "),
            f"{gpus} of {sites[held.site].gpus_per_node * held.span}",
            f"{holding_words(held.replicas)}{together}{shared}",
        )
    out.print(table)


def _print_survived(out: Console, plan: FleetPlan) -> None:
    if not plan.survived:
        return
    what = plan.survived[0].what
    heading(out, f"What it survives: the loss of any one {what}")
    losses = {(one.site, one.provider, tuple(sorted(one.lost.items()))) for one in plan.survived}
    hours = ", in every hour that they can happen in" if len(plan.hours) > 1 else ""
    out.print(f"Different losses looked at: {len(losses):,}{hours}; the traffic is dealt anew in each.")
    worst: dict[str, Survived] = {}
    for one in plan.survived:
        name = str(one.provider or one.site)
        if name not in worst or one.utilization > worst[name].utilization:
            worst[name] = one
    table = make_table(("then used", "right"), ("the worst loss of each", "left"))
    for name, one in sorted(worst.items(), key=lambda item: -item[1].utilization):
        when = f" ({period_words(plan, one.period)})" if len(plan.hours) > 1 else ""
        of = f"a node of {name}" if one.what == "node" else f"all of {name}"
        table.add_row(share(one.utilization), f"{of}{when}, with {holding_words(one.lost)}")
    out.print(table)


def _print_compared(out: Console, plan: FleetPlan) -> None:
    if not plan.compared:
        return
    heading(out, "What the same traffic costs otherwise")
    table = make_table(("$/hour", "right"), ("more", "right"), ("under this rule", "left"))
    for one in plan.compared:
        if one.usd_per_hour is None:
            said = "no fleet keeps it" if one.proved else "none was found in time"
            table.add_row("-", "-", f"{one.rule}: {said}")
            continue
        more = one.extra_usd_per_hour or 0.0
        signed = f"+{dollars(more)}" if more >= 0 else f"-{dollars(-more)}"
        table.add_row(dollars(one.usd_per_hour), signed, one.rule + ("" if one.proved else " (at most: not proved)"))
    out.print(table)


def _print_insides(out: Console, plan: FleetPlan) -> None:
    heading(out, "Memory per GPU, GiB (fullest GPU, with as many requests at once as a pool runs)")
    names = ("pool", "weights", "KV cache", "activations", "overhead", "need", "available", "left")
    table = make_table(*((name, "right") for name in names))
    for pool in plan.pools:
        use = pool.memory
        figures = (
            *(use.weights_gib, use.kv_cache_gib, use.activations_gib, use.overhead_gib),
            *(use.need_gib, use.available_gib, use.headroom_left_gib),
        )
        table.add_row(pool.id.removeprefix("pool "), *(f"{figure:.1f}" for figure in figures))
    out.print(table)
    heading(out, "One decode step at the mix, ms")
    for pool in plan.pools:
        done = pool.performance
        in_flight = max(done.requests_in_flight, 1.0)
        bullet(
            out,
            f"{pool.id}, {in_flight:.1f} requests in flight per replica: {step_words(done.step_ms)}",
            f"{count(done.output_tokens_per_second)} output tokens/s on all replicas"
            + (f"; all-reduces are {share(pool.communication_share)} of a step" if pool.communication_share else ""),
        )


def _print_speed(out: Console, plan: FleetPlan) -> None:
    out.print()
    done = [pool.performance for pool in plan.pools]
    for basis, band in dict.fromkeys((one.basis, one.error_band) for one in done):
        of = [pool.id for pool in plan.pools if (pool.performance.basis, pool.performance.error_band) == (basis, band)]
        named = f"{', '.join(of)}: " if len(of) < len(plan.pools) else ""
        out.print(f"{named}{speed_basis(basis, band)}")
    if plan.calibration is not None:
        out.print(calibration_words(plan.calibration))
    for said in dict.fromkeys(sources_words(one.decode_from, one.prefill_from) for one in done):
        if said:
            out.print(said)


def _print_prices(out: Console, plan: FleetPlan) -> None:
    prices = plan.prices
    for note in plan.notes:
        out.print(f"Note: {note}.")
    heading(out, "Prices")
    which = "The oldest of them was" if prices.seen_on else "They are"
    out.print(f"{offers_words(prices)} {which} {age_words(prices)}.")
    used = dict.fromkeys(one.price_source for site in plan.sites for one in site.purchases)
    for source in used:
        out.print(f"Source: {prices.sources.get(source, source)}")
    for warning in plan.warnings:
        out.print(f"Warning: {warning}", style="yellow")
