"""Whatever helps never costs more: on random questions, each changed in one way."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.programs.layout import Settings
from optimizer.scenario import Scenario
from optimizer.solve import choose, pose
from tests.optimizer.catalogs import TODAY, Draw, catalog, draw


def cost(offers: tuple[dict[str, Any], ...], scenario: Scenario) -> float:
    """Dollars an hour, infinite where nothing is feasible."""
    found = pose(scenario, catalog=catalog(*offers), today=TODAY)
    if found.feasible.empty:
        return float("inf")
    answer, _ = choose(found.feasible, scenario, Settings(workers=1))
    assert answer.cost_micro_usd is not None
    return answer.cost_micro_usd / 1e6


def costs_of(change: Any, examples: int = 40) -> list[tuple[float, float]]:
    """(cost as drawn, cost after the change) over random questions; `change` returns offers and fields."""
    found = []

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 5000), st.randoms(use_true_random=False))
    def collect(seed: int, dice: Random) -> None:
        drawn = draw(seed)
        changed = change(drawn, dice)
        found.append((cost(drawn.offers, drawn.scenario), cost(changed.offers, changed.scenario)))

    collect()
    # A property that only ever met infeasible questions would prove nothing.
    assert sum(before < float("inf") for before, _ in found) >= examples // 4
    return found


def with_section(drawn: Draw, section: str, **fields: Any) -> Draw:
    return Draw(drawn.offers, drawn.fields | {section: drawn.fields[section] | fields})


def more_budget(drawn: Draw, dice: Random) -> Draw:
    budget = drawn.fields["limits"].get("budget_usd_per_hour")
    return drawn.with_limits(budget_usd_per_hour=None if budget is None else budget * dice.choice((1.2, 2, 5)))


def more_quota(drawn: Draw, dice: Random) -> Draw:
    caps = {name: drawn.fields["limits"].get(name) for name in ("max_gpus", "max_nodes")}
    return drawn.with_limits(quotas=[], **{name: cap and cap * dice.randint(1, 3) for name, cap in caps.items()})


def lower_price(drawn: Draw, dice: Random) -> Draw:
    at = dice.randrange(len(drawn.offers))
    cheaper = drawn.offers[at] | {"price_usd_per_node_hour": drawn.offers[at]["price_usd_per_node_hour"] * 0.6}
    return Draw((*drawn.offers[:at], cheaper, *drawn.offers[at + 1 :]), drawn.fields)


def more_offers(drawn: Draw, dice: Random) -> Draw:
    further = [one | {"provider": "core"} for one in draw(dice.randint(0, 5000)).offers]
    return Draw((*drawn.offers, *further), drawn.fields)


def looser_targets(drawn: Draw, dice: Random) -> Draw:
    asked = drawn.fields["targets"]
    return with_section(drawn, "targets", **{name: value * dice.choice((1, 1.3, 3)) for name, value in asked.items()})


def less_traffic(drawn: Draw, dice: Random) -> Draw:
    kind = drawn.scenario.workload.kind
    less = drawn.scenario.workload.demand * dice.choice((0.2, 0.5, 0.9))
    return with_section(drawn, "workload", **{kind: max(1, int(less)) if kind == "concurrency" else less})


@pytest.mark.parametrize(
    "change",
    [more_budget, more_quota, lower_price, more_offers, looser_targets, less_traffic],
    ids=lambda change: change.__name__,
)
def test_what_helps_never_costs_more(change: Any) -> None:
    found = costs_of(change)

    assert all(after <= before for before, after in found)


def test_the_order_of_the_offers_changes_nothing() -> None:
    def shuffled(drawn: Draw, dice: Random) -> Draw:
        return Draw(tuple(dice.sample(drawn.offers, len(drawn.offers))), drawn.fields)

    assert all(before == after for before, after in costs_of(shuffled))


def test_a_discount_on_everything_scales_every_cost() -> None:
    def discounted(drawn: Draw, _: Random) -> Draw:
        terms = drawn.fields.get("prices", {}).get("discounts", [])
        limited = {name: value for name, value in drawn.fields["limits"].items() if name != "budget_usd_per_hour"}
        return Draw(
            drawn.offers, drawn.fields | {"prices": {"discounts": [*terms, {"percent": 25}]}, "limits": limited}
        )

    def unlimited(drawn: Draw) -> Draw:
        limited = {name: value for name, value in drawn.fields["limits"].items() if name != "budget_usd_per_hour"}
        return Draw(drawn.offers, drawn.fields | {"limits": limited})

    compared = 0
    for seed in range(20):
        drawn = unlimited(draw(seed))
        full = cost(drawn.offers, drawn.scenario)
        less = cost(drawn.offers, discounted(drawn, Random(0)).scenario)
        # Rounded to a micro-dollar a node.
        assert less == full == float("inf") or less == pytest.approx(full * 0.75, rel=1e-5)
        compared += full < float("inf")
    assert compared >= 8
