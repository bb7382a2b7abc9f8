"""Self-hosting against an API: prices as the package has them, break-evens as derived by hand, and by brute force."""

from __future__ import annotations

import socket
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import QuestionError
from optimizer.plan import HOURS_PER_MONTH
from optimizer.scenario import Scenario
from optimizer.solve import pose
from optimizer.whatif.api import ApiComparison, compare
from optimizer.whatif.api_prices import api_price
from optimizer.whatif.duty import hours_of_day, read_duty
from optimizer.whatif.paying_rates import Rental, cost_at, paying
from tests.optimizer.catalogs import TODAY, catalog, offer, question
from tests.optimizer.command import run

genai_prices = pytest.importorskip("genai_prices", reason="genai-prices is not installed")

H100, AGAINST = "H100-SXM-80GB", "deepseek/deepseek-chat"
DAY = date(2026, 8, 20)


def charged(against: str, input_tokens: int, cached: float, output_tokens: int, at: datetime) -> float:
    """What the package's own calculation says of one request."""
    provider, _, model = against.partition("/")
    usage = genai_prices.Usage(input_tokens=input_tokens, cache_read_tokens=cached, output_tokens=output_tokens)
    price = genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=at)
    return float(price.total_price)


def half_hours() -> list[datetime]:
    return [datetime(2026, 8, 20, tzinfo=UTC) + timedelta(minutes=15 + 30 * place) for place in range(48)]


@pytest.mark.parametrize(
    "against", [AGAINST, "deepseek/deepseek-reasoner", "openai/gpt-4o", "anthropic/claude-haiku-4-5"]
)
@pytest.mark.parametrize(("input_tokens", "cached_share"), [(1000, 0.0), (300_000, 0.25)])
def test_a_request_costs_what_the_package_says_averaged_over_the_day(
    against: str, input_tokens: int, cached_share: float
) -> None:
    found = api_price(against, input_tokens, 500, cached_share=cached_share, day=DAY)
    costs = [charged(against, input_tokens, cached_share * input_tokens, 500, at) for at in half_hours()]
    assert found.usd_per_request == pytest.approx(sum(costs) / 48)
    assert found.usd_per_request_least == pytest.approx(min(costs))
    assert found.usd_per_request_most == pytest.approx(max(costs))
    assert genai_prices.__version__ in found.data


def test_a_profile_weighs_the_hours_in_which_traffic_arrives() -> None:
    for hour in range(24):
        hours = [float(one == hour) for one in range(24)]
        found = api_price(AGAINST, 1000, 500, day=DAY, hours=hours)
        mean = sum(charged(AGAINST, 1000, 0, 500, at) for at in half_hours()[2 * hour : 2 * hour + 2]) / 2
        assert found.usd_per_request == pytest.approx(mean)
    assert any("00:00 UTC" in said for said in found.used)


def test_tiers_by_prompt_length_are_used_and_named_and_variants_are_named_as_left_out() -> None:
    tiered = _first_tiered_model()
    start = tiered[1]
    below, above = (api_price(tiered[0], start + step, 10, day=DAY) for step in (0, 1))
    assert above.usd_per_million["input"] > below.usd_per_million["input"]
    assert f"above {start:,} input tokens" in above.used[0]
    assert f"up to {start:,} input tokens" in below.used[0]
    assert any("batch" in said for said in api_price("openai/gpt-4o", 1000, 10, day=DAY).ignored)


def _first_tiered_model() -> tuple[str, int]:
    """A model of the bundled data whose input price rises with the prompt."""
    from genai_prices.data import providers  # noqa: PLC0415

    for provider in providers:
        for model in provider.models:
            price = None if isinstance(model.prices, list) else model.prices.__dict__.get("input_mtok")
            if getattr(price, "tiers", None) and model.prices.__dict__.get("output_mtok") is not None:
                return f"{provider.id}/{model.id}", price.tiers[0].start
    raise AssertionError("no tiered model in the bundled data")


