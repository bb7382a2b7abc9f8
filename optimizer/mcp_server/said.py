"""An answer in a few lines of text, for agents and people who do not look into the structured one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optimizer.export.answer import Export
from optimizer.fit import Fit
from optimizer.fleet.budget import FleetBudgets
from optimizer.fleet.plan import FleetPlan
from optimizer.plan import AnswerPart, Plan
from optimizer.predict import Speed
from optimizer.questions.listed import Listed
from optimizer.report.text import amount_of, dollars, milliseconds, share
from optimizer.whatif.api import ApiComparison
from optimizer.whatif.breakeven_answer import BreakEvens
from optimizer.whatif.budget_report import BudgetReport
from optimizer.whatif.explain_answer import Explained
from optimizer.whatif.fleet_explain_answer import FleetExplained
from optimizer.whatif.fleet_shock_answer import FleetShock
from optimizer.whatif.front_points import Front
from optimizer.whatif.shock_answer import Shock
from optimizer.whatif.sweep import Sweep

MOST_SHOWN = 5
CENT = 0.01


def said(answer: AnswerPart) -> str:
    """Return what an answer says, in a few lines."""
    return "\n".join(filter(None, _WORDS[type(answer)](answer)))


def _plan(plan: Plan) -> list[str]:
    if plan.layout is None or plan.cost is None or plan.performance is None:
        return ["Infeasible: " + plan.summary, *_conflict(plan), *_changes(plan)]
    speed = plan.performance
    return [
        f"{plan.status.capitalize()}: {plan.summary}.",
        f"{dollars(plan.cost.usd_per_hour)}/hour, {dollars(plan.cost.usd_per_million_output_tokens)} per million "
        f"output tokens{'' if plan.status == 'optimal' else f'; not proved: gap {plan.cost.gap:.1%}'}.",
        f"Predicted means: TTFT {milliseconds(speed.ttft_ms)}, TPOT {milliseconds(speed.tpot_ms)}, "
        f"E2E {milliseconds(speed.e2e_ms)}; utilization {share(speed.utilization)}.",
        f"Price of {plan.layout.price_seen_on} ({amount_of(plan.prices.age_days, 'day')} old) from "
        f"{plan.layout.price_source}.",
        *(f"Warning: {one}." for one in plan.warnings),
    ]


def _conflict(plan: Plan) -> list[str]:
    return [f"- {one.rule}: {one.meaning}; needs {one.needs}" for one in plan.conflict]


def _changes(plan: Plan) -> list[str]:
    return [
        f"It would do: {one.change} ({dollars(one.usd_per_hour)}/hour, {one.summary})" for one in plan.least_changes
    ]


def _fleet(plan: FleetPlan) -> list[str]:
    cost = "" if plan.cost is None else f" {dollars(plan.cost.usd_per_hour)}/hour."
    conflict = [f"- {one.rule}: {one.meaning}; needs {one.needs}" for one in plan.conflict]
    return [
        f"{plan.status.capitalize()}: {plan.summary}.{cost}",
        *conflict,
        *(f"Warning: {one}." for one in plan.warnings),
    ]


def _fit(fit: Fit) -> list[str]:
    where = f"{fit.model} in {fit.weights} on {fit.gpus}x {fit.gpu}, {fit.concurrency} requests"
    if fit.memory is None:
        return [f"Does not run: {where}.", *(f"- {rule}: needs {needs}" for rule, needs in fit.refusals.items())]
    memory = fit.memory
    return [
        f"{'Fits' if fit.fits else 'Does not fit'}: {where} of {memory.context_tokens:,} tokens; needs "
        f"{memory.need_gib:,.1f} of {memory.available_gib:,.1f} GiB per GPU.",
        f"Longest context at this concurrency {fit.max_context_tokens:,} tokens; most such requests "
        f"{fit.max_concurrency:,}.",
        *(f"- {rule}: needs {needs}" for rule, needs in fit.refusals.items()),
    ]


def _speed(speed: Speed) -> list[str]:
    return [
        f"TTFT {_with_band(speed.ttft_ms, speed.ttft_ms_low, speed.ttft_ms_high)}, "
        f"TPOT {_with_band(speed.tpot_ms, speed.tpot_ms_low, speed.tpot_ms_high)}, "
        f"{speed.output_tokens_per_second:,.0f} output tokens/s, {speed.requests_per_second:,.2f} requests/s.",
        "" if speed.fits else "These requests do not fit in memory.",
    ]


def _with_band(mean_ms: float, low_ms: float, high_ms: float) -> str:
    return f"{milliseconds(mean_ms)} (80%: {milliseconds(low_ms)} to {milliseconds(high_ms)})"


def _explained(found: Explained) -> list[str]:
    binding = [
        f"- {one.name} {one.where} binds: {one.used:,.4g} of {one.limit:,.4g} {one.unit}".replace("  ", " ")
        for one in found.bounds
        if one.binds
    ]
    lines = [f"{found.status.capitalize()}: {found.summary}.", found.sized_by, *binding]
    why = found.why_not
    if why is None:
        return lines
    lines.append(f"Why not {why.asked}: {why.verdict.replace('_', ' ')}.")
    if why.comparison is not None and why.verdict in ("dearer", "same_cost", "cheaper"):
        extra = why.comparison.extra_usd_per_hour
        lines.append(f"{why.comparison.other.summary} costs ${extra:+,.2f}/hour beside the plan.")
    if why.nearest is not None:
        lines += [f"- {why.nearest.summary} breaks {rule}: {needs}" for rule, needs in why.nearest.breaks.items()]
    return lines


def _explained_fleet(found: FleetExplained) -> list[str]:
    money = found.money
    spent = ("work", "communication", "idle_capacity", "idle_gpus", "idle_nodes", "starts")
    amounts = [] if money is None else [(name.replace("_", " "), getattr(money, name)) for name in spent]
    return [
        f"{found.status.capitalize()}: {found.summary}.",
        "" if found.reproduced else f"It could not be reproduced: {'; '.join(found.differences)}.",
        *(f"- {one.rule}: {one.meaning}; needs {one.needs}" for one in found.conflict),
        *(f"- {one.id}, {one.replicas}: {one.limited_by}; {one.sized_by}" for one in found.pools),
        *(
            f"- {one.rule} would save ${one.saves_usd_per_hour:,.2f}/hour{'' if one.proved else ' at least'}"
            for one in found.given_up
            if one.binds
        ),
        "The money goes to " + ", ".join(f"{name} ${usd:,.2f}" for name, usd in amounts if usd >= CENT) + "/hour."
        if money is not None
        else "",
    ]


def _front(front: Front) -> list[str]:
    if not front.points:
        return ["Infeasible: no layout keeps every rule."]
    shown = [f"- {one.summary}: {dollars(one.usd_per_hour)}/hour" for one in front.points[:MOST_SHOWN]]
    more = len(front.points) - len(shown)
    return [
        f"{len(front.points)} layouts on the front of {front.compared:,}.",
        *shown,
        f"and {more} more" if more else "",
    ]


def _budgets(found: BudgetReport) -> list[str]:
    least = found.least_usd_per_hour
    said = "nothing is feasible" if least is None else f"costs at least {dollars(least)}/hour"
    lines = [f"The question as asked: {said}."]
    for answer in found.budgets:
        bought = "; ".join(f"{one.what}: {one.said}" for one in answer.bought if one.value is not None)
        lines.append(f"- {dollars(answer.usd_per_hour)}/hour: {bought or 'buys nothing'}")
    return lines


def _fleet_budgets(found: FleetBudgets) -> list[str]:
    return [
        f"- {dollars(one.budget_usd_per_hour)}/hour: "
        + ("buys nothing" if one.times is None else f"{one.times:,.2f} times the traffic")
        for one in found.budgets
    ]


def _shock(found: Shock) -> list[str]:
    return [
        f"{found.verdict}: after it, {found.after.summary}.",
        *(f"- {one.change}: {'moves' if one.moves else 'stays'}" for one in found.effects),
    ]


def _fleet_shock(found: FleetShock) -> list[str]:
    staying, cost = found.staying, found.after.cost
    stays = ""
    if staying is not None:
        stays = (
            f"Staying costs ${staying.usd_per_hour:,.2f}/hour at the new prices."
            if staying.usd_per_hour is not None
            else f"Staying is not possible: {'; '.join(staying.gone)} cannot be had."
        )
    after = "" if cost is None else f", ${cost.usd_per_hour:,.2f}/hour"
    open_words = (
        f"Not proved: ${found.open_usd_per_hour:,.2f}/hour are left open; differences within it are no savings."
    )
    return [
        f"{found.verdict}: after it, {found.after.summary}{after}.",
        stays,
        *(f"Staying breaks {rule}: {said}." for rule, said in (staying.breaks if staying else {}).items()),
        *(f"- {one.change}: {one.verdict}" for one in found.effects),
        "" if found.proved else open_words,
    ]


def _breakevens(found: BreakEvens) -> list[str]:
    shown = [one for one in (found.asked, *found.own, *found.alternatives[:MOST_SHOWN]) if one is not None]
    now = "nothing is feasible now" if found.answer is None else f"now {found.answer.summary}"
    return [f"{found.question}: {now}.", *(f"- {one.offer}: {_tipping(one)}" for one in shown)]


def _tipping(one: Any) -> str:
    change = "" if one.change is None else f" ({one.change:+.1%})"
    return f"{one.status.replace('_', ' ')}{change}"


def _api(found: ApiComparison) -> list[str]:
    if found.self_hosted is None:
        return [f"Self-hosting is infeasible; the API costs {dollars(found.api.usd_per_month, 0)}/month."]
    return [
        f"Cheaper: {found.cheaper}, by {dollars(found.saving_usd_per_month or 0.0, 0)}/month. The API costs "
        f"{dollars(found.api.usd_per_month, 0)}/month, self-hosting "
        f"{dollars(found.self_hosted.usd_per_month, 0)}/month ({found.layout}).",
        *(
            f"Self-hosting pays from {one.pays_from:,.3g} requests/s on."
            for one in found.break_evens[:1]
            if one.pays_from
        ),
        *(f"Note: {one}." for one in found.notes),
    ]


def _sweep(found: Sweep) -> list[str]:
    return ["Points: " + ", ".join(f"{count} {status}" for status, count in found.counts.items()) + "."]


def _export(found: Export) -> list[str]:
    notes = [f"Note ({one.name}): {note}" for one in found.deployments for note in one.notes]
    return [f"# {one.name}\n{one.text}" for one in found.files] + notes


def _listed(found: Listed) -> list[str]:
    part = "" if len(found.rows) == found.total else f"{len(found.rows):,} of "
    return [f"{part}{found.total:,} rows. {found.note}"]


_WORDS: dict[type[AnswerPart], Callable[[Any], list[str]]] = {
    Plan: _plan,
    FleetPlan: _fleet,
    Fit: _fit,
    Speed: _speed,
    Explained: _explained,
    FleetExplained: _explained_fleet,
    Front: _front,
    BudgetReport: _budgets,
    FleetBudgets: _fleet_budgets,
    Shock: _shock,
    FleetShock: _fleet_shock,
    BreakEvens: _breakevens,
    ApiComparison: _api,
    Sweep: _sweep,
    Export: _export,
    Listed: _listed,
}
