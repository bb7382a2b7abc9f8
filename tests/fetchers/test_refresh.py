"""The refresh over a real socket: what is recorded, what is kept apart, and that one source never harms another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from catalogs.history import History, open_history
from catalogs.offers import load_offers
from fetchers.errors import UnreachableError
from fetchers.incoming_checks import MOVED, SECOND_LOOK_AFTER
from fetchers.refresh import Refreshed, _Market, exit_code
from fetchers.source import Source
from tests.fetchers.server import Answer, Server, serve
from tests.fetchers.shop import DAY, START, Shop, ask, listing, prices, put

REGIONS = {f"region-{number}": 40.0 + number for number in range(12)}


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with open_history(f"sqlite:///{tmp_path}/prices.sqlite") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_other_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others ask is a test's own matter (and reading the bundled files takes time)."""
    monkeypatch.setattr("fetchers.refresh._market", _Market)


def look(history: History, server: Server, when: int | timedelta = 0, **options: object) -> Refreshed:
    """Refresh the shop, some days (or so long) after the start."""
    passed = when if isinstance(when, timedelta) else when * DAY
    return ask(history, Shop(server.url, START + passed, **options))["shop"]  # type: ignore[arg-type]


def patience(source: Source) -> float:
    """How long a source may take: one that hangs is soon given up, others have time also on a busy machine."""
    return 1.0 if source.name.startswith("hanging") else 60.0


def changes(one: Refreshed) -> tuple[int, int, int, int]:
    assert one.summary is not None, one.reason
    return one.summary.new, one.summary.changed, one.summary.gone, one.summary.same


def test_a_first_look_is_new_and_the_next_says_what_changed(history: History, server: Server) -> None:
    put(server, {"a": 50.0, "b": 60.0, "c": 70.0})
    assert changes(look(history, server)) == (3, 0, 0, 0)
    put(server, {"a": 50.0, "b": 66.0, "d": 80.0})
    second = look(history, server, 1)
    assert (second.status, changes(second)) == ("fresh", (1, 1, 1, 1))
    assert prices(history) == {"a": 50.0, "b": 66.0, "d": 80.0}
    assert prices(history, moment=START) == {"a": 50.0, "b": 60.0, "c": 70.0}


def test_every_command_answers_with_the_new_prices(history: History, server: Server) -> None:
    put(server, {"us-east-1": 44.0})
    look(history, server)
    frame = load_offers(START.date(), history=history).frame
    aws = frame[(frame["provider"] == "aws") & (frame["term"] == "on-demand")]
    # The look is the provider's whole list: what others saw of it before no longer counts.
    assert set(aws[aws["source"] == "shop"]["price_usd_per_node_hour"]) == {44.0}
    assert set(aws[aws["source"] != "shop"]["seen_on"].dt.date) <= {START.date()}


def on_demand_machines_of_aws(history: History) -> int:
    frame = load_offers(START.date(), history=history).frame
    return int(((frame["provider"] == "aws") & (frame["term"] == "on-demand")).sum())


def test_a_collection_is_nobodys_whole_list(history: History, server: Server) -> None:
    # What a collection lacks may well be sold: it takes no other source's offers out of sight.
    class Collection(Shop):
        kind = "collection"

    put(server, {"us-east-1": 44.0})
    ask(history, Collection(server.url))
    before = on_demand_machines_of_aws(history)
    ask(history, Shop(server.url, name="its-own"))
    assert before > on_demand_machines_of_aws(history)


def test_a_first_look_with_a_fraction_of_what_is_known_is_no_whole_list(
    history: History, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server, {f"region-{number}": 50.0 for number in range(5)})
    before = on_demand_machines_of_aws(history)
    monkeypatch.setattr("fetchers.refresh._market", lambda: _Market(offers={("aws", "on-demand"): 21}))
    look(history, server)
    assert on_demand_machines_of_aws(history) == before + 5
    monkeypatch.setattr("fetchers.refresh._market", lambda: _Market(offers={("aws", "on-demand"): 20}))
    look(history, server, timedelta(hours=1))
    assert on_demand_machines_of_aws(history) < before


