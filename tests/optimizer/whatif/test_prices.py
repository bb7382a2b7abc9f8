"""Which offers a pattern names, and the table with their prices changed."""

from __future__ import annotations

import pytest

from optimizer.errors import QuestionError
from optimizer.whatif.prices import matching, scaled, withdrawn
from tests.optimizer.catalogs import catalog, offer

TABLE = catalog(
    offer("H100-SXM-80GB", 2.0),
    offer("H100-SXM-80GB", 4.0, 2, provider="bolt", region="west"),
    offer("L4-24GB", 0.5, term="spot"),
    offer("L4-24GB", 1.0, provider="bolt", instance_type="g6.xlarge"),
)
FRAME = TABLE.frame

# Pattern -> the prices of the offers that it names.
NAMED = {
    "H100-SXM-80GB": [2.0, 4.0],
    "h100*": [2.0, 4.0],
    "*": [0.5, 1.0, 2.0, 4.0],
    "spot": [0.5],
    "bolt": [1.0, 4.0],
    "west": [4.0],
    "g6.xlarge": [1.0],
    "gpu-cloud": [0.5, 1.0, 2.0, 4.0],
    "bolt/g6.xlarge": [1.0],
    "acme/*/east/on-demand": [2.0],
    "*/*/*/spot": [0.5],
    "acme/": [0.5, 2.0],
    "provider=acme": [0.5, 2.0],
    "term = spot": [0.5],
    "instance_type=1x*": [0.5, 2.0],
}


@pytest.mark.parametrize("pattern", NAMED)
def test_a_pattern_names_offers_by_whatever_field_it_fits(pattern: str) -> None:
    assert FRAME.loc[matching(FRAME, pattern), "price_usd_per_node_hour"].tolist() == NAMED[pattern]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("H100-SXM", "did you mean H100-SXM-80GB"),
        ("blot", "did you mean bolt"),
        ("provider=blot", "did you mean bolt"),
        ("bolt/g6.xlrge", "did you mean bolt/g6.xlarge"),
        ("a/b/c/d/e", "matches no offer"),
        ("", "expected a GPU type"),
        ("qqqqqq", "expected a GPU type"),
    ],
)
def test_a_pattern_that_names_nothing_is_answered_with_near_names_or_what_is_accepted(pattern: str, said: str) -> None:
    with pytest.raises(QuestionError, match="matches no offer") as error:
        matching(FRAME, pattern)
    assert said in str(error.value)


def test_brackets_in_a_pattern_stand_for_themselves() -> None:
    with pytest.raises(QuestionError):
        matching(FRAME, "[hl]100*")


def test_scaled_prices_are_sorted_anew_and_nothing_becomes_free() -> None:
    halved = scaled(TABLE, matching(FRAME, "H100*"), 0.2).frame
    gone = scaled(TABLE, matching(FRAME, "*"), 1e-12).frame

    assert halved["price_usd_per_node_hour"].tolist() == [0.4, 0.5, 0.8, 1.0]
    assert halved["gpu"].tolist() == ["H100-SXM-80GB", "L4-24GB", "H100-SXM-80GB", "L4-24GB"]
    assert gone["price_usd_per_node_hour"].tolist() == [1e-6] * 4
    assert FRAME["price_usd_per_node_hour"].tolist() == [0.5, 1.0, 2.0, 4.0]


def test_a_withdrawn_offer_stays_in_the_table_with_no_node_left() -> None:
    frame = withdrawn(TABLE, matching(FRAME, "bolt")).frame

    assert frame["max_nodes"].fillna(-1.0).tolist() == [-1.0, 0.0, -1.0, 0.0]
