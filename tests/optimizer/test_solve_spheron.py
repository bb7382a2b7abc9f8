"""Llama 3.1 70B in BF16 on Spheron of 14 August 2026: 2 x H200 against 4 x A100 80GB, interactive and offline."""

from __future__ import annotations

from datetime import date
from typing import Any

import pandas as pd
import pytest

from catalogs.offers import OfferTable, load_offers
from optimizer.plan import Plan
from optimizer.scenario import build_scenario
from optimizer.solve import solve

LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
H200, A100 = "H200-SXM-141GB", "A100-SXM-80GB"
AUGUST = date(2026, 8, 14)


@pytest.fixture(scope="module")
def august() -> OfferTable:
    return load_offers(AUGUST)


def spheron(august: OfferTable, **sections: Any) -> Plan:
    fields: dict[str, Any] = {
        "model": LLAMA_70B,
        "limits": {"providers": ["spheron"], "gpus": [H200, A100]} | sections.pop("limits", {}),
        "workload": {"input_tokens": 2000, "output_tokens": 300} | sections.pop("workload"),
        "prices": {"as_of": AUGUST.isoformat()},
    }
    return solve(build_scenario(fields | sections), catalog=august, today=AUGUST)


def test_two_h200_cost_9_68_and_four_a100_cost_5_72_an_hour(august: OfferTable) -> None:
    on_demand = august.frame[(august.frame["provider"] == "spheron") & (august.frame["term"] == "on-demand")]
    prices = on_demand.groupby(["gpu", "gpus_per_node"])["price_usd_per_node_hour"].min()

    # 2 x $4.84, and 4 x $1.43.
    assert prices[H200, 2] == pytest.approx(9.68)
    assert prices[A100, 4] == pytest.approx(5.72)


def test_bf16_weights_of_70b_need_two_h200_or_four_a100(august: OfferTable) -> None:
    plan = spheron(august, workload={"request_rate": 0.02})
    costs = {plan.layout.gpu: plan.cost.usd_per_hour} if plan.layout and plan.cost else {}
    costs |= {one.gpu: one.usd_per_hour for one in plan.alternatives}

    # Hardly any traffic and no target: memory decides.
    assert plan.status == "optimal"
    assert costs == {A100: pytest.approx(5.72), H200: pytest.approx(9.68)}


@pytest.mark.parametrize(
    "sections",
    [
        {"workload": {"request_rate": 0.5}, "targets": {"ttft_ms": 2000, "tpot_ms": 100}},
        {"workload": {"request_rate": 1.0}, "targets": {"ttft_ms": 1500, "tpot_ms": 50}},
        {"workload": {"request_rate": 4.0}, "targets": {"ttft_ms": 1500, "tpot_ms": 50}},
        {"workload": {"request_rate": 12.0}, "targets": {"ttft_ms": 3000, "tpot_ms": 80}},
        {"workload": {"output_tokens_per_second": 500.0}},
        {"workload": {"output_tokens_per_second": 5000.0}},
        {"workload": {"concurrency": 32}, "targets": {"tpot_ms": 60}},
    ],
    ids=["0.5/s", "1/s", "4/s", "12/s", "offline", "much-offline", "32-users"],
)
def test_the_answer_names_a_winner_and_why_the_other_gpu_lost(august: OfferTable, sections: dict[str, Any]) -> None:
    plan = spheron(august, **{name: dict(fields) for name, fields in sections.items()})

    assert plan.status == "optimal"
    assert plan.layout is not None
    assert plan.cost is not None
    other = {one.gpu: one for one in plan.alternatives}
    assert set(other) == {H200, A100} - {plan.layout.gpu}
    (one,) = other.values()
    assert one.usd_per_hour is not None
    assert one.extra_usd_per_hour == pytest.approx(one.usd_per_hour - plan.cost.usd_per_hour)
    assert one.usd_per_hour >= plan.cost.usd_per_hour
    assert any(character.isdigit() for character in one.why)
    # $4.84 and $1.43 a GPU, whatever the number of them.
    per_gpu = {H200: 4.84, A100: 1.43}
    for layout in (plan.layout, one.layout):
        assert layout is not None
        assert layout.price_usd_per_node_hour / layout.gpus_per_node == pytest.approx(per_gpu[layout.gpu])
        assert layout.weights == "bf16"


def test_a_tight_time_per_token_is_h200_work_and_a_loose_one_a100_work(august: OfferTable) -> None:
    # A step reads 140 GB of weights: over 2 x 4.8 TB/s at least 15 ms, over 4 x 2.0 TB/s at least 17 ms; but the A100s
    # cost 5.72 / 9.68 = 59%.
    loose = spheron(august, workload={"request_rate": 0.2}, targets={"tpot_ms": 100})
    assert loose.layout is not None
    assert (loose.layout.gpu, loose.layout.gpus_per_node) == (A100, 4)
    assert loose.cost is not None
    assert loose.cost.usd_per_hour == pytest.approx(5.72)


def test_offers_are_a_table_that_solving_leaves_alone(august: OfferTable) -> None:
    before = august.frame.copy()
    spheron(august, workload={"request_rate": 1.0})

    pd.testing.assert_frame_equal(august.frame, before)
