"""From a question and the catalogs to an answer. This file only wires the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

import pandas as pd

from catalogs.errors import UnknownNameError
from catalogs.gpus import get_gpu
from catalogs.models import ModelSpec, load_model
from catalogs.offers import Discount, OfferTable, discounted
from optimizer import infeasible
from optimizer.answer import Answer, answers
from optimizer.calibration_used import calibration_used, calibration_warnings
from optimizer.candidates import Candidates, build_candidates, node_shapes
from optimizer.capacity import give_up_targets, with_capacity
from optimizer.check import check_plan
from optimizer.check.audit import Audit
from optimizer.check.checks import check_all, offers_of
from optimizer.choices import MICRO, Choices, build_choices, offer_rows
from optimizer.engines import engine_version, why_not_on
from optimizer.errors import AuditError, QuestionError
from optimizer.explain import ruled_out, why_lost, why_none
from optimizer.ladder import explain_ladder
from optimizer.names import check_names
from optimizer.owned_offers import listed_offers
from optimizer.performance.backends.measured import MEASURED
from optimizer.plan import Alternative, Cost, Layout, Performance, Plan, PriceBasis, SolverRun, SpeedCoverage
from optimizer.programs.layout import LayoutAnswer, Settings, cheapest
from optimizer.relax import find_least_changes
from optimizer.savings import Saving, cheaper_choices, cheaper_if
from optimizer.scenario import Scenario
from optimizer.version import __version__
from optimizer.wording import summarize, terms_words, unmeasured_words

KEPT_IN_ALL = 8  # the cheapest choices that enter the program, beside the cheapest of each GPU type


@dataclass(frozen=True)
class Problem:
    """A question with everything it is answered from: `listed` has list prices, `catalog` the user's own."""

    scenario: Scenario
    model: ModelSpec
    listed: OfferTable
    catalog: OfferTable
    shapes: pd.DataFrame
    candidates: Candidates
    choices: Choices

    @property
    def offers(self) -> pd.DataFrame:
        """The offers at the user's own prices."""
        return self.catalog.frame

    @property
    def feasible(self) -> pd.DataFrame:
        """Choices that break no rule, cheapest first."""
        return self.choices.frame[self.choices.frame["broken"] == 0]


def solve(
    scenario: Scenario,
    *,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
    settings: Settings | None = None,
    reasons: bool = True,
) -> Plan:
    """Return the cheapest feasible layout, proved, or why there is none.

    Args:
        scenario: the question.
        model: the model, where the caller has it already; else the scenario's is loaded.
        catalog: offers at list prices, where the caller has them already; else the scenario's are loaded.
        today: the day that price ages count from; the real one when not given.
        settings: how the solver runs.
        reasons: also work out what a person reads beside the answer: alternatives, savings, the ladder, nearest misses,
            least changes. Without them the answer, or the conflict, is the same, proved and audited.

    Raises:
        QuestionError, CatalogError: something the user gave is wrong.
        AuditError: the checker found a rule broken in the answer; nothing is shown then.
    """
    problem = pose(scenario, model=model, catalog=catalog, today=today)
    day = today or date.today()
    feasible = holding(problem, problem.feasible)
    if feasible.empty:
        plan = _infeasible_plan(problem, day, settings, reasons)
    else:
        plan = _plan(problem, feasible, day, settings, reasons)
    violations = check_plan(plan, problem.model, problem.listed.frame)
    if violations:
        raise AuditError(violations)
    return plan


def pose(
    scenario: Scenario,
    *,
    model: ModelSpec | None = None,
    catalog: OfferTable | None = None,
    today: date | None = None,
) -> Problem:
    """Do all the arithmetic that comes before the solver: candidates, prices, rules."""
    model = model or load_model(scenario.model)
    day = today or date.today()
    listed = listed_offers(scenario.prices, day, catalog)
    catalog = at_own_prices(scenario, listed)
    check_names(scenario, catalog.frame)
    return pose_on(scenario, model, listed, catalog, day)


