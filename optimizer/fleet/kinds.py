"""Replica kinds of a fleet: what one replica of each split on each node shape carries of each class, alone.

A replica that serves classes of different targets has to keep the tightest of them for all: it runs its requests in
steps that they share. So a kind is a split on a shape with a set of targets, and serves the classes whose own targets
are no tighter, at the rate that it carries of each within the kind's targets. Between classes its time is shared out
in proportion: of two classes that it carries alone at r1 and r2 it carries u x r1 and (1 - u) x r2 together (Griggs et
al., "Melange", 2024, use the same rule). Where both rates keep the targets so does the mix, as far as a step's time
grows linearly with the requests in it and memory with their tokens, which they very nearly do; the answer predicts each
pool at its own mix besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.models import ModelSpec
from optimizer.candidates import Candidates, build_candidates
from optimizer.fleet.question import FleetScenario
from optimizer.fleet.traffic import Demand
from optimizer.scenario import Scenario, Targets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
NEGLIGIBLE = 1e-6  # requests/s under which a replica counts as carrying nothing


@dataclass(frozen=True)
class ModelKinds:
    """The kinds of one model, before it is known where they would be rented.

    Attributes:
        model: position of the model in the question's traffic.
        spec: the model.
        classes: positions of its classes among all demands.
        table: a row a kind: shape, split, targets (position in `targets`), gpus, nodes_per_replica and the columns that
            say the split; `row` is its row in the frame of `candidates`.
        rates: requests/s that a replica carries of each class alone, a row a kind, a column a class of `classes`.
        concurrency: requests that it then runs at once.
        targets: the sets of targets.
        scenarios: for each set of targets and class, the question that the rate answers; None where a class's own
            targets are tighter than the set.
        candidates: of any of the model's classes.
    """

    model: int
    spec: ModelSpec
    classes: tuple[int, ...]
    table: pd.DataFrame
    rates: Floats
    concurrency: Ints
    targets: tuple[Targets, ...]
    scenarios: tuple[tuple[Scenario | None, ...], ...]
    candidates: Candidates


def model_kinds(
    scenario: FleetScenario, position: int, spec: ModelSpec, demands: Sequence[Demand], shapes: pd.DataFrame
) -> ModelKinds:
    """Return the kinds of one model that no other kind of it makes needless.

    Args:
        scenario: the question.
        position: of the model in its traffic.
        spec: the model.
        demands: the classes of all models.
        shapes: the node shapes.
    """
    classes = tuple(index for index, one in enumerate(demands) if one.model == position)
    sets = target_sets([demands[index].targets for index in classes])
    traffic = scenario.traffic[position]
    asked = tuple(
        tuple(
            scenario.class_scenario(traffic, demands[index].traffic, targets)
            if no_tighter(targets, demands[index].targets)
            else None
            for index in classes
        )
        for targets in sets
    )
    tables, rates, limits = [], [], []
    any_candidates: Candidates | None = None
    for number, questions in enumerate(asked):
        found = [None if one is None else build_candidates(one, spec, shapes) for one in questions]
        known = next(one for one in found if one is not None)
        any_candidates = any_candidates or known
        table, carried, at_once = _carried(known, found)
        tables.append(table.assign(targets=number))
        rates.append(carried)
        limits.append(at_once)
    if any_candidates is None:
        raise ValueError(f"the model at position {position} has no class")
    table, carried, at_once = pd.concat(tables, ignore_index=True), np.vstack(rates), np.vstack(limits)
    able = np.nonzero((carried > NEGLIGIBLE).any(axis=1))[0]
    able = able[_needed(table.iloc[able].reset_index(drop=True), carried[able])]
    return ModelKinds(
        position, spec, classes, table.iloc[able].reset_index(drop=True), carried[able], at_once[able], sets, asked,
        any_candidates,
    )  # fmt: skip


def target_sets(own: Sequence[Targets]) -> tuple[Targets, ...]:
    """Return the sets of targets that a replica could be run for: each class's own, and the tightest of all."""
    sets = list(dict.fromkeys(own))
    if len({one.at for one in sets}) == 1 and len({one.confidence for one in sets}) == 1:
        tightest = {
            name: min((getattr(one, name) for one in sets if getattr(one, name) is not None), default=None)
            for name in LATENCIES
        }
        sets.append(sets[0].model_copy(update=tightest))
    return tuple(dict.fromkeys(sets))


