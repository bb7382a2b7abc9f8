"""Where prices came from: raw bytes by hash, looks, failures, and that no credential is kept."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from catalogs.history import History, HistoryError, RawPulls, open_history
from tests.catalogs.history.observed import Priced, at, look, offers

SECRET = "hunter2-very-secret"


class TestRawPulls:
    def test_bytes_come_back_by_their_hash(self, folder: Path) -> None:
        raw = RawPulls(folder / "raw")
        kept = raw.keep([b"first ", b"second"])
        assert (kept.kept, kept.size_bytes) == (True, 12)
        assert raw.read(kept.sha256) == b"first second"
        assert raw.keep([b"first second"]) == kept

    def test_more_than_the_limit_is_hashed_and_not_kept(self, folder: Path) -> None:
        raw = RawPulls(folder / "raw")
        large = raw.keep([b"x" * 60, b"x" * 60], max_bytes=100)
        assert (large.kept, large.size_bytes) == (False, 120)
        assert raw.keep([b"x" * 120]).sha256 == large.sha256
        RawPulls(folder / "raw").prune(max_bytes=0)
        with pytest.raises(HistoryError, match="not kept"):
            raw.read(large.sha256)

    def test_a_source_that_breaks_off_leaves_nothing(self, folder: Path) -> None:
        def broken() -> object:
            yield b"half"
            raise ConnectionError("reset by peer")

        raw = RawPulls(folder / "raw")
        with pytest.raises((ConnectionError, HistoryError)):
            raw.keep(broken())  # type: ignore[arg-type]
        assert [path for path in raw.folder.rglob("*") if path.is_file()] == []

    def test_a_damaged_file_is_not_passed_off_as_the_pull(self, folder: Path) -> None:
        raw = RawPulls(folder / "raw")
        one, two = raw.keep([b"one"]), raw.keep([b"two"])
        raw.path(one.sha256).write_bytes(raw.path(two.sha256).read_bytes())
        with pytest.raises(HistoryError, match="is damaged"):
            raw.read(one.sha256)
        raw.path(one.sha256).write_bytes(b"cut off")
        with pytest.raises(HistoryError, match="cannot be read"):
            raw.read(one.sha256)

    def test_the_oldest_go_first_and_the_young_stay(self, folder: Path) -> None:
        raw = RawPulls(folder / "raw")
        kept = [raw.keep([bytes([number]) * 10]) for number in range(4)]
        for number, one in enumerate(kept):
            os.utime(raw.path(one.sha256), (1_000 + number, 1_000 + number))
        size = raw.path(kept[0].sha256).stat().st_size
        assert raw.prune(now=1_004, max_bytes=3 * size, max_age_seconds=100) == 1
        assert raw.prune(now=1_004, max_bytes=10**9, max_age_seconds=1.5) == 2
        assert [raw.path(one.sha256).exists() for one in kept] == [False, False, False, True]

    def test_a_folder_that_is_none_is_named(self, folder: Path) -> None:
        (folder / "raw").write_text("")
        with pytest.raises(HistoryError, match="raw: cannot be written"):
            RawPulls(folder / "raw").keep([b"x"])


class TestLooks:
    def test_a_period_names_the_bytes_it_began_and_ended_with(self, history: History) -> None:
        hashes = [history.raw.keep([body]).sha256 for body in (b"a", b"b", b"c")]
        for hour, sha256 in enumerate(hashes):
            history.record(look(hour, sha256=sha256, url="https://example.org/prices", rows=3), [Priced()])
        (period,) = history.periods().itertuples()
        assert (period.first_sha256, period.last_sha256) == (hashes[0], hashes[2])
        (said,) = history.provenance(hashes[1])
        assert (said["source"], said["moment"], said["rows"], said["complete"]) == ("tracker", at(1), 3, True)

    def test_sources_say_how_they_stand(self, history: History) -> None:
        history.record_failure("aws", at(0), "timed out")
        history.record(look(1, "vast", citation="Vast.ai"), offers({"a": 1.0, "b": 2.0}))
        history.record(look(2, "vast"), offers({"a": 1.0}))
        history.record(look(3, "vast"), [], complete=False)
        for hour in (0.5, 4, 5):
            history.record_failure("vast", at(hour), f"HTTP 500 at {hour}")
        aws, vast = history.sources()
        assert (aws.looks, aws.last_look, aws.age(), aws.failures) == (0, None, None, 1)
        assert (vast.looks, vast.offers, vast.failures, vast.citation) == (3, 1, 2, "Vast.ai")
        assert (vast.first_look, vast.last_look, vast.last_complete) == (at(1), at(3), at(2))
        assert (vast.last_failure, vast.last_failure_reason) == (at(5), "HTTP 500 at 5")
        assert vast.age(at(27)) == timedelta(hours=24)

    def test_a_failure_leaves_the_prices_as_they_are(self, history: History) -> None:
        history.record(look(0), [Priced()])
        before = history.as_of()
        history.record_failure("tracker", at(1), "empty answer")
        assert history.as_of().equals(before)


class TestNoCredentials:
    def test_neither_urls_nor_reasons_keep_them(self, folder: Path) -> None:
        url = f"https://user:{SECRET}@host.example/api?key={SECRET}&$filter={SECRET}"
        with open_history(f"sqlite:///{folder}/prices.sqlite") as history:
            history.record(look(0, url=url, sha256="0" * 64), [Priced()])
            history.record_failure("tracker", at(1), f"GET {url}: refused", url)
            assert history.provenance("0" * 64)[0]["url"] == "https://host.example/api?key=...&$filter=..."
            assert history.sources()[0].last_failure_reason == (
                "GET https://host.example/api?key=...&$filter=... refused"
            )
        stored = b"".join(path.read_bytes() for path in folder.glob("prices.sqlite*"))
        assert SECRET.encode() not in stored

    def test_a_database_that_cannot_be_reached_is_named_without_its_password(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SHARDWISE_DATABASE_URL", f"postgresql://me:{SECRET}@127.0.0.1:1/prices")
        with pytest.raises(HistoryError) as caught:
            open_history().as_of()
        assert "127.0.0.1" in str(caught.value)
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize("url", ["mysql://me:hunter2@host/x", "sqlite://", "no url", "postgresql+psycopg2x//"])
    def test_a_url_of_another_kind_is_refused(self, url: str) -> None:
        with pytest.raises(HistoryError, match="expected postgresql://") as caught:
            open_history(url)
        assert "hunter2" not in str(caught.value)

    def test_what_is_made_is_the_users_own(self, folder: Path) -> None:
        with open_history(f"sqlite:///{folder}/data/prices.sqlite") as history:
            history.record(look(0), [Priced()])
        assert (folder / "data").stat().st_mode & 0o777 == 0o700
        assert (folder / "data" / "prices.sqlite").stat().st_mode & 0o777 == 0o600
