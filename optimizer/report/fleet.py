"""A FleetPlan as tables: the cost first, then what to rent, how it runs, and what it stands on."""

from __future__ import annotations

from rich.console import Console

from optimizer.fleet.plan import ClassAnswer, FleetPlan, Pool, Purchase, Served, Site, Survived
from optimizer.report.fleet_schedule import print_schedule
from optimizer.report.fleet_words import (
    busiest_period,
    holding_words,
    period_words,
    range_words,
    site_words,
)
from optimizer.report.plan import CAUSES, LEAST_SHOWN_MS
from optimizer.report.text import (
    amount_of,
    bullet,
    calibration_words,
    count,
    dollars,
    heading,
    make_console,
    make_table,
    milliseconds,
    share,
    sources_words,
    speed_basis,
)
from optimizer.wording import nodes_words, split_words

MOST_CLASSES = 24  # shown; --json has all
MOST_SERVED = 6  # classes named behind a pool
LEAST_SHARE = 0.0005
LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


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
        _print_purchases(out, plan)
        _print_pools(out, plan)
        _print_classes(out, plan)
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
    if plan.status == "optimal":
        out.print("Proved: no fleet in this catalog that keeps every rule costs less.")
    else:
        out.print(
            f"Not proved within the time limit: the cheapest may cost down to {dollars(cost.bound_usd_per_hour)}/hour "
            f"(gap {cost.gap:.1%})."
        )


def _print_purchases(out: Console, plan: FleetPlan) -> None:
    heading(out, "What to rent" + (" (nodes: the fewest and the most over the hours)" if len(plan.hours) > 1 else ""))
    table = make_table(
        ("nodes", "right"),
        ("site", "right"),
        ("$/node-hour", "right"),
        ("$/hour", "right"),
        ("what, and where", "left"),
    )
    for site in plan.sites:
        for one in site.purchases:
            table.add_row(
                range_words(one.nodes_by_period),
                site.id.removeprefix("site "),
                dollars(one.price_usd_per_node_hour),
                dollars(one.usd_per_hour),
                "\n".join((f"{site_words(site, one)}, {one.term}", *_terms(plan, site, one))),
            )
    out.print(table)


def _terms(plan: FleetPlan, site: Site, one: Purchase) -> list[str]:
    """Say what else a purchase costs or binds to, a line each."""
    said = []
    if one.committed_years > 0:
        contract = "" if one.contract is None else f"your contract {one.contract + 1}, "
        years = f"{one.committed_years:g} year{'' if one.committed_years == 1 else 's'}"
        ahead = f", {dollars(one.upfront_usd)} at the start" if one.upfront_usd > 0 else ""
        said.append(f"- {contract}for {years}: {dollars(one.committed_usd)} in all{ahead}")
    if abs(one.effective_usd_per_node_hour - one.price_usd_per_node_hour) > 1e-5:
        why = " and ".join(_wasted(plan, site, one))
        said.append(f"- counted at {dollars(one.effective_usd_per_node_hour, 4)} an hour with {why}")
    if one.starts:
        each = f" at {dollars(one.start_usd)} each" if one.start_usd > 0 else ""
        said.append(f"- {amount_of(one.starts, 'start')} over the {len(plan.hours)} hours{each}")
    if one.max_nodes is not None:
        said.append(f"- {nodes_words(one.max_nodes)} in stock")
    return said


def _wasted(plan: FleetPlan, site: Site, one: Purchase) -> list[str]:
    """Say why an hour of use costs more than an hour."""
    if site.spot:
        return ["what interruptions waste"]
    months = plan.scenario["fleet"].get("horizon_months")
    past = ["the hours after the traffic has gone"] if months is not None and one.committed_years * 12 > months else []
    early = one.contract is not None and one.upfront_usd > 0 and plan.scenario["fleet"].get("capital_rate_percent")
    return past + (["what paying in advance costs"] if early else [])


def _print_pools(out: Console, plan: FleetPlan) -> None:
    heading(out, "What runs on it (used: of what the targets allow, at the fullest)")
    table = make_table(
        ("pool", "right"), ("replicas", "right"), ("GPUs", "right"), ("used", "right"), ("at once", "right"),
        ("a replica, and what it serves", "left"),
    )  # fmt: skip
    for pool in plan.pools:
        table.add_row(
            pool.id.removeprefix("pool "),
            range_words(pool.replicas_by_period),
            f"{pool.gpus_per_replica}",
            share(pool.utilization),
            f"{pool.concurrency_per_replica:,}",
            f"{_replica_words(plan, pool)}\n{_serves_words(pool)}",
        )
    out.print(table)
    out.print("GPUs: of one replica. At once: the most requests that a replica runs (an engine's --max-num-seqs).")