def test_what_others_ask_is_what_new_offers_are_held_against(
    history: History, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    put(server, {"a": 50.0, "b": 700.0, "c": 5.0})
    first = look(history, server)
    assert (prices(history), len(first.set_aside)) == ({"a": 50.0}, 2)


def test_a_dry_run_counts_the_same_and_writes_nothing(history: History, server: Server, tmp_path: Path) -> None:
    put(server, {"a": 50.0, "b": 60.0})
    dry = ask(history, Shop(server.url), dry_run=True)["shop"]
    assert (changes(dry), list(tmp_path.iterdir())) == ((2, 0, 0, 0), [])
    look(history, server)
    put(server, {"a": 55.0, "c": 1.0})
    before = {path: path.stat().st_size for path in tmp_path.rglob("*.gz")}
    dry = ask(history, Shop(server.url, START + DAY), dry_run=True)["shop"]
    assert {path: path.stat().st_size for path in tmp_path.rglob("*.gz")} == before
    assert prices(history) == {"a": 50.0, "b": 60.0}
    assert changes(look(history, server, 1)) == changes(dry)


def test_a_dry_run_of_half_a_pull_counts_nothing_as_gone(history: History, server: Server) -> None:
    put(server, {"a": 50.0, "b": 60.0})
    look(history, server)
    put(server, {"a": 50.0})
    dry = ask(history, Shop(server.url, START + DAY, stated=2), dry_run=True)["shop"]
    assert (dry.status, changes(dry)) == ("partial", (0, 0, 0, 1))


def test_a_dry_run_does_not_note_failures(history: History, server: Server) -> None:
    assert ask(history, Shop(server.url), dry_run=True)["shop"].status == "failed"
    assert not history.exists()


def test_a_list_that_did_not_change_is_not_sent_again_but_seen_again(
    history: History, server: Server, tmp_path: Path
) -> None:
    server.on("/prices", Answer(listing({"a": 50.0}), headers={"ETag": '"1"'}), Answer(b"", 304))
    look(history, server)
    again = look(history, server, 2)
    assert (again.status, changes(again), again.received_bytes) == ("unchanged", (0, 0, 0, 1), 0)
    assert server.asked[1].headers["if-none-match"] == '"1"'
    (period,) = history.periods().to_dict("records")
    assert (period["first_seen"], period["last_seen"]) == (START, START + 2 * DAY)
    assert len(list(tmp_path.rglob("*.gz"))) == 1


def test_raw_bytes_are_kept_under_the_look(history: History, server: Server) -> None:
    put(server, {"a": 50.0})
    look(history, server)
    last = history.newest_look("shop")
    assert last is not None
    assert b"a" in history.raw.read(last.sha256)
    assert history.provenance(last.sha256)[0]["moment"] == START


def test_without_the_raw_bytes_of_the_last_look_all_is_asked_for(history: History, server: Server) -> None:
    put(server, {"a": 50.0}, ETag='"1"')
    look(history, server)
    for path in history.raw.folder.rglob("*.gz"):
        path.write_bytes(b"damaged")
    assert look(history, server, 1).status == "fresh"
    assert "if-none-match" not in server.asked[1].headers


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(b'{"prices": []}'), "lists nothing"),
        (Answer(b'{"offers": []}'), "prices is not a list"),
        (Answer(b'{"prices": [{"place": "a", "usd": 50.0}]}'), "not of the shape that is read: KeyError"),
        (Answer(listing([{"region": "a", "type": "p99", "gpu": "p99", "usd": 5.0}])), "none of its 1 rows can be used"),
        (Answer(b"<html>", content_type="text/html"), "HTML"),
        (Answer(b"{}", 500), "HTTP 500"),
        (Answer(listing({"a": 50.0}), cut_after=9), "cut off"),
    ],
)
def test_a_source_that_fails_leaves_its_last_good_prices(
    history: History, server: Server, answer: Answer, said: str
) -> None:
    put(server, {"a": 50.0, "b": 60.0})
    look(history, server)
    server.on("/prices", answer)
    failed = look(history, server, 1)
    assert failed.status == "failed"
    assert said.lower() in failed.reason.lower()
    assert prices(history) == {"a": 50.0, "b": 60.0}
    (state,) = history.sources()
    assert (state.looks, state.failures) == (1, 1)
    assert said.lower() in state.last_failure_reason.lower()


def test_failing_and_hanging_sources_do_not_stop_the_others(history: History, server: Server) -> None:
    put(server, {"a": 50.0})
    with serve() as hanging, serve() as failing:
        release = threading.Event()
        hanging.on("/prices", Answer(listing({"a": 1.0}), before=lambda: release.wait(10)))
        shops = [
            Shop(hanging.url, name="hanging"),
            Shop(failing.url, name="failing"),
            *(Shop(server.url, name=f"well-{number}") for number in range(3)),
        ]
        started = time.monotonic()
        outcomes = ask(history, *shops, at_once=2, longest_s=patience)
        release.set()
    assert time.monotonic() - started < 9  # the server would have answered after ten seconds
    assert {name: one.status for name, one in outcomes.items()} == {
        "hanging": "failed",
        "failing": "failed",
        **dict.fromkeys(("well-0", "well-1", "well-2"), "fresh"),
    }
    assert "no answer in" in outcomes["hanging"].reason
    assert list(outcomes)[-1] == "hanging"  # the others were recorded while it hung
    assert prices(history, "hanging") == {}