def pose_on(scenario: Scenario, model: ModelSpec, listed: OfferTable, catalog: OfferTable, today: date) -> Problem:
    """Pose a question on offers at the user's own prices, whose names are checked already."""
    shapes, shape_of = node_shapes(catalog.frame)
    candidates = build_candidates(scenario, model, shapes)
    kept = offer_rows(scenario, catalog.frame, shape_of, today)
    return Problem(
        scenario, model, listed, catalog, shapes, candidates, build_choices(scenario, candidates.frame, kept)
    )


def at_own_prices(scenario: Scenario, listed: OfferTable) -> OfferTable:
    """Return the offers with the scenario's discounts taken off."""
    discounts = [Discount(**terms.model_dump()) for terms in scenario.prices.discounts]
    try:
        return discounted(listed, discounts) if discounts else listed
    except UnknownNameError as error:
        raise QuestionError(f"prices.discounts (--discount): {error}") from None


def with_targets_given_up(problem: Problem) -> Problem:
    """Return the problem with counts and costs that hold even where a choice's broken target is given up."""
    candidates = problem.candidates
    replicas = give_up_targets(candidates.replicas, candidates.speed, problem.scenario)
    frame = with_capacity(candidates.frame, replicas)
    return replace(problem, choices=build_choices(problem.scenario, frame, problem.choices.shape_offers))


def choose(feasible: pd.DataFrame, scenario: Scenario, settings: Settings | None) -> tuple[LayoutAnswer, pd.DataFrame]:
    """Run the layout program on the choices that are not dominated; return its answer and those choices.

    One layout rents one offer, so of two choices that keep every rule the dearer is dominated. The cheapest of each
    GPU type and the cheapest of all go in; a dearer one can never be the answer.
    """
    kept = _not_dominated(feasible)
    return cheapest(infeasible.to_choices(kept), infeasible.demand_of(scenario), settings), kept


def _not_dominated(feasible: pd.DataFrame) -> pd.DataFrame:
    of_each_gpu = feasible.drop_duplicates("gpu")
    return feasible.loc[sorted({*of_each_gpu.index, *feasible.index[:KEPT_IN_ALL]})]


def holding(problem: Problem, feasible: pd.DataFrame) -> pd.DataFrame:
    """Return choices without those that miss a target at the traffic that they would get.

    A replica gets less than it could carry within its targets, which can only help a mean; the closed form of a
    percentile is not quite monotone, so those that would enter the program are looked at where they would run.

    Args:
        problem: the question and what it is answered from.
        feasible: choices of it that break no rule, cheapest first.
    """
    while problem.scenario.targets.at != "mean" and not feasible.empty:
        kept = _not_dominated(feasible)
        found = answers(problem.scenario, problem.model, kept, problem.candidates.speed, problem.offers)
        holds = [all(target.holds for target in answer.targets) for answer in found]
        if all(holds):
            break
        feasible = feasible.drop(index=kept.index[[not one for one in holds]])
    return feasible


def cheapest_answer(
    scenario: Scenario,
    *,
    model: ModelSpec,
    catalog: OfferTable,
    today: date,
    settings: Settings | None = None,
) -> Answer | None:
    """Return the cheapest layout, proved and audited, without the reasons that `solve` gives; None if there is none.

    Raises:
        RuntimeError: the solver proved nothing within its time limit.
        AuditError: the checker found a rule broken in the answer.
    """
    problem = pose(scenario, model=model, catalog=catalog, today=today)
    feasible = holding(problem, problem.feasible)
    if feasible.empty:
        return None
    run, kept = choose(feasible, scenario, settings)
    if run.choice is None or run.outcome.status != "optimal":
        raise RuntimeError(f"the layout program ended {run.outcome.status} on choices that keep every rule")
    row = kept.iloc[[run.choice]]
    answer = answers(scenario, model, row, problem.candidates.speed, problem.offers)[0]
    audit_answers(problem, [answer], today)
    return answer


