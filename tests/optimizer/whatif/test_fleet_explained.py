"""Plans of fleets explained: whether they stand, what binds in each pool, and money that adds up to the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.fleet.plan import FleetPlan
from optimizer.fleet.question import build_fleet_scenario
from optimizer.fleet.solve import solve_fleet
from optimizer.programs.layout import Settings
from optimizer.whatif.fleet_explain_answer import FleetExplained, FleetMoney
from optimizer.whatif.fleet_explained import explain_fleet
from optimizer.whatif.fleet_money import fleet_money
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, catalog, offer
from tests.optimizer.command import run

H100, L4 = offer("H100-SXM-80GB", 2.5), offer("L4-24GB", 0.8)
SHORT = {"name": "short", "input_tokens": 300, "output_tokens": 100, "request_rate": 8}
LONG = {"name": "long", "input_tokens": 6000, "output_tokens": 400, "request_rate": 2}
TARGETS = {"ttft_ms": 2000, "tpot_ms": 60}
DAY = [0.25] * 12 + [1.0] * 12
TWO_MODELS = [
    {"name": "one", "model": MEDIUM, "classes": [SHORT | {"request_rate": 40}], "profile": DAY},
    {"name": "two", "model": SMALL, "classes": [SHORT, LONG]},
]


def ask(*offers: dict[str, Any], **fields: Any) -> FleetPlan:
    fields = {"model": MEDIUM, "classes": [SHORT, LONG], "targets": TARGETS} | fields
    if "models" in fields:
        fields |= {"model": None, "classes": []}
    return solve_fleet(build_fleet_scenario(fields), catalog=catalog(*offers), today=TODAY, compare=False)


def explained(plan: FleetPlan, *offers: dict[str, Any]) -> FleetExplained:
    return explain_fleet(plan, catalog=catalog(*offers), settings=Settings(time_limit_s=10))


def _adds_up(money: FleetMoney, plan: FleetPlan) -> None:
    assert plan.cost is not None
    outside = money.idle_gpus + money.idle_nodes + money.starts
    whole = {
        "cost": plan.cost.usd_per_hour,
        "spent": money.work + money.communication + money.idle_capacity + outside,
        "pools": sum(one.usd_per_hour for one in money.pools) + outside,
        "classes": sum(one.usd_per_hour for one in money.classes) + money.standing_by + outside,
        "sites": sum(one.usd_per_hour for one in money.sites),
        "paid": sum(one.usd_per_hour for one in money.paid),
    }
    assert whole == pytest.approx(dict.fromkeys(whole, money.usd_per_hour), abs=1e-6)
    for pool in money.pools:
        assert pool.work + pool.communication + pool.idle_capacity == pytest.approx(pool.usd_per_hour, abs=1e-6)
    for site in money.sites:
        parts = site.pools + site.idle_gpus + site.idle_nodes + site.starts
        assert parts == pytest.approx(site.usd_per_hour, abs=1e-6)
    for paid in money.paid:
        assert paid.billed + paid.beyond_price + paid.starts == pytest.approx(paid.usd_per_hour, abs=1e-6)
    parts_of_all = [*vars(money).values(), *(value for one in money.pools for value in vars(one).values())]
    assert all(value >= -1e-9 for value in parts_of_all if isinstance(value, float))


@settings(max_examples=12, deadline=None)
@given(
    rates=st.tuples(st.floats(1, 150), st.floats(0.2, 8)),
    gpus=st.sampled_from([1, 2, 8]),
    night=st.floats(0.05, 1),
    survive=st.sampled_from(["nothing", "node"]),
    contract=st.booleans(),
)
def test_every_way_to_split_the_money_adds_up_to_the_cost_to_the_micro_dollar(
    rates: tuple[float, float], gpus: int, night: float, survive: str, contract: bool
) -> None:
    offers = [offer("H100-SXM-80GB", round(2.123457 * gpus, 6), gpus), offer("L4-24GB", 0.7, term="spot")]
    plan = ask(
        *offers,
        classes=[SHORT | {"request_rate": rates[0]}, LONG | {"request_rate": rates[1]}],
        profile=[night] * 12 + [1.0] * 12,
        limits={"terms": ["on-demand", "spot"]},
        commitments=[{"years": 1, "percent_off": 45, "upfront_share": 0.5}] if contract else [],
        fleet={"survive": survive, "startup_s": 900, "capital_rate_percent": 8, "horizon_months": 10},
    )
    _adds_up(fleet_money(plan), plan)


def test_what_a_contract_pays_for_at_night_is_idle_nodes_by_the_hour() -> None:
    busy = [SHORT | {"request_rate": 400}]
    contract = {"years": 1, "percent_off": 90}
    plan = ask(H100, classes=busy, profile=[0.01] * 12 + [1.0] * 12, commitments=[contract])
    money = fleet_money(plan)

    [site], [bought] = money.sites, plan.sites[0].purchases
    [pool] = plan.pools
    empty = sum(nodes - held for nodes, held in zip(bought.nodes_by_period, pool.replicas_by_period, strict=True))
    assert (site.idle_node_hours, empty > 0) == (pytest.approx(empty), True)
    assert money.idle_nodes == pytest.approx(empty * 0.25 / 24)
    assert money.committed_usd_per_hour == pytest.approx(money.usd_per_hour)
    _adds_up(money, plan)


def test_models_on_one_node_pay_for_their_gpus_and_the_rest_is_idle() -> None:
    node = offer("H100-SXM-80GB", 16.0, 8)
    plan = ask(node, models=[model | {"profile": []} for model in TWO_MODELS])
    money = fleet_money(plan)

    taken = {pool.id: pool.replicas_by_period[0] * pool.gpus_per_replica for pool in plan.pools}
    assert {one.id: one.usd_per_hour for one in money.pools} == pytest.approx(
        {name: 2.0 * gpus for name, gpus in taken.items()}
    )
    assert money.idle_gpus == pytest.approx(2.0 * (8 - sum(taken.values())))
    assert {one.model for one in money.classes} == {"one", "two"}
    _adds_up(money, plan)


def test_a_plan_stands_when_it_is_audited_and_solved_again() -> None:
    plan = ask(L4, H100)
    found = explained(plan, L4, H100)

    assert (found.reproduced, found.differences) == (True, ())
    assert plan.cost is not None
    assert found.solved_again_usd_per_hour == plan.cost.usd_per_hour
    assert [one.id for one in found.pools] == [pool.id for pool in plan.pools]


def test_each_pool_says_its_targets_memory_and_load_the_tightest_first() -> None:
    plan = ask(H100, classes=[SHORT | {"request_rate": 300}, LONG])
    found = explained(plan, H100)

    for pool, said in zip(plan.pools, found.pools, strict=True):
        names = {(one.name, one.unit) for one in said.bounds}
        assert {("vram_headroom", "GiB"), ("traffic", "of what the targets allow"), ("tpot", "ms")} <= names
        assert [one.left_share for one in said.bounds] == sorted(one.left_share for one in said.bounds)
        memory = next(one for one in said.bounds if one.name == "vram_headroom")
        assert (memory.used, memory.limit) == (pool.memory.need_gib, pool.memory.available_gib)
        assert all(one.left_share >= -1e-6 for one in said.bounds)
        assert said.sized_by.startswith("the load of the fullest hour fills ")


def test_what_is_given_up_saves_what_a_solve_without_it_says() -> None:
    question: dict[str, Any] = {"classes": [SHORT | {"request_rate": 60}], "targets": {"tpot_ms": 8}}
    plan = ask(H100, L4, fleet={"survive": "node", "max_kinds": 1}, limits={"max_nodes": 50}, **question)
    found = explained(plan, H100, L4)

    by_rule = {one.rule: one for one in found.given_up}
    assert set(by_rule) == {
        "no TPOT targets",
        "no memory headroom and no overhead",
        "all of a replica's capacity used",
        "no quotas",
        "any number of replica kinds",
        "without surviving the loss of a node",
    }
    alone = ask(H100, L4, fleet={"max_kinds": 1}, limits={"max_nodes": 50}, **question)
    assert alone.cost is not None
    assert plan.cost is not None
    less = by_rule["without surviving the loss of a node"]
    assert less.usd_per_hour == alone.cost.usd_per_hour
    assert less.saves_usd_per_hour == pytest.approx(plan.cost.usd_per_hour - alone.cost.usd_per_hour)
    assert less.binds == (less.saves_usd_per_hour > 0)
    assert all(one.usd_per_hour is not None and one.usd_per_hour <= plan.cost.usd_per_hour for one in found.given_up)


def test_limits_of_the_whole_fleet_are_said_with_what_is_left() -> None:
    limits = {
        "budget_usd_per_hour": 10,
        "max_gpus": 9,
        "quotas": [{"gpu": "H100-SXM-80GB", "max_nodes": 4}],
        "terms": ["on-demand", "spot"],
    }
    spot = offer("H100-SXM-80GB", 0.5, term="spot", max_nodes=3.0)
    plan = ask(H100, spot, limits=limits, fleet={"max_kinds": 2, "max_kinds_per_model": 2, "max_spot_share": 0.5})
    said = {(one.name, one.where): (one.used, one.limit) for one in explained(plan, H100, spot).limits}

    assert plan.cost is not None
    assert said["budget", ""] == (plan.cost.usd_per_hour, 10)
    rented = sum(max(one.nodes_by_period) for site in plan.sites for one in site.purchases)
    assert said["quota", "in all"] == (rented, 9)
    assert said["quota", "of H100-SXM-80GB"] == (rented, 4)
    assert said["max_kinds", ""][1] == 2
    on_spot = [limit for name, limit in said.items() if name[0] in ("stock", "spot_share")]
    assert len(on_spot) == (2 if any(site.spot for site in plan.sites) else 0)


def test_with_a_confidence_latencies_are_those_that_have_to_hold() -> None:
    plan = ask(H100, targets=TARGETS | {"confidence": 0.9})
    found = explained(plan, H100)

    served = plan.pools[0].serves[0]
    bound = next(one for one in found.pools[0].bounds if one.name == "tpot" and served.class_name in one.where)
    assert bound.used > served.tpot_ms
    assert bound.used <= bound.limit * (1 + 1e-6)
    assert "targets without a confidence" in {one.rule for one in found.given_up}


def test_a_plan_that_a_cheaper_offer_beats_says_so_with_what_may_be_the_cause() -> None:
    plan = ask(H100, classes=[SHORT])
    cheaper = offer("H100-SXM-80GB", 1.0, provider="bolt")
    found = explained(plan, H100, cheaper)

    assert not found.reproduced
    assert "solved again, a fleet costs $1.000000/hour" in found.differences[0]
    assert "of that day 1 offers were known, and now 2" in found.differences[-1]


def test_a_plan_whose_figures_were_changed_breaks_its_audit_or_is_refused() -> None:
    plan = ask(H100, classes=[SHORT])
    [site] = plan.sites
    halved = site.purchases[0].model_copy(update={"price_usd_per_node_hour": 1.25})
    found = explained(plan.model_copy(update={"sites": (site.model_copy(update={"purchases": (halved,)}),)}), H100)
    assert not found.reproduced
    assert "breaks prices" in found.differences[0]

    none = plan.pools[0].model_copy(update={"site": "site 9"})
    with pytest.raises(QuestionError, match="figures do not go together"):
        explained(plan.model_copy(update={"pools": (none,)}), H100)


def test_a_plan_without_a_fleet_says_which_rules_conflict_and_has_no_money() -> None:
    limits = {"budget_usd_per_hour": 1}
    plan = ask(H100, limits=limits)
    found = explained(plan, H100)

    assert (found.status, found.reproduced, found.money) == ("infeasible", True, None)
    assert "budget" in {one.rule for one in found.conflict}


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    question = folder / "fleet.yaml"
    question.write_text(
        f"model: {MEDIUM}\nclasses: [{{name: chat, input_tokens: 300, output_tokens: 100, request_rate: 20}}]\n"
        "limits: {providers: [spheron], gpus: [H200-SXM-141GB, H100-SXM-80GB], pp: [1]}\n"
        "targets: {tpot_ms: 40}\nprices: {as_of: 2026-08-14}\n"
    )
    ran = run("solve", str(question), "--json")
    assert ran.code == 0, ran.err
    file = folder / "plan.json"
    file.write_text(ran.out)
    return file


@pytest.mark.parametrize("columns", [80, 120])
def test_the_command_explains_a_fleet_within_the_width(plan_file: Path, columns: int) -> None:
    ran = run("explain", str(plan_file), columns=columns)

    assert ran.code == 0, ran.err
    assert "the plan stands." in ran.out
    for part in ("What binds in pool 1", "given up, it would cost", "Where the money goes", "Each block adds up"):
        assert part in ran.out
    assert max(map(len, ran.out.splitlines())) <= columns


def test_the_command_prints_json_and_refuses_why_not_with_what_is_accepted(plan_file: Path) -> None:
    ran = run("explain", str(plan_file), "--json", "--time-limit", "5")
    assert ran.code == 0, ran.err
    assert ran.json["kind"] == "fleet"
    assert ran.json["reproduced"]

    refused = run("explain", str(plan_file), "--why-not", "4x A100-SXM-80GB tp=4")
    assert refused.code == 2
    assert "is the plan of a fleet" in refused.err
    assert "the plan of one layout" in " ".join(refused.err.split())


def test_a_file_that_is_no_plan_is_refused_as_before(tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    file.write_text(json.dumps({"kind": "fleet", "scenario": {}}))
    ran = run("explain", str(file))
    assert ran.code == 2
    assert "is not a plan" in ran.err
