"""Cheaper answers that a limit rules out: each flag, given, brings the cost that was said, or less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catalogs.models import load_model
from optimizer.plan import CheaperIf
from optimizer.solve import solve
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, Fields, catalog, draw, offer, question, with_flags

H100, L4 = "H100-SXM-80GB", "L4-24GB"


def savings(sections: Fields, *offers: dict[str, Any], model: str = SMALL) -> list[CheaperIf]:
    table = catalog(*offers)
    return list(solve(question(sections, model=model), model=load_model(model), catalog=table, today=TODAY).cheaper_if)


# Limits, offers -> flag, cost then: the answer is an H100 at $2.50.
ONE_LIMIT: dict[str, tuple[Fields, dict[str, Any], str, float]] = {
    "term": ({}, offer(H100, 1.0, term="spot"), "--term spot", 1.0),
    "kind": ({}, offer(H100, 1.2, provider="vast", provider_kind="marketplace"), "--provider-kind marketplace", 1.2),
    "gpu": ({"limits": {"gpus": [H100]}}, offer(L4, 0.8), f"--gpu {L4}", 0.8),
    "excluded-gpu": ({"limits": {"exclude_gpus": [L4]}}, offer(L4, 0.8), f"without --exclude-gpu {L4}", 0.8),
    "provider": ({"limits": {"providers": ["acme"]}}, offer(H100, 2.0, provider="bolt"), "--provider bolt", 2.0),
    "excluded-provider": (
        {"limits": {"exclude_providers": ["bolt"]}},
        offer(H100, 2.0, provider="bolt"),
        "without --exclude-provider bolt",
        2.0,
    ),
    "region": ({"limits": {"regions": ["east"]}}, offer(H100, 2.1, region="west"), "--region west", 2.1),
}


@pytest.mark.parametrize("limit", ONE_LIMIT)
def test_a_cheaper_offer_outside_one_limit_is_told_with_its_flag(limit: str) -> None:
    sections, cheaper, flag, cost = ONE_LIMIT[limit]
    (line,) = savings(sections, offer(H100, 2.5), cheaper)

    assert line.flag == flag
    assert line.usd_per_hour == pytest.approx(cost)
    assert line.saving_usd_per_hour == pytest.approx(2.5 - cost)


def test_sizes_that_the_user_fixed_are_named_where_others_are_cheaper() -> None:
    # Two stages on a node of two at $4, where one GPU at $2.50 would do.
    (line,) = savings({"limits": {"pp": [2], "tp": [1]}}, offer(H100, 4.0, 2), offer(H100, 2.5))

    assert (line.change, line.flag, line.usd_per_hour) == ("pp 1", "--pp 1", 2.5)


def test_the_next_precision_is_told_where_it_needs_less() -> None:
    # 16 GB of BF16 weights do not fit one 15 GiB T4 half empty: two L4s hold them, and one does in eight bits.
    fields = {"memory": {"headroom": 0.3}, "limits": {"pp": [1]}, "workload": {"request_rate": 0.1}}
    lines = {line.flag: line for line in savings(fields, offer(L4, 0.8), offer(L4, 1.6, 2), model=MEDIUM)}

    assert {"--weights fp8", "--weights int8"} & set(lines)
    assert {line.usd_per_hour for flag, line in lines.items() if flag.startswith("--weights")} == {0.8}


def test_the_other_memory_policy_is_told_where_it_needs_less() -> None:
    # 16.06 GB are 67% of an L4: within 90% of it, and with 15% overhead not within 70%.
    fields = {"memory": {"headroom": 0.3}, "limits": {"pp": [1]}, "workload": {"request_rate": 0.1}}
    lines = {line.flag: line for line in savings(fields, offer(L4, 0.8), offer(L4, 1.6, 2), model=MEDIUM)}

    assert lines["--memory-policy engine"].usd_per_hour == 0.8


def test_a_saving_of_next_to_nothing_is_not_worth_a_line() -> None:
    # $2.49 is 0.4% under $2.50.
    assert savings({}, offer(H100, 2.5), offer(H100, 2.49, term="spot")) == []


def test_every_flag_given_brings_the_cost_that_was_said_or_less(tmp_path: Path) -> None:
    tried = 0
    for seed in range(60):
        drawn = draw(seed)
        model = load_model(drawn.scenario.model)
        for line in solve(drawn.scenario, model=model, catalog=drawn.table, today=TODAY).cheaper_if:
            changed = with_flags(drawn.scenario, line.flag, tmp_path)
            again = solve(changed, model=model, catalog=drawn.table, today=TODAY)
            assert again.cost is not None, (seed, line)
            assert again.cost.usd_per_hour <= line.usd_per_hour + 1e-6, (seed, line)
            tried += 1
    assert tried >= 8
