"""The front of cost against latency: every layout that no other one beats in all that the user looks at.

It is read off a table of every layout up to a cost (optimizer.whatif.operating), so it is complete there. Cutting off
at a cost loses nothing below it: whatever beats a layout costs no more than the layout does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from catalogs.models import ModelSpec
from catalogs.offers import OfferTable
from optimizer.answer import Answer, answers
from optimizer.choices import MICRO
from optimizer.errors import QuestionError
from optimizer.scenario import Scenario
from optimizer.solve import Problem, audit_answers, pose
from optimizer.version import __version__
from optimizer.whatif.front_points import BY_DEFAULT, COLUMNS, LATENCY, OBJECTIVES, Front, FrontPoint, Objective
from optimizer.whatif.operating import as_choices, layouts_up_to, micro, operating_table
from optimizer.wording import summarize

Floats = NDArray[np.float64]

UP_TO = 10.0  # times the least cost, where the user says no other end
WORTH = 0.1  # a knee is at least so much better than the cheapest
MOST_LAYOUTS = 300_000  # to compare, where the user says no end: a lower one is taken


@dataclass(frozen=True)
class _Sorted:
    """Rows of an operating table that are on the front, with what they are compared by."""

    rows: pd.DataFrame
    values: Floats


def find_front(
    scenario: Scenario,
    objectives: Sequence[Objective] = BY_DEFAULT,
    *,
    up_to_usd_per_hour: float | None = None,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
) -> Front:
    """Return the whole front of layouts that keep every rule, each audited.

    Args:
        scenario: the question; its budget, where it has one, ends the front.
        objectives: what layouts are compared by, two at least.
        up_to_usd_per_hour: the most that a layout of the front may cost; UP_TO times the least cost when not given.
        model: the model, where the caller has it already; else the scenario's is loaded.
        catalog: offers at list prices, likewise.
        today: the day that price ages count from; the real one when not given.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
        AuditError: the checker found a rule broken in a point of the front.
    """
    problem = pose(scenario, model=model, catalog=catalog, today=today)
    ordered = tuple(name for name in OBJECTIVES if name in objectives)
    common: dict[str, Any] = {
        "shardwise_version": __version__,
        "scenario": scenario.model_dump(mode="json"),
        "objectives": ordered,
        "at": scenario.targets.at,
        "confidence": scenario.targets.confidence,
        "traffic_kind": scenario.workload.kind,
    }
    end = _end(problem, up_to_usd_per_hour)
    table = operating_table(problem, end or 0, widest="throughput" in ordered)
    if end is None or table.empty:
        return Front(**common, status="infeasible", up_to_usd_per_hour=None, compared=0, points=(), knee=None)
    found = _front_of(problem, table, ordered)
    knee = find_knee(found.rows, ordered)
    said = answers(scenario, problem.model, as_choices(problem, found.rows), problem.candidates.speed, problem.offers)
    audit_answers(problem, said, today or date.today())
    return Front(
        **common,
        status="complete",
        up_to_usd_per_hour=end / MICRO,
        compared=len(table),
        points=_points(found, ordered, said, knee),
        knee=knee,
        warnings=_warnings(said),
    )


def nondominated(values: Floats) -> NDArray[np.int64]:
    """Return the rows that no other row beats, sorted by their values; of equal rows the first.

    A row beats another when it is at least as small in every column, and smaller in one.
    """
    # Sorted by columns, the first row cannot be beaten: what beats it would come before it. What it beats goes.
    left = np.lexsort(values.T[::-1])
    kept = []
    while len(left):
        best = left[0]
        kept.append(int(best))
        left = left[(values[left] < values[best]).any(axis=1)]
    return np.array(kept, dtype=np.int64)


def find_knee(rows: pd.DataFrame, objectives: Sequence[Objective]) -> int:
    """Return the position of the knee (see Front) among rows of a front, cheapest first."""
    columns = [-np.log(rows[COLUMNS[name]].to_numpy()) for name in _compared_latencies(rows, objectives)]
    columns += [np.log(rows["traffic"].to_numpy())] if "throughput" in objectives else []
    if not columns:
        return 0
    cost = np.log(rows["cost_micro_usd"].to_numpy(dtype=np.float64))
    good = np.mean(columns, axis=0)
    least = cost == cost.min()
    base = int(np.argmax(np.where(least, good, -np.inf)))
    gain = good - good[base]
    worth = (gain >= np.log(1 + WORTH)) & ~least
    if not worth.any():
        return base
    per_dollar = gain / np.where(least, 1.0, cost - cost[base])
    return int(np.argmax(np.where(worth, per_dollar, -np.inf)))


def _compared_latencies(rows: pd.DataFrame, objectives: Sequence[Objective]) -> list[Objective]:
    """Return the latencies among the objectives; the time per token of answers of one token is none."""
    return [name for name in LATENCY if name in objectives and bool((rows[COLUMNS[name]] > 0).all())]


def _end(problem: Problem, up_to_usd_per_hour: float | None) -> int | None:
    """Return the cost at which the front ends, in micro-dollars; None where nothing is feasible."""
    if problem.feasible.empty:
        return None
    budget = problem.scenario.limits.budget_usd_per_hour
    asked = [micro(one) for one in (up_to_usd_per_hour, budget) if one is not None]
    least = int(problem.feasible["cost_micro_usd"].min())
    if asked and min(asked) < least:
        raise QuestionError(
            f"--up-to-usd-per-hour {min(asked) / MICRO:g}: the cheapest layout costs ${least / MICRO:,.2f} an hour; "
            f"give at least that"
        )
    if asked:
        return min(asked)
    times = UP_TO
    while times > 1.0 and layouts_up_to(problem, round(least * times)) > MOST_LAYOUTS:
        times = max(1.0, times * 0.8)
    return round(least * times)


def _values(table: pd.DataFrame, objectives: Sequence[Objective]) -> Floats:
    """Return what layouts are compared by, a column an objective, the less the better."""
    columns = [table[COLUMNS[name]].to_numpy(dtype=np.float64) for name in objectives]
    return np.column_stack(
        [-one if name == "throughput" else one for name, one in zip(objectives, columns, strict=True)]
    )


def _front_of(problem: Problem, table: pd.DataFrame, objectives: Sequence[Objective]) -> _Sorted:
    """Return the front of a table; of layouts alike in every objective, the one that an answer of `solve` would be."""
    choices = problem.choices.frame.loc[table["choice"].to_numpy()]
    gpus = table["nodes"].to_numpy() * choices["gpus_per_node"].to_numpy()
    ties = (table["choice"], table["replicas"], choices["pp"], choices["precision"], gpus, table["cost_micro_usd"])
    ranked = table.iloc[np.lexsort([np.asarray(one) for one in ties])]
    rows = ranked.iloc[nondominated(_values(ranked, objectives))]
    rows = rows.sort_values(["cost_micro_usd", *(COLUMNS[name] for name in LATENCY)], kind="stable", ignore_index=True)
    return _Sorted(rows, _values(rows, objectives))


def _points(
    found: _Sorted, objectives: Sequence[Objective], said: Sequence[Answer], knee: int
) -> tuple[FrontPoint, ...]:
    best = found.values == found.values.min(axis=0)
    columns = ["tpot_ms", "ttft_ms", "e2e_ms", "traffic"]
    figures = found.rows[columns].to_numpy(dtype=np.float64).tolist()
    return tuple(
        FrontPoint(
            usd_per_hour=answer.cost.usd_per_hour,
            tpot_ms=tpot,
            ttft_ms=ttft,
            e2e_ms=e2e,
            most_traffic=traffic,
            best_in=tuple(name for name, is_best in zip(objectives, best[position], strict=True) if is_best),
            knee=position == knee,
            summary=summarize(answer.layout),
            layout=answer.layout,
        )
        for position, (answer, (tpot, ttft, e2e, traffic)) in enumerate(zip(said, figures, strict=True))
    )


def _warnings(said: Sequence[Answer]) -> tuple[str, ...]:
    borrowed = sorted({answer.layout.gpu for answer in said if answer.performance.basis == "borrowed"})
    if not borrowed:
        return ()
    return (f"no run on {', '.join(borrowed)} was measured: those speeds are borrowed from a similar GPU family",)
