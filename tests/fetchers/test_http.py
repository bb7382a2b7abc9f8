"""The HTTP layer over real sockets: retries, limits, redirects, conditional requests, what an answer may be."""

from __future__ import annotations

import gzip
import itertools
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import requests

from fetchers import bodies
from fetchers.credentials import Credentials
from fetchers.errors import ContentError, CredentialsError, RefusedError, TooLargeError, UnreachableError, UnsafeError
from fetchers.http import HttpSession, Limits, user_agent
from fetchers.targets import Origin
from tests.fetchers.server import Answer, Server, serve

QUICK = Limits(connect_s=0.5, read_s=0.5, total_s=5.0, tries=3, first_pause_s=0.001, longest_pause_s=0.002)
OK = Answer(b'{"ok": true}')


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


class Naps:
    """Sleep that only counts; its clock moves on by what was slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def clock(self) -> float:
        return time.monotonic() + sum(self.slept)


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def http(naps: Naps) -> Iterator[HttpSession]:
    with HttpSession(Credentials({}), QUICK, sleep=naps.sleep, clock=naps.clock, draw=lambda: 1.0) as opened:
        yield opened


def origin(server: Server, **options: object) -> Origin:
    return Origin("shop", server.url, **{"interval_s": 0.0, **options})  # type: ignore[arg-type]


def get(http: HttpSession, server: Server, path: str = "/a", **options: object) -> bytes:
    return http.get(origin(server), server.url + path, **options).body  # type: ignore[arg-type]


class TestRetries:
    @pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
    def test_busy_and_broken_servers_are_asked_again(self, http: HttpSession, server: Server, status: int) -> None:
        server.on("/a", Answer(b"", status), Answer(b"", status), OK)
        assert get(http, server) == b'{"ok": true}'
        assert len(server.asked) == 3

    @pytest.mark.parametrize("status", [400, 404, 410, 501])
    def test_other_refusals_are_not(self, http: HttpSession, server: Server, status: int) -> None:
        server.on("/a", Answer(b"", status), OK)
        with pytest.raises(RefusedError, match=f"HTTP {status}") as caught:
            get(http, server)
        assert caught.value.status == status
        assert len(server.asked) == 1

    def test_tries_are_bounded_and_pauses_double(self, http: HttpSession, server: Server, naps: Naps) -> None:
        server.on("/a", Answer(b"", 503))
        limits = replace(QUICK, tries=5, first_pause_s=0.1, longest_pause_s=0.3)
        with pytest.raises(RefusedError):
            get(http, server, limits=limits)
        assert len(server.asked) == 5
        assert naps.slept == pytest.approx([0.1, 0.2, 0.3, 0.3])

    def test_pauses_are_drawn_from_half_to_whole(self, server: Server) -> None:
        naps, draws = Naps(), itertools.cycle([0.0, 1.0])
        server.on("/a", Answer(b"", 503))
        limits = replace(QUICK, tries=3, first_pause_s=0.1, longest_pause_s=1.0)
        session = HttpSession(Credentials({}), limits, sleep=naps.sleep, draw=lambda: next(draws))
        with session as http, pytest.raises(RefusedError):
            get(http, server)
        assert naps.slept == pytest.approx([0.05, 0.2])

    def test_retry_after_in_seconds_is_obeyed(self, http: HttpSession, server: Server, naps: Naps) -> None:
        server.on("/a", Answer(b"", 429, {"Retry-After": "2"}), OK)
        get(http, server)
        assert naps.slept == [2.0]

    def test_retry_after_as_a_date_is_obeyed(self, http: HttpSession, server: Server, naps: Naps) -> None:
        when = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
        server.on("/a", Answer(b"", 503, {"Retry-After": when}), OK)
        get(http, server)
        assert naps.slept[0] == pytest.approx(2.5, abs=0.6)

    def test_a_date_gone_by_means_at_once(self, http: HttpSession, server: Server, naps: Naps) -> None:
        server.on("/a", Answer(b"", 503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), OK)
        get(http, server)
        assert naps.slept == [0.0]

    def test_a_server_that_asks_for_an_hour_is_left_alone(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"", 429, {"Retry-After": "3600"}), OK)
        with pytest.raises(RefusedError, match="asks to wait 3600 s"):
            get(http, server, limits=replace(QUICK, total_s=1e6))
        assert len(server.asked) == 1

    @pytest.mark.parametrize("text", ["", "soon", "-5", "1e9", "٣"])
    def test_an_unreadable_retry_after_is_ignored(
        self, http: HttpSession, server: Server, naps: Naps, text: str
    ) -> None:
        server.on("/a", Answer(b"", 503, {"Retry-After": text.encode().decode("latin-1")}), OK)
        get(http, server)
        assert naps.slept == pytest.approx([0.001])

    def test_a_pause_past_the_total_time_is_not_begun(self, http: HttpSession, server: Server, naps: Naps) -> None:
        server.on("/a", Answer(b"", 503, {"Retry-After": "30"}), OK)
        with pytest.raises(RefusedError):
            get(http, server)
        assert naps.slept == []

    def test_posts_are_reads_here_and_are_sent_again(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"", 500), OK)
        assert http.post(origin(server), server.url + "/a", json={"q": 1}).body == b'{"ok": true}'
        assert [asked.body for asked in server.asked] == [b'{"q": 1}', b'{"q": 1}']
        assert server.asked[0].headers["content-type"] == "application/json"

    def test_an_answer_cut_off_is_asked_for_again(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b'{"ok": true}', cut_after=4), OK)
        assert get(http, server) == b'{"ok": true}'

    def test_a_chunked_answer_cut_off_is_noticed(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(lambda: iter([b"{", b"}"]), cut_after=1))
        with pytest.raises(UnreachableError, match="cut off"):
            get(http, server)
        assert len(server.asked) == 3

    def test_a_server_that_is_not_there_is_tried_and_told(self, http: HttpSession) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=r"shop: no connection \(http://127.*Check the network"):
            http.get(Origin("shop", url), url)


class TestTime:
    def test_a_silent_server_is_given_up(self, http: HttpSession, server: Server) -> None:
        released = threading.Event()
        server.on("/a", Answer(before=lambda: released.wait(0.5)))
        with pytest.raises(UnreachableError, match=r"no answer within 0\.05 s"):
            get(http, server, limits=replace(QUICK, read_s=0.05, tries=1))
        released.set()

    def test_a_body_that_drips_ends_with_the_total_time(self, http: HttpSession, server: Server) -> None:
        drops = Answer(lambda: itertools.repeat(b" "), between=lambda: time.sleep(0.01))
        server.on("/a", drops)
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no whole answer within 0\.2 s"):
            get(http, server, limits=replace(QUICK, total_s=0.2))
        assert time.monotonic() - began < 1.0
        assert len(server.asked) == 1

    def test_a_head_that_drips_ends_with_the_total_time(self, http: HttpSession) -> None:
        stop = threading.Event()

        def drip(listener: socket.socket) -> None:
            connection, _ = listener.accept()
            with connection:
                for byte in itertools.chain(b"HTTP/1.1 200 OK\r\n", itertools.cycle(b"X-A: b\r\n")):
                    if stop.wait(0.01):
                        return
                    try:
                        connection.sendall(bytes([byte]))
                    except OSError:
                        return

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=drip, args=(listener,), daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            began = time.monotonic()
            with pytest.raises(UnreachableError, match=r"no whole answer within 0\.2 s"):
                http.get(Origin("shop", url), url, limits=replace(QUICK, total_s=0.2))
            assert time.monotonic() - began < 1.0
            stop.set()
            thread.join()

    def test_one_host_is_not_asked_faster_than_its_interval(
        self, http: HttpSession, server: Server, naps: Naps
    ) -> None:
        server.on("/a", OK)
        for _ in range(3):
            http.get(origin(server, interval_s=5.0), server.url + "/a", limits=replace(QUICK, total_s=60.0))
        assert naps.slept == pytest.approx([5.0, 5.0], abs=0.2)


class TestSize:
    def test_a_body_over_the_limit_is_dropped_early(self, http: HttpSession, server: Server) -> None:
        sent = []

        def endless() -> Iterator[bytes]:
            while True:
                sent.append(1)
                yield b"x" * 10_000

        server.on("/a", Answer(endless))
        with pytest.raises(TooLargeError, match=r"larger than 0\.1 MB"):
            get(http, server, limits=replace(QUICK, max_bytes=100_000))
        assert len(server.asked) == 1

    @pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
    def test_compressed_bodies_are_unpacked(self, http: HttpSession, server: Server, pack: object) -> None:
        encoding = "gzip" if pack is gzip.compress else "deflate"
        server.on("/a", Answer(pack(b'{"ok": 1}'), headers={"Content-Encoding": encoding}))  # type: ignore[operator]
        assert get(http, server) == b'{"ok": 1}'

    def test_several_gzip_members_follow_each_other(self, http: HttpSession, server: Server) -> None:
        body = gzip.compress(b"[1,") + gzip.compress(b"2]")
        server.on("/a", Answer(body, headers={"Content-Encoding": "gzip"}))
        assert get(http, server) == b"[1,2]"

    def test_the_last_bytes_of_very_small_packings_are_not_lost(self) -> None:
        for size in range(bodies.CHUNK_BYTES - 700, bodies.CHUNK_BYTES + 700):
            packed = gzip.compress(b"\0" * size)
            pieces = (packed[n : n + 1] for n in range(len(packed)))
            assert sum(map(len, bodies.decode(pieces, "gzip", 10**6))) == size

    def test_large_compressed_bodies_lose_nothing(self, http: HttpSession, server: Server) -> None:
        body = b"[" + b",".join(str(n).encode() for n in range(200_000)) + b"]"
        server.on("/a", Answer(gzip.compress(body), headers={"Content-Encoding": "gzip"}))
        assert get(http, server) == body

    def test_a_gzip_bomb_is_stopped_at_the_limit(self, http: HttpSession, server: Server) -> None:
        bomb = gzip.compress(b"\0" * 50_000_000)
        assert len(bomb) < 100_000
        server.on("/a", Answer(bomb, headers={"Content-Encoding": "gzip"}))
        with pytest.raises(TooLargeError):
            get(http, server, limits=replace(QUICK, max_bytes=1_000_000))

    @pytest.mark.parametrize(
        "broken",
        [gzip.compress(b'{"ok": 1}')[:-4], b"not gzip at all", gzip.compress(b"x")[:5]],
        ids=["no trailer", "no gzip", "half a head"],
    )
    def test_broken_gzip_is_an_answer_cut_off(self, http: HttpSession, server: Server, broken: bytes) -> None:
        server.on("/a", Answer(broken, headers={"Content-Encoding": "gzip"}))
        with pytest.raises(UnreachableError, match="cut off"):
            get(http, server, limits=replace(QUICK, tries=1))

    def test_a_compression_that_was_not_asked_for_is_refused(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"xyz", headers={"Content-Encoding": "br"}))
        with pytest.raises(ContentError, match="compressed as 'br'"):
            get(http, server)


class TestContent:
    @pytest.mark.parametrize(
        ("body", "told"),
        [
            (b'{"items": [1, 2', "not whole JSON"),
            (b"", "empty"),
            (b"[" * 100_000, "not whole JSON"),
            (b"<!doctype html><title>Sorry</title>", "a web page"),
            (b"\xef\xbb\xbf\n<HTML>", "a web page"),
            (b"1" * 5000, "not whole JSON"),
            (b"\xff\xfe\x00", "not whole JSON"),
        ],
        ids=["cut", "empty", "deep", "page", "page with a mark", "long number", "no text"],
    )
    def test_what_is_not_json_is_told(self, http: HttpSession, server: Server, body: bytes, told: str) -> None:
        server.on("/a", Answer(body))
        with pytest.raises(ContentError, match=told):
            get(http, server)

    @pytest.mark.parametrize("kind", ["application/json", "text/json; charset=utf-8", "application/hal+json", ""])
    def test_json_has_many_names(self, http: HttpSession, server: Server, kind: str) -> None:
        server.on("/a", Answer(b"[]", content_type=kind))
        assert get(http, server) == b"[]"

    @pytest.mark.parametrize(
        ("expect", "kind"),
        [("json", "text/html"), ("json", "image/png"), ("csv", "application/json"), ("zip", "text/plain")],
    )
    def test_another_type_is_refused(self, http: HttpSession, server: Server, expect: str, kind: str) -> None:
        server.on("/a", Answer(b"[]", content_type=kind))
        with pytest.raises(ContentError, match=f"not {expect.upper()}: it says that it is '{kind}'"):
            get(http, server, expect=expect)


class TestRedirects:
    def test_the_same_host_is_followed_with_the_headers(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"", 301, {"Location": "/b"})).on("/b", OK)
        assert get(http, server, headers={"Authorization": "Bearer abcdef123"}) == b'{"ok": true}'
        assert server.asked[1].headers["authorization"] == "Bearer abcdef123"

    def test_an_allowed_other_host_gets_no_credentials(self, http: HttpSession, server: Server) -> None:
        port = server.url.rpartition(":")[2]
        server.on("/a", Answer(b"", 302, {"Location": f"http://localhost:{port}/b"})).on("/b", OK)
        headers = {"Authorization": "Bearer abcdef123", "X-API-KEY": "abcdef123", "Accept": "application/json"}
        shop = origin(server, hosts=frozenset({f"localhost:{port}"}))
        assert http.get(shop, server.url + "/a", headers=headers).body == b'{"ok": true}'
        assert server.asked[1].headers["host"] == f"localhost:{port}"
        assert server.asked[1].headers["accept"] == "application/json"
        assert not {"authorization", "x-api-key"} & set(server.asked[1].headers)

    @pytest.mark.parametrize(
        "location",
        [
            "http://127.0.0.1:1/x",
            "http://10.0.0.1/x",
            "https://example.com/x",
            "//example.com/x",
            "ftp://127.0.0.1/x",
            "file:///etc/passwd",
            "http://user:pass@127.0.0.1/x",
            "http://[::1]/x",
            "",
        ],
    )
    def test_other_places_are_not(self, http: HttpSession, server: Server, location: str) -> None:
        server.on("/a", Answer(b"", 302, {"Location": location} if location else {}))
        with pytest.raises(UnsafeError, match="was not followed"):
            get(http, server)
        assert len(server.asked) == 1

    def test_a_loop_is_left(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"", 302, {"Location": "/b"})).on("/b", Answer(b"", 302, {"Location": "/a"}))
        with pytest.raises(UnsafeError, match="in a circle"):
            get(http, server)

    def test_a_long_chain_is_left(self, http: HttpSession, server: Server) -> None:
        for step in range(10):
            server.on(f"/{step}", Answer(b"", 307, {"Location": f"/{step + 1}"}))
        with pytest.raises(UnsafeError, match="more than 4 redirects"):
            get(http, server, "/0")
        assert len(server.asked) == 5

    @pytest.mark.parametrize(("status", "method", "body"), [(307, "POST", b'{"q": 1}'), (303, "GET", b"")])
    def test_a_post_stays_a_post_unless_told_to_look_elsewhere(
        self, http: HttpSession, server: Server, status: int, method: str, body: bytes
    ) -> None:
        server.on("/a", Answer(b"", status, {"Location": "/b"})).on("/b", OK)
        http.post(origin(server), server.url + "/a", json={"q": 1})
        assert (server.asked[1].method, server.asked[1].body) == (method, body)


class TestConditional:
    def test_validators_are_sent_and_the_old_body_is_kept(self, http: HttpSession, server: Server) -> None:
        since = "Tue, 18 Aug 2026 10:00:00 GMT"
        server.on("/a", Answer(b'{"n": 1}', headers={"ETag": '"x"', "Last-Modified": since}), Answer(b"", 304))
        first = http.get(origin(server), server.url + "/a")
        second = http.get(origin(server), server.url + "/a", previous=first)
        assert server.asked[1].headers["if-none-match"] == '"x"'
        assert server.asked[1].headers["if-modified-since"] == since
        assert (second.body, second.not_modified) == (b'{"n": 1}', True)
        assert second.fetched_at > first.fetched_at

    def test_an_unasked_304_is_an_error(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"", 304))
        with pytest.raises(RefusedError, match="HTTP 304"):
            get(http, server)

    def test_a_changed_answer_replaces_the_old(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b'{"n": 1}', headers={"ETag": '"x"'}), Answer(b'{"n": 2}'))
        first = http.get(origin(server), server.url + "/a")
        second = http.get(origin(server), server.url + "/a", previous=first)
        assert (second.body, second.not_modified, second.etag) == (b'{"n": 2}', False, "")


class TestSecrets:
    def test_query_secrets_stay_out_of_messages(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"", 404))
        with pytest.raises(RefusedError) as caught:
            get(http, server, params={"api_key": "s3cr3t-value", "page": "2"})
        assert "s3cr3t" not in str(caught.value)
        assert "page=2" in str(caught.value)
        assert server.asked[0].path == "/a?api_key=s3cr3t-value&page=2"

    def test_no_library_error_with_the_url_hangs_behind_ours(self, http: HttpSession) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UnreachableError) as caught:
            http.get(Origin("shop", url), f"{url}/?token=s3cr3t-value")
        assert caught.value.__suppress_context__
        assert "s3cr3t" not in str(caught.value)

    def test_the_libraries_log_no_query_secret(
        self, http: HttpSession, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        server.on("/a", OK)
        get(http, server, params={"api_key": "s3cr3t-value"})
        assert "/a?api_key=[hidden]" in caplog.text

    def test_passwords_of_netrc_are_not_sent(
        self, http: HttpSession, server: Server, tmp_path: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        netrc = tmp_path / "netrc"  # type: ignore[operator]
        netrc.write_text("machine 127.0.0.1 login someone password s3cr3t-value\n")
        monkeypatch.setenv("NETRC", str(netrc))
        server.on("/a", OK)
        get(http, server)
        assert "authorization" not in server.asked[0].headers

    def test_rejected_keys_are_told(self, http: HttpSession, server: Server) -> None:
        server.on("/a", Answer(b"", 403))
        with pytest.raises(CredentialsError, match="does not accept the credentials"):
            get(http, server, headers={"X-API-KEY": "abcdefgh"})


def test_the_user_agent_names_the_program_and_its_version() -> None:
    assert user_agent().startswith("shardwise/")


def test_certificates_are_checked(http: HttpSession) -> None:
    assert http.requests_session().verify is True


def test_a_plain_server_under_https_is_told_as_such(http: HttpSession, server: Server) -> None:
    url = server.url.replace("http:", "https:")
    with pytest.raises(UnreachableError, match="certificate is not accepted"):
        http.get(Origin("shop", url), url, limits=replace(QUICK, tries=1))


def test_proxies_come_from_the_environment(http: HttpSession, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.on("http://prices.localhost/a", OK)
    shop = Origin("shop", "http://localhost:1")
    monkeypatch.setenv("no_proxy", "")
    server.on("http://localhost:1/a", OK)
    assert http.get(shop, "http://localhost:1/a").body == b'{"ok": true}'
    assert server.asked[0].path == "http://localhost:1/a"


def test_a_session_serves_several_threads(http: HttpSession, server: Server) -> None:
    server.on("/a", OK)
    seen: list[requests.Session] = []

    def ask() -> None:
        get(http, server)
        seen.append(http.requests_session())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(session) for session in seen}) == 4
