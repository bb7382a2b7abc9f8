"""The report of a fleet: what is bought comes first, every figure stands whole, and nothing is wider than the page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from optimizer.fleet.plan import FleetPlan
from optimizer.report.fleet import print_fleet
from optimizer.report.fleet_words import days_words, range_words
from tests.optimizer.check.fleets import HOURS, edited, sound

WIDTHS = (80, 120)
Fields = dict[str, Any]
COMPARED = [
    {"rule": "one replica kind", "usd_per_hour": 70.0, "extra_usd_per_hour": 18.36, "proved": False},
    {"rule": "without surviving a loss", "usd_per_hour": 40.0, "extra_usd_per_hour": -11.64, "proved": True},
    {"rule": "nothing committed", "usd_per_hour": None, "extra_usd_per_hour": None, "proved": True},
    {"rule": "no spot nodes", "usd_per_hour": None, "extra_usd_per_hour": None, "proved": False},
]


def printed(plan: FleetPlan, width: int = 120, *, explain: bool = False) -> str:
    """The report on a page of this width, without the blanks that fill its lines."""
    page = io.StringIO()
    print_fleet(plan, explain=explain, console=Console(file=page, width=width, highlight=False, markup=False))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def in_one_line(text: str) -> str:
    """The report with every run of blanks as one, as its words follow each other."""
    return " ".join(text.split())


def changed(**fields: Any) -> FleetPlan:
    """The sound fleet with some fields changed."""
    return edited(sound(), lambda plan: plan.update(fields))


def short_week(plan: Fields) -> None:
    """Stretch a day to a week whose last two days are all night."""

    def week(day: Sequence[Any]) -> list[Any]:
        return [*day] * 5 + [*day[:12], *day[:12]] * 2

    plan["hours"] = week(plan["hours"])
    for one in plan["classes"]:
        one["requests_per_second_by_period"] = week(one["requests_per_second_by_period"])
    for site in plan["sites"]:
        for one in site["purchases"]:
            one["nodes_by_period"] = week(one["nodes_by_period"])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("explain", [False, True])
def test_nothing_is_wider_than_the_page_or_cut(width: int, explain: bool) -> None:
    text = printed(changed(compared=COMPARED), width, explain=explain)

    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_of_money_and_nodes_stands_whole(width: int) -> None:
    text = printed(sound(), width)
    whole = ("$51.64/hour", "$60.58", "$37,696.66/month", "$14.71", "$94,608.00", "$47,304.00", "$147,304.00", "$27.06")

    assert [figure for figure in whole if not any(figure in line for line in text.splitlines())] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_status_and_cost_come_first_then_the_proof(width: int) -> None:
    first, second = printed(sound(), width).splitlines()[:2]

    assert first == "OPTIMAL  by hand"
    assert second == "$51.64/hour on average ($60.58 in the dearest hour), $37,696.66/month"
    assert "$20.93/hour of it is committed, whatever runs; $147,304.00 is due at the start." in printed(sound(), width)
    assert "Proved: no fleet in this catalog that keeps every rule costs less." in printed(sound(), width)


def test_an_answer_that_is_not_proved_says_how_far_down_the_cost_may_go() -> None:
    cost = sound().model_dump()["cost"] | {"bound_usd_per_hour": 48.5, "gap": 0.0608}

    assert "Not proved within the time limit: the cheapest may cost down to $48.50/hour (gap 6.1%)." in printed(
        changed(status="feasible", cost=cost)
    )


def test_each_purchase_has_a_row_with_nodes_over_the_day_place_term_and_money() -> None:
    text = printed(sound())

    assert "  1-2      1        $18.00   $27.06   8x H100-SXM-80GB, acme east, on-demand" in text
    assert "    3      2         $1.20    $3.65   1x L40S-48GB, bolt west, spot" in text
    assert "8x L40S-48GB, your own, home, owned" in text


def test_nodes_of_one_shape_that_go_by_another_name_are_named() -> None:
    def other(plan: Fields) -> None:
        plan["sites"][0]["purchases"][1]["instance_type"] = "h100.8x-large"

    text = printed(edited(sound(), other))
    assert "8x H100-SXM-80GB, acme east, reserved-1y" in text
    assert "8x H100-SXM-80GB, acme east h100.8x-large, on-demand" in text


def test_what_a_purchase_binds_to_and_wastes_is_said_below_it() -> None:
    text = in_one_line(printed(sound(), 80))

    assert "- your contract 1, for 1 year: $94,608.00 in all, $47,304.00 at the start" in text
    assert "- counted at $11.0160 an hour with what paying in advance costs" in text
    assert "- counted at $1.2169 an hour with what interruptions waste" in text
    assert "- counted at $9.9101 an hour with the hours after the traffic has gone" in text
    assert "- 1 start over the 24 hours at $1.50 each - 3 nodes in stock" in text


def test_a_pool_says_its_split_place_load_and_what_it_serves() -> None:
    lines = printed(sound()).splitlines()
    row = next(number for number, line in enumerate(lines) if "a in bf16 TP2 on H100-SXM-80GB, site 1" in line)

    assert lines[row].split()[:5] == ["1", "2-4", "2", "35%", "30"]
    assert lines[row + 1].strip() == "- serves 100% of long, 33% of short"


def test_a_pool_that_serves_nothing_stands_by() -> None:
    def idle(plan: Fields) -> None:
        plan["pools"][2]["serves"][0]["share"] = 0.0

    assert "- nothing: it stands by" in printed(edited(sound(), idle))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_class_has_what_it_asks_and_what_each_pool_does(width: int) -> None:
    lines = printed(sound(), width).splitlines()
    asked = next(line for line in lines if line.startswith("short"))
    first = next(line for line in lines if line.startswith("500 in, 100 out"))

    assert asked.split() == ["short", "3-6", "asked", "2,000", "ms", "60", "ms", "-"]
    assert first.split()[4:6] == ["pool", "1"]
    assert first.endswith("holds")
    assert "only in east, home" in in_one_line("\n".join(lines)) or "only in east," in "\n".join(lines)


def test_a_class_that_may_miss_its_targets_is_marked() -> None:
    def miss(plan: Fields) -> None:
        plan["pools"][0]["serves"][1]["holds"] = False

    assert printed(edited(sound(), miss)).count("MISSED") == 1


def test_a_class_without_targets_gets_no_verdict() -> None:
    def no_targets(plan: Fields) -> None:
        for one in plan["classes"]:
            one["targets"] = {"at": "mean", "ttft_ms": None, "tpot_ms": None, "e2e_ms": None}

    assert "holds" not in printed(edited(sound(), no_targets)).split("How replicas lie")[0]


def test_a_name_in_one_long_word_is_folded_and_not_cut() -> None:
    name = "x" * 150

    def rename(plan: Fields) -> None:
        plan["classes"][0]["name"] = plan["pools"][0]["serves"][0]["class_name"] = name

    text = printed(edited(sound(), rename), 80)
    assert text.count("x") >= 150
    assert "…" not in text.split("Traffic, and")[1]


def test_many_classes_are_cut_at_the_largest() -> None:
    def many(plan: Fields) -> None:
        first = plan["classes"][0]
        plan["classes"] += [first | {"name": f"more {number}", "pools": {}} for number in range(40)]

    assert "The 24 largest of 43 classes; --json has all." in printed(edited(sound(), many))


def test_nodes_show_what_they_hold_in_the_busiest_hour_and_which_models_share_them() -> None:
    text = printed(sound())

    assert "How replicas lie on nodes, hour 12" in text
    assert "    2      1        6 of 8   1 of pool 1, 1 of pool 2 - shared by 2 models" in text
    assert "    3      2        1 of 1   1 of pool 3" in text


def test_idle_nodes_and_replicas_across_nodes_are_said() -> None:
    def spread(plan: Fields) -> None:
        plan["nodes"] = [
            {"period": 12, "site": "site 1", "units": 1, "span": 2, "replicas": {"pool 2": 1}},
            {"period": 12, "site": "site 1", "units": 1, "span": 1, "replicas": {}},
        ]

    text = printed(edited(sound(), spread))
    assert "    2      1       4 of 16   1 of pool 2, 2 nodes together" in text
    assert "    1      1        0 of 8   nothing: paid for and idle" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_hours_with_the_same_nodes_are_one_row(width: int) -> None:
    schedule = in_one_line(printed(sound(), width).split("By the hour")[1].split("What it survives")[0])

    assert "0-12 h 4.5 $42.58 ######## site 1: 1 reserved-1y + 1 on-demand; site 2: 3 spot; site 3: 1 owned" in schedule
    assert "12-24 h 9 $60.58 ############ site 1: 1 reserved-1y + 2 on-demand" in schedule
    assert schedule.count(" h ") == 2


def test_days_of_a_week_that_are_alike_are_shown_once() -> None:
    text = printed(edited(sound(), short_week))

    assert "days 1-5" in text
    assert "days 6-7" in text
    assert in_one_line(text).count("0-12 h") == 1
    assert "0-24 h" in text
    assert "How replicas lie on nodes, day 1, hour 12" in text


def test_nodes_that_never_change_need_no_schedule_and_no_averages() -> None:
    def steady(plan: Fields) -> None:
        plan["hours"] = [1.0]
        for one in [*plan["classes"], *plan["pools"], *(one for site in plan["sites"] for one in site["purchases"])]:
            one.update({name: value[-1:] for name, value in one.items() if name.endswith("_by_period")})

    text = printed(edited(sound(), steady))
    assert "By the hour" not in text
    assert "hour 0" not in text
    assert text.splitlines()[1] == "$51.64/hour, $37,696.66/month"


def test_the_worst_loss_of_each_site_is_shown_the_worst_first() -> None:
    text = printed(sound()).split("What it survives: the loss of any one node")[1]
    rows = [line for line in text.splitlines() if "a node of" in line]

    assert [row.split()[0] for row in rows] == ["88%", "50%", "48%"]
    assert rows[0].endswith("a node of site 1 (hour 12), with 2 of pool 1")


def test_comparisons_say_more_or_less_and_what_is_not_proved() -> None:
    text = printed(changed(compared=COMPARED))

    assert "$70.00   +$18.36   one replica kind (at most: not proved)" in text
    assert "$40.00   -$11.64   without surviving a loss" in text
    assert "nothing committed: no fleet keeps it" in text
    assert "no spot nodes: none was found in time" in text


def test_explain_adds_memory_and_steps() -> None:
    assert "Memory per GPU" not in printed(sound())
    text = printed(sound(), explain=True)

    assert "Memory per GPU, GiB" in text
    assert "- pool 1, " in text
    assert "output tokens/s on all replicas; all-reduces are" in text


@pytest.mark.parametrize("status", ["infeasible", "unknown"])
def test_without_a_fleet_there_is_the_status_the_rules_that_conflict_and_the_prices(status: str) -> None:
    nothing = {name: [] for name in ("sites", "pools", "nodes", "survived")}
    rules = [{"rule": "budget", "meaning": "the fleet costs no more", "needs": "at most $1.00/h"}]
    prices = sound().model_dump()["prices"] | {"seen_on": None}
    text = printed(
        changed(status=status, cost=None, summary="nothing keeps every rule", conflict=rules, prices=prices, **nothing)
    )

    assert text.startswith(f"{status.upper()}  nothing keeps every rule")
    assert "budget   the fleet costs no more   at most $1.00/h" in text
    assert "As of 2026-08-20: 2 offers, 0 rows set aside. They are at best 6 days old." in text


def test_notes_warnings_and_sources_close_the_report() -> None:
    text = printed(changed(notes=["100 requests of log.csv"], warnings=["prices are old"]))

    assert "Note: 100 requests of log.csv." in text
    assert "The oldest of them was seen 2026-08-14, 6 days ago." in text
    assert "Source: made for this test" in text
    assert text.endswith("Warning: prices are old")


def test_numbers_over_the_day_are_a_range_and_days_are_runs() -> None:
    assert (range_words([3, 3]), range_words([2, 5, 3]), range_words([0, 1200])) == ("3", "2-5", "0-1,200")
    assert (days_words([0]), days_words([0, 1, 2, 4])) == ("day 1", "days 1-3, 5")
    assert len(sound().hours) == HOURS
