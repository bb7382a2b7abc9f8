"""Fields set by name, and factors on prices."""

from __future__ import annotations

import pytest

from optimizer.errors import QuestionError
from optimizer.whatif.fields import apply, get_field, known_fields, read_settings
from optimizer.whatif.price_factors import with_factors
from tests.optimizer.catalogs import catalog, offer, question

H100, A100 = "H100-SXM-80GB", "A100-SXM-80GB"


def test_every_field_that_is_known_can_be_found() -> None:
    assert {"model", "workload.request_rate", "limits.quotas", "performance.table"} <= set(known_fields())
    for name in known_fields():
        assert get_field(name).name == name


def test_list_fields_and_whole_numbers_are_told_apart() -> None:
    kinds = {name: (get_field(name).is_list, get_field(name).is_whole) for name in known_fields()}
    assert kinds["limits.tp"] == (True, True)
    assert kinds["limits.weights"] == (True, False)
    assert kinds["workload.input_tokens"] == (False, True)
    assert kinds["limits.max_gpus"] == (False, True)
    assert kinds["workload.request_rate"] == (False, False)
    assert kinds["targets.ttft_ms"] == (False, False)
    assert kinds["limits.tp_across_nodes"] == (False, False)


def test_settings_change_the_scenario_and_are_checked_again() -> None:
    changes = read_settings(["targets.tpot_ms=40", "limits.weights=bf16,fp8", "limits.terms=spot+on-demand"])
    changed = apply(question(), changes)
    assert changed.targets.tpot_ms == 40
    assert changed.limits.weights == ("bf16", "fp8")
    assert changed.limits.terms == ("spot", "on-demand")
    with pytest.raises(QuestionError, match=r"targets.tpot_ms: expected a number"):
        apply(question(), {"targets.tpot_ms": -1})


def test_traffic_of_one_kind_replaces_the_other() -> None:
    changed = apply(question(), {"workload.concurrency": 8})
    assert (changed.workload.kind, changed.workload.demand) == ("concurrency", 8)


def test_lengths_without_a_context_free_the_one_there_was() -> None:
    kept = question({"workload": {"context_tokens": 2000}})
    assert apply(kept, {"workload.output_tokens": 5000}).workload.held_tokens == 6000
    assert apply(kept, {"workload.output_tokens": 200}).workload.held_tokens == 1200
    both = {"workload.output_tokens": 200, "workload.context_tokens": 4000}
    assert apply(kept, both).workload.held_tokens == 4000


def test_one_item_of_a_list_can_be_set() -> None:
    asked = question({"prices": {"discounts": [{"provider": "acme", "percent": 10}]}})
    assert apply(asked, {"prices.discounts.0.percent": 25}).prices.discounts[0].percent == 25
    with pytest.raises(QuestionError, match=r"prices\.discounts\.1\.percent: the scenario has 1"):
        apply(asked, {"prices.discounts.1.percent": 25})


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["targets.tpot_ms"], "expected FIELD=VALUE"),
        (["targets.tpot=3"], "did you mean targets.tpot_ms"),
        (["targets.tpot_ms=3", "targets.tpot_ms=4"], "given twice"),
        (["workload.concurrency=3", "workload.request_rate=4"], "say the traffic twice"),
    ],
)
def test_settings_that_cannot_be_read_are_refused(texts: list[str], said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        read_settings(texts)


def test_factors_go_to_the_offers_that_match_and_multiply_where_they_meet() -> None:
    offers = catalog(
        offer(H100, 4.0, 2), offer(H100, 3.0, 2, term="spot"), offer(A100, 2.0), offer(A100, 1.5, provider="bolt")
    )
    changed = with_factors(offers, {"price:h100*": 0.5, "price:spot": 2.0, "price:bolt": 3.0}).frame
    prices = {(row.gpu, row.provider, row.term): row.price_usd_per_node_hour for row in changed.itertuples(index=False)}
    assert prices == {
        (H100, "acme", "on-demand"): 2.0,
        (H100, "acme", "spot"): 3.0,
        (A100, "acme", "on-demand"): 2.0,
        (A100, "bolt", "on-demand"): 4.5,
    }
    assert changed["price_usd_per_node_hour"].is_monotonic_increasing
    assert offers.frame["price_usd_per_node_hour"].tolist() == [1.5, 2.0, 3.0, 4.0]


def test_a_pattern_that_matches_nothing_gets_near_matches() -> None:
    with pytest.raises(QuestionError, match=r"price:h100: .* did you mean price:H100-SXM-80GB"):
        with_factors(catalog(offer(H100, 4.0)), {"price:h100": 0.5})