def test_prices_are_the_bundled_ones_and_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection is opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    assert api_price(AGAINST, 1000, 10, day=DAY).usd_per_request > 0


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("deepseek", "expected PROVIDER/MODEL"),
        ("deepsek/deepseek-chat", "did you mean deepseek"),
        ("deepseek/deep-chat", "has no model 'deep-chat'; did you mean deepseek-chat.*its models: deepseek-chat, "),
        ("voyageai/voyage-3", "is not priced by input and output tokens"),
    ],
)
def test_what_has_no_price_is_answered_with_what_there_is(against: str, said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        api_price(against, 1000, 10, day=DAY)


def test_a_name_that_the_package_reads_as_another_is_said_so() -> None:
    found = api_price("deepseek/deepseek-chat-v9", 1000, 10, day=DAY)
    assert found.used[0] == "deepseek-chat, as which the package reads 'deepseek-chat-v9'"


RATE_OF_ONE = {"workload": {"request_rate": 1.0}, "limits": {"tp": [1], "pp": [1]}}


def capacity(scenario: Scenario) -> float:
    """Requests per second that one H100 carries."""
    choices = pose(scenario, catalog=catalog(offer(H100, 1.0)), today=TODAY).choices.frame
    return float(choices.loc[choices["broken"] == 0, "capacity"].iloc[0])


def compared(
    share: float, sections: dict[str, Any] | None = None, max_nodes: float = float("nan"), **duty: Any
) -> tuple[ApiComparison, float]:
    """A comparison in which a full H100 costs `share` of what the API asks for the same requests; and its capacity."""
    scenario = question(RATE_OF_ONE | (sections or {}))
    full = capacity(scenario)
    price = api_price(AGAINST, 1000, 100, day=TODAY).usd_per_request * 3600 * full * share
    table = catalog(offer(H100, round(price, 6), max_nodes=max_nodes))
    return compare(scenario, AGAINST, catalog=table, today=TODAY, **duty), full


def stretches(found: ApiComparison, place: int = 0) -> list[float]:
    """The ends of the stretches of rates at which self-hosting pays."""
    ends = [(one.from_request_rate, one.to_request_rate) for one in found.break_evens[place].stretches]
    return [rate for both in ends for rate in both]


def test_at_two_fifths_of_the_price_self_hosting_pays_from_two_fifths_of_a_gpu_on() -> None:
    # One GPU costs what the API asks for 0.4 C requests/s and carries C: it pays on [0.4 C, C]. Two cost as much as
    # 0.8 C and carry 2C: [0.8 C, 2C]. Each stretch reaches the next, so it pays from 0.4 C on.
    found, full = compared(0.4)
    assert found.break_evens[0].pays_from == pytest.approx(0.4 * full, rel=1e-5)
    assert len(found.break_evens[0].stretches) == 1
    assert found.break_evens[0].verified
    assert [check.pays for check in found.break_evens[0].checks] == [False, True]


def test_near_the_price_of_the_api_it_pays_in_stretches_before_it_always_does() -> None:
    # m GPUs pay on [0.78 m C, m C]: [0.78, 1], [1.56, 2], [2.34, 3], [3.12, 4], [3.9, 5], ... of C. From m = 4 on each
    # reaches the next: 0.78 (m + 1) <= m holds for m >= 3.55.
    found, full = compared(0.78)
    ends = stretches(found)[:7]
    assert ends == pytest.approx([at * full for at in (0.78, 1, 1.56, 2, 2.34, 3, 3.12)], rel=1e-5)
    assert found.break_evens[0].pays_from == pytest.approx(3.12 * full, rel=1e-5)
    assert [check.pays for check in found.break_evens[0].checks] == [False, True, True, False, False, True]
    assert found.break_evens[0].verified


def test_where_only_two_gpus_can_be_had_it_pays_up_to_what_they_carry() -> None:
    # [0.8 C, C] and [1.6 C, 2C]; more than 2C nobody can host.
    found, full = compared(0.8, max_nodes=2.0)
    assert stretches(found) == pytest.approx([at * full for at in (0.8, 1, 1.6, 2)], rel=1e-5)
    assert found.break_evens[0].pays_from == pytest.approx(1.6 * full, rel=1e-5)
    assert found.break_evens[0].most_request_rate == pytest.approx(2 * full)


def test_only_allowed_numbers_of_replicas_and_what_the_budget_buys_count() -> None:
    # 2 replicas pay on [1.6 C, 2C] and 5 on [4C, 5C]; with fewer requests 2 are rented, and cost too much.
    found, full = compared(0.8, {"limits": {"tp": [1], "pp": [1], "replicas": [2, 5]}})
    assert stretches(found) == pytest.approx([at * full for at in (1.6, 2, 4, 5)], rel=1e-5)
    # What two GPUs cost is the budget: as where only two can be had.
    price = api_price(AGAINST, 1000, 100, day=TODAY).usd_per_request * 3600 * full * 0.8
    budget = {"limits": {"tp": [1], "pp": [1], "budget_usd_per_hour": price * 2.5}}
    found, full = compared(0.8, budget)
    assert stretches(found) == pytest.approx([at * full for at in (0.8, 1, 1.6, 2)], rel=1e-5)


def test_dearer_than_the_api_when_full_it_never_pays() -> None:
    found, _ = compared(1.01)
    assert found.break_evens[0].pays_from is None
    assert found.break_evens[0].stretches == ()
    assert [(check.pays, check.as_expected) for check in found.break_evens[0].checks] == [(False, True)]


def test_half_the_hours_without_traffic_double_what_has_to_arrive_in_the_others() -> None:
    # At a duty cycle of a half the API is paid for half the hours, GPUs for all: 0.39 of its price is 0.78 of it then.
    found, full = compared(0.39, duty_cycle=0.5)
    real, always = found.break_evens
    assert real.pays_from == pytest.approx(3.12 * full, rel=1e-5)
    assert always.pays_from == pytest.approx(0.39 * full, rel=1e-5)
    # GPUs rented only for those hours: as with traffic at all hours.
    found, full = compared(0.39, duty_cycle=0.5, hours_per_day=12)
    assert found.break_evens[0].pays_from == pytest.approx(0.39 * full, rel=1e-5)


def test_costs_of_both_ways_add_up() -> None:
    found, full = compared(0.5, duty_cycle=0.5)
    request = found.price.usd_per_request
    assert found.api.usd_per_busy_hour == pytest.approx(request * 3600)
    assert found.api.usd_per_month == pytest.approx(request * 3600 * HOURS_PER_MONTH * 0.5)
    assert found.self_hosted is not None
    assert found.self_hosted.usd_per_month == pytest.approx(request * 3600 * full * 0.5 * HOURS_PER_MONTH, rel=1e-4)
    for side in (found.api, found.self_hosted):
        output = 3600 * HOURS_PER_MONTH * 0.5 * 100 / 1e6
        assert side.usd_per_million_output_tokens == pytest.approx(side.usd_per_month / output)
        assert side.usd_per_million_tokens == pytest.approx(side.usd_per_million_output_tokens / 11)
    difference = abs(found.self_hosted.usd_per_month - found.api.usd_per_month)
    assert found.saving_usd_per_month == pytest.approx(difference)
    assert found.cheaper == ("api" if found.api.usd_per_month < found.self_hosted.usd_per_month else "self-hosted")


def test_offline_work_breaks_even_at_the_same_requests_as_its_tokens_are() -> None:
    offline = {"workload": {"request_rate": None, "output_tokens_per_second": 100.0}}
    found, full = compared(0.5 / 100, offline)  # `full` is in output tokens/s, of which a request has 100
    assert found.requests_per_second == pytest.approx(1.0)
    assert found.break_evens[0].pays_from == pytest.approx(0.5 * full / 100, rel=1e-5)
    assert found.break_evens[0].verified


def test_a_fixed_concurrency_is_compared_and_has_no_break_even() -> None:
    found, _ = compared(0.5, {"workload": {"request_rate": None, "concurrency": 4}})
    assert found.break_evens == ()
    assert found.cheaper is not None
    assert any("fixed concurrency" in note for note in found.notes)


rentals = st.lists(
    st.builds(Rental, st.integers(1, 40).map(float), st.integers(1, 40).map(float), st.integers(1, 12)),
    min_size=1,
    max_size=5,
)


@given(rentals, st.integers(1, 80))
def test_paying_rates_are_those_at_which_the_cheapest_rental_costs_no_more(choices: list[Rental], tenths: int) -> None:
    slope = tenths / 20
    found = paying(choices, slope)
    assert all(one.high < other.low for one, other in pairwise(found))
    most = max(one.capacity * one.most for one in choices)
    ends = [end for one in found for end in (one.low, one.high)]
    steps = [m * one.capacity for one in choices for m in range(1, one.most + 1)]
    for rate in {
        *ends,
        *steps,
        *(end * (1 + off) for end in ends for off in (1e-7, -1e-7)),
        *(most * k / 7 for k in range(1, 9)),
    }:
        pays = cost_at(choices, rate) <= slope * rate * (1 + 1e-9)
        within = any(one.low * (1 - 1e-9) <= rate <= one.high * (1 + 1e-11) for one in found)
        assert pays == within


@pytest.mark.parametrize(
    ("flags", "traffic", "rented"),
    [
        ({}, 1.0, 1.0),
        ({"duty_cycle": 0.3}, 0.3, 1.0),
        ({"hours_per_day": 12.0}, 0.5, 0.5),
        ({"duty_cycle": 0.25, "hours_per_day": 12.0}, 0.25, 0.5),
        ({"profile": [0.0] * 12 + [2.0] * 6 + [4.0] * 6}, 0.375, 1.0),
        ({"profile": ([0.0] * 12 + [1.0] * 12) * 7, "hours_per_day": 12.0}, 0.5, 0.5),
    ],
)
def test_duty_is_traffic_over_the_busiest_hours_and_hours_that_are_rented(
    flags: dict[str, Any], traffic: float, rented: float
) -> None:
    duty = read_duty(**{"duty_cycle": None, "profile": None, "hours_per_day": None} | flags)
    assert (duty.traffic_share, duty.rented_share) == (pytest.approx(traffic), rented)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"duty_cycle": 0.5, "profile": [1.0] * 24}, "both say when"),
        ({"duty_cycle": 0.5, "hours_per_day": 6.0}, "arrives 12 hours a day, and GPUs are rented for 6"),
        ({"profile": [1.0] * 23}, "24 values"),
        ({"profile": [0.0] * 24}, "all values are 0"),
    ],
)
def test_contradictory_duties_are_refused(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        read_duty(**{"duty_cycle": None, "profile": None, "hours_per_day": None} | flags)


def test_a_week_is_the_mean_of_its_days_where_prices_depend_on_the_hour() -> None:
    week = [float(day) for day in range(7) for _ in range(24)]
    assert hours_of_day(week) == (3.0,) * 24


def test_the_command_prints_tables_and_json() -> None:
    question_file = "examples/spheron-h200-or-a100-interactive.yaml"
    shown = run("whatif", "api", question_file, "--against", AGAINST, "--duty-cycle", "0.5")
    assert (shown.code, shown.err) == (0, "")
    assert "Break-even at the real duty" in shown.out
    assert "Each row was solved anew" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    as_json = run("whatif", "api", question_file, "--against", AGAINST, "--json").json
    assert as_json["price"]["model"] == "deepseek-chat"
    infeasible = run("whatif", "api", question_file, "--against", AGAINST, "--set", "targets.tpot_ms=0.1")
    assert infeasible.code == 3
    assert "Self-hosting is infeasible" in infeasible.out
    refused = run("whatif", "api", question_file, "--against", "nobody/nothing")
    assert (refused.code, refused.out) == (2, "")


def test_with_traffic_at_all_hours_prices_are_of_all_hours_whatever_the_profile() -> None:
    night = [0.0] * 18 + [1.0] * 6  # 18:00 to 24:00 UTC, when this API is cheap
    by_profile, _ = compared(0.3, profile=night)
    plain, _ = compared(0.3)
    assert by_profile.price.usd_per_request < plain.price.usd_per_request
    assert by_profile.break_evens[1] == plain.break_evens[0]
