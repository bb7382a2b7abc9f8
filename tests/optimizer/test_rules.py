"""Rules by name: their bits, and how what they rule out is counted."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.check import CHECKS
from optimizer.flags import FIELDS
from optimizer.programs.layout import COUNTING_RULES
from optimizer.rules import RULE_NAMES, RULES, bit, bits_of_kind, broken_names, get_rule, merged, tally

CHECKER_ONLY = ("whole_nodes", "cost", "arithmetic")


def test_every_rule_has_a_check_under_its_name_and_the_checker_has_three_more() -> None:
    assert tuple(CHECKS) == (*RULE_NAMES, *CHECKER_ONLY)


def test_no_name_stands_twice() -> None:
    assert len(set(RULE_NAMES)) == len(RULE_NAMES) == len(RULES)


def test_the_counting_rules_are_those_of_the_program() -> None:
    assert {rule.name for rule in RULES if rule.kind == "count"} == set(COUNTING_RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_what_it_demands_and_which_flags_or_field_change_it(rule: object) -> None:
    assert rule.meaning  # type: ignore[attr-defined]
    for flag in rule.flag.split("/"):  # type: ignore[attr-defined]
        assert not flag or flag.startswith("limits.") or flag.removeprefix("--").replace("-", "_") in FIELDS


def test_bits_name_the_rules_that_they_were_made_of_in_rule_order() -> None:
    assert broken_names(bit("tpot", "gpu_allowed", "quota")) == ("gpu_allowed", "tpot", "quota")
    assert broken_names(0) == ()
    assert broken_names(bits_of_kind("target")) == ("vram_headroom", "ttft", "tpot", "e2e")


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(KeyError):
        get_rule("tpto")


def test_what_is_ruled_out_is_counted_under_the_first_rule_that_it_breaks() -> None:
    rows = np.array([0, bit("tpot"), bit("tpot", "budget"), bit("budget"), bit("gpu_allowed", "tpot")])

    # Rule order: gpu_allowed, tpot, budget; a row that breaks none is not counted.
    assert tally(rows) == {"gpu_allowed": 1, "tpot": 2, "budget": 1}
    assert tally(rows, np.array([9, 1, 10, 100, 1000])) == {"gpu_allowed": 1000, "tpot": 11, "budget": 100}
    assert tally(np.array([0, 0])) == {}


def test_the_last_rule_is_counted_as_exactly_as_the_first() -> None:
    last = bit(RULE_NAMES[-1])

    assert tally(np.array([last, last])) == {RULE_NAMES[-1]: 2}


def test_tallies_add_up_in_rule_order() -> None:
    assert list(merged([{"tpot": 2}, {"gpu_allowed": 1, "tpot": 3}]).items()) == [("gpu_allowed", 1), ("tpot", 5)]
