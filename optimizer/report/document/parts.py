"""Sections that reports of one layout and of a fleet share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optimizer.fleet.plan import FleetPlan
from optimizer.plan import Calibration, Conflict, Plan, PriceBasis
from optimizer.report.document.html import Markup, Piece, bullets, facts, paragraphs, section, table, tag
from optimizer.report.text import amount_of, calibration_words, dollars, proof_words, speed_basis
from optimizer.scenario import Memory
from optimizer.wording import policy_words

POLICIES = {
    "framework": "A GPU fits when (weights + KV cache) x (1 + {overhead:.0%} overhead) is at most its memory less "
    "{headroom:.0%} headroom.",
    "engine": "Memory is counted as {engine} takes it, with a memory fraction of {gpu_memory_utilization:.0%}.",
}


def tiles(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return figures large, each with what it is."""
    return tag("div", [tag("div", tag("b", figure), tag("span", what), class_="tile") for figure, what in pairs],
               class_="tiles")  # fmt: skip


def warnings(texts: Iterable[str]) -> list[Markup]:
    """Return warnings, a box each."""
    return paragraphs(
        (f"Warning: {text}." if not text.endswith(".") else f"Warning: {text}" for text in texts), "warning"
    )


def conflict_section(conflict: Sequence[Conflict]) -> Piece:
    """Name the rules that cannot hold together."""
    if not conflict:
        return ()
    rows = [(one.rule, one.meaning, one.needs) for one in conflict]
    return section("These rules cannot hold together", table(("rule", "what it asks", "here"), rows))


def memory_assumption(memory: Mapping[str, Any]) -> str:
    """Say how memory is counted."""
    asked = Memory.model_validate(dict(memory))
    words = POLICIES.get(asked.policy)
    return words.format(**asked.model_dump()) if words is not None else f"Memory: {policy_words(asked)}."


def speed_assumptions(
    bases: Mapping[tuple[str, float | None], Sequence[str]], calibration: Calibration | None
) -> list[str]:
    """Say what speeds stand on.

    Args:
        bases: (basis, error band) -> the pools that it is of; no names where it is of all.
        calibration: the user's own, where speeds rest on one.
    """
    said = [
        (f"{', '.join(pools)}: " if len(bases) > 1 else "") + speed_basis(basis, band)
        for (basis, band), pools in bases.items()
    ]
    said += [calibration_words(calibration)] if calibration is not None else []
    return [*said, "Bands hold 80% of the measured runs of such hardware; they are wider where nothing was measured."]


def price_section(prices: PriceBasis, used: Iterable[tuple[str, str, str]]) -> Markup:
    """Say which prices the answer stands on.

    Args:
        prices: of the plan.
        used: (what is rented, day its price was seen, source) of each price that the cost counts.
    """
    used = list(used)
    rows = [
        (what, tag("span", seen, class_="nowrap"), prices.sources.get(source, source)) for what, seen, source in used
    ]
    age = f"{amount_of(prices.age_days, 'day')} before the answer"
    seen = f" The oldest price used was seen on {prices.seen_on}, {age}." if prices.seen_on else ""
    aside = sum(prices.offers_set_aside.values())
    head = f"{prices.offers_considered:,} offers as of {prices.as_of} were compared; {aside:,} rows of the sources were set aside with a reason.{seen}"  # noqa: E501
    others = [text for name, text in sorted(prices.sources.items()) if name not in {source for _, _, source in used}]
    return section(
        "Prices and where they come from",
        tag("p", head),
        table(("price of", "seen on", "source"), rows) if rows else (),
        (tag("h3", "Other sources that were compared"), bullets(others)) if others else (),
    )


def proof_line(plan: Plan | FleetPlan, what: str) -> Piece:
    """Say in a sentence what is proved of a plan that has an answer; `what` is "layout" or "fleet"."""
    if plan.cost is None:
        return ()
    said = proof_words(plan.status, plan.cost.bound_usd_per_hour, plan.cost.gap, what)
    return tag("span", said, class_="good" if plan.status == "optimal" else "")


def proof_section(plan: Plan | FleetPlan, what: str, infeasible: str) -> Markup:
    """Say what was proved and how.

    Args:
        plan: the plan.
        what: "layout" or "fleet".
        infeasible: what is proved where there is no answer.
    """
    solver, cost = plan.solver, plan.cost
    said = infeasible if cost is None else proof_words(plan.status, cost.bound_usd_per_hour, cost.gap, what)
    bound = "none" if cost is None else f"{dollars(cost.bound_usd_per_hour)} an hour (gap {cost.gap:.1%})"
    return section(
        "The proof",
        tag("p", said),
        facts(
            [
                ("solver", f"{solver.name}, {solver.status} in {solver.seconds:.2f} s"),
                ("layouts looked at", f"{solver.candidates:,}"),
                ("rows that entered the program", f"{solver.choices:,}"),
                ("least possible cost", bound),
                ("audit", "a checker that shares no code with the solver recomputed every rule and the cost"),
            ]
        ),
    )