def _plan(problem: Problem, feasible: pd.DataFrame, today: date, settings: Settings | None, reasons: bool) -> Plan:
    scenario = problem.scenario
    run, kept = choose(feasible, scenario, settings)
    if run.choice is None or run.bound_micro_usd is None:
        raise RuntimeError(f"the layout program ended {run.outcome.status} on choices that keep every rule")
    best_row = kept.iloc[run.choice]
    others = feasible[feasible["gpu"] != best_row["gpu"]].drop_duplicates("gpu") if reasons else feasible.head(0)
    savings = cheaper_choices(problem, int(best_row["cost_micro_usd"])) if reasons else []
    wanted = [kept.index[run.choice], *others.index, *(saving.row for saving in savings)]
    rows = problem.choices.frame.loc[wanted]
    best, *rest = answers(scenario, problem.model, rows, problem.candidates.speed, problem.offers)
    best = replace(best, cost=_with_bound(best.cost, run.bound_micro_usd))
    return Plan(
        status="optimal" if run.outcome.status == "optimal" else "feasible",
        summary=summarize(best.layout),
        layout=best.layout,
        cost=best.cost,
        memory=best.memory,
        performance=best.performance,
        targets=best.targets,
        **(_reasons(problem, best_row, best, others, savings, rest) if reasons else {}),
        **_common(problem, today, best, _solver_run(problem, run, len(kept))),
    )


def _reasons(
    problem: Problem, best_row: pd.Series, best: Answer, others: pd.DataFrame, savings: list[Saving], rest: list[Answer]
) -> dict[str, Any]:
    """What a person reads beside the answer; `rest` has the answers of the other GPUs, then those of the savings."""
    return {
        "alternatives": _alternatives(problem, best_row, best, others, rest[: len(others)]),
        "cheaper_if": cheaper_if(problem, best, savings, rest[len(others) :]),
        "explanation": explain_ladder(problem, best_row, best, rest[0] if len(others) else None),
    }


def _with_bound(cost: Cost, bound_micro_usd: int) -> Cost:
    bound = min(bound_micro_usd / MICRO, cost.usd_per_hour)
    return cost.model_copy(update={"bound_usd_per_hour": bound, "gap": 1 - bound / cost.usd_per_hour})


def _solver_run(problem: Problem, run: LayoutAnswer | None, entered: int) -> SolverRun:
    candidates = len(problem.candidates.frame) + int(problem.candidates.dead["count"].sum())
    return SolverRun(
        name="CP-SAT",
        status=run.outcome.status if run else "infeasible",
        seconds=run.outcome.seconds if run else 0.0,
        candidates=candidates,
        choices=entered,
    )


def _alternatives(
    problem: Problem, best_row: pd.Series, best: Answer, rows: pd.DataFrame, found: list[Answer]
) -> tuple[Alternative, ...]:
    """The cheapest layout on each other GPU type, cheapest first, then the GPU types that have none and why."""
    listed = [
        Alternative(
            gpu=answer.layout.gpu,
            summary=summarize(answer.layout),
            usd_per_hour=answer.cost.usd_per_hour,
            extra_usd_per_hour=answer.cost.usd_per_hour - best.cost.usd_per_hour,
            usd_per_million_output_tokens=answer.cost.usd_per_million_output_tokens,
            usd_per_million_output_tokens_at_saturation=answer.cost.usd_per_million_output_tokens_at_saturation,
            ttft_ms=answer.performance.ttft_ms,
            tpot_ms=answer.performance.tpot_ms,
            utilization=answer.performance.utilization,
            why=why_lost(problem, best_row, best, rows.iloc[position], answer),
            layout=answer.layout,
        )
        for position, answer in enumerate(found)
    ]
    shown = {best.layout.gpu, *(one.gpu for one in listed)}
    return (*listed, *why_none(problem, shown))


def _infeasible_plan(problem: Problem, today: date, settings: Settings | None, reasons: bool) -> Plan:
    scenario = problem.scenario
    problem = with_targets_given_up(problem)
    table = conflict_table(problem, today)

    cheapest_of = partial(cheapest_answer, model=problem.model, catalog=problem.listed, today=today)
    rules = infeasible.find_conflict(scenario, table, settings)
    return Plan(
        status="infeasible",
        summary="no layout in the catalog keeps every rule",
        conflict=infeasible.describe_conflict(scenario, table, rules),
        nearest_misses=infeasible.find_nearest_misses(scenario, table) if reasons else (),
        least_changes=find_least_changes(scenario, table, rules, cheapest_of) if reasons else (),
        **_common(problem, today, None, _solver_run(problem, None, len(problem.choices.frame))),
    )


