"""`solve --capacity`: a user's own table, its answer, its audit, and its errors."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from optimizer.check.capacity_table import check_capacity_answer
from optimizer.errors import QuestionError
from optimizer.fleet.capacity_solve import solve_capacity
from optimizer.fleet.capacity_table import (
    AcceleratorTable,
    CapacityAnswer,
    ClassTable,
    load_capacity_table,
    replicas_alone,
)
from tests.optimizer.command import run, spawn

DATA = Path(__file__).parents[2] / "data" / "capacity"
CLASSES = ("melange_example", "long_requests")


def table(name: str) -> Any:
    return load_capacity_table(DATA / f"{name}.json")


def cheapest_slices(classes: ClassTable) -> float:
    """Cost of the cheapest way to give each slice to a kind, by trying all."""
    kinds, parts = list(classes.kinds.values()), classes.slices_per_class
    cells = [
        (share * classes.request_rate / parts, [kind.requests_per_second[row][column] for kind in kinds])
        for row, shares in enumerate(classes.class_shares)
        for column, share in enumerate(shares)
        if share
    ]
    # Slices of a class are alike: only how many go to which kind counts.
    splits = [split for split in itertools.product(range(parts + 1), repeat=len(kinds)) if sum(split) == parts]
    best = math.inf
    for chosen in itertools.product(splits, repeat=len(cells)):
        loads = [0.0] * len(kinds)
        for (rate, rates), split in zip(cells, chosen, strict=True):
            for k, count in enumerate(split):
                if count:
                    loads[k] += count * rate / rates[k] if rates[k] else math.inf
        if math.inf not in loads:
            prices = (kind.usd_per_hour for kind in kinds)
            best = min(best, sum(price * math.ceil(load - 1e-9) for price, load in zip(prices, loads, strict=True)))
    return best


def cheapest_replicas(several: AcceleratorTable, *, one_kind: bool) -> float:
    """Cost of the cheapest replicas within the capacity, by trying all numbers of all kinds."""
    choices = []
    for model in several.models:
        counts = [
            range(replicas_alone(model.requests_per_second, kind.requests_per_second_per_replica) + 1)
            for kind in model.kinds
        ]
        mine = []
        for chosen in itertools.product(*counts):
            served = sum(n * k.requests_per_second_per_replica for n, k in zip(chosen, model.kinds, strict=True))
            if served < model.requests_per_second - 1e-9 or (one_kind and sum(map(bool, chosen)) > 1):
                continue
            units = dict.fromkeys(several.capacity_units, 0)
            for n, kind in zip(chosen, model.kinds, strict=True):
                units[kind.gpu] += n * kind.units_per_replica
            cost = sum(n * kind.usd_per_hour_per_replica for n, kind in zip(chosen, model.kinds, strict=True))
            mine.append((cost, units))
        choices.append(sorted(mine, key=lambda one: one[0])[:400])
    return min(
        sum(cost for cost, _ in chosen)
        for chosen in itertools.product(*choices)
        if all(sum(units[gpu] for _, units in chosen) <= most for gpu, most in several.capacity_units.items())
    )


@pytest.mark.parametrize("name", CLASSES)
def test_slices_cost_what_trying_every_assignment_finds(name):
    answer = solve_capacity(table(name), slices=True)
    assert (answer.status, answer.gap) == ("optimal", 0.0)
    assert answer.usd_per_hour == pytest.approx(cheapest_slices(table(name)), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "usd_per_hour"),
    [
        # One A100 has 0.3 + 0.15 + 0.375 + 0.3 = 1.125 replicas' work; one A10G takes off more than the eighth.
        ("melange_example", 3.67 + 1.01),
        # One large has 0.333 + 0.341 + 0.385 + 0.403 = 1.462 replicas' work; a small one takes off at most 4/15 of one.
        ("long_requests", 2.9 + 2 * 0.6),
    ],
)
def test_shares_that_may_be_split_cost_no_more_than_slices(name, usd_per_hour):
    fluid = solve_capacity(table(name))
    assert fluid.status == "optimal"
    assert fluid.usd_per_hour == pytest.approx(usd_per_hour, abs=1e-9)
    assert fluid.usd_per_hour <= solve_capacity(table(name), slices=True).usd_per_hour


@pytest.mark.parametrize("one_kind", [False, True])
def test_several_models_cost_what_trying_all_replicas_finds(one_kind):
    answer = solve_capacity(table("three_models"), one_kind=one_kind)
    assert answer.status == "optimal"
    assert answer.usd_per_hour == pytest.approx(cheapest_replicas(table("three_models"), one_kind=one_kind), abs=1e-9)
    assert answer.shares_are == ("one kind" if one_kind else "continuous")


def test_what_no_kind_can_serve_is_named(tmp_path):
    fields = json.loads((DATA / "long_requests.json").read_text())
    fields["kinds"]["large"]["requests_per_second"][1][1] = 0
    path = tmp_path / "table.json"
    path.write_text(json.dumps(fields))
    ran = run("solve", "--capacity", str(path))
    assert ran.code == 3
    assert "traffic of class row 1, column 1" in ran.out


def test_a_capacity_that_is_too_small_is_named(tmp_path):
    fields = json.loads((DATA / "three_models.json").read_text())
    fields["capacity_units"] = {"A100": 3, "G2": 0, "L4": 40}
    path = tmp_path / "table.json"
    path.write_text(json.dumps(fields))
    ran = run("solve", "--capacity", str(path), "--json")
    assert ran.code == 3
    assert ran.json["status"] == "infeasible"
    assert {"capacity:A100", "capacity:G2"} <= set(ran.json["conflict"])
    assert ran.json["usd_per_hour"] is None


@pytest.mark.parametrize("columns", [80, 120])
def test_the_report_says_what_to_run_and_that_it_is_proved(columns):
    ran = run("solve", "--capacity", str(DATA / "melange_example.json"), "--slices", columns=columns)
    assert ran.code == 0
    assert "OPTIMAL  melange_example: 4 replicas of 2 kinds, $6.70/hour" in ran.out
    assert max(map(len, ran.out.splitlines())) <= columns
    several = run("solve", "--capacity", str(DATA / "three_models.json"), columns=columns)
    assert "granite-34b" in several.out
    assert "units" in several.out
    assert max(map(len, several.out.splitlines())) <= columns


def test_json_is_the_answer_and_nothing_else_is_on_standard_output():
    ran = spawn("solve", "--capacity", str(DATA / "three_models.json"), "--json")
    assert ran.code == 0
    answer = CapacityAnswer.model_validate(ran.json)
    assert check_capacity_answer(table("three_models"), answer) == ()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"usd_per_hour": 1.0, "bound_usd_per_hour": 1.0}, "cost"),
        ({"bound_usd_per_hour": 1.0}, "cost"),
        ({"status": "infeasible"}, "status"),
        ({"shares": ()}, "traffic"),
        ({"kinds": ()}, "capacity"),
    ],
)
def test_the_audit_finds_what_is_wrong_with_an_answer(changes, rule):
    classes = table("melange_example")
    answer = solve_capacity(classes, slices=True)
    assert check_capacity_answer(classes, answer) == ()
    violations = check_capacity_answer(classes, answer.model_copy(update=changes))
    assert rule in {violation.rule for violation in violations}


def test_the_audit_finds_a_slice_that_is_split_and_a_model_on_two_kinds():
    classes, several = table("melange_example"), table("three_models")
    fluid = solve_capacity(classes).model_copy(update={"shares_are": "slices"})
    assert "whole" in {violation.rule for violation in check_capacity_answer(classes, fluid)}
    mixed = solve_capacity(several)
    double = mixed.kinds[0].model_copy(update={"kind": several.models[0].kinds[1].name})
    wrong = mixed.model_copy(update={"shares_are": "one kind", "kinds": (*mixed.kinds, double)})
    assert "whole" in {violation.rule for violation in check_capacity_answer(several, wrong)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"request_rate": 0}, "request_rate: expected a number from 0.000001"),
        ({"request_rat": 3}, "request_rat: is not a field; did you mean request_rate?"),
        ({"class_shares": [[0.2, 0.1], [0.5, 0.1]]}, "class_shares add up to 0.9; expected 1"),
        ({"class_shares": [[0.5, 0.5]]}, "kinds.A10G.requests_per_second: expected 1 rows of 2"),
        ({"kinds": {}}, "kinds"),
        ({"kinds": {"A": {"usd_per_hour": -1, "requests_per_second": [[1, 1], [1, 1]]}}}, "kinds.A.usd_per_hour"),
        ({"slices_per_class": 1.5}, "slices_per_class: expected a whole number"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_accepted(tmp_path, change, message):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(json.loads((DATA / "melange_example.json").read_text()) | change))
    ran = run("solve", "--capacity", str(path))
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert str(path) in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not valid JSON"),
        ("[1, 2]", "expected a mapping"),
        ('{"kinds": NaN}', "NaN is not a number"),
        ('{"kinds": {}, "kinds": {}}', "'kinds' is there twice"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_file_that_is_no_table_is_one_message(tmp_path, content, message):
    path = tmp_path / "table.json"
    path.write_text(content)
    with pytest.raises(QuestionError, match=message):
        load_capacity_table(path)


def test_a_missing_file_is_one_message(tmp_path):
    ran = run("solve", "--capacity", str(tmp_path / "none.json"))
    assert ran.code == 2
    assert "cannot be read" in ran.err


def test_replicas_needed_alone_that_contradict_the_rates_are_refused(tmp_path):
    fields = json.loads((DATA / "three_models.json").read_text())
    fields["models"][0]["kinds"][0]["replicas_needed_alone"] = 4
    path = tmp_path / "table.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(QuestionError, match="replicas_needed_alone of granite-34b on A100 is 4, but"):
        load_capacity_table(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("three_models", "--slices"), "--slices is for a table with class_shares"),
        (("melange_example", "--one-kind"), "--one-kind is for a table of several models"),
        (("melange_example", "--gpu", "H100", "--tp", "2"), "leave out --gpu, --tp"),
    ],
)
def test_flags_that_do_not_go_together_are_named(arguments, message):
    name, *flags = arguments
    ran = run("solve", "--capacity", str(DATA / f"{name}.json"), *flags)
    assert ran.code == 2
    assert message in ran.err


def test_solve_needs_a_question():
    assert "give a scenario file or a model, or --capacity" in run("solve").err
    assert "go with --capacity" in run("solve", "some.yaml", "--slices").err
    assert "leave out SCENARIO" in run("solve", "some.yaml", "--capacity", str(DATA / "melange_example.json")).err