def _replica_words(plan: FleetPlan, pool: Pool) -> str:
    split = split_words(pool.weights, pool.kv_cache, pool.tp, pool.pp, pool.ep, pool.attention_dp)
    site = next(one for one in plan.sites if one.id == pool.site)
    across = f" across {nodes_words(pool.nodes_per_replica)}" if pool.nodes_per_replica > 1 else ""
    return f"{pool.model} in {split} on {site.gpu}{across}, {pool.site}"


def _serves_words(pool: Pool) -> str:
    parts = sorted((one for one in pool.serves if one.share >= LEAST_SHARE), key=lambda one: -one.share)
    if not parts:
        return "- nothing: it stands by"
    said = [f"{share(one.share)} of {one.class_name}" for one in parts[:MOST_SERVED]]
    more = [f"{len(parts) - MOST_SERVED} more classes"] if len(parts) > MOST_SERVED else []
    return f"- serves {', '.join(said + more)}"


def _print_classes(out: Console, plan: FleetPlan) -> None:
    levels = {str(one.targets.get("at") or "mean") for one in plan.classes}
    at = levels.pop() if len(levels) == 1 else "at the level of each target"
    heading(out, f"Traffic, and what is predicted for it on each pool at its own mix ({at})")
    largest = sorted(plan.classes, key=lambda one: -max(one.requests_per_second_by_period))[:MOST_CLASSES]
    models = list(dict.fromkeys(one.model for one in plan.classes if one in largest))
    for model in models:
        if len(models) > 1:
            out.print(f"{model}:")
        table = make_table(
            ("class", "left"), ("requests/s", "right"), ("", "right"), ("TTFT", "right"), ("TPOT", "right"),
            ("end to end", "right"), ("", "left"),
        )  # fmt: skip
        table.columns[0].overflow = "fold"  # a name may be one long word
        for one in plan.classes:
            if one in largest and one.model == model:
                for row in _class_rows(plan, one):
                    table.add_row(*row)
        out.print(table)
    if len(plan.classes) > MOST_CLASSES:
        out.print(f"The {MOST_CLASSES} largest of {len(plan.classes)} classes; --json has all.")


def _class_rows(plan: FleetPlan, one: ClassAnswer) -> list[list[str]]:
    """Return a row with what a class asks, and one for each pool with what it gets there."""
    asked = [milliseconds(one.targets.get(name)) for name in LATENCIES]
    rows = [["", _rates(one), "asked", *asked, ""]]
    for pool in plan.pools:
        for served in pool.serves:
            if (pool.model, served.class_name) == (one.model, one.name) and served.share >= LEAST_SHARE:
                got = [milliseconds(getattr(served, name)) for name in LATENCIES]
                rows.append(["", "", pool.id, *got, _verdict(one, served)])
    # What is said of the class goes on beside what the pools do.
    lines = _class_words(one)
    for position, row in enumerate(rows):
        row[0] = "\n".join(lines[position:] if position == len(rows) - 1 else lines[position : position + 1])
    return rows


def _class_words(one: ClassAnswer) -> list[str]:
    lines = [one.name]
    if not (" in, " in one.name and one.name.endswith(" out")):  # a name that says the lengths already
        lines.append(f"{one.input_tokens:,} in, {one.output_tokens:,} out")
    return lines + ([f"only in {', '.join(one.regions)}"] if one.regions else [])


def _verdict(one: ClassAnswer, served: Served) -> str:
    if all(one.targets.get(name) is None for name in LATENCIES):
        return ""
    return "holds" if served.holds else "MISSED"


def _rates(one: ClassAnswer) -> str:
    low, high = min(one.requests_per_second_by_period), max(one.requests_per_second_by_period)
    return count(high) if low == high else f"{count(low)}-{count(high)}"


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
    table = make_table(("$/hour", "right"), ("more", "right"), ("with", "left"))
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
        step = ", ".join(
            f"{CAUSES.get(cause, cause)} {value:.2f}"
            for cause, value in done.step_ms.items()
            if value >= LEAST_SHOWN_MS
        )
        in_flight = max(done.requests_in_flight, 1.0)
        bullet(
            out,
            f"{pool.id}, {in_flight:.1f} requests in flight per replica: {step}",
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
    seen = (
        f"The oldest of them was seen {prices.seen_on}, {amount_of(prices.age_days, 'day')} ago."
        if prices.seen_on
        else f"They are at best {amount_of(prices.age_days, 'day')} old."
    )
    set_aside = sum(prices.offers_set_aside.values())
    out.print(f"As of {prices.as_of}: {prices.offers_considered:,} offers, {set_aside:,} rows set aside. {seen}")
    used = dict.fromkeys(one.price_source for site in plan.sites for one in site.purchases)
    for source in used:
        out.print(f"Source: {prices.sources.get(source, source)}")
    for warning in plan.warnings:
        out.print(f"Warning: {warning}", style="yellow")
