"""Why not the layout that a user names: what it costs more and where that comes from, or which rules it breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from optimizer.answer import Answer
from optimizer.choices import MICRO
from optimizer.explain import tie_words
from optimizer.infeasible import find_nearest_misses
from optimizer.plan import Layout, LeastChange
from optimizer.relax import find_least_changes
from optimizer.scenario import Scenario
from optimizer.solve import conflict_table
from optimizer.whatif.account import compared, side_of
from optimizer.whatif.asked import Asked
from optimizer.whatif.explain_answer import Comparison, Verdict, WayOut, WhyNot
from optimizer.whatif.matches import Chosen, Matches, cheapest_match, find_matches
from optimizer.whatif.ruled_out import across_nodes, as_asked, not_on_offer, ruled_out
from optimizer.wording import summarize

MOST_WAYS = 6
NUMBERS = ("nodes", "gpus_rented", "replicas")  # said of how much is rented, and left out together


def why_not(chosen: Chosen, asked: Asked) -> WhyNot:
    """Say what the cheapest layout that fits the words costs more, or what the nearest one breaks.

    Args:
        chosen: the plan.
        asked: the layout that the user named.
    """
    found = find_matches(chosen.scenario, asked, chosen.model, chosen.listed, chosen.today)
    about: dict[str, Any] = {"asked": asked.text, "understood": understood(asked), "matches": len(found.rows)}
    feasible = found.feasible
    if not feasible.empty:
        return _keeps(chosen, found, feasible, about)
    ways, comparison = _ways_out(chosen, asked)
    verdict: Verdict
    if len(found.rows):
        found = replace(found, rows=as_asked(found.rows, asked))
        table = conflict_table(found.problem, chosen.today, found.rows)
        (nearest,) = find_nearest_misses(chosen.scenario, table, most=1)
        changes = _least_changes(chosen, asked, found, tuple(nearest.breaks))
        changes = changes or _in_other_numbers(chosen, asked)
        verdict = "breaks_rules"
    elif not found.offers.any():
        nearest, changes, verdict = not_on_offer(found, asked), (), "not_on_offer"
    else:
        nearest = ruled_out(chosen, found, asked)
        changes, beyond = across_nodes(chosen, asked, nearest)
        nearest = nearest.model_copy(update={"breaks": nearest.breaks | beyond})
        verdict = "cannot_run" if nearest.breaks.keys() != {"on_offer"} else "not_on_offer"
    return WhyNot(
        **about,
        verdict=verdict,
        nearest=nearest,
        least_changes=changes,
        ways_out=ways,
        comparison=comparison,
    )


def understood(asked: Asked) -> dict[str, str]:
    """Say what was read from the user's words, by field."""
    values = {name: getattr(asked, name) for name in asked.named}
    return {name: " or ".join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}


def _keeps(chosen: Chosen, found: Matches, feasible: pd.DataFrame, about: dict[str, Any]) -> WhyNot:
    """Compare the cheapest layout that fits and keeps every rule with the plan."""
    answer = found.answer(feasible)
    if answer is None:
        raise ValueError("a choice without an answer")
    row, plan = feasible.iloc[0], chosen.answer
    extra = round((answer.cost.usd_per_hour - plan.cost.usd_per_hour) * MICRO)
    verdict: Verdict = "dearer" if extra > 0 else "cheaper"
    if extra == 0:
        verdict = "is_the_plan" if summarize(answer.layout) == summarize(plan.layout) else "same_cost"
    reason = tie_words(chosen.row, row) if verdict == "same_cost" else ""
    other = side_of(chosen.scenario, row, answer)
    return WhyNot(**about, verdict=verdict, comparison=compared(chosen.side, other, reason))


def _ways_out(chosen: Chosen, asked: Asked) -> tuple[tuple[WayOut, ...], Comparison | None]:
    """Return the layouts that work and differ in one part from the one named, cheapest first, the first compared."""
    parts: list[tuple[str, ...]] = [(name,) for name in asked.named if name not in NUMBERS]
    numbers = tuple(name for name in asked.named if name in NUMBERS)
    parts += [numbers] if numbers else []
    found: list[tuple[WayOut, Comparison]] = []
    for names in parts:
        if names == asked.named:
            continue  # nothing would be left of what was named
        freed = asked.without(*names)
        matches = find_matches(chosen.scenario, freed, chosen.model, chosen.listed, chosen.today)
        feasible = matches.feasible
        answer = matches.answer(feasible)
        if answer is None or any(way.summary == summarize(answer.layout) for way, _ in found):
            continue
        comparison = compared(chosen.side, side_of(chosen.scenario, feasible.iloc[0], answer))
        way = WayOut(
            instead=_instead(names, asked, answer.layout),
            summary=summarize(answer.layout),
            usd_per_hour=answer.cost.usd_per_hour,
            extra_usd_per_hour=comparison.extra_usd_per_hour,
        )
        found.append((way, comparison))
    found.sort(key=lambda one: one[0].usd_per_hour)
    # More of the same says most: where that works, it is what the plan is compared with.
    more = [comparison for way, comparison in found if way.instead.startswith("in ")]
    comparisons = more or [comparison for _, comparison in found]
    return tuple(way for way, _ in found[:MOST_WAYS]), comparisons[0] if comparisons else None


def _instead(names: tuple[str, ...], asked: Asked, layout: Layout) -> str:
    """Say which part of a named layout is another one in a layout that works."""
    if set(names) <= set(NUMBERS):
        gpus = layout.nodes * layout.gpus_per_node
        return f"in {layout.replicas} replica{'s' if layout.replicas > 1 else ''} on {gpus} GPUs"
    (name,) = names
    value = layout.gpu if name == "gpus" else getattr(layout, name)
    was = " or ".join(asked.gpus) if name == "gpus" else getattr(asked, name)
    word = {"gpus": "", "gpus_per_node": "GPUs per node ", "kv_cache": "KV cache "}.get(name, f"{name} ")
    return f"{word}{value} instead of {was}"


def _least_changes(chosen: Chosen, asked: Asked, found: Matches, rules: tuple[str, ...]) -> tuple[LeastChange, ...]:
    """Return the least changes to the question that admit a layout as named, each solved for just such layouts."""
    scenario = chosen.scenario
    if asked.replicas is not None and not scenario.limits.replicas:
        scenario = scenario.changed("limits", replicas=(asked.replicas,))

    def cheapest_of(changed: Scenario) -> Answer | None:
        return cheapest_match(changed, asked, chosen.model, chosen.listed, chosen.today)

    table = conflict_table(found.problem, chosen.today, found.rows)
    return find_least_changes(scenario, table, rules, cheapest_of)


def _in_other_numbers(chosen: Chosen, asked: Asked) -> tuple[LeastChange, ...]:
    """Return the least changes to the question that admit the layout in another number of nodes than was named."""
    freed = asked.without(*NUMBERS)
    if freed.named == asked.named or not freed.named:
        return ()
    found = find_matches(chosen.scenario, freed, chosen.model, chosen.listed, chosen.today)
    if found.rows.empty:
        return ()
    changes = _least_changes(chosen, freed, found, ())
    return tuple(one.model_copy(update={"change": f"in other numbers, {one.change}"}) for one in changes)
