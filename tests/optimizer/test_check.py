"""The auditor: a sound answer passes, and an answer that breaks one rule is told just that rule, with its numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from itertools import product
from typing import Any

import pytest

from catalogs.models import Checkpoint, bundled_models, load_model
from optimizer.check import CHECKS, check_layout, check_plan
from optimizer.check.audit import Audit
from optimizer.check.floors import least_kv_bytes, least_weight_bytes
from optimizer.divisibility import check_split
from optimizer.memory import footprint
from optimizer.plan import Conflict
from optimizer.rules import RULE_NAMES
from optimizer.split import Split
from tests.optimizer.plans import (
    TODAY,
    Case,
    changed_model,
    cost_of,
    llama_8b,
    memory_of,
    mixtral,
    offers_for,
    performance_of,
    plan_of,
)

FP8_BLOCKS = Checkpoint(weights="fp8", dtype="bf16", block_size=(128, 128))
SPANNING = {"tp": 8, "pp": 2, "replicas": 1, "nodes_per_replica": 2}  # one replica on both nodes
TARGETS = {"ttft_ms": 2000, "tpot_ms": 50, "e2e_ms": 20_000}
EXPERTS = Case(mixtral(), layout={"ep": 4})


def audit(case: Case, today: date = TODAY, **said: Any) -> set[str]:
    """Names of the rules that the checker finds broken."""
    return {one.rule for one in check_layout(case.scenario, case.model, case.answer, today=today, **said)}


def test_the_auditor_has_one_function_per_rule_under_the_same_name_in_the_same_order() -> None:
    assert tuple(CHECKS)[: len(RULE_NAMES)] == RULE_NAMES
    assert tuple(CHECKS)[len(RULE_NAMES) :] == ("whole_nodes", "cost", "arithmetic")


def test_the_auditor_shares_nothing_with_what_it_audits() -> None:
    shared = ["programs", "candidates", "choices", "capacity", "rules", "solve", "answer", "infeasible", "ortools"]
    code = "import sys, optimizer.check; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert [name for name in loaded if name.removeprefix("optimizer.").split(".")[0] in shared] == []


# One sound case, and one that breaks a single rule, for each rule

TWINS: dict[str, tuple[Case, Case]] = {
    "gpu_allowed": (
        Case(sections={"limits": {"gpus": ["H100-SXM-80GB"]}}),
        Case(sections={"limits": {"gpus": ["H200-SXM-141GB"]}}),
    ),
    "weights_allowed": (
        Case(sections={"limits": {"weights": "bf16,fp8"}}),
        Case(sections={"limits": {"weights": "fp8"}}),
    ),
    "kv_cache_allowed": (
        Case(sections={"limits": {"kv_cache": "any"}}),
        Case(sections={"limits": {"kv_cache": "fp8"}}),
    ),
    "sizes_allowed": (Case(sections={"limits": {"tp": [4, 8]}}), Case(sections={"limits": {"tp": [8]}})),
    # A V100 has no BF16.
    "dtype_supported": (
        Case(layout={"gpu": "A100-SXM-80GB"}),
        Case(layout={"gpu": "V100-SXM-32GB", "kv_cache": "fp16"}),
    ),
    "attention_dp_divisible": (
        Case(mixtral(), layout={"tp": 2, "attention_dp": 2}),
        Case(layout={"tp": 2, "attention_dp": 2}),
    ),
    "layers_over_stages": (
        Case(changed_model(llama_8b(), layers=llama_8b().layers[:4]), layout={"tp": 1, "pp": 4}),
        Case(changed_model(llama_8b(), layers=llama_8b().layers[:3]), layout={"tp": 1, "pp": 4}),
    ),
    # 32 heads over 4 GPUs; 30 do not divide.
    "heads_divisible": (Case(), Case(changed_model(llama_8b(), attention={"query_heads": 30}))),
    # 14,336 over 4 GPUs; 14,338 does not divide.
    "ffn_divisible": (Case(), Case(changed_model(llama_8b(), mlp={"intermediate_size": 14338}))),
    # On 3 GPUs: 33 heads, 3 KV heads and a width of 14,337 divide, and so does 128,256 = 3 x 42,752; 128,000 does not.
    "vocabulary_divisible": tuple(  # type: ignore[dict-item]
        Case(
            changed_model(
                llama_8b(),
                attention={"query_heads": 33, "kv_heads": 3},
                mlp={"intermediate_size": 14337},
                vocab_size=vocabulary,
            ),
            layout={"tp": 3, "gpus_used": 12},
        )
        for vocabulary in (128_256, 128_000)
    ),
    # 8 experts over 4 GPUs; 6 do not divide.
    "experts_divisible": (EXPERTS, replace(EXPERTS, model=changed_model(mixtral(), mlp={"experts": 6}))),
    # 14,336 / 4 = 28 blocks of 128; 14,400 / 4 = 3,600 is 28.125.
    "quantization_blocks": tuple(  # type: ignore[dict-item]
        Case(
            changed_model(llama_8b(), mlp={"intermediate_size": width}, checkpoint=FP8_BLOCKS),
            layout={"weights": "fp8"},
        )
        for width in (14_336, 14_400)
    ),
    # 16 GPUs do not lie in a node of 8.
    "tp_scale_up": (
        Case(sections={"limits": {"tp_across_nodes": True}}, layout=SPANNING | {"tp": 16, "pp": 1}),
        Case(layout=SPANNING | {"tp": 16, "pp": 1}),
    ),
    "network_known": (
        Case(layout=SPANNING),
        Case(layout=SPANNING | {"network": "unknown", "network_gbit_per_s": None}),
    ),
    "nodes_per_replica": (
        Case(sections={"limits": {"max_nodes_per_replica": 2}}, layout=SPANNING),
        Case(sections={"limits": {"max_nodes_per_replica": 1}}, layout=SPANNING),
    ),
    # A request holds 2,000 + 300 tokens.
    "context_length": (
        Case(changed_model(llama_8b(), max_context_tokens=2300)),
        Case(changed_model(llama_8b(), max_context_tokens=2299)),
    ),
    # Per GPU: 16.06 GB / 4 = 4.02 GB of weights, and per request 32 layers x 2 KV heads x 256 x 2 B = 32,768 B a token.
    # 79.2 GiB x 0.8 / 1.15 = 59.2 GB leave 55.1 GB: 1.68 million tokens, so 32 requests of 52,500 and not of 53,000.
    "vram_headroom": (
        Case(sections={"workload": {"context_tokens": 52_000}}),
        Case(sections={"workload": {"context_tokens": 53_000}}),
    ),
    "ttft": (Case(sections={"targets": TARGETS}), Case(sections={"targets": TARGETS | {"ttft_ms": 1}})),
    "tpot": (Case(sections={"targets": TARGETS}), Case(sections={"targets": TARGETS | {"tpot_ms": 1}})),
    "e2e": (Case(sections={"targets": TARGETS}), Case(sections={"targets": TARGETS | {"e2e_ms": 100}})),
    "provider_allowed": (
        Case(sections={"limits": {"providers": "spheron,aws"}}),
        Case(sections={"limits": {"exclude_providers": "spheron"}}),
    ),
    "provider_kind_allowed": (
        Case(sections={"limits": {"providers": "vast"}}, layout={"provider": "vast", "provider_kind": "marketplace"}),
        Case(layout={"provider": "vast", "provider_kind": "marketplace"}),
    ),
    "region_allowed": (
        Case(sections={"limits": {"regions": "us-east"}}),
        Case(sections={"limits": {"regions": "us-west"}}),
    ),
    "instance_type_allowed": (
        Case(sections={"limits": {"instance_types": ["8x H100-SXM-80GB"]}}),
        Case(sections={"limits": {"instance_types": ["p5.48xlarge"]}}),
    ),
    "term_allowed": (Case(sections={"limits": {"terms": "on-demand,spot"}}), Case(layout={"term": "spot"})),
    # Seen ten days before.
    "price_age": (
        Case(sections={"prices": {"max_age_days": 10}}),
        Case(sections={"prices": {"max_age_days": 9}}),
    ),
    "traffic": (Case(), Case(sections={"workload": {"request_rate": 2000}})),
    # 2 nodes at $20.
    "budget": (
        Case(sections={"limits": {"budget_usd_per_hour": 40}}),
        Case(sections={"limits": {"budget_usd_per_hour": 39.99}}),
    ),
    # 2 nodes of 8 GPUs.
    "quota": (
        Case(sections={"limits": {"max_gpus": 16, "max_nodes": 2, "quotas": [{"gpu": "L4-24GB", "max_gpus": 1}]}}),
        Case(sections={"limits": {"quotas": [{"provider": "spheron", "region": "us-east", "max_gpus": 15}]}}),
    ),
    "replicas_allowed": (
        Case(sections={"limits": {"replicas": [4]}}),
        Case(sections={"limits": {"replicas": [2, 8]}}),
    ),
    # Two replicas of four GPUs lie on a node of eight: four take two nodes.
    "whole_nodes": (Case(), Case(layout={"nodes": 3})),
    "arithmetic": (Case(), Case(layout={"gpus_used": 15})),
}


@pytest.mark.parametrize("rule", TWINS)
def test_a_layout_that_keeps_the_rule_passes(rule: str) -> None:
    sound, _ = TWINS[rule]

    assert audit(sound) == set()


@pytest.mark.parametrize("rule", TWINS)
def test_a_layout_that_breaks_one_rule_is_told_that_rule(rule: str) -> None:
    _, broken = TWINS[rule]

    assert audit(broken) == {rule}


def test_every_rule_has_a_pair_of_twins() -> None:
    assert set(CHECKS) - {"cost"} == set(TWINS)


@pytest.mark.parametrize(
    ("sections", "layout", "words"),
    [
        ({"limits": {"max_gpus": 15}}, {}, "16 GPUs are rented, 15 are allowed in all"),
        ({"limits": {"max_nodes": 1}}, {}, "2 nodes are rented, 1 are allowed in all"),
        ({}, {"max_nodes": 1}, "2 nodes are rented, 1 are in stock"),
        ({"limits": {"quotas": [{"max_nodes": 1}]}}, {}, "1 are allowed of anything"),
        ({"limits": {"quotas": [{"gpu": "H100-SXM-80GB", "max_gpus": 8}]}}, {}, "8 are allowed of H100-SXM-80GB"),
        ({"limits": {"exclude_gpus": "H100-SXM-80GB"}}, {}, "H100-SXM-80GB is excluded"),
        ({"limits": {"max_concurrency_per_replica": 31}}, {}, "32 requests at once, 31 are allowed"),
        ({}, {"gpu": "H300-SXM"}, "nothing is known of H300-SXM"),
        ({}, {"kv_cache": "fp8", "gpu": "A100-SXM-80GB"}, "fp8 is not one of auto"),
        ({}, {"ep": 2}, "ep 2 is neither 1 nor the 4 GPUs of a stage"),
        ({}, {"ep": 4}, "ep 4 on a model without experts"),
        ({}, SPANNING | {"tp": 6, "pp": 4, "nodes_per_replica": 3}, "stages of 6 GPUs do not fill nodes of 8"),
        ({}, SPANNING | {"tp": 4, "pp": 3, "gpus_used": 12}, "a replica of 12 GPUs does not fill nodes of 8"),
        ({}, {"nodes_per_replica": 2}, "a replica of 4 GPUs lies on 1 nodes, not 2"),
        ({}, {"nodes": 1}, "16 GPUs are used and 8 rented"),
        ({}, {"tp": 0}, "tp is 0"),
        ({}, {"price_usd_per_node_hour": 0.0}, "a price of 0.0 is none"),
        ({}, {"price_usd_per_node_hour": float("nan")}, "a price of nan is none"),
        ({"targets": {"tpot_ms": 1}}, {}, "at the concurrency limit of 32, the target is 1 ms"),
        ({"targets": {"e2e_ms": 1}}, {}, "end-to-end time without waiting is"),
        ({"limits": {"max_utilization": 0.01}}, {}, "of what 4 replicas of 32 requests each carry; 1.0% may be used"),
    ],
)
def test_what_is_broken_is_said_with_its_numbers(sections: dict[str, Any], layout: dict[str, Any], words: str) -> None:
    case = Case(sections=sections, layout=layout)
    found = check_layout(case.scenario, case.model, case.answer, today=TODAY)

    assert words in " | ".join(one.message for one in found)


# Numbers


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(layout=SPANNING),
        Case(mixtral(), layout={"tp": 2, "attention_dp": 2, "ep": 4}),
        Case(sections={"workload": {"request_rate": None, "concurrency": 50}}),
        Case(sections={"workload": {"request_rate": None, "output_tokens_per_second": 500.0}}),
        Case(sections={"memory": {"policy": "engine"}}),
        Case(sections={"workload": {"output_tokens": 1}}),
    ],
    ids=["open", "spanning", "attention-dp", "closed", "offline", "engine", "one-token"],
)
def test_figures_worked_out_elsewhere_are_found_right(case: Case) -> None:
    performance = performance_of(case)

    assert not check_layout(
        case.scenario,
        case.model,
        case.answer,
        cost=cost_of(case, performance),
        memory=memory_of(case),
        performance=performance,
        offers=offers_for(case.answer),
        today=TODAY,
    )


@pytest.mark.parametrize(
    "name",
    [
        "weights_gib",
        "kv_cache_gib",
        "activations_gib",
        "overhead_gib",
        "need_gib",
        "available_gib",
        "headroom_left_gib",
        "gpu_memory_gib",
    ],
)
def test_a_memory_figure_that_is_off_by_a_percent_is_noticed(name: str) -> None:
    said = memory_of(Case())

    assert audit(Case(), memory=said.model_copy(update={name: getattr(said, name) * 1.01})) == {"arithmetic"}


@pytest.mark.parametrize(
    ("name", "value"), [("kv_tokens", 1), ("context_tokens", 4096), ("policy", "engine"), ("weights_gib", 0.1)]
)
def test_a_memory_figure_that_is_made_up_is_noticed(name: str, value: Any) -> None:
    assert audit(Case(), memory=memory_of(Case()).model_copy(update={name: value})) == {"arithmetic"}


@pytest.mark.parametrize(
    "name",
    [
        "ttft_ms",
        "tpot_ms",
        "e2e_ms",
        "output_tokens_per_second",
        "requests_per_second",
        "requests_in_flight",
        "utilization",
    ],
)
def test_a_prediction_that_is_off_by_a_percent_is_noticed(name: str) -> None:
    said = performance_of(Case())

    assert audit(Case(), performance=said.model_copy(update={name: getattr(said, name) * 1.01})) == {"arithmetic"}


@pytest.mark.parametrize("name", ["tpot_ms", "output_tokens_per_second", "requests_per_second"])
def test_a_figure_at_saturation_that_is_off_is_noticed(name: str) -> None:
    said = performance_of(Case())
    saturation = said.saturation.model_copy(update={name: getattr(said.saturation, name) * 1.01})

    assert audit(Case(), performance=said.model_copy(update={"saturation": saturation})) == {"arithmetic"}


def test_a_step_longer_than_the_time_between_tokens_is_noticed() -> None:
    said = performance_of(Case())

    assert audit(Case(), performance=said.model_copy(update={"step_ms": {"weights": said.tpot_ms * 2}})) == {
        "arithmetic"
    }


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("usd_per_hour", 0.99),
        ("usd_per_month", 1.01),
        ("usd_per_million_output_tokens", 1.01),
        ("usd_per_million_output_tokens_at_saturation", 0.99),
        ("bound_usd_per_hour", 0.9),  # without its gap
        ("bound_usd_per_hour", 1.1),
    ],
)
def test_money_that_does_not_follow_from_nodes_and_price_is_noticed(name: str, factor: float) -> None:
    said = cost_of(Case(), performance_of(Case()))

    assert audit(Case(), cost=said.model_copy(update={name: getattr(said, name) * factor})) == {"cost"}


def test_a_bound_below_the_cost_is_sound_with_its_gap() -> None:
    said = cost_of(Case(), performance_of(Case()))

    # (40 - 30) / 40
    assert audit(Case(), cost=said.model_copy(update={"bound_usd_per_hour": 30.0, "gap": 0.25})) == set()


@pytest.mark.parametrize(
    "changed",
    [
        {"price_usd_per_node_hour": 19.99},
        {"provider": "aws"},
        {"region": "eu"},
        {"instance_type": "p5.48xlarge"},
        {"gpu": "A100-SXM-80GB"},
        {"term": "spot"},
        {"gpus_per_node": 4},
        {"fabric": "pcie"},
        {"scale_up_gpus": 1},
        {"network": "ethernet"},
        {"network_gbit_per_s": float("nan")},
        {"max_nodes": 7},
        {"seen_on": "2026-08-13"},
        {"source": "elsewhere"},
        {"provider_kind": "marketplace"},
    ],
    ids=str,
)
def test_a_layout_that_is_not_in_the_catalog_as_it_says_is_noticed(changed: dict[str, Any]) -> None:
    assert audit(Case(), offers=offers_for(Case().answer, **changed)) == {"cost"}


def test_the_users_discounts_come_off_the_list_price_one_after_another() -> None:
    # $25 less 10% is $22.50, less 5% $21.375; the discount on another GPU does not count.
    discounts = [{"percent": 10, "provider": "spheron"}, {"percent": 50, "gpu": "L4-24GB"}, {"percent": 5}]
    case = Case(sections={"prices": {"discounts": discounts}}, layout={"price_usd_per_node_hour": 21.375})

    assert audit(case, offers=offers_for(case.answer, price_usd_per_node_hour=25.0)) == set()
    assert audit(case, offers=offers_for(case.answer)) == {"cost"}


# Plans

CASE = Case(sections={"targets": TARGETS})


def audit_plan(**changed: Any) -> set[str]:
    plan = plan_of(CASE, **changed)
    layouts = [plan.layout, *(one.layout for one in plan.alternatives)]
    offers = offers_for(*(layout for layout in layouts if layout is not None)) if any(layouts) else None
    return {one.rule for one in check_plan(plan, CASE.model, offers)}


def test_a_sound_plan_passes() -> None:
    assert audit_plan() == set()


def test_a_plan_survives_the_json_it_is_printed_as() -> None:
    plan = plan_of(CASE)

    assert not check_plan(type(plan).model_validate_json(plan.model_dump_json()), CASE.model)


def _changed(part: str, **fields: Any) -> dict[str, Any]:
    """The part of a sound plan with some fields changed."""
    return {part: getattr(plan_of(CASE), part).model_copy(update=fields)}


def _alternative(**fields: Any) -> dict[str, Any]:
    (one,) = plan_of(CASE).alternatives
    return {"alternatives": (one.model_copy(update=fields),)}


def _alternative_layout(**fields: Any) -> dict[str, Any]:
    (one,) = plan_of(CASE).alternatives
    assert one.layout is not None
    return _alternative(layout=one.layout.model_copy(update=fields))


INFEASIBLE = {
    "status": "infeasible",
    "layout": None,
    "cost": None,
    "memory": None,
    "performance": None,
    "targets": (),
    "alternatives": (),
    "conflict": (Conflict(rule="ttft", meaning="time to first token", needs="1 ms"),),
}


def test_a_sound_infeasible_plan_passes() -> None:
    prices = plan_of(CASE).prices.model_copy(update={"seen_on": None})

    assert audit_plan(**INFEASIBLE, prices=prices) == set()


def _targets(**fields: Any) -> dict[str, Any]:
    return {"targets": tuple(one.model_copy(update=fields) for one in plan_of(CASE).targets)}


CONTRADICTIONS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "no question": ("question", lambda: {"scenario": {"model": "x"}}),
    "optimal without a cost": ("status", lambda: {"cost": None}),
    "optimal without figures": ("status", lambda: {"performance": None, "memory": None}),
    "optimal with a gap": ("status", lambda: _changed("cost", bound_usd_per_hour=30.0, gap=0.25)),
    "optimal with a conflict": ("status", lambda: {"conflict": INFEASIBLE["conflict"]}),
    "infeasible without a conflict": ("status", lambda: INFEASIBLE | {"conflict": ()}),
    "infeasible with a layout": ("status", lambda: INFEASIBLE | {"layout": CASE.answer}),
    "prices of another day": ("status", lambda: _changed("prices", seen_on=date(2026, 8, 13))),
    "targets left out": ("targets", lambda: {"targets": ()}),
    "targets in another order": ("targets", lambda: {"targets": tuple(reversed(plan_of(CASE).targets))}),
    "targets that do not hold": ("targets", lambda: _targets(holds=False)),
    "targets that were not asked for": ("arithmetic", lambda: _targets(target=9e9)),
    "targets held against other figures": ("arithmetic", lambda: _targets(predicted=0.0)),
    "an alternative on another GPU": ("alternatives", lambda: _alternative(gpu="L4-24GB")),
    "an alternative at another price": ("alternatives", lambda: _alternative(usd_per_hour=61.0)),
    "an alternative without a difference": ("alternatives", lambda: _alternative(extra_usd_per_hour=None)),
    "an alternative at another speed": ("alternatives", lambda: _alternative(ttft_ms=1.0)),
    "an alternative without utilization": ("alternatives", lambda: _alternative(utilization=None)),
    "an alternative without a layout": ("alternatives", lambda: _alternative(layout=None)),
    "an alternative on too many nodes": ("whole_nodes", lambda: _alternative_layout(nodes=3)),
    "an alternative on a term not allowed": ("term_allowed", lambda: _alternative_layout(term="spot")),
    "an alternative that cannot run": ("heads_divisible", lambda: _alternative_layout(tp=5)),
    "an alternative below the optimum": ("alternatives", lambda: _alternative_layout(price_usd_per_node_hour=1.0)),
    "an alternative to nothing": ("alternatives", lambda: INFEASIBLE | {"alternatives": plan_of(CASE).alternatives}),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_plan_that_contradicts_itself_is_found_out(what: str) -> None:
    rule, changed = CONTRADICTIONS[what]

    assert rule in audit_plan(**changed())


def test_an_alternative_cheaper_than_the_optimum_is_named() -> None:
    plan = plan_of(CASE, **_alternative_layout(price_usd_per_node_hour=19.0))
    messages = [one.message for one in check_plan(plan, CASE.model) if one.rule == "alternatives"]

    assert "H200-SXM-141GB costs $38.000000, less than the optimal $40.000000" in messages


def test_what_an_alternative_breaks_is_said_with_its_gpu() -> None:
    plan = plan_of(CASE, **_alternative_layout(term="spot"))
    (found,) = check_plan(plan, CASE.model)

    assert found.message == "alternative on H200-SXM-141GB: term spot is not one of on-demand"


# The auditor's own arithmetic against the house's, over every bundled model

SPLITS = [
    Split("bf16", kv_cache, tp, pp, ep, attention_dp)
    for kv_cache, tp, pp, attention_dp in product(("bf16", "fp8"), (1, 2, 3, 8, 12), (1, 3), (1, 4))
    for ep in {1, tp * attention_dp, 2}
]


@pytest.mark.parametrize("name", bundled_models())
def test_own_divisibility_and_floors_agree_with_the_house(name: str) -> None:
    model = load_model(name)
    for split in SPLITS:
        sizes = {"tp": split.tp, "pp": split.pp, "ep": split.ep, "attention_dp": split.attention_dp}
        audit = Audit(CASE.scenario, model, CASE.answer.model_copy(update=sizes | {"kv_cache": split.kv_cache}), TODAY)
        rules = [rule for rule in CHECKS if rule.endswith("_divisible") or rule == "layers_over_stages"]
        broken = {rule for rule in rules if any(True for _ in CHECKS[rule](audit))}
        refused = {refusal.rule for refusal in check_split(model, split)} - {"quantization_blocks"}

        assert broken == refused, split
        if not refused:
            held = footprint(model, split)
            for tokens in (1, 5000, 200_000):
                assert least_kv_bytes(model, split, tokens) <= held.kv_bytes_per_sequence(float(tokens)) * (1 + 1e-9)
            assert least_weight_bytes(model, split) <= held.weights_bytes * (1 + 1e-9)


def test_floors_of_a_dense_model_are_what_one_works_out_by_hand() -> None:
    split = Split("bf16", "bf16", tp=4)

    # 8.03 billion parameters x 2 B over 4 GPUs; 32 layers x 2 of 8 KV heads x (128 + 128) x 2 B = 32,768 B a token.
    assert least_weight_bytes(llama_8b(), split) == pytest.approx(8.03e9 * 2 / 4, rel=1e-3)
    assert least_kv_bytes(llama_8b(), split, 1000) == 32_768_000
    # On 16 GPUs the 8 KV heads are repeated, one on each: half of that, and no less.
    assert least_kv_bytes(llama_8b(), Split("bf16", "bf16", tp=16), 1000) == 16_384_000
