"""The auditor of fleets: a sound fleet passes every check, and each way to break one is found by that check."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from catalogs.models import ModelSpec
from optimizer.check.fleet import FLEET_CHECKS, check_fleet
from optimizer.check.fleet_audit import FleetAudit, scenario_of, well_formed
from optimizer.check.fleet_money import owned_usd_per_hour
from optimizer.fleet.plan import FleetPlan
from optimizer.owned import OwnedHardware
from tests.optimizer.catalogs import TODAY
from tests.optimizer.check.fleets import HOURS, MODELS, NIGHT, OFFERS, by_hours, edited, held, sound

Change = Callable[[dict[str, Any]], Any]
LAST = HOURS - 1


def put(value: Any, *path: str | int) -> Change:
    """Put a value in the place of another."""

    def change(plan: dict[str, Any]) -> None:
        at: Any = plan
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return change


def scaled(by: float, *path: str | int) -> Change:
    """Multiply a figure."""

    def change(plan: dict[str, Any]) -> None:
        at: Any = plan
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = at[path[-1]] * by

    return change


def asked(value: Any, *path: str | int) -> Change:
    """Change the question."""
    return put(value, "scenario", *path)


def served(pool: int, rate: float, hour: int = LAST) -> Change:
    """Let a pool serve another rate of its first class in an hour."""

    def change(plan: dict[str, Any]) -> None:
        one = plan["pools"][pool]["serves"][0]
        rates = list(one["requests_per_second_by_period"])
        rates[hour] = rate
        one["requests_per_second_by_period"] = rates

    return change


def bought(site: int, number: int, nodes: Any, **facts: Any) -> Change:
    """Pay for other nodes."""

    def change(plan: dict[str, Any]) -> None:
        plan["sites"][site]["purchases"][number] |= {"nodes_by_period": tuple(nodes)} | facts

    return change


def fact(site: int, number: int, **facts: Any) -> Change:
    """Change what is said of a purchase."""
    return lambda plan: plan["sites"][site]["purchases"][number].update(facts)


def placed(number: int, **facts: Any) -> Change:
    """Change what one entry of nodes holds."""
    return lambda plan: plan["nodes"][number].update(facts)


def lost(number: int, **facts: Any) -> Change:
    """Change what is said of a loss."""
    return lambda plan: plan["survived"][number].update(facts)


def dealt(number: int, pool: str, name: str, rate: float) -> Change:
    """Deal another rate after a loss."""
    return lambda plan: plan["survived"][number]["requests_per_second"].setdefault(pool, {}).update({name: rate})


COMPARED = {"rule": "one kind", "usd_per_hour": 1.0, "extra_usd_per_hour": 1.0, "proved": True}
CONFLICT = {"rule": "budget", "meaning": "", "needs": ""}
RATES = (1.0,) * HOURS

BROKEN: dict[str, list[tuple[Change, str]]] = {
    "status": [
        (put(0.1, "cost", "gap"), "optimal with a gap of 0.1"),
        (put([], "nodes"), "there are no nodes"),
        (put([CONFLICT], "conflict"), "rules conflict: budget"),
        (put("infeasible", "status"), "infeasible, and yet there are cost"),
        (put("2026-08-13", "prices", "seen_on"), "prices are of 2026-08-13, those paid of 2026-08-14, 2026-08-20"),
    ],
    "compared": [
        (put([COMPARED], "compared"), "less than the bound"),
        (put([COMPARED | {"usd_per_hour": 60.0}], "compared"), "it costs $8.360742 more, not $1.0"),
        (
            put([COMPARED | {"rule": "without quotas", "gives_up": True, "usd_per_hour": 60.0}], "compared"),
            "more than the answer",
        ),
        (put([COMPARED | {"usd_per_hour": None}], "compared"), "nothing keeps it, and yet it costs"),
    ],
    "classes_asked": [
        (put(RATES, "classes", 0, "requests_per_second_by_period"), "short: 1 requests/s in period 0, not 3"),
        (put(900, "classes", 1, "input_tokens"), "long: input_tokens is 900, the question says 3000"),
        (put(0.0, "classes", 1, "output_cv"), "long: output_cv is 0.0, the question says 0.5"),
        (put(None, "classes", 1, "targets", "tpot_ms"), "target tpot_ms is None, the question says 90"),
        (put((), "classes", 2, "regions"), "main: regions are any, the question says east, home"),
        (put((2.0,) * HOURS, "hours"), "where all are of one hour"),
        (asked([1.0] * 168, "profile"), "has 24 periods, the question's profiles have 168"),
    ],
    "variations": [(put(4.5, "classes", 1, "input_cv"), "long: input_cv is 4.5")],
    "load_covered": [
        (served(0, 1.9), "short: 5.9 of 6 requests/s are served in period 23"),
        (served(0, 2.1), "short: 6.1 of 6 requests/s are served in period 23"),
        (put(0.4, "pools", 0, "serves", 0, "share"), "pool 1 serves 33.3333% of it, and is said to serve 40.0000%"),
        (put(0.4, "classes", 0, "pools", "pool 1"), "said to serve 33.3333% and 40.0000%"),
        (put(0.4, "classes", 0, "pools", "pool 4"), "pool 4 is said to serve 40.0000% of it, and does not"),
    ],
    "class_regions": [(put("far", "sites", 2, "region"), "main is served in far by pool 4; east, home are allowed")],
    "own_model": [(put("by/b", "pools", 0, "model_id"), "pool 1 runs by/b, a is by/a")],
    "replica_sizes": [
        (put(3, "pools", 0, "gpus_per_replica"), "pool 1: a replica has 2 GPUs, not 3"),
        (put(2, "pools", 0, "nodes_per_replica"), "a replica of 2 GPUs lies on 1 nodes, not 2"),
    ],
    "replicas": [
        (put(60.0, "pools", 0, "serves", 0, "capacity_requests_per_second"), "pool 1, short alone: traffic: "),
        (put(4000, "pools", 0, "serves", 0, "concurrency"), "pool 1, short alone: vram_headroom: "),
        (put(3, "pools", 0, "tp"), "pool 1, short alone: heads_divisible: 32 heads do not divide over tp 3"),
        (put(3.0, "pools", 0, "targets", "tpot_ms"), "pool 1, long alone: tpot: time per output token is"),
        (put("fp8", "pools", 1, "weights"), "pool 2, main alone: weights_allowed: "),
        (asked([1, 2], "models", 1, "tp"), "pool 4, main alone: sizes_allowed: tp 4 is not one of 1, 2"),
        (asked(0.1, "limits", "max_utilization"), "may be used"),
    ],
    "capacity": [
        (served(2, 6.5), "pool 3 has to carry the traffic of 3.250000 replicas on 3 in period 23"),
        (put(by_hours(2, 1), "pools", 0, "replicas_by_period"), "pool 1 has to carry the traffic of 1.400000 replicas"),
    ],
    "utilization": [(put(0.5, "pools", 0, "utilization"), "pool 1 is used by 35.000%")],
    "pool_targets": [
        (put(80.0, "pools", 0, "targets", "tpot_ms"), "pool 1, short: tpot_ms 80 is kept, 60 is asked for"),
        (put(None, "pools", 0, "targets", "ttft_ms"), "pool 1, short: ttft_ms None is kept, 2000 is asked for"),
        (put("p50", "pools", 0, "targets", "at"), "pool 1, short: targets are kept at p50, mean is asked for"),
        (asked(0.9, "targets", "confidence"), "with a confidence of"),
    ],
    "mix": [
        (scaled(1.01, "pools", 0, "performance", "ttft_ms"), "pool 1: performance.ttft_ms is"),
        (scaled(1.01, "pools", 0, "performance", "requests_per_second"), "performance.requests_per_second is"),
        (scaled(1.01, "pools", 0, "performance", "saturation", "tpot_ms"), "performance.saturation.tpot_ms is"),
        (put(0.5, "pools", 0, "communication_share"), "of a step, not 50.00%"),
        (scaled(1.01, "pools", 0, "serves", 1, "ttft_ms"), "long: .ttft_ms is"),
        (scaled(1.0005, "pools", 0, "serves", 1, "e2e_ms"), "long: TTFT and 299 more tokens take"),
        (put(False, "pools", 0, "serves", 1, "holds"), "long: its targets are said not to hold"),
    ],
    "pool_memory": [
        (scaled(0.9, "pools", 0, "memory", "weights_gib"), "pool 1: memory.weights_gib is"),
        (scaled(0.9, "pools", 0, "memory", "need_gib"), "pool 1: memory.need_gib is"),
        (put(99, "pools", 0, "concurrency_per_replica"), "pool 1: a replica runs 30 requests at once, not 99"),
        (put(20, "pools", 0, "concurrency_per_replica"), "pool 1: a replica runs 30 requests at once, not 20"),
        (put(600, "pools", 0, "memory", "context_tokens"), "tokens are kept for a request on average, not 600"),
    ],
    "packing": [
        (placed(0, units=1), "period 0, site 1: 2 nodes are paid for, 1 are placed"),
        (placed(0, units=1), "period 0: 2 replicas of pool 1 are said to run, 1 lie on nodes"),
        (placed(0, replicas={"pool 1": 3, "pool 2": 1}), "period 0, site 1: replicas of 10 GPUs lie on 8"),
        (placed(0, replicas={"pool 1": 1, "pool 4": 1}), "period 0, site 1: pool 4 runs on site 3"),
        (placed(0, units=1, span=2), "period 0, site 1: a replica of pool 1 spans 1 nodes and lies on 2"),
        (placed(0, units=1, span=2), "period 0, site 1: 2 nodes hold 2 replicas; one that spans nodes"),
        (lambda plan: plan["nodes"].append(held(0, "site 2", 1)), "3 nodes are paid for, 4 are placed"),
        (bought(1, 0, by_hours(3, 4)), "period 12, site 2: 4 nodes are paid for, 3 are placed"),
    ],
    "committed_nodes": [
        (bought(0, 0, by_hours(1, 2)), "site 1 reserved-1y, contract 0: committed nodes change from 1")
    ],
    "starts": [
        (fact(0, 1, starts=3), "site 1 on-demand: 1 nodes are switched on over the cycle, not 3"),
        (bought(0, 1, (1, 2) * NIGHT), "site 1 on-demand: 12 nodes are switched on over the cycle, not 1"),
    ],
    "minimum_billing": [
        (bought(0, 1, [0] * 5 + [1] + [0] * 18), "site 1 on-demand: 1 nodes came on within 2 periods, 0 are paid for"),
        (bought(0, 1, [0, 0, 3, 2, 0] + [0] * 19), "3 nodes came on within 2 periods, 2 are paid for in period 3"),
    ],
    "offers_allowed": [
        (asked(["on-demand"], "limits", "terms"), "site 2 spot: term spot is not one of on-demand"),
        (asked(["bolt"], "limits", "exclude_providers"), "site 2 spot: provider bolt is excluded"),
        (asked(["acme", "own"], "limits", "providers"), "site 2 spot: provider bolt is not one of acme, own"),
        (asked(["hyperscaler"], "limits", "provider_kinds"), "a provider of kind gpu-cloud is not one of hyperscaler"),
        (asked(["west", "home"], "limits", "regions"), "contract 0: region east is not one of west, home"),
        (asked(["1x L40S-48GB"], "limits", "instance_types"), "instance type 8x H100-SXM-80GB is not one of"),
        (asked(["H100-SXM-80GB"], "limits", "exclude_gpus"), "H100-SXM-80GB is excluded"),
        (asked(5, "prices", "max_age_days"), "6 days before 2026-08-20; at most 5 are accepted"),
        (put(False, "sites", 1, "spot"), "site 2 spot: the site is not one of spot nodes"),
    ],
    "stock": [(fact(0, 1, max_nodes=1), "site 1 on-demand: 2 nodes, 1 are in stock")],
    "quota": [
        (asked(2, "limits", "quotas", 0, "max_nodes"), "3 nodes in period 12, 2 are allowed of acme"),
        (asked(8, "limits", "quotas", 1, "max_gpus"), "11 GPUs in period 0, 8 are allowed of L40S-48GB"),
        (asked(30, "limits", "max_gpus"), "35 GPUs in period 12, 30 are allowed in all"),
        (asked(6, "limits", "max_nodes"), "7 nodes in period 12, 6 are allowed in all"),
    ],
    "budget": [(asked(51.0, "limits", "budget_usd_per_hour"), "$51.6393 an hour is over the budget of $51.0000")],
    "max_kinds": [
        (asked(3, "fleet", "max_kinds"), "4 replica kinds, 3 are allowed"),
        (asked(1, "fleet", "max_kinds_per_model"), "2 replica kinds of a, 1 are allowed"),
    ],
    "spread": [
        (asked(4, "fleet", "min_providers"), "nodes come from 3 providers (acme, bolt, own) in period 0, 4 are asked"),
        (asked(4, "fleet", "min_regions"), "nodes come from 3 regions (east, home, west) in period 0, 4 are asked"),
    ],
    "spot_share": [
        (asked(0.5, "fleet", "max_spot_share"), "a: 57.1% of its requests are on spot nodes in period 0, 50.0% may be")
    ],
    "survives": [
        (
            lambda plan: plan["survived"].pop(0),
            "nothing says how the loss of a node of site 1 (1 of pool 1, 1 of pool 2",
        ),
        (dealt(0, "pool 3", "short", 0.1), "requests/s of short are served"),
        (dealt(0, "pool 1", "short", 9.0), "period 0, without site 1: pool 1 has to carry the traffic of"),
        (
            dealt(0, "pool 4", "short", 1.0),
            "pool 4 is said to serve 1 requests/s of short, of which it has no capacity",
        ),
        (lost(0, lost={"pool 1": 1}), "a loss of {'pool 1': 1} at site 1 is survived, which cannot happen"),
        (lost(0, utilization=0.1), "the fullest pool is used by"),
        (asked("provider", "fleet", "survive"), "nothing says how the loss of a provider of acme (2 of pool 1, 2 of"),
        (put("far", "sites", 2, "region"), "pool 4 is said to serve main in far, where it may not be"),
    ],
    "prices": [
        (fact(0, 1, price_usd_per_node_hour=17.5), "site 1 on-demand: $17.500000 a node hour, where the catalog at"),
        (fact(0, 0, price_usd_per_node_hour=12.0), "contract 0: $12.000000 a node hour"),
        (fact(2, 0, price_usd_per_node_hour=5.0), "site 3 owned: $5.000000 a node hour"),
        (fact(0, 0, contract=3), "the question has no contract 3"),
        (fact(0, 0, term="reserved-3y"), "a contract of 1 years"),
        (asked("bolt", "commitments", 0, "provider"), "contract 0 does not hold for it"),
        (put("infiniband", "sites", 1, "network"), "site 2 spot: network is infiniband, the offer says unknown"),
        (put("north", "sites", 1, "region"), "site 2 spot: no offer of it in the catalog"),
        (fact(0, 1, instance_type="h100.8"), "site 1 on-demand: no offer of it in the catalog"),
        (fact(1, 0, max_nodes=20), "site 2 spot: max_nodes is 20, the offer says 9.0"),
        (asked([], "prices", "discounts"), "site 1 on-demand: $18.000000 a node hour, where"),
    ],
    "effective_prices": [
        (fact(1, 0, effective_usd_per_node_hour=1.2), "site 2 spot: an hour costs $1.216901, not $1.200000"),
        (asked(0.0, "fleet", "capital_rate_percent"), "contract 0: an hour costs $10.800000, not $11.016000"),
        (asked(12.0, "fleet", "horizon_months"), "site 3 owned: an hour costs"),
        (fact(0, 0, committed_years=3.0), "contract 0: committed for 3 years, not 1"),
    ],
    "start_costs": [
        (fact(0, 1, start_usd=0.0), "site 1 on-demand: switching a node on costs $1.500000, not $0.000000"),
        (asked(3600.0, "fleet", "billing_s"), "switching a node on costs $18.000000, not $1.500000"),
        (fact(0, 0, start_usd=1.0), "contract 0: switching a node on costs $0.000000, not $1.000000"),
    ],
    "purchase_money": [
        (fact(0, 1, usd_per_hour=27.0), "site 1 on-demand: usd_per_hour is 27.000000, not 27.062500"),
        (fact(0, 0, upfront_usd=0.0), "contract 0: upfront_usd is 0.000000, not 47304.000000"),
        (fact(2, 0, upfront_usd=0.0), "site 3 owned: upfront_usd is 0.000000, not 100000.000000"),
        (fact(0, 0, committed_usd=0.0), "contract 0: committed_usd is 0.000000, not 94608.000000"),
    ],
    "fleet_cost": [
        (scaled(1.01, "cost", name), f"cost.{name} is")
        for name in (
            *("usd_per_hour", "peak_usd_per_hour", "usd_per_month", "committed_usd_per_hour", "upfront_usd"),
            *("usd_per_million_output_tokens", "usd_per_million_tokens"),
        )
    ],
    "bound": [
        (put(60.0, "cost", "bound_usd_per_hour"), "the bound $60.000000 is above the cost $51.639258"),
        (put(26.0, "cost", "bound_usd_per_hour"), "the gap is 49.6"),
    ],
}
CASES = [(name, number) for name, changes in BROKEN.items() for number in range(len(changes))]


def found(plan: FleetPlan, models: Any = MODELS, **facts: Any) -> dict[str, list[str]]:
    """What the auditor finds, by check."""
    said: dict[str, list[str]] = {}
    for one in check_fleet(plan, models, OFFERS, today=TODAY, **facts):
        said.setdefault(one.rule, []).append(one.message)
    return said


def audit_of(plan: FleetPlan) -> FleetAudit:
    """The plan under audit."""
    scenario = scenario_of(plan)
    assert not isinstance(scenario, str)
    return FleetAudit(plan, scenario, MODELS, TODAY, OFFERS)


def test_every_check_has_ways_to_break_it() -> None:
    assert set(BROKEN) == set(FLEET_CHECKS)


@pytest.mark.parametrize("name", FLEET_CHECKS)
def test_a_sound_fleet_passes_each_check(name: str) -> None:
    assert list(FLEET_CHECKS[name](audit_of(sound()))) == []


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_fleet_that_breaks_a_rule_is_told_which_with_its_numbers(name: str, number: int) -> None:
    change, message = BROKEN[name][number]
    audit = audit_of(edited(sound(), change))

    assert list(well_formed(audit)) == []
    said = list(FLEET_CHECKS[name](audit))
    assert any(message in one for one in said), said


def test_the_auditor_shares_nothing_with_what_makes_fleets() -> None:
    code = "import sys, optimizer.check.fleet; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = {"question", "plan"}  # of the fleet, the auditor knows what is asked and what is answered

    assert [name for name in loaded if name.startswith(("ortools", "optimizer.programs"))] == []
    assert [name for name in loaded if name.startswith("optimizer.fleet.") and name.split(".")[2] not in own] == []


def test_a_node_that_goes_off_may_be_one_that_came_on_long_before() -> None:
    plan = edited(sound(), bought(0, 1, [1] * 5 + [2] + [1] * 18))

    assert list(FLEET_CHECKS["minimum_billing"](audit_of(plan))) == []


def test_without_a_catalog_prices_are_not_compared_and_owned_hardware_still_is() -> None:
    dear = edited(sound(), fact(0, 1, price_usd_per_node_hour=17.5))
    own = edited(sound(), fact(2, 0, price_usd_per_node_hour=5.0))

    assert "prices" not in {one.rule for one in check_fleet(dear, MODELS, None, today=TODAY)}
    assert "prices" in {one.rule for one in check_fleet(own, MODELS, None, today=TODAY)}


def test_prices_grow_old_with_the_day_of_the_audit() -> None:
    later = check_fleet(sound(), MODELS, OFFERS, today=TODAY + timedelta(days=25))

    assert {one.rule for one in later} == {"offers_allowed"}


def test_a_question_that_is_none_is_the_only_thing_said() -> None:
    assert list(found(edited(sound(), asked("any", "fleet", "survive")))) == ["question"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put((), "hours"), "hours are []"),
        (put((1.0,), "pools", 0, "replicas_by_period"), "pool 1: replicas_by_period has"),
        (put("pool 2", "pools", 0, "id"), "two pools are called pool 2"),
        (put("site 9", "pools", 0, "site"), "pool 1 runs on site 9, of which no node is paid for"),
        (put("c", "pools", 0, "model"), "pool 1 runs c, which is not in the question"),
        (put("other", "pools", 0, "serves", 0, "class_name"), "pool 1 serves other, which is no class of a"),
        (put("other", "classes", 0, "name"), "class other of model a is not in the question"),
        (put(-1.0, "classes", 0, "input_cv"), "class short: input_cv is -1.0"),
        (put(float("nan"), "pools", 0, "utilization"), "pool 1: utilization is nan"),
        (put(0.0, "pools", 0, "serves", 0, "capacity_requests_per_second"), "capacity_requests_per_second is 0.0"),
        (placed(0, replicas={"pool 7": 1}), "nodes hold replicas of pool 7, which is no pool"),
        (placed(0, period=24), "nodes of site 1 in period 24 are held, where there are none"),
        (lost(0, lost={"pool 7": 1}), "a loss names pool 7, which is no pool"),
        (put("sometimes", "pools", 0, "targets", "at"), "pool 1 keeps targets that are none"),
    ],
)
def test_a_plan_that_makes_no_sense_is_looked_at_no_further(change: Change, message: str) -> None:
    said = found(edited(sound(), change))

    assert list(said) == ["well_formed"]
    assert any(message in one for one in said["well_formed"]), said


def test_a_model_that_nothing_is_known_of_is_said() -> None:
    known: dict[str, ModelSpec] = {"by/b": MODELS["by/b"]}

    assert found(sound(), known)["well_formed"] == [
        f"nothing is known of by/a, the model of {pool}" for pool in ("pool 1", "pool 3")
    ]


def test_an_infeasible_answer_is_sound_with_a_conflict_and_without_one_it_is_not() -> None:
    nothing = dict.fromkeys(("sites", "pools", "nodes", "survived"), ()) | {"cost": None, "status": "infeasible"}

    def without(plan: dict[str, Any]) -> None:
        plan.update(nothing | {"prices": plan["prices"] | {"seen_on": None}})

    plan = edited(sound(), without)
    with_conflict = edited(plan, put([CONFLICT], "conflict"))

    assert found(with_conflict) == {}
    assert "infeasible, and no rule is named in the conflict" in found(plan)["status"]


@pytest.mark.parametrize("rate", [0.0, 5.0])
def test_owned_hardware_costs_what_the_question_says_of_it_by_another_way_of_adding_up(rate: float) -> None:
    hardware = OwnedHardware(
        gpu="L40S-48GB", capital_usd_per_node=90_000, years=3, residual_share=0.2, capital_rate_percent=rate,
        upkeep_percent_per_year=3, power_kw_per_node=4, usd_per_kwh=0.1, hosting_usd_per_kw_month=90,
        network="infiniband",
    )  # fmt: skip

    assert owned_usd_per_hour(hardware) == pytest.approx(hardware.usd_per_node_hour, rel=1e-12)
