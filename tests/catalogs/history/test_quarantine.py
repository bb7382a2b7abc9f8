"""Rows set aside: what they hold back, how they are decided, and that a decision puts history right."""

from __future__ import annotations

import pytest

from catalogs.history import History, HistoryError, SetAside
from tests.catalogs.history.observed import aside, at, look, offers, spans, told

A = "gpu_1x_h100_sxm5"


def test_an_offer_whose_row_waits_is_neither_gone_nor_changed(history: History) -> None:
    history.record(look(0), offers({A: 4.29, "b": 1.0}))
    summary = history.record(look(1), offers({"b": 1.0}), set_aside=[aside(A, 42.9)])
    assert (summary.gone, summary.set_aside) == (0, 1)
    assert told(history.as_of())[A] == (4.29, None)


def test_rows_are_listed_with_their_reason_and_as_they_came(history: History) -> None:
    history.record(look(0), [], set_aside=[SetAside("no GPU named", {"price": "EUR 3", "gpu": ""}), aside(A, 42.9)])
    frame = history.quarantined().set_index("reason")
    assert frame["row"]["no GPU named"] == {"price": "EUR 3", "gpu": ""}
    assert frame["offer"]["no GPU named"] is None
    assert frame["offer"]["more than 3 times the last price"]["price_usd_per_node_hour"] == 42.9
    assert len(history.quarantined(sources=["another"])) == 0
    assert history.sources()[0].waiting == 1  # only one of them could be an offer


def test_a_row_that_looks_repeat_is_listed_once(history: History) -> None:
    for hour in range(3):
        history.record(look(hour), [], set_aside=[aside(A, 42.9)])
    (row,) = history.quarantined().itertuples()
    assert (row.looks, row.first_seen, row.last_seen) == (3, at(0), at(2))


def test_confirmed_it_counts_in_every_look_that_had_it(history: History) -> None:
    history.record(look(0), offers({A: 4.29}))
    for hour in (1, 2):
        history.record(look(hour), [], set_aside=[aside(A, 42.9)])
    history.record(look(3), offers({A: 4.29}))
    assert history.confirm(history.quarantined()["number"]) == 1
    assert spans(history.periods()) == [(4.29, 0, 0, 1, False), (42.9, 1, 2, 3, False), (4.29, 3, 3, None, False)]
    assert history.sources()[0].waiting == 0


def test_confirmed_in_a_partial_look_it_counts_as_seen(history: History) -> None:
    history.record(look(0), offers({"b": 1.0}), complete=False, set_aside=[aside(A, 42.9)])
    history.confirm(history.quarantined()["number"])
    history.record(look(-1), offers({A: 4.29}))
    assert spans(history.periods(instance_type=A)) == [(4.29, -1, -1, 0, False), (42.9, 0, 0, None, False)]


def test_a_look_between_that_saw_the_offer_at_another_price_keeps_its_own(history: History) -> None:
    history.record(look(0), [], set_aside=[aside(A, 42.9)])
    history.record(look(1), offers({A: 4.29}))
    history.record(look(2), [], set_aside=[aside(A, 42.9)])
    assert len(history.quarantined()) == 2
    history.confirm(history.quarantined()["number"])
    assert [row[0] for row in spans(history.periods())] == [42.9, 4.29, 42.9]


def test_a_confirmed_row_is_let_in_by_later_looks_as_well(history: History) -> None:
    history.record(look(0), [], set_aside=[aside(A, 42.9)])
    history.confirm(history.quarantined()["number"])
    assert history.record(look(1), [], set_aside=[aside(A, 42.9)]).same == 1
    assert spans(history.periods()) == [(42.9, 0, 1, None, False)]
    assert len(history.quarantined()) == 0


def test_a_rejected_row_no_longer_waits_and_never_counts(history: History) -> None:
    history.record(look(0), offers({A: 4.29}))
    history.record(look(1), [], set_aside=[aside(A, 42.9)])
    assert history.reject(history.quarantined()["number"]) == 1
    history.record(look(2), [], set_aside=[aside(A, 42.9)])
    history.record(look(3), offers({A: 4.29}))
    history.record(look(4), [], set_aside=[aside(A, 42.9)])
    assert len(history.quarantined()) == 0
    assert len(history.quarantined("rejected")) == 2
    assert spans(history.periods()) == [(4.29, 0, 3, None, False)]


def test_deciding_twice_changes_nothing_and_a_confirmed_price_is_not_taken_back(history: History) -> None:
    history.record(look(0), [], set_aside=[aside(A, 42.9)])
    numbers = list(history.quarantined()["number"])
    assert [history.confirm(numbers), history.confirm(numbers)] == [1, 0]
    with pytest.raises(HistoryError, match="was confirmed; its price is in the history"):
        history.reject(numbers)


def test_what_cannot_be_decided_is_said_and_nothing_of_the_call_is_done(history: History) -> None:
    with pytest.raises(HistoryError, match="row 7: is not in the quarantine"):
        history.confirm([7])
    history.record(look(0), [], set_aside=[aside(A, 42.9), SetAside("no GPU named", {"gpu": ""})])
    with pytest.raises(HistoryError, match="cannot be placed as an offer: no GPU named"):
        history.confirm(sorted(history.quarantined()["number"]))
    assert len(history.quarantined()) == 2
    assert len(history.periods()) == 0


def test_a_row_out_of_order_waits_by_itself(history: History) -> None:
    for hour in (0, 2, 1):
        history.record(look(hour), [], set_aside=[aside(A, 42.9)])
    history.confirm(history.quarantined()["number"])
    assert spans(history.periods()) == [(42.9, 0, 2, None, False)]