def test_one_more_slow_source_than_are_asked_at_once_still_leaves_room(history: History, server: Server) -> None:
    put(server, {"a": 50.0})
    with serve() as hanging:
        release = threading.Event()
        hanging.on("/prices", Answer(before=lambda: release.wait(10)))
        shops = [Shop(hanging.url, name=f"hanging-{number}") for number in range(3)]
        outcomes = ask(history, *shops, Shop(server.url), at_once=2, longest_s=patience)
        release.set()
    assert outcomes["shop"].status == "fresh"


def test_a_key_does_not_stand_in_what_is_said_of_a_failure(history: History, server: Server) -> None:
    from fetchers.refresh import refresh  # noqa: PLC0415
    from tests.fetchers.shop import session  # noqa: PLC0415

    class Leaky(Shop):
        name = "leaky"

        def fetch(self, session, previous=None):  # type: ignore[no-untyped-def]
            key = session.credentials.secret(self.name, "SHOP_KEY")
            raise UnreachableError(self.name, f"no answer to key {key}", "Try again.")

    with session(SHOP_KEY="a-very-secret-key") as opened:
        (outcome,) = refresh(history, [Leaky(server.url, name="leaky")], opened)
    (state,) = history.sources()
    assert "a-very-secret-key" not in outcome.reason + state.last_failure_reason
    assert "[hidden]" in outcome.reason


def test_a_source_without_its_credentials_is_skipped(history: History, server: Server) -> None:
    class Closed(Shop):
        name = "closed"
        needs = ("SHOP_KEY",)

    put(server, {"a": 50.0})
    outcomes = ask(history, Closed(server.url, name="closed"), Shop(server.url))
    assert (outcomes["closed"].status, outcomes["closed"].reason) == ("skipped", "needs SHOP_KEY")
    assert exit_code(outcomes.values()) == 0


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["fresh", "unchanged", "skipped"], 0),
        (["fresh", "failed"], 4),
        (["fresh", "partial"], 4),
        (["partial", "partial"], 4),
        (["failed", "failed", "skipped"], 5),
    ],
)
def test_exit_codes(statuses: list[str], code: int) -> None:
    assert exit_code(Refreshed("one", status) for status in statuses) == code  # type: ignore[arg-type]


def test_half_a_pull_by_the_sources_own_word_ends_nothing(history: History, server: Server) -> None:
    put(server, {"a": 50.0, "b": 60.0})
    look(history, server, stated=2)
    put(server, {"a": 55.0})
    for day in (1, 2):  # however often it is repeated
        half = look(history, server, day, stated=2)
        assert (half.status, half.reason) == ("partial", "1 of the 2 entries came")
        assert prices(history) == {"a": 55.0, "b": 60.0}
    put(server, {"a": 55.0})
    assert look(history, server, 3, stated=1).status == "fresh"
    assert prices(history) == {"a": 55.0}


def test_far_fewer_offers_are_a_part_until_a_later_look_is_as_short(history: History, server: Server) -> None:
    put(server, dict(REGIONS))
    look(history, server)
    few = dict(list(REGIONS.items())[:5])
    put(server, few)
    first = look(history, server, 1)
    assert first.status == "partial"
    assert "5 offers, 12 before" in first.reason
    assert prices(history) == REGIONS
    assert look(history, server, DAY + SECOND_LOOK_AFTER / 2).status == "partial"  # too soon to be a second look
    assert look(history, server, 2).status == "fresh"
    assert prices(history) == few


def test_half_of_the_offers_may_go_at_once(history: History, server: Server) -> None:
    put(server, dict(REGIONS))
    look(history, server)
    put(server, dict(list(REGIONS.items())[:6]))
    assert (look(history, server, 1).status, len(prices(history))) == ("fresh", 6)


def test_a_move_of_three_times_passes_and_a_larger_one_waits(history: History, server: Server) -> None:
    put(server, {"a": 50.0, "b": 50.0, "c": 60.0, "d": 60.0})
    look(history, server)
    put(server, {"a": 150.0, "b": 150.1, "c": 20.0, "d": 19.9})
    second = look(history, server, 1)
    assert dict(second.set_aside) == {MOVED: 2}
    assert prices(history) == {"a": 150.0, "b": 50.0, "c": 20.0, "d": 60.0}  # the last good price stands


def test_a_second_look_confirms_a_move_from_its_first_sighting_on(history: History, server: Server) -> None:
    put(server, {"a": 60.0})
    look(history, server)
    put(server, {"a": 15.0})
    look(history, server, 1)
    soon = look(history, server, DAY + SECOND_LOOK_AFTER / 2)
    assert (dict(soon.set_aside), prices(history)) == ({MOVED: 1}, {"a": 60.0})
    put(server, {"a": 15.5})
    assert not look(history, server, 2).set_aside
    assert prices(history) == {"a": 15.5}
    assert prices(history, moment=START + DAY) == {"a": 15.0}
    assert set(history.quarantined(None)["state"]) == {"confirmed"}


