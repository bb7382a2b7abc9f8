"""Candidates meet prices: a row is one replica split on one priced offer, with how many would have to be rented.

Only the offers of a shape that could still matter are kept: for each set of offer rules broken, those on the front of
a lower price against more nodes to be had. So the table stays small however many offers the catalog has.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from optimizer.owned import OWNED
from optimizer.rules import RULES, bit, bits_of_kind
from optimizer.scenario import Scenario

Ints = NDArray[np.int64]

MICRO = 1_000_000  # whole micro-dollars per dollar: money in a constraint program is an integer
UNLIMITED = 100_000  # nodes, where neither a quota nor stock says how many there are; more than any catalog holds
NEVER = 10**9  # replicas, where no number of them carries the traffic

# Between equal costs: fewer GPUs rented, the wider precision, fewer pipeline stages, more room for the traffic, a
# smaller replica, then names (offers are sorted by price and names, splits by their sizes).
TIE_BREAK = ("cost_micro_usd", "gpus_rented", "precision", "pp", "load_permille", "gpus", "offer", "split")


# What the choices keep of their candidates.
CANDIDATE_COLUMNS = [
    "shape",
    "split",
    "replica",
    "gpu",
    "gpus_per_node",
    "weights",
    "kv_cache",
    "tp",
    "pp",
    "ep",
    "attention_dp",
]
CANDIDATE_COLUMNS += [
    "gpus",
    "nodes_per_replica",
    "replicas_per_node",
    "precision",
    "memory_concurrency",
    "concurrency",
]
CANDIDATE_COLUMNS += ["capacity", "alone_ttft_s", "alone_tpot_s", "alone_e2e_s"]

# Of those, what counting and ordering the choices takes.
COUNTED_BY = ["capacity", "gpus_per_node", "replicas_per_node", "nodes_per_replica", "precision", "pp", "gpus", "split"]


@dataclass(frozen=True)
class Choices:
    """What could be rented.

    Attributes:
        frame: a row a (candidate, offer). `candidate` and `offer` are row numbers of the candidate frame and of the
            offers; `broken` has the bits of every rule broken, counting rules at the full traffic included; `nodes`
            and `cost_micro_usd` are what the full traffic takes. Sorted by TIE_BREAK, so that a row's position is its
            rank among equals.
        shape_offers: a row an offer kept: shape, offer, price, node_cap and the bits of the offer rules it breaks.
    """

    frame: pd.DataFrame
    shape_offers: pd.DataFrame


def offer_rows(
    scenario: Scenario,
    offers: pd.DataFrame,
    shape_of: Ints,
    today: date,
    apart: NDArray[np.bool_] | None = None,
) -> pd.DataFrame:
    """Return the offers that could matter: shape, offer, price, node_cap (nodes to be had) and broken offer rules.

    Args:
        scenario: the question.
        offers: at the user's own prices, sorted as an OfferTable is.
        shape_of: the shape of each.
        today: the day that price ages count to.
        apart: offers that are not weighed against the others, because their prices are about to change.
    """
    rows = pd.DataFrame(
        {
            "shape": shape_of,
            "offer": np.arange(len(offers)),
            "price_micro_usd": np.rint(offers["price_usd_per_node_hour"].to_numpy() * MICRO).astype(np.int64),
            "node_cap": node_caps(scenario, offers),
            "broken": broken_offer_rules(scenario, offers, today),
        }
    )
    # Offers are sorted by price, then by names: the first of a group is the cheapest, and ties fall by name.
    key = rows["shape"].to_numpy() << len(RULES) | rows["broken"].to_numpy()
    if apart is not None:
        key = key << 1 | apart
    group = np.unique(key, return_inverse=True)[1].reshape(-1)
    return rows[_rises(group, rows["node_cap"].to_numpy())].reset_index(drop=True)


def _rises(group: Ints, values: Ints) -> NDArray[np.bool_]:
    """Say of each row whether its value (0 to UNLIMITED) is above all earlier ones of its group; a group's first is."""
    order = np.argsort(group, kind="stable")
    # With each group lifted above the one before, one running maximum serves them all.
    lifted = values[order] + group[order] * (UNLIMITED + 1)
    highest = np.maximum.accumulate(lifted)
    starts = group[order[1:]] != group[order[:-1]]
    rises = np.ones(len(values), dtype=bool)
    rises[order[1:]] = starts | (highest[1:] > highest[:-1])
    return rises


