"""The choices that fit a layout a user named, with the rules each breaks in the number of nodes that was named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.answer import Answer, answers
from optimizer.candidates import allowed_kv_caches, allowed_weights, node_shapes
from optimizer.choices import MICRO, NEVER, TIE_BREAK, broken_offer_rules, build_choices, nodes_needed, offer_rows
from optimizer.rules import bit, bits_of_kind
from optimizer.scenario import Scenario
from optimizer.solve import Problem, audit_answers, holding, pose, with_targets_given_up
from optimizer.whatif.account import side_of
from optimizer.whatif.asked import PLACES, SIZES, Asked
from optimizer.whatif.explain_answer import Side
from optimizer.whatif.prices import Mask

Ints = NDArray[np.int64]
COUNTS = ("traffic", "quota", "budget", "replicas_allowed")


@dataclass(frozen=True)
class Chosen:
    """The answer to a question that layouts are compared with, and what it was found from."""

    scenario: Scenario
    model: ModelSpec
    listed: OfferTable
    today: date
    row: pd.Series
    answer: Answer

    @property
    def side(self) -> Side:
        """Its figures."""
        return side_of(self.scenario, self.row, self.answer)


@dataclass(frozen=True)
class Matches:
    """What fits a named layout.

    Attributes:
        problem: the question opened for what is named, with targets given up.
        offers: the offers that fit (rows of the problem's offers).
        rows: choices that fit, with the bits of the rules of the question itself; by cost.
    """

    problem: Problem
    offers: Mask
    rows: pd.DataFrame

    @property
    def feasible(self) -> pd.DataFrame:
        """Choices that fit and keep every rule, cheapest first."""
        return holding(self.problem, self.rows[self.rows["broken"] == 0])

    def answer(self, rows: pd.DataFrame) -> Answer | None:
        """Return the answer of the first of some of its rows; None where there is none."""
        problem = self.problem
        first = rows.head(1)
        found = answers(problem.scenario, problem.model, first, problem.candidates.speed, problem.offers)
        return found[0] if found else None


def find_matches(scenario: Scenario, asked: Asked, model: ModelSpec, listed: OfferTable, today: date) -> Matches:
    """Return the choices that fit a named layout.

    Args:
        scenario: the question, whose rules count.
        asked: what is named.
        model: the model.
        listed: offers at list prices.
        today: the day that price ages count to.
    """
    problem = pose(_opened(scenario, asked), model=model, catalog=listed, today=today)
    offers = _offers_named(problem.offers, asked)
    kept = offer_rows(scenario, problem.offers, node_shapes(problem.offers)[1], today, offers)
    problem = with_targets_given_up(replace(problem, choices=build_choices(scenario, problem.candidates.frame, kept)))
    rows = problem.choices.frame
    fits = offers[rows["offer"].to_numpy()]
    for name in (*SIZES, "weights", "kv_cache"):
        wanted = getattr(asked, name)
        if wanted is not None:
            fits &= (rows[name] == wanted).to_numpy()
    rows = _counted(scenario, rows[fits], asked)
    broken = rows["broken"].to_numpy() & ~bits_of_kind("limit", "offer")
    broken |= broken_offer_rules(scenario, problem.offers, today)[rows["offer"].to_numpy()]
    rows = rows.assign(broken=broken | _broken_limits(scenario, model, rows))
    return Matches(replace(problem, scenario=scenario), offers, rows)


def cheapest_match(
    scenario: Scenario, asked: Asked, model: ModelSpec, listed: OfferTable, today: date
) -> Answer | None:
    """Return the cheapest layout that fits and keeps every rule, audited; None where there is none."""
    found = find_matches(scenario, asked, model, listed, today)
    answer = found.answer(found.feasible)
    if answer is not None:
        audit_answers(replace(found.problem, scenario=scenario), [answer], today)
    return answer


def _opened(scenario: Scenario, asked: Asked) -> Scenario:
    """Return the question with named formats and sizes in place of those allowed, so that they are looked at."""
    named = {name: getattr(asked, name) for name in ("weights", "kv_cache", *SIZES)}
    opened: dict[str, Any] = {name: (value,) for name, value in named.items() if value is not None}
    return scenario.changed("limits", **opened) if opened else scenario


def _offers_named(offers: pd.DataFrame, asked: Asked) -> Mask:
    fits = np.ones(len(offers), dtype=bool)
    if asked.gpus:
        fits &= offers["gpu"].isin(asked.gpus).to_numpy()
    for name in (*PLACES, "term", "gpus_per_node"):
        wanted = getattr(asked, name)
        if wanted is not None:
            fits &= (offers[name] == wanted).to_numpy()
    return fits


def _counted(scenario: Scenario, rows: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """Return the rows in the nodes or replicas that are named, those that come in no such number left out."""
    if asked.nodes is None and asked.gpus_rented is None and asked.replicas is None:
        return rows
    per_node, on_node, spans, fewest = (
        rows[name].to_numpy() for name in ("gpus_per_node", "replicas_per_node", "nodes_per_replica", "fewest")
    )
    fits = np.ones(len(rows), dtype=bool)
    nodes = np.zeros(len(rows), dtype=np.int64)
    if asked.nodes is not None:
        nodes[:] = asked.nodes
    if asked.gpus_rented is not None:
        whole = asked.gpus_rented // per_node
        fits &= (asked.gpus_rented % per_node == 0) & ((nodes == 0) | (nodes == whole))
        nodes = whole
    if asked.replicas is not None:
        replicas = np.full(len(rows), asked.replicas)
        needed = nodes_needed(replicas, on_node, spans)
        fits &= (nodes == 0) | (nodes == needed)
        nodes = needed
    else:
        # Enough replicas to need the last node, and no more than the nodes hold.
        least, most = (nodes - 1) * on_node + 1, nodes * on_node
        replicas = np.where(spans > 1, nodes // spans, np.clip(fewest, least, most))
        fits &= (nodes % spans == 0) & (replicas >= 1)
    return _recounted(scenario, rows[fits], replicas[fits], nodes[fits])


def _recounted(scenario: Scenario, rows: pd.DataFrame, replicas: Ints, nodes: Ints) -> pd.DataFrame:
    """Return the rows in another number of replicas, with cost and counting rules as they are then."""
    limits = scenario.limits
    cost = nodes * rows["price_micro_usd"].to_numpy()
    broken = rows["broken"].to_numpy() & ~bit(*COUNTS)
    broken |= np.where(rows["fewest"].to_numpy() > replicas, bit("traffic"), 0)
    broken |= np.where(nodes > rows["node_cap"].to_numpy(), bit("quota"), 0)
    if limits.budget_usd_per_hour is not None:
        broken |= np.where(cost > round(limits.budget_usd_per_hour * MICRO), bit("budget"), 0)
    if limits.replicas:
        broken |= np.where(np.isin(replicas, limits.replicas), 0, bit("replicas_allowed"))
    with np.errstate(divide="ignore", invalid="ignore"):
        load = scenario.workload.demand / (replicas * rows["capacity"].to_numpy())
    load = np.where(np.isfinite(load), np.rint(1000 * np.minimum(load, 1e6)), NEVER).astype(np.int64)
    changed = rows.assign(
        replicas=replicas,
        nodes=nodes,
        node_cap=np.minimum(rows["node_cap"].to_numpy(), nodes),
        cost_micro_usd=cost,
        gpus_rented=nodes * rows["gpus_per_node"].to_numpy(),
        load_permille=load,
        broken=broken,
    )
    return changed.sort_values(list(TIE_BREAK), kind="stable")


def _broken_limits(scenario: Scenario, model: ModelSpec, rows: pd.DataFrame) -> Ints:
    """Return the bits of the question's own limits on the layout that each row breaks."""
    limits = scenario.limits
    gpus = rows["gpu"].to_numpy()
    broken = np.where(np.isin(gpus, limits.exclude_gpus), bit("gpu_allowed"), 0)
    if limits.gpus:
        broken |= np.where(np.isin(gpus, limits.gpus), 0, bit("gpu_allowed"))
    broken |= np.where(np.isin(rows["weights"], allowed_weights(scenario, model)), 0, bit("weights_allowed"))
    kept = allowed_kv_caches(scenario, model)
    if limits.kv_cache == ("auto",):
        held = [
            rows_kv == get_gpu(gpu).own_kv_cache(kept[0]) for gpu, rows_kv in zip(gpus, rows["kv_cache"], strict=True)
        ]
        own = np.array(held, dtype=bool)
    else:
        own = np.isin(rows["kv_cache"], kept)
    broken |= np.where(own, 0, bit("kv_cache_allowed"))
    for size in SIZES:
        if wanted := getattr(limits, size):
            broken |= np.where(np.isin(rows[size], wanted), 0, bit("sizes_allowed"))
    return np.asarray(broken)