def no_tighter(kept: Targets, own: Targets) -> bool:
    """Say whether a replica that keeps some targets keeps a class's own ones."""
    if all(getattr(own, name) is None for name in LATENCIES):
        return True
    if (kept.at, kept.confidence) != (own.at, own.confidence):
        return False
    for name in LATENCIES:
        mine, theirs = getattr(own, name), getattr(kept, name)
        if mine is not None and (theirs is None or theirs > mine):
            return False
    return True


def _carried(known: Candidates, found: Sequence[Candidates | None]) -> tuple[pd.DataFrame, Floats, Ints]:
    """Return the splits that any class runs on, and what each carries of each class, by split and shape."""
    frame = known.frame
    keys = _key(frame)
    rates = np.zeros((len(frame), len(found)))
    limits = np.zeros((len(frame), len(found)), dtype=np.int64)
    for column, candidates in enumerate(found):
        if candidates is None:
            continue
        other = candidates.frame
        place = pd.Series(np.arange(len(other)), index=_key(other)).reindex(keys).to_numpy()
        there = ~np.isnan(place)
        rows = place[there].astype(np.int64)
        keeps = other["broken"].to_numpy()[rows] == 0
        rates[there, column] = np.where(keeps, other["capacity"].to_numpy()[rows], 0.0)
        limits[there, column] = np.where(keeps, other["concurrency"].to_numpy()[rows], 0)
    columns = ["shape", "split", "replica", "gpu", "weights", "kv_cache", "tp", "pp", "ep", "attention_dp", "gpus"]
    columns += ["nodes_per_replica", "replicas_per_node", "precision"]
    return frame[columns].assign(row=np.arange(len(frame))), rates, limits


def _key(frame: pd.DataFrame) -> Ints:
    """Return one number for each shape and split; the same splits are numbered alike for all classes of a model."""
    return np.asarray(frame["shape"].to_numpy() * 1_000_000 + frame["split"].to_numpy(), dtype=np.int64)


def _needed(table: pd.DataFrame, rates: Floats) -> NDArray[np.bool_]:
    """Say of each kind whether no other kind on its shape makes it needless.

    So many smaller replicas as go into its GPUs, where they divide them, carry at least as much of every class.
    """
    gpus = table["gpus"].to_numpy()
    order = np.lexsort((table["row"].to_numpy(), table["precision"].to_numpy(), gpus, table["shape"].to_numpy()))
    needed = np.ones(len(table), dtype=bool)
    shapes = table["shape"].to_numpy()[order]
    starts = np.flatnonzero(np.concatenate(([True], shapes[1:] != shapes[:-1])))
    for start, end in zip(starts, (*starts[1:], len(order)), strict=True):
        rows = order[start:end]
        whole = gpus[rows][:, None] % gpus[rows][None, :] == 0
        copies = np.where(whole, gpus[rows][:, None] // gpus[rows][None, :], 0)
        # [i, j]: do copies of j carry what i does?
        does = (copies[:, :, None] * rates[rows][None, :, :] >= rates[rows][:, None, :] * (1 - 1e-12)).all(axis=2)
        does &= whole
        np.fill_diagonal(does, False)
        first = np.tri(len(rows), k=-1, dtype=bool)  # of two that are alike the first one stays
        alike = does & does.T
        needed[rows] = ~((does & ~alike) | (alike & first)).any(axis=1)
    return needed