def broken_offer_rules(scenario: Scenario, offers: pd.DataFrame, today: date) -> Ints:
    """Return the bits of the offer rules that each offer breaks."""
    limits = scenario.limits
    broken = np.zeros(len(offers), dtype=np.int64)
    for rule, column, allowed in (
        ("provider_allowed", "provider", limits.providers),
        ("provider_kind_allowed", "provider_kind", limits.provider_kinds),
        ("region_allowed", "region", limits.regions),
        ("instance_type_allowed", "instance_type", limits.instance_types),
        ("term_allowed", "term", limits.terms),
    ):
        if allowed:
            broken |= np.where(offers[column].isin(allowed).to_numpy(), 0, bit(rule))
    # Hardware of one's own is in the question because it is wanted.
    broken &= ~np.where((offers["term"] == OWNED).to_numpy(), bit("term_allowed"), 0)
    if limits.exclude_providers:
        broken |= np.where(offers["provider"].isin(limits.exclude_providers).to_numpy(), bit("provider_allowed"), 0)
    if limits.providers:
        # A provider asked for by name is wanted whatever its kind.
        broken &= ~np.where(offers["provider"].isin(limits.providers).to_numpy(), bit("provider_kind_allowed"), 0)
    if scenario.prices.max_age_days is not None:
        age = (pd.Timestamp(today) - offers["seen_on"]).dt.days.to_numpy()
        broken |= np.where(age > scenario.prices.max_age_days, bit("price_age"), 0)
    return broken


