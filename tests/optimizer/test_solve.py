"""Whole questions on small catalogs: each rule alone can make one infeasible, and answers are stable and monotone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from random import Random
from typing import Any

import pytest

from catalogs.models import Checkpoint, ModelSpec, load_model
from optimizer.errors import AuditError, QuestionError
from optimizer.infeasible import demand_of, to_choices
from optimizer.plan import Plan
from optimizer.programs.layout import Settings, cheapest
from optimizer.rules import RULE_NAMES, get_rule
from optimizer.solve import choose, pose, solve
from tests.optimizer.catalogs import MEDIUM, SEEN, SMALL, TODAY, Fields, catalog, draw, offer, question
from tests.optimizer.plans import changed_model, llama_8b, mixtral

H100, L4, V100 = "H100-SXM-80GB", "L4-24GB", "V100-SXM-16GB"
PAIR = offer(H100, 4.0, 2)
OTHER = offer(V100, 1.0, 4)  # which does not run BF16
FP8_BLOCKS = Checkpoint(weights="fp8", dtype="bf16", block_size=(128, 128))
JOINED = {"network": "infiniband", "network_gbit_per_s": 400.0}


@dataclass(frozen=True)
class Case:
    """A question about a small catalog; an H100 at $2.50 an hour when nothing else is said."""

    sections: Fields = field(default_factory=dict)
    offers: tuple[dict[str, Any], ...] = (offer(H100, 2.5),)
    model: ModelSpec | str = SMALL

    def solve(self) -> Plan:
        model = load_model(self.model) if isinstance(self.model, str) else self.model
        name = self.model if isinstance(self.model, str) else SMALL
        return solve(question(self.sections, model=name), model=model, catalog=catalog(*self.offers), today=TODAY)


def limits(**fields: Any) -> Fields:
    return {"limits": fields}


def targets(**fields: Any) -> Fields:
    return {"targets": fields}


def of_two(model: ModelSpec, **sizes: Any) -> Case:
    """One replica over both GPUs of a node."""
    return Case(limits(**({"tp": [2], "pp": [1]} | sizes)), (PAIR,), model)


FEW_LAYERS = {layers: changed_model(llama_8b(), layers=llama_8b().layers[:layers]) for layers in (2, 3)}

# Rule -> a question that has an answer, and the same broken by that rule only.
TWINS: dict[str, tuple[Case, Case]] = {
    "gpu_allowed": (
        Case(limits(gpus=[H100, L4])),
        Case(limits(gpus=[L4])),
    ),
    # At 30% headroom an L4 holds 16.9 GB: 8.6 GB of INT8 weights with overhead, and not 18.5 GB of BF16.
    "weights_allowed": tuple(  # type: ignore[dict-item]
        Case({"memory": {"headroom": 0.3}} | limits(weights=[weights]), (offer(L4, 0.8),), MEDIUM)
        for weights in ("int8", "bf16")
    ),
    # Only caches that are allowed are looked at: what an FP8 cache on a V100 breaks is that the GPU does not keep it.
    "kv_cache_allowed": tuple(  # type: ignore[dict-item]
        Case(limits(weights=["fp16"], kv_cache=[kv_cache]), (offer(V100, 1.0),)) for kv_cache in ("fp16", "fp8")
    ),
    "sizes_allowed": (Case(limits(tp=[1, 2])), Case(limits(tp=[2]))),
    # A V100 has no BF16; an H100 has.
    "dtype_supported": (Case(), Case(offers=(offer(V100, 1.0),))),
    "attention_dp_divisible": (
        of_two(mixtral(), tp=[1], attention_dp=[2], weights=["fp8"]),
        of_two(llama_8b(), tp=[1], attention_dp=[2]),
    ),
    # Three layers go over three stages; two do not.
    "layers_over_stages": (
        Case(limits(tp=[1], pp=[3]), (offer(H100, 8.0, 4),), FEW_LAYERS[3]),
        Case(limits(tp=[1], pp=[3]), (offer(H100, 8.0, 4),), FEW_LAYERS[2]),
    ),
    # 32 heads over 2 GPUs; 31 do not divide.
    "heads_divisible": (
        of_two(llama_8b()),
        of_two(changed_model(llama_8b(), attention={"query_heads": 31})),
    ),
    # 14,336 over 2 GPUs; 14,337 does not divide.
    "ffn_divisible": (of_two(llama_8b()), of_two(changed_model(llama_8b(), mlp={"intermediate_size": 14_337}))),
    # 128,256 is padded to 128,256 = 3 x 42,752; 128,000 is padded to 128,000, which 3 does not divide.
    "vocabulary_divisible": tuple(  # type: ignore[dict-item]
        Case(
            limits(tp=[3]),
            (offer(H100, 8.0, 4),),
            changed_model(
                llama_8b(),
                attention={"query_heads": 33, "kv_heads": 3},
                mlp={"intermediate_size": 14_337},
                vocab_size=vocabulary,
            ),
        )
        for vocabulary in (128_256, 128_000)
    ),
    # 8 experts over 2 GPUs; 7 do not divide.
    "experts_divisible": (
        of_two(mixtral(), ep=[2], weights=["fp8"], attention_dp=[1]),
        of_two(changed_model(mixtral(), mlp={"experts": 7}), ep=[2], weights=["fp8"], attention_dp=[1]),
    ),
    # 14,336 / 4 = 28 blocks of 128; 14,400 / 4 = 3,600 is 28.125.
    "quantization_blocks": tuple(  # type: ignore[dict-item]
        Case(
            limits(tp=[4], pp=[1]),
            (offer(H100, 8.0, 4),),
            changed_model(llama_8b(), mlp={"intermediate_size": width}, checkpoint=FP8_BLOCKS),
        )
        for width in (14_336, 14_400)
    ),
    # A group of two over two nodes of one.
    "tp_scale_up": (
        Case(limits(tp=[2], pp=[1], tp_across_nodes=True), (offer(H100, 2.5, **JOINED),), MEDIUM),
        Case(limits(tp=[2], pp=[1]), (offer(H100, 2.5, **JOINED),), MEDIUM),
    ),
    "network_known": (
        Case(limits(pp=[2], tp=[1]), (offer(H100, 2.5, **JOINED),), MEDIUM),
        Case(limits(pp=[2], tp=[1]), (offer(H100, 2.5),), MEDIUM),
    ),
    "nodes_per_replica": (
        Case(limits(pp=[4], tp=[1], max_nodes_per_replica=4), (offer(H100, 2.5, **JOINED), OTHER), MEDIUM),
        Case(limits(pp=[4], tp=[1], max_nodes_per_replica=3), (offer(H100, 2.5, **JOINED), OTHER), MEDIUM),
    ),
    # The model takes 32,768 tokens.
    "context_length": (
        Case({"workload": {"context_tokens": 32_768}}),
        Case({"workload": {"context_tokens": 32_769}}),
    ),
    # 16.06 GB x 1.15 = 18.5 GB of weights with overhead; an L4 has 22.5 GiB = 24.1 GB, of which 80% are 19.3 GB and 70%
    # are 16.9 GB.
    "vram_headroom": (
        Case({"memory": {"headroom": 0.2}} | limits(pp=[1]), (offer(L4, 0.8),), MEDIUM),
        Case({"memory": {"headroom": 0.3}} | limits(pp=[1]), (offer(L4, 0.8),), MEDIUM),
    ),
    "ttft": (Case(targets(ttft_ms=2000)), Case(targets(ttft_ms=1))),
    "tpot": (Case(targets(tpot_ms=100)), Case(targets(tpot_ms=0.1))),
    "e2e": (Case(targets(e2e_ms=20_000)), Case(targets(e2e_ms=10))),
    "provider_allowed": (Case(limits(providers=["acme"])), Case(limits(exclude_providers=["acme"]))),
    "provider_kind_allowed": (
        Case(limits(provider_kinds=["marketplace"]), (offer(H100, 2.5, provider_kind="marketplace"),)),
        Case(offers=(offer(H100, 2.5, provider_kind="marketplace"),)),
    ),
    "region_allowed": (
        Case(limits(regions=["east"]), (offer(H100, 2.5), offer(L4, 1.0, region="west"))),
        Case(limits(regions=["west"]) | targets(tpot_ms=4.0), (offer(H100, 2.5), offer("T4-16GB", 1.0, region="west"))),
    ),
    "instance_type_allowed": (
        Case(limits(instance_types=["1x H100-SXM-80GB"])),
        Case(limits(instance_types=["old"]), (offer(H100, 2.5), offer("T4-16GB", 1.0, instance_type="old"))),
    ),
    "term_allowed": (Case(limits(terms=["spot"]), (offer(H100, 1.0, term="spot"),)), Case(limits(terms=["spot"]))),
    # Seen six days before.
    "price_age": (Case({"prices": {"max_age_days": 6}}), Case({"prices": {"max_age_days": 5}})),
    # At a hundred requests/s or so for each GPU, a hundred million take more nodes than there are.
    "traffic": (Case({"workload": {"request_rate": 900.0}}), Case({"workload": {"request_rate": 1e8}})),
    "budget": (Case(limits(budget_usd_per_hour=2.5)), Case(limits(budget_usd_per_hour=2.49))),
    "quota": (Case(limits(max_gpus=1)), Case(limits(max_gpus=1), (PAIR,))),
    "replicas_allowed": (
        Case({"workload": {"request_rate": 900.0}}),
        Case({"workload": {"request_rate": 900.0}} | limits(replicas=[1])),
    ),
}
# What hardware and model rule out are facts: the user's own limit that asks for it is what conflicts.
FACTS = {name for name in RULE_NAMES if get_rule(name).kind in ("shape", "model")}


def test_every_rule_has_a_pair_of_twins() -> None:
    assert set(TWINS) == set(RULE_NAMES)


@pytest.mark.parametrize("rule", TWINS)
def test_a_question_that_keeps_the_rule_is_answered(rule: str) -> None:
    plan = TWINS[rule][0].solve()

    assert plan.status == "optimal"
    assert plan.conflict == ()


@pytest.mark.parametrize("rule", TWINS)
def test_the_same_question_that_breaks_the_rule_is_infeasible_by_it(rule: str) -> None:
    plan = TWINS[rule][1].solve()
    conflict = {one.rule for one in plan.conflict}

    assert plan.status == "infeasible"
    assert (plan.layout, plan.cost, plan.memory, plan.performance) == (None, None, None, None)
    blocking = "dtype_supported" if rule == "kv_cache_allowed" else rule
    assert blocking in conflict or (blocking in FACTS and plan.ruled_out.get(blocking, 0) > 0)
    assert all(one.needs and one.meaning for one in plan.conflict)


# What is rented


def test_the_cheapest_offer_that_will_do_is_rented_in_whole_nodes() -> None:
    # 900 requests/s take several H100s; nodes of two are cheaper by the GPU than nodes of one.
    plan = Case({"workload": {"request_rate": 900.0}}, (offer(H100, 2.5), PAIR)).solve()

    assert plan.layout is not None
    assert plan.cost is not None
    assert plan.layout.gpus_per_node == 2
    assert plan.layout.replicas > 1
    assert plan.layout.nodes == -(-plan.layout.replicas // 2)
    assert plan.cost.usd_per_hour == pytest.approx(4.0 * plan.layout.nodes)


def test_a_discount_scales_the_cost() -> None:
    full, less = Case().solve(), Case({"prices": {"discounts": [{"provider": "acme", "percent": 20}]}}).solve()

    # $2.50 less 20% is $2.00.
    assert full.cost is not None
    assert less.cost is not None
    assert (full.cost.usd_per_hour, less.cost.usd_per_hour) == (2.5, 2.0)


def test_stock_bounds_the_nodes_and_the_rest_is_not_mixed() -> None:
    plenty = Case({"workload": {"request_rate": 900.0}}).solve()
    assert plenty.layout is not None
    short = {"max_nodes": float(plenty.layout.nodes - 1)}

    # The cheaper offer is one node short, so the dearer one of the same machine is rented, all of it.
    both = Case({"workload": {"request_rate": 900.0}}, (offer(H100, 2.5, **short), offer(H100, 2.75, provider="bolt")))
    layout = both.solve().layout
    assert layout is not None
    assert (layout.provider, layout.nodes) == ("bolt", plenty.layout.nodes)


def test_equal_prices_fall_to_the_first_name_whatever_the_order_of_the_offers() -> None:
    tied = [offer(H100, 2.5, provider=name, region=where) for name in ("bolt", "acme") for where in ("west", "east")]
    found = set()
    for seed in range(6):
        Random(seed).shuffle(tied)
        layout = Case(offers=tuple(tied)).solve().layout
        assert layout is not None
        found.add((layout.provider, layout.region))

    assert found == {("acme", "east")}


def test_the_same_question_gives_the_same_plan_in_twenty_runs_with_several_workers() -> None:
    drawn = draw(4)
    model = load_model(drawn.scenario.model)
    plans = [
        solve(drawn.scenario, model=model, catalog=drawn.table, today=TODAY, settings=Settings(workers=4, seed=seed))
        for seed in range(20)
    ]
    same = {plan.model_copy(update={"solver": plans[0].solver}).model_dump_json() for plan in plans}

    assert plans[0].status == "optimal"
    assert len(same) == 1


def test_money_is_in_whole_micro_dollars() -> None:
    plan = Case(offers=(offer(H100, 2.123456789),)).solve()

    # $2.123456789 is counted as $2.123457.
    assert plan.layout is not None
    assert plan.layout.price_usd_per_node_hour == 2.123457


def test_an_answer_that_fails_its_audit_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("optimizer.solve"), "check_plan", lambda *_: ("tpot: too slow",))

    with pytest.raises(AuditError, match="too slow"):
        Case().solve()


@pytest.mark.parametrize("kind", ["concurrency", "output_tokens_per_second"])
def test_a_mean_context_in_flight_changes_nothing_where_it_does_not_count(kind: str) -> None:
    asked = [
        solve(
            question({"workload": {"request_rate": None, kind: 400, **more}}),
            catalog=catalog(offer("H100-SXM-80GB", 4.0)),
            today=TODAY,
            reasons=False,
        )
        for more in ({}, {"in_flight_tokens": 154_434})
    ]

    assert asked[0].cost is not None
    assert asked[0].performance == asked[1].performance


def test_a_provider_that_no_offer_has_is_refused_by_name() -> None:
    with pytest.raises(QuestionError, match=r"limits\.providers.*acme"):
        Case(limits(providers=["acmee"])).solve()


def test_old_prices_are_said_to_be_old() -> None:
    day = SEEN + timedelta(days=8)
    plan = solve(question(), model=load_model(SMALL), catalog=catalog(offer(H100, 2.5)), today=day)

    # Stale after 7 days, and 8 have passed.
    assert (plan.prices.age_days, plan.prices.stale) == (8, True)
    assert "8 days old" in plan.warnings[0]


# Pruning


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_keeping_few_choices_never_changes_the_optimum(seed: int) -> None:
    drawn = draw(seed)
    problem = pose(drawn.scenario, catalog=drawn.table, today=TODAY)
    feasible = problem.feasible
    if feasible.empty:
        assert solve(drawn.scenario, catalog=drawn.table, today=TODAY).status == "infeasible"
        return
    few, kept = choose(feasible, drawn.scenario, None)
    everything = cheapest(to_choices(feasible), demand_of(drawn.scenario))

    assert few.cost_micro_usd == everything.cost_micro_usd == int(feasible["cost_micro_usd"].min())
    assert few.choice is not None
    assert everything.choice is not None
    assert kept.index[few.choice] == feasible.index[everything.choice] == feasible.index[0]