def conflict_table(problem: Problem, today: date, choices: pd.DataFrame | None = None) -> infeasible.Table:
    """Return what reasons for infeasibility are read from.

    Args:
        problem: with its targets given up (see `with_targets_given_up`).
        today: the day that is asked on.
        choices: the choices to look at; all of the problem's when not given.
    """
    return infeasible.Table(
        problem.choices.frame if choices is None else choices,
        problem.candidates.frame,
        problem.candidates.dead,
        problem.choices.shape_offers,
        problem.offers,
        today,
        problem.model.max_context_tokens,
    )


def audit_answers(problem: Problem, found: Sequence[Answer], today: date) -> None:
    """Raise AuditError where an answer breaks a rule of its question; all are predicted anew in one pass."""
    rows = offers_of([answer.layout for answer in found], problem.listed.frame)
    audits = [
        Audit(
            problem.scenario,
            problem.model,
            answer.layout,
            today,
            answer.cost,
            answer.memory,
            answer.performance,
            offers=rows,
        )
        for answer in found
    ]
    violations = [violation for audited in check_all(audits) for violation in audited.violations]
    if violations:
        raise AuditError(violations)


def _common(problem: Problem, today: date, best: Answer | None, run: SolverRun) -> dict[str, Any]:
    """Fields that every plan has, feasible or not (then there is no answer)."""
    layout, performance = (best.layout, best.performance) if best is not None else (None, None)
    seen_on = layout.price_seen_on if layout is not None else None
    catalog, prices = problem.catalog, problem.scenario.prices
    newest = seen_on or catalog.frame["seen_on"].max().date()
    age = max((today - newest).days, 0)
    basis = PriceBasis(
        as_of=catalog.as_of,
        seen_on=seen_on,
        age_days=age,
        stale=age > prices.stale_after_days,
        sources=catalog.sources,
        offers_considered=len(catalog.frame),
        offers_set_aside=catalog.set_aside,
    )
    return {
        "shardwise_version": __version__,
        "scenario": problem.scenario.model_dump(mode="json"),
        "prices": basis,
        "ruled_out": ruled_out(problem),
        "calibration": calibration_used(),
        "warnings": (
            *_warnings(basis, layout),
            *_engine_warnings(problem.scenario, layout),
            *calibration_warnings(),
            *_beyond_table(problem.scenario, performance),
        ),
        "speed": _coverage(problem),
        "solver": run,
    }


def _coverage(problem: Problem) -> SpeedCoverage:
    """Say which backend has figures of how many candidates."""
    asked, candidates = problem.scenario.performance, problem.candidates
    found = candidates.speeds.coverage(candidates.frame["replica"].to_numpy())
    return SpeedCoverage(
        backend=asked.backend,
        table=None if asked.table is None else str(asked.table),
        candidates=dict(found.candidates),
        not_covered=dict(found.not_covered),
    )


def _beyond_table(scenario: Scenario, performance: Performance | None) -> list[str]:
    """Say what of the answer's figures the user's measured table does not reach."""
    if scenario.performance.table is None or performance is None:
        return []
    parts = {"decode steps at this traffic": performance.decode_from, "its prefills": performance.prefill_from}
    beyond = [part for part, source in parts.items() if source != MEASURED]
    return [f"the measured table does not reach {' and '.join(beyond)}: other figures stand in"] if beyond else []


def _engine_warnings(scenario: Scenario, layout: Layout | None) -> list[str]:
    """Say that the engine which the question names does not run on the answer's GPU."""
    if layout is None or scenario.memory.policy != "engine":
        return []
    lacking = why_not_on(*engine_version(scenario.memory.engine), get_gpu(layout.gpu))
    return [f"{lacking}: solve with --exclude-gpu {layout.gpu}, or for another engine"] if lacking else []


def _warnings(basis: PriceBasis, layout: Layout | None) -> tuple[str, ...]:
    warnings = [] if layout is None else list(terms_words(layout))
    unmeasured = unmeasured_words(layout) if layout is not None else ""
    if unmeasured:
        warnings.append(
            f"next to no run with {unmeasured} was measured: its speed may be off by more than the error above"
        )
    if basis.stale:
        seen = basis.seen_on
        age = f"{basis.age_days} days old (seen {seen})" if seen else f"at best {basis.age_days} days old"
        warnings.append(f"prices are {age}: check them with the provider before you rent")
    return tuple(warnings)
