"""Forms of fleets that the auditor has to follow: replicas over nodes, lost providers, histograms and request logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimizer.check.fleet import check_fleet
from optimizer.fleet.plan import FleetPlan
from tests.optimizer.catalogs import TODAY, catalog, offer
from tests.optimizer.check.fleets import MODELS, PoolCase, assemble, edited, held, purchase, sound

Fields = dict[str, Any]
NODES = {"network": "infiniband", "network_gbit_per_s": 3200.0}
BIG = [
    offer("H100-SXM-80GB", 20.0, 8, provider=provider, region="east", max_nodes=9.0, **NODES)
    for provider in ("acme", "bolt")
]
OFFERS = catalog(*BIG).frame


def rules(plan: FleetPlan, offers: Any = OFFERS) -> dict[str, str]:
    """What the auditor finds, one message a check."""
    return {one.rule: one.message for one in reversed(check_fleet(plan, MODELS, offers, today=TODAY))}


def across(survive: str = "nothing", **nodes: Any) -> FleetPlan:
    """A replica of 16 GPUs over two nodes at each of two providers, all day long."""
    question = {
        "models": [
            {
                "name": "a",
                "model": "by/a",
                "classes": [{"name": "one", "input_tokens": 500, "output_tokens": 100, "request_rate": 2.0}],
            }
        ],
        "targets": {"ttft_ms": 2000, "tpot_ms": 60},
        "fleet": {"survive": survive, "min_providers": 2},
    }
    pools = [
        PoolCase("a", f"site {number}", 8, (1,), {"one": (8.0, 64, 1.0)}, pp=2, nodes_per_replica=2)
        for number in (1, 2)
    ]
    sites = [
        {
            **{name: one[name] for name in ("provider", "provider_kind", "region", "instance_type", "gpu")},
            **{name: one[name] for name in ("gpus_per_node", "fabric", "scale_up_gpus", "network")},
            "network_gbit_per_s": one["network_gbit_per_s"],
            "id": f"site {number}",
            "spot": False,
            "purchases": [purchase(one["instance_type"], "on-demand", 20.0, 20.0, (2,), stock=9)],
        }
        for number, one in enumerate(BIG, start=1)
    ]
    placed = [held(0, "site 1", 1, 2, p1=1), held(0, "site 2", 1, 2, p2=1)]
    return assemble(question, pools, sites, nodes.get("nodes", placed))


@pytest.mark.parametrize("survive", ["nothing", "node", "provider"])
def test_replicas_over_nodes_are_sound_where_they_have_them_for_themselves(survive: str) -> None:
    assert rules(across(survive)) == {}


def test_a_node_of_a_spanning_replica_takes_all_of_it() -> None:
    plan = across("node")

    assert [one.lost for one in plan.survived] == [{"pool 1": 1}, {"pool 2": 1}]
    assert "survives" in rules(edited(plan, lambda fields: fields["survived"].pop()))


def test_a_provider_that_is_lost_takes_all_replicas_with_it() -> None:
    plan = across("provider")
    over = edited(plan, lambda fields: fields["survived"][0]["requests_per_second"]["pool 2"].update(one=9.0))

    assert (
        rules(over)["survives"] == "period 0, without acme: pool 2 has to carry the traffic of 1.125000 replicas on 1"
    )


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        ([held(0, "site 1", 2, 1, p1=1)], "period 0, site 1: a replica of pool 1 spans 2 nodes and lies on 1"),
        ([held(0, "site 1", 1, 2, p1=2)], "period 0, site 1: replicas of 32 GPUs lie on 16"),
    ],
)
def test_replicas_that_span_nodes_lie_on_whole_ones(placed: list[Fields], message: str) -> None:
    plan = edited(across(), lambda fields: fields.update(nodes=placed + fields["nodes"][1:]))

    assert rules(plan)["packing"] == message


def test_without_a_network_no_replica_spans_nodes() -> None:
    def cut(fields: Fields) -> None:
        fields["sites"][0].update(network="unknown", network_gbit_per_s=None)

    assert "network between them is not known" in rules(edited(across(), cut))["replicas"]


def unsolved(model: Fields, classes: list[Fields], **question: Any) -> FleetPlan:
    """An answer that found nothing in time: only how the traffic was read can be looked at."""

    def change(plan: Fields) -> None:
        plan["scenario"] = {"model": "by/b", "targets": {}, **model, **question}
        plan.update(status="unknown", cost=None, hours=[1.0])
        plan.update({name: [] for name in ("sites", "pools", "nodes", "survived")})
        plan["classes"] = classes

    return edited(sound(), change)


def read(name: str, tokens: tuple[int, int], rate: float, cv: tuple[float, float] = (0.0, 0.0)) -> Fields:
    """A class as a plan has read it."""
    return {
        "name": name, "model": "b", "input_tokens": tokens[0], "output_tokens": tokens[1], "input_cv": cv[0],
        "output_cv": cv[1], "requests_per_second_by_period": [rate], "regions": [], "pools": {},
        "targets": {"at": "mean", "ttft_ms": None, "tpot_ms": None, "e2e_ms": None},
    }  # fmt: skip


TABLE = {"input_edges": [100, 300], "output_edges": [50], "shares": [[3], [1]], "request_rate": 8.0}


@pytest.mark.parametrize(
    ("lengths", "classes"),
    [
        ("upper", [read("low", (100, 50), 6.0), read("high", (300, 50), 2.0)]),
        ("spread", [read("low", (50, 26), 6.0), read("high", (200, 26), 2.0)]),  # middles of 50.5, 200.5 and 25.5
    ],
)
def test_classes_of_a_histogram_add_up_to_its_rate_and_tokens(lengths: str, classes: list[Fields]) -> None:
    table = {"histogram": TABLE | {"lengths": lengths}}
    fewer, shorter = [classes[0], classes[1] | {"requests_per_second_by_period": [1.0]}], [
        classes[0] | {"input_tokens": 40}, classes[1]
    ]  # fmt: skip

    assert rules(unsolved(table, classes)) == {}
    assert "b: 7 requests/s in all, not 8" in rules(unsolved(table, fewer))["classes_asked"]
    assert "b: input_tokens are" in rules(unsolved(table, shorter))["classes_asked"]


def test_lengths_within_a_bin_vary_by_no_more_than_they_can() -> None:
    classes = [read("low", (50, 26), 6.0, (0.9, 0.0)), read("high", (200, 26), 2.0)]

    assert rules(unsolved({"histogram": TABLE}, classes))["variations"] == (
        "low: input_cv is 0.9, more than lengths within a bin can vary"
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four requests in three seconds, of 100, 100, 201 and 300 tokens in and 10 out."""
    file = tmp_path / "log.csv"
    rows = ["arrival_s,input_tokens,output_tokens"]
    rows += [f"{at},{tokens},10" for at, tokens in enumerate((100, 100, 201, 300))]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def test_classes_of_a_log_add_up_to_its_requests_with_tokens_rounded_up(log: Path) -> None:
    question = {"log": {"file": str(log), "classes": 2}}
    classes = [read("low", (100, 10), 0.5), read("high", (251, 10), 0.5, (0.2, 0.0))]  # a mean of 250.5
    down = [classes[0], classes[1] | {"input_tokens": 240}]

    assert rules(unsolved(question, classes)) == {}
    assert "b: input_tokens are" in rules(unsolved(question, down))["classes_asked"]
    assert "b: 0.5 requests/s in all, not 1" in rules(unsolved(question, classes[:1]))["classes_asked"]
    assert "2 classes, 1 are asked for" in rules(unsolved({"log": {"file": str(log), "classes": 1}}, classes)).get(
        "classes_asked", ""
    )


def test_what_was_read_of_a_log_that_is_gone_is_all_there_is(log: Path) -> None:
    log.unlink()

    assert rules(unsolved({"log": {"file": str(log)}}, [read("low", (240, 10), 0.3)])) == {}


def test_a_class_left_out_is_said() -> None:
    plan = edited(sound(), lambda fields: (fields["classes"].pop(2), fields["pools"].pop(3), fields["pools"].pop(1)))

    assert "well_formed" in rules(plan, None)  # nodes still hold their replicas
    emptied = edited(plan, lambda fields: fields.update(nodes=[], survived=[]))
    assert rules(emptied, None)["classes_asked"] == "b: class main is left out"
