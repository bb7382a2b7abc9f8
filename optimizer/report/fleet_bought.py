"""What a fleet buys and what runs on it: purchases with what they bind to, pools with what they serve."""

from __future__ import annotations

from rich.console import Console

from optimizer.fleet.plan import FleetPlan, Pool, Purchase, Site
from optimizer.report.fleet_words import LEAST_SHARE, range_words, site_words
from optimizer.report.text import amount_of, dollars, heading, make_table, share
from optimizer.wording import nodes_words, split_words

MOST_SERVED = 6  # classes named behind a pool


def print_purchases(out: Console, plan: FleetPlan) -> None:
    """Print a row for each way in which nodes are paid for."""
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


def print_pools(out: Console, plan: FleetPlan) -> None:
    """Print a row for each pool of replicas."""
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
    split = split_words(pool)
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
