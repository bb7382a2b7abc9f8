"""Candidates meet prices: how many are rented at what cost, which rules offers break, which offers matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from optimizer.choices import NEVER, TIE_BREAK, allowed_replicas, fewest_replicas, nodes_needed, offer_rows
from optimizer.rules import broken_names
from optimizer.solve import pose
from tests.optimizer.catalogs import TODAY, Fields, catalog, draw, offer, question

H100 = "H100-SXM-80GB"


def kept(sections: Fields, *offers: dict[str, Any]) -> list[tuple[float, int, tuple[str, ...]]]:
    """(price, nodes to be had, broken rules) of the offers kept; all are of one node shape."""
    table = catalog(*offers).frame
    rows = offer_rows(question(sections), table, np.zeros(len(table), dtype=np.int64), TODAY)
    return [
        (price / 1e6, cap, broken_names(broken))
        for price, cap, broken in zip(rows["price_micro_usd"], rows["node_cap"], rows["broken"], strict=True)
    ]


def test_a_dearer_offer_stays_only_where_more_nodes_are_to_be_had() -> None:
    offers = [
        offer(H100, 2.0, region="a", max_nodes=2.0),
        offer(H100, 2.1, region="b", max_nodes=2.0),
        offer(H100, 2.2, region="c", max_nodes=5.0),
        offer(H100, 2.3, region="d", max_nodes=1.0),
    ]

    assert kept({}, *offers) == [(2.0, 2, ()), (2.2, 5, ())]


def test_an_offer_that_breaks_a_rule_stays_beside_one_that_keeps_all() -> None:
    found = kept({}, offer(H100, 2.0), offer(H100, 1.0, term="spot"), offer(H100, 1.1, term="spot", region="west"))

    assert {(price, rules) for price, _, rules in found} == {(1.0, ("term_allowed",)), (2.0, ())}


def test_an_offer_without_a_node_to_be_had_stays_where_there_is_no_better() -> None:
    assert kept({"limits": {"max_gpus": 1}}, offer(H100, 4.0, 2)) == [(4.0, 0, ())]


@pytest.mark.parametrize(
    ("limits", "cap"),
    [
        ({}, 7),
        ({"max_nodes": 3}, 3),
        # Whole nodes of two: 5 GPUs are 2 nodes.
        ({"max_gpus": 5}, 2),
        ({"quotas": [{"gpu": H100, "max_gpus": 3}]}, 1),
        ({"quotas": [{"gpu": "L4-24GB", "max_gpus": 1}]}, 7),
        ({"quotas": [{"provider": "acme", "region": "east", "max_nodes": 4}, {"max_nodes": 6}]}, 4),
    ],
)
def test_nodes_to_be_had_are_the_least_of_stock_limits_and_quotas(limits: dict[str, Any], cap: int) -> None:
    assert kept({"limits": limits}, offer(H100, 4.0, 2, max_nodes=7.0))[0][1] == cap


@pytest.mark.parametrize(
    ("sections", "facts", "rules"),
    [
        ({"limits": {"providers": ["bolt"]}}, {}, ("provider_allowed",)),
        ({"limits": {"exclude_providers": ["acme"]}}, {}, ("provider_allowed",)),
        ({}, {"provider_kind": "marketplace"}, ("provider_kind_allowed",)),
        # A provider asked for by name is wanted whatever its kind.
        ({"limits": {"providers": ["acme"]}}, {"provider_kind": "marketplace"}, ()),
        ({"limits": {"regions": ["west"]}}, {}, ("region_allowed",)),
        ({"limits": {"instance_types": ["other"]}}, {}, ("instance_type_allowed",)),
        ({"limits": {"terms": ["spot"]}}, {}, ("term_allowed",)),
        # Seen six days ago.
        ({"prices": {"max_age_days": 6}}, {}, ()),
        ({"prices": {"max_age_days": 5}}, {}, ("price_age",)),
    ],
)
def test_an_offer_breaks_the_rules_that_the_user_set(
    sections: Fields, facts: dict[str, Any], rules: tuple[str, ...]
) -> None:
    assert kept(sections, offer(H100, 2.5, **facts))[0][2] == rules


@pytest.mark.parametrize(
    ("replicas", "per_node", "spans", "nodes"), [(5, 2, 1, 3), (4, 2, 1, 2), (1, 8, 1, 1), (3, 1, 2, 6), (0, 4, 1, 0)]
)
def test_nodes_are_whole(replicas: int, per_node: int, spans: int, nodes: int) -> None:
    assert nodes_needed(np.array([replicas]), np.array([per_node]), np.array([spans])).tolist() == [nodes]


def test_the_fewest_replicas_carry_the_traffic_exactly() -> None:
    # 4 requests/s: 4 / 2 = 2; 4 / 1.9 = 2.1, so 3; 4 / 5 < 1, so 1; and nothing carries any.
    assert fewest_replicas(question(), np.array([2.0, 1.9, 5.0, 0.0])).tolist() == [2, 3, 1, NEVER]


def test_rounding_adds_no_replica() -> None:
    # 0.07 / 0.01 is 7.000000000000001 in binary.
    assert fewest_replicas(question({"workload": {"request_rate": 0.07}}), np.array([0.01])).tolist() == [7]


def test_a_number_of_replicas_is_raised_to_one_that_is_allowed() -> None:
    fewest = np.array([1, 2, 3, 4, 9])

    # None of those allowed is enough for nine.
    assert allowed_replicas(question({"limits": {"replicas": [8, 2, 3]}}), fewest).tolist() == [2, 2, 3, 8, 9]
    assert allowed_replicas(question(), fewest).tolist() == fewest.tolist()


def choices(sections: Fields, *offers: dict[str, Any]) -> pd.DataFrame:
    return pose(question(sections), catalog=catalog(*offers), today=TODAY).choices.frame


def test_money_is_whole_micro_dollars() -> None:
    frame = choices({}, offer(H100, 2.0000004), offer(H100, 3.3, provider="bolt", max_nodes=9e4))

    assert frame["cost_micro_usd"].dtype == np.int64
    assert frame["price_micro_usd"].min() == 2_000_000


def test_a_budget_holds_to_the_micro_dollar() -> None:
    just, under = ({"limits": {"budget_usd_per_hour": most}} for most in (2.5, 2.499999))

    assert (choices(just, offer(H100, 2.5))["broken"] == 0).any()
    assert not (choices(under, offer(H100, 2.5))["broken"] == 0).any()


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_a_row_stands_where_its_cost_and_the_tie_break_put_it(seed: int) -> None:
    drawn = draw(seed)
    frame = pose(drawn.scenario, catalog=drawn.table, today=TODAY).choices.frame
    keys = list(frame[list(TIE_BREAK)].itertuples(index=False, name=None))

    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_leaving_out_offers_that_cannot_matter_leaves_the_cheapest_of_each_kind(seed: int) -> None:
    drawn = draw(seed)
    problem = pose(drawn.scenario, catalog=drawn.table, today=TODAY)
    every = offer_rows(drawn.scenario, problem.offers, np.arange(len(problem.offers)), TODAY)

    # With a shape of its own each offer is kept: the cheapest that keeps every rule is then among those kept above too.
    assert len(every) == len(problem.offers)
    able = every[(every["broken"] == 0) & (every["node_cap"] > 0)]
    cheapest = problem.choices.shape_offers
    cheapest = cheapest[(cheapest["broken"] == 0) & (cheapest["node_cap"] > 0)]
    assert able["price_micro_usd"].min() == cheapest["price_micro_usd"].min() or able.empty