def test_a_look_that_contradicts_a_move_does_not_confirm_it(history: History, server: Server) -> None:
    for day, price in enumerate((60.0, 15.0, 11.0, 60.0, 15.0)):
        put(server, {"a": price})
        look(history, server, day)
        assert prices(history) == {"a": 60.0}
    assert len(history.quarantined()) == 3


def test_the_user_confirms_a_move(history: History, server: Server) -> None:
    put(server, {"a": 60.0})
    look(history, server)
    put(server, {"a": 15.0})
    look(history, server, 1)
    history.confirm(history.quarantined()["number"].tolist())
    assert prices(history) == {"a": 15.0}
    assert changes(look(history, server, 2)) == (0, 0, 0, 1)


def test_a_move_that_the_user_refused_stays_out(history: History, server: Server) -> None:
    put(server, {"a": 60.0})
    look(history, server)
    put(server, {"a": 15.0})
    look(history, server, 1)
    history.reject(history.quarantined()["number"].tolist())
    for day in (2, 3):
        look(history, server, day)
        assert prices(history) == {"a": 60.0}
    assert history.quarantined().empty


@pytest.mark.parametrize(
    "row",
    [
        {"usd": 0.0},
        {"usd": -5.0},
        {"usd": None},
        {"usd": 1e9},
        {"usd": 0.01},
        {"usd": 50.0, "currency": "EUR"},
    ],
)
def test_an_offer_listed_without_a_usable_price_is_neither_changed_nor_gone(
    history: History, server: Server, row: dict[str, object]
) -> None:
    put(server, {"a": 50.0, "b": 60.0, "c": 70.0})
    look(history, server)
    put(server, [{"region": "a", **row}, {"region": "b", "usd": 61.0}])
    second = look(history, server, 1)
    assert sum(second.set_aside.values()) == 1
    assert prices(history) == {"a": 50.0, "b": 61.0}
    frame = history.prices_as_of()
    seen_on = dict(zip(frame["region"], frame["seen_on"].dt.date, strict=True))
    assert seen_on == {"a": START.date(), "b": (START + DAY).date()}  # its age shows


def test_spot_above_on_demand_is_set_aside_until_the_user_says_otherwise(history: History, server: Server) -> None:
    def rows(stock: int) -> list[dict[str, object]]:
        return [
            {"region": "a", "usd": 50.0},
            {"region": "a", "usd": 51.0, "term": "spot", "stock": stock},
            {"region": "b", "usd": 50.0},
            {"region": "b", "usd": 49.0, "term": "spot"},
        ]

    put(server, rows(3))
    first = look(history, server)
    assert dict(first.set_aside) == {"spot above on-demand": 1}
    assert len(history.prices_as_of()) == 3
    history.confirm(history.quarantined()["number"].tolist())
    put(server, rows(7))  # its stock has changed since; the decision was about the price
    assert changes(look(history, server, 1)) == (0, 0, 0, 4)


def test_duplicates_are_listed_with_their_reasons(history: History, server: Server) -> None:
    put(server, [{"region": "a", "usd": price} for price in (50.0, 50.0, 52.0)])
    look(history, server)
    assert prices(history) == {"a": 52.0}
    kept = history.quarantined()
    assert set(kept["reason"]) == {"a copy of another row", "one offer at two prices (the dearer is kept)"}


def test_two_refreshes_at_once_lose_nothing(history: History, server: Server, tmp_path: Path) -> None:
    put(server, dict(REGIONS))
    failures: list[object] = []

    def run(first: int) -> None:
        with open_history(f"sqlite:///{tmp_path}/prices.sqlite") as own:
            for number in range(6):
                when = START + timedelta(hours=2 * number + first)
                outcome = ask(own, Shop(server.url, when))["shop"]
                if outcome.status not in ("fresh", "unchanged"):
                    failures.append(outcome)

    threads = [threading.Thread(target=run, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    (state,) = history.sources()
    assert (state.looks, state.failures) == (12, 0)
    assert prices(history) == REGIONS
    assert len(history.periods()) == len(REGIONS)


def test_a_clock_that_jumps_back_records_the_look_where_it_belongs(history: History, server: Server) -> None:
    put(server, {"a": 50.0})
    look(history, server, 5)
    put(server, {"a": 55.0})
    look(history, server, 2)
    assert prices(history) == {"a": 50.0}
    assert prices(history, moment=START + 3 * DAY) == {"a": 55.0}


def test_a_full_disk_fails_the_source_and_keeps_the_rest(
    history: History, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server, {"a": 50.0})
    look(history, server)
    put(server, {"a": 55.0})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    failed = look(history, server, 1)
    assert failed.status == "failed"
    assert "No space left on device" in failed.reason
    monkeypatch.undo()
    assert prices(history) == {"a": 50.0}
