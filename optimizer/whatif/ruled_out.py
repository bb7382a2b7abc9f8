"""Layouts that a user named and the catalog does not hold: not on offer, or ruled out by the model or the hardware."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec
from optimizer.check import check_layout
from optimizer.divisibility import check_split
from optimizer.infeasible import find_nearest_misses
from optimizer.plan import Layout, LeastChange, Miss
from optimizer.rules import bit
from optimizer.scenario import Scenario
from optimizer.solve import conflict_table
from optimizer.split import Split
from optimizer.whatif.asked import PLACES, SIZES, Asked
from optimizer.whatif.matches import Chosen, Matches, cheapest_match, find_matches
from optimizer.wording import split_words, summarize

MOST_TP = 64
NAMED_BY = {  # the question's own limits, with what in a layout's words goes beyond them
    "gpu_allowed": ("gpus",),
    "weights_allowed": ("weights",),
    "kv_cache_allowed": ("kv_cache",),
    "sizes_allowed": SIZES,
    "provider_allowed": ("provider", "instance_type"),
    "provider_kind_allowed": ("provider", "instance_type"),
    "region_allowed": ("region",),
    "instance_type_allowed": ("instance_type",),
    "term_allowed": ("term",),
}
DIVIDED_BY_TP = ("heads_divisible", "ffn_divisible", "vocabulary_divisible", "quantization_blocks")


def as_asked(rows: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """Return the rows within the question's own limits on what was not named, where there are any.

    Nobody who names a GPU type asks why it is not rented on another term, or run in a format that is not allowed.
    """
    unnamed = [rule for rule, names in NAMED_BY.items() if not any(getattr(asked, name) for name in names)]
    within = rows[(rows["broken"].to_numpy() & bit(*unnamed)) == 0]
    return rows if within.empty else within


def not_on_offer(found: Matches, asked: Asked) -> Miss:
    """Say which named part no offer has."""
    offers = found.problem.offers
    fits = np.ones(len(offers), dtype=bool)
    said = "no offer is like that"
    for name in ("gpus", "gpus_per_node", *PLACES, "term"):
        wanted = getattr(asked, name)
        if not wanted:
            continue
        column = offers["gpu" if name == "gpus" else name]
        now = column.isin(wanted if name == "gpus" else [wanted]).to_numpy()
        if not (fits & now).any():
            said = _lacks(name, asked, sorted({str(value) for value in column[fits]}, key=_by_size))
            break
        fits &= now
    return Miss(summary=asked.text, usd_per_hour=None, breaks={"on_offer": said})


def _by_size(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdecimal() else (0, value)


def _lacks(name: str, asked: Asked, there: list[str]) -> str:
    of = " or ".join(asked.gpus) if asked.gpus else "any GPU"
    if name == "gpus":
        return f"no offer of {of} on that day"
    wanted = getattr(asked, name)
    if name == "gpus_per_node":
        return f"no node of {wanted}x {of} is on offer; there are nodes of {', '.join(there)}"
    shown = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
    return f"no offer of {of} with {name.replace('_', ' ')} {wanted}; there are {shown}"


def ruled_out(chosen: Chosen, found: Matches, asked: Asked) -> Miss:
    """Say which rules of model and hardware rule a named layout out, on the node that breaks the fewest of them.

    What is not named is taken as one, and the checkpoint's own format.
    """
    misses = []
    offers = found.problem.offers[found.offers].drop_duplicates(["gpu", "gpus_per_node", "network"])
    for offer in offers.to_dict("records"):
        per_node = int(offer["gpus_per_node"])
        if asked.gpus_rented is not None and asked.gpus_rented % per_node:
            continue
        layout = _hypothetical(chosen, asked, {str(name): value for name, value in offer.items()})
        broken = check_layout(chosen.scenario, chosen.model, layout, today=chosen.today)
        breaks: dict[str, str] = {}
        for one in broken:
            breaks.setdefault(one.rule, one.message)
        # Counts are those of one replica: whether they would be enough is no matter where it does not run.
        rules = {rule: said for rule, said in breaks.items() if rule not in ("traffic", "whole_nodes", "arithmetic")}
        if divided := next((rule for rule in rules if rule in DIVIDED_BY_TP), None):
            rules[divided] += _sizes_that_divide(chosen.model, layout)
        split = split_words(layout)
        summary = f"{layout.gpus_per_node}x {layout.gpu} to a node: {split}"
        misses.append(Miss(summary=summary, usd_per_hour=None, breaks=rules or {"whole_nodes": _not_whole(layout)}))
    if not misses:
        said = f"no number of nodes on offer makes {asked.gpus_rented} GPUs"
        return Miss(summary=asked.text, usd_per_hour=None, breaks={"on_offer": said})
    return min(misses, key=lambda miss: len(miss.breaks))


def _sizes_that_divide(model: ModelSpec, layout: Layout) -> str:
    """Name the tensor parallel sizes that the model does divide over, all else as it is."""
    split = Split(layout.weights, layout.kv_cache, layout.tp, layout.pp, layout.ep, layout.attention_dp)
    sizes = [str(tp) for tp in range(1, MOST_TP + 1) if not check_split(model, replace(split, tp=tp))]
    return f"; tp {', '.join(sizes)} would" if sizes else ""


def _not_whole(layout: Layout) -> str:
    """Say that a replica does not come in the number of nodes that was named."""
    gpus = layout.tp * layout.pp * layout.attention_dp
    return (
        f"replicas of {gpus} GPUs on nodes of {layout.gpus_per_node} neither fit a node nor fill whole ones, "
        "or take another number of nodes than was named"
    )


def _hypothetical(chosen: Chosen, asked: Asked, offer: dict[str, object]) -> Layout:
    """Return one replica of a named layout on a node of an offer, whatever rules it breaks."""
    card, own = get_gpu(str(offer["gpu"])), chosen.model.checkpoint
    split = Split(
        asked.weights or str(own.weights),
        asked.kv_cache or card.own_kv_cache(str(own.own_kv_cache)),
        asked.tp or (asked.ep if asked.ep is not None and asked.attention_dp is None else 1),
        asked.pp or 1,
        asked.ep or 1,
        asked.attention_dp or 1,
    )
    nodes = max(1, -(-split.gpus // int(str(offer["gpus_per_node"]))))
    network, stock = float(str(offer["network_gbit_per_s"])), float(str(offer["max_nodes"]))
    return chosen.answer.layout.model_copy(
        update={
            **{name: str(offer[name]) for name in ("provider", "provider_kind", "region", "instance_type", "gpu")},
            **{name: str(offer[name]) for name in ("term", "fabric", "network")},
            **{name: int(str(offer[name])) for name in ("gpus_per_node", "scale_up_gpus")},
            **{name: getattr(split, name) for name in (*SIZES, "weights", "kv_cache")},
            "price_usd_per_node_hour": float(str(offer["price_usd_per_node_hour"])),
            "network_gbit_per_s": None if np.isnan(network) else network,
            "max_nodes": None if np.isnan(stock) else int(stock),
            "replicas": 1,
            "nodes": nodes,
            "nodes_per_replica": nodes,
            "gpus_used": split.gpus,
            "concurrency_per_replica": 1,
        }
    )


def across_nodes(chosen: Chosen, asked: Asked, nearest: Miss) -> tuple[tuple[LeastChange, ...], dict[str, str]]:
    """Return what letting a replica span more nodes would do, where a rule on that is all that keeps it from running.

    And what is broken even then, where that is not enough.
    """
    scenario = chosen.scenario
    words, flags = [], []
    if "tp_scale_up" in nearest.breaks:
        scenario = scenario.changed("limits", tp_across_nodes=True)
        words.append("tensor parallel groups across nodes")
        flags.append("--tp-across-nodes")
    if "nodes_per_replica" in nearest.breaks:
        scenario = scenario.changed("limits", max_nodes_per_replica=64)
        words.append("replicas over up to 64 nodes")
        flags.append("limits.max_nodes_per_replica")
    if not words or set(nearest.breaks) - {"tp_scale_up", "nodes_per_replica", "vram_headroom", "ttft", "tpot", "e2e"}:
        return (), {}
    found = find_matches(scenario, asked, chosen.model, chosen.listed, chosen.today)
    answer = cheapest_match(scenario, asked, chosen.model, chosen.listed, chosen.today)
    if answer is None:
        return (), _beyond(chosen, asked, found, scenario, f"with {' and '.join(words)}")
    rules = tuple(rule for rule in nearest.breaks if rule in ("tp_scale_up", "nodes_per_replica"))
    change = LeastChange(
        rules=rules,
        change=" and ".join(words),
        flag=" ".join(flags),
        summary=summarize(answer.layout),
        usd_per_hour=answer.cost.usd_per_hour,
    )
    return (change,), {}


def _beyond(chosen: Chosen, asked: Asked, found: Matches, scenario: Scenario, when: str) -> dict[str, str]:
    """Say what a layout that was let across nodes breaks still, by rule."""
    if found.rows.empty:
        return {}
    rows = as_asked(found.rows, asked)
    (nearest,) = find_nearest_misses(scenario, conflict_table(found.problem, chosen.today, rows), most=1)
    return {rule: f"{when}: {said}" for rule, said in nearest.breaks.items()}