def node_caps(scenario: Scenario, offers: pd.DataFrame) -> Ints:
    """Return the most nodes that can be had of each offer, by stock, quotas and the user's own limits."""
    limits = scenario.limits
    per_node = offers["gpus_per_node"].to_numpy()
    caps = offers["max_nodes"].fillna(UNLIMITED).to_numpy().astype(np.int64)
    if limits.max_nodes is not None:
        caps = np.minimum(caps, limits.max_nodes)
    if limits.max_gpus is not None:
        caps = np.minimum(caps, limits.max_gpus // per_node)
    for quota in limits.quotas:
        matches = np.ones(len(offers), dtype=bool)
        for column in ("gpu", "provider", "region"):
            wanted = getattr(quota, column)
            if wanted is not None:
                matches &= (offers[column] == wanted).to_numpy()
        nodes = np.full(len(offers), UNLIMITED)
        if quota.max_nodes is not None:
            nodes = np.minimum(nodes, quota.max_nodes)
        if quota.max_gpus is not None:
            nodes = np.minimum(nodes, quota.max_gpus // per_node)
        caps = np.where(matches, np.minimum(caps, nodes), caps)
    return np.maximum(caps, 0)


def nodes_needed(replicas: Ints, replicas_per_node: Ints, nodes_per_replica: Ints) -> Ints:
    """Return the whole nodes that so many replicas take: some to a node, or some nodes to each."""
    return np.where(nodes_per_replica > 1, replicas * nodes_per_replica, -(-replicas // replicas_per_node))


def most_replicas(scenario: Scenario, nodes: Ints, replicas_per_node: Ints, nodes_per_replica: Ints) -> Ints:
    """Return the most replicas that the scenario allows on so many whole nodes; 0 where it allows none there."""
    replicas = np.where(nodes_per_replica > 1, nodes // nodes_per_replica, nodes * replicas_per_node)
    allowed = np.array([0, *sorted(scenario.limits.replicas)], dtype=np.int64)
    if len(allowed) > 1:
        replicas = allowed[np.searchsorted(allowed, replicas, side="right") - 1]
    return replicas


def fewest_replicas(scenario: Scenario, capacity: NDArray[np.float64]) -> Ints:
    """Return the fewest replicas that carry the traffic; NEVER where no number of them does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.where(capacity > 0, scenario.workload.demand / capacity, np.inf)
    fewest = np.ceil(np.minimum(exact, NEVER) * (1 - 1e-12)).astype(np.int64)
    return np.maximum(fewest, 1)


def allowed_replicas(scenario: Scenario, fewest: Ints) -> Ints:
    """Return the smallest number that the scenario allows and that is enough; `fewest` itself where none is."""
    allowed = np.array(sorted(scenario.limits.replicas), dtype=np.int64)
    if not len(allowed):
        return fewest
    position = np.searchsorted(allowed, fewest)
    return np.where(position < len(allowed), allowed[np.minimum(position, len(allowed) - 1)], fewest)


def _joined(shapes: Ints, offered: Ints) -> tuple[Ints, Ints]:
    """Return every pair of a candidate and an offer of its shape, as two columns of row numbers."""
    by_shape = np.argsort(offered, kind="stable")
    start = np.searchsorted(offered[by_shape], shapes, side="left")
    count = np.searchsorted(offered[by_shape], shapes, side="right") - start
    candidate = np.repeat(np.arange(len(shapes)), count)
    within = np.arange(len(candidate)) - np.repeat(np.cumsum(count) - count, count)
    return candidate, by_shape[np.repeat(start, count) + within]


def build_choices(scenario: Scenario, frame: pd.DataFrame, shape_offers: pd.DataFrame) -> Choices:
    """Join candidates and offers by shape; say what the traffic takes of each, its cost, and the rules it breaks.

    Args:
        scenario: the question.
        frame: candidates with their capacity filled in.
        shape_offers: what `offer_rows` kept.
    """
    candidate, kept = _joined(frame["shape"].to_numpy(), shape_offers["shape"].to_numpy())
    of = {name: frame[name].to_numpy()[candidate] for name in ("broken", *COUNTED_BY)}
    of |= {name: shape_offers[name].to_numpy()[kept] for name in ("offer", "price_micro_usd", "node_cap")}
    broken = of["broken"] | shape_offers["broken"].to_numpy()[kept]
    # What a replica carries may not be known where it breaks a target: at the least, one replica would do.
    capacity = of["capacity"]
    known = ((broken & bits_of_kind("target")) == 0) | (capacity > 0)
    fewest = np.where(known, fewest_replicas(scenario, capacity), 1)
    replicas = allowed_replicas(scenario, fewest)
    nodes = nodes_needed(replicas, of["replicas_per_node"], of["nodes_per_replica"])
    cost = nodes * of["price_micro_usd"]
    limits = scenario.limits
    broken |= np.where(replicas >= NEVER, bit("traffic"), 0) | np.where(nodes > of["node_cap"], bit("quota"), 0)
    if limits.replicas:
        broken |= np.where(np.isin(replicas, limits.replicas), 0, bit("replicas_allowed"))
    if limits.budget_usd_per_hour is not None:
        broken |= np.where(cost > round(limits.budget_usd_per_hour * MICRO), bit("budget"), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        load = scenario.workload.demand / (replicas * capacity)
    of |= {
        "candidate": candidate,
        "broken": broken,
        "fewest": fewest,
        "replicas": replicas,
        "nodes": nodes,
        "cost_micro_usd": cost,
        "gpus_rented": nodes * of["gpus_per_node"],
        "load_permille": np.where(np.isfinite(load), np.rint(1000 * np.minimum(load, 1e6)), NEVER).astype(np.int64),
    }
    order = np.lexsort([of[column] for column in reversed(TIE_BREAK)])
    rows = {name: values[order] for name, values in of.items()}
    rows |= {name: frame[name].to_numpy()[rows["candidate"]] for name in CANDIDATE_COLUMNS if name not in rows}
    return Choices(pd.DataFrame(rows), shape_offers)
