"""Periods: how looks at a price become stretches of time, in whatever order the looks come."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import count, permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalogs.history import History, HistoryError, Summary
from tests.catalogs.history.observed import START, Naive, Priced, aside, at, look, offers, spans, told

A, B = "gpu_1x_h100_sxm5", "gpu_8x_h100_sxm5"
_SOURCES = count()


def fill(history: History, *prices: float | None, source: str = "tracker") -> None:
    """Complete looks an hour apart at one offer; None where it is not listed."""
    for hour, price in enumerate(prices):
        history.record(look(hour, source), offers({} if price is None else {A: price}))


class TestOneLookAfterAnother:
    def test_the_same_price_makes_the_period_longer(self, history: History) -> None:
        fill(history, 4.29, 4.29, 4.29)
        assert spans(history.periods()) == [(4.29, 0, 2, None, False)]

    def test_another_price_ends_it_and_starts_the_next(self, history: History) -> None:
        fill(history, 3.78, 3.78, 4.29)
        assert spans(history.periods()) == [(3.78, 0, 1, 2, False), (4.29, 2, 2, None, False)]

    def test_absent_from_a_complete_look_is_gone(self, history: History) -> None:
        fill(history, 4.29, None)
        assert spans(history.periods()) == [(4.29, 0, 0, 1, True)]

    def test_absent_from_a_partial_look_is_not_gone(self, history: History) -> None:
        fill(history, 4.29)
        history.record(look(1), offers({B: 31.92}), complete=False)
        assert spans(history.periods(instance_type=A)) == [(4.29, 0, 0, None, False)]

    def test_gone_and_back_at_the_same_price_is_two_periods(self, history: History) -> None:
        fill(history, 4.29, None, 4.29)
        assert spans(history.periods()) == [(4.29, 0, 0, 1, True), (4.29, 2, 2, None, False)]

    def test_another_stock_is_another_period_unless_only_prices_are_asked_for(self, history: History) -> None:
        for hour, stock in enumerate((2, 5, None)):
            history.record(look(hour), offers({A: (4.29, stock)}))
        assert len(history.periods(by_price=False)) == 3
        assert spans(history.periods()) == [(4.29, 0, 2, None, False)]
        assert told(history.as_of(at(1))) == {A: (4.29, 5)}
        assert told(history.as_of(at(2))) == {A: (4.29, None)}

    def test_summary_says_what_changed(self, history: History) -> None:
        first = history.record(look(0), offers({"a": 1, "b": 2, "c": (3, 1), "d": 4}))
        second = history.record(look(1), offers({"a": 1, "b": 2.5, "c": (3, 2), "e": 5}))
        assert first == Summary(new=4)
        assert second == Summary(new=1, changed=1, gone=1, same=2, stock_changed=1)

    def test_the_same_look_twice_changes_nothing(self, history: History) -> None:
        fill(history, 4.29, 3.99)
        before = history.periods()
        again = history.record(look(0), offers({A: 4.29}))
        assert again.known
        assert history.periods().equals(before)
        assert history.sources()[0].looks == 2

    def test_another_look_at_the_same_moment_is_refused(self, history: History) -> None:
        fill(history, 4.29)
        with pytest.raises(HistoryError, match="recorded already, of other bytes"):
            history.record(look(0), offers({A: 3.99}))
        assert spans(history.periods()) == [(4.29, 0, 0, None, False)]

    def test_an_offer_at_two_prices_in_one_look_is_refused_whole(self, history: History) -> None:
        with pytest.raises(HistoryError, match="stands twice"):
            history.record(look(0), [Priced(A, 1.0), Priced(B, 9.0), Priced(A, 2.0)])
        assert len(history.periods()) == 0

    @pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
    def test_what_is_no_price_is_refused(self, history: History, price: float) -> None:
        with pytest.raises(HistoryError, match="price"):
            history.record(look(0), [Priced(A, price)])

    def test_prices_come_back_to_the_micro_dollar(self, history: History) -> None:
        history.record(look(0), offers({A: 61.383672, B: 0.030001}))
        assert told(history.as_of()) == {A: (61.383672, None), B: (0.030001, None)}

    def test_sources_do_not_touch_each_other(self, history: History) -> None:
        fill(history, 4.29, source="a")
        history.record(look(1, "b"), [])
        assert told(history.as_of()) == {A: (4.29, None)}

    def test_a_corrected_name_corrects_the_past_and_an_older_file_does_not(self, history: History) -> None:
        history.record(look(1), [Priced(A, 4.29, gpu="H100-PCIE-80GB")])
        history.record(look(2), [Priced(A, 4.29, gpu="H100-SXM-80GB")])
        history.record(look(0), [Priced(A, 4.29, gpu="H100-PCIE-80GB")])
        assert set(history.periods()["gpu"]) == {"H100-SXM-80GB"}


class TestAsOf:
    @pytest.mark.parametrize(
        ("hours", "expected"),
        [
            (-0.001, None),
            (0, 3.78),
            (0.999, 3.78),
            (1, 4.29),
            (1.5, 4.29),
            (2, None),
            (2.5, None),
            (3, 4.29),
            (99, 4.29),
        ],
    )
    def test_at_every_boundary(self, history: History, hours: float, expected: float | None) -> None:
        fill(history, 3.78, 4.29, None, 4.29)
        assert told(history.as_of(at(hours))) == ({} if expected is None else {A: (expected, None)})

    def test_a_day_counts_to_its_end_in_utc(self, history: History) -> None:
        last = datetime(2026, 7, 1, 23, 59, 59, 999_999, tzinfo=UTC)
        history.record(look((last - START) / timedelta(hours=1)), offers({A: 4.29}))
        assert told(history.as_of(date(2026, 6, 30))) == {}
        assert told(history.as_of(date(2026, 7, 1))) == {A: (4.29, None)}

    def test_a_moment_without_a_time_zone_is_refused(self, history: History) -> None:
        fill(history, 4.29)
        with pytest.raises(HistoryError, match="time zone"):
            history.as_of(datetime(2026, 7, 1))

    def test_days_seen_are_those_of_the_last_look_by_then(self, history: History) -> None:
        for day in (0, 1, 3):
            history.record(look(24 * day), offers({A: 4.29}))
        seen = [history.as_of(date(2026, 7, day))["seen_on"].iloc[0].day for day in (1, 2, 3, 4, 5)]
        assert seen == [1, 2, 2, 4, 4]

    def test_a_price_carried_forward_keeps_the_day_it_was_seen(self, history: History) -> None:
        history.record(look(0), [Priced(A, 4.29)])
        for day in (1, 2):
            history.record(look(24 * day), [Priced(A, 4.29, seen_on=date(2026, 7, 1))])
        history.record(look(72), [Priced(A, 4.29)])
        seen = [history.as_of(date(2026, 7, day))["seen_on"].iloc[0].day for day in (1, 2, 3, 4)]
        assert seen == [1, 1, 1, 4]
        assert spans(history.periods()) == [(4.29, 0, 72, None, False)]

    def test_columns_are_those_of_a_table_of_offers(self, history: History) -> None:
        from catalogs.offers import OFFER_COLUMNS  # noqa: PLC0415

        assert tuple(history.as_of().columns) == OFFER_COLUMNS
        fill(history, 4.29)
        frame = history.as_of(sources=["tracker"])
        assert tuple(frame.columns) == OFFER_COLUMNS
        assert (frame["fabric"].iloc[0], frame["source"].iloc[0]) == ("single", "tracker")
        assert len(history.as_of(sources=["another"])) == 0

    def test_a_gpu_that_the_catalog_no_longer_holds_is_left_out(self, history: History) -> None:
        history.record(look(0), [Priced(A, 4.29), Priced(B, 1.0, gpu="GPU-OF-OLD")])
        assert told(history.as_of()) == {A: (4.29, None)}


class TestPeriodsAskedFor:
    def test_by_pattern_name_and_time(self, history: History) -> None:
        fill(history, 1, 2, None, 3)
        history.record(look(4), [Priced(A, 3), Priced("a100", 2, gpu="A100-SXM-80GB", provider="vast")])
        assert len(history.periods(gpu="h100*")) == 3
        assert len(history.periods(gpu="a100-sxm-?0gb")) == 1
        assert len(history.periods(gpu="H100_SXM-80GB")) == 0
        assert len(history.periods(provider="vast", term="on-demand", source="tracker")) == 1
        prices = lambda **asked: [row[0] for row in spans(history.periods(provider="lambda", **asked))]  # noqa: E731
        assert prices(since=at(1)) == [2, 3]
        assert prices(since=at(1.5), until=at(2.5)) == [2]
        assert prices(since=at(2.1), until=at(2.9)) == []
        assert prices(until=at(0)) == [1]

    def test_diff_says_what_came_went_and_moved(self, history: History) -> None:
        history.record(look(0), offers({"a": 1, "b": 2, "c": 3}))
        history.record(look(1), offers({"a": 1, "b": 1, "d": 4}))
        found = history.diff(at(0), at(1)).set_index("instance_type")
        assert found["change"].to_dict() == {"b": "cheaper", "c": "gone", "d": "new"}
        assert found["percent"]["b"] == -50


class TestLooksOutOfOrder:
    def test_an_older_look_between_two_splits_their_period(self, history: History) -> None:
        for hour, price in ((0, 4.29), (2, 4.29), (1, 3.99)):
            history.record(look(hour), offers({A: price}))
        assert spans(history.periods()) == [(4.29, 0, 0, 1, False), (3.99, 1, 1, 2, False), (4.29, 2, 2, None, False)]

    def test_an_older_look_without_the_offer_makes_a_hole(self, history: History) -> None:
        for hour, prices in ((0, {A: 4.29}), (2, {A: 4.29}), (1, {})):
            history.record(look(hour), offers(prices))
        assert spans(history.periods()) == [(4.29, 0, 0, 1, True), (4.29, 2, 2, None, False)]

    def test_a_look_before_the_first_moves_its_start(self, history: History) -> None:
        for hour in (5, 1):
            history.record(look(hour), offers({A: 4.29}))
        assert spans(history.periods()) == [(4.29, 1, 5, None, False)]

    def test_a_look_of_a_clock_that_ran_ahead_stands_only_from_its_moment_on(self, history: History) -> None:
        history.record(look(0), offers({A: 4.29}))
        history.record(look(24 * 365), offers({A: 9.99}))
        history.record(look(1), offers({A: 3.99}))
        assert told(history.as_of(at(2))) == {A: (3.99, None)}
        assert [row[0] for row in spans(history.periods())] == [4.29, 3.99, 9.99]

    def test_every_order_of_looks_gives_the_same_periods(self, sqlite_history: History) -> None:
        prices = (4.29, None, 3.99, 3.99)
        found = set()
        for number, order in enumerate(permutations(range(4))):
            for hour in order:
                price = prices[hour]
                sqlite_history.record(look(hour, f"s{number}"), offers({} if price is None else {A: price}))
            found.add(tuple(spans(sqlite_history.periods(source=f"s{number}"))))
        assert found == {((4.29, 0, 0, 1, True), (3.99, 2, 3, None, False))}


NAMES = ("a", "b", "c")
values = st.tuples(st.sampled_from((1.0, 2.0)), st.sampled_from((None, 1.0)))
looks = st.tuples(
    st.booleans(), st.dictionaries(st.sampled_from(NAMES), values), st.sets(st.sampled_from(NAMES), max_size=1)
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(looked=st.lists(looks, min_size=1, max_size=6).flatmap(lambda all_: st.permutations(list(enumerate(all_)))))
def test_as_of_every_moment_is_what_a_list_of_all_looks_says(history: History, looked: list) -> None:
    shuffled, ordered, naive = f"s{next(_SOURCES)}", f"s{next(_SOURCES)}", Naive()
    for source, sequence in ((shuffled, looked), (ordered, sorted(looked))):
        for hour, (complete, prices, silent) in sequence:
            rows = [aside(name, 9.0) for name in sorted(silent - prices.keys())]
            history.record(look(hour, source), offers(prices), complete=complete, set_aside=rows)
    for hour, (complete, prices, silent) in looked:
        naive.add(at(hour), prices, complete=complete, silent=silent - prices.keys())
    for half_hours in range(-1, 2 * len(looked) + 1):
        moment = at(half_hours / 2)
        assert told(history.as_of(moment, [shuffled])) == naive.as_of(moment), moment
    columns = ["instance_type", "price_usd_per_node_hour", "max_nodes", "first_seen", "last_seen", "until", "gone"]
    both = [history.periods(source=source, by_price=False)[columns] for source in (shuffled, ordered)]
    assert both[0].equals(both[1])
