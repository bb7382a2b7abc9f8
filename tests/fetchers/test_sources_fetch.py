"""Every source asked over a real socket: when all goes well, and when the server does what servers do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fetchers.errors import (
    ContentError,
    CredentialsError,
    FetchError,
    RefusedError,
    TooLargeError,
    UnreachableError,
    UnsafeError,
)
from fetchers.http import HttpSession
from fetchers.pulls import RawPull
from fetchers.source import source_classes
from tests.fetchers.recorded import DAY, QUICK, RECORDED, SECRETS, VERDA_TOKEN, recorded_pull, serve_recorded, session
from tests.fetchers.server import Answer, Server, serve

NAMES = sorted(RECORDED)
WITHOUT_BODY = {"gpuhunt", "skypilot"}  # their recorded pull stands for one of several files


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


@pytest.fixture
def http() -> Iterator[HttpSession]:
    with session() as opened:
        yield opened


def test_every_source_has_a_recording() -> None:
    assert set(RECORDED) == set(source_classes())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_fetched_is_what_was_recorded(name: str, server: Server, http: HttpSession) -> None:
    source = serve_recorded(server, name)
    rows = source.parse(source.fetch(http), DAY)
    expected = source_classes()[name]().parse(recorded_pull(name), DAY)
    if name == "skypilot":
        rows = [row for row in rows if row.provider == "lambda"]
    assert rows == expected
    assert rows


@pytest.mark.parametrize("name", NAMES)
def test_requests_are_named_and_carry_nothing_of_the_user(name: str, server: Server, http: HttpSession) -> None:
    serve_recorded(server, name).fetch(http)
    assert server.asked
    for asked in server.asked:
        assert asked.headers["user-agent"].startswith("shardwise")
        assert asked.headers["accept-encoding"] == "gzip, deflate"
        assert not any(secret in asked.path for secret in SECRETS.values() if secret != SECRETS["AWS_ACCESS_KEY_ID"])


@pytest.mark.parametrize("name", NAMES)
def test_a_server_error_is_followed_by_another_try(name: str, server: Server, http: HttpSession) -> None:
    source = serve_recorded(server, name)
    for answers in server._answers.values():
        answers.insert(0, Answer(b"oops", 500, content_type="text/plain"))
    assert source.parse(source.fetch(http), DAY)


FAULTS = {
    "500 for good": (Answer(b"oops", 500), RefusedError, "HTTP 500"),
    "404": (Answer(b"gone", 404), RefusedError, "HTTP 404"),
    "HTML in place of data": (
        Answer(b"<!DOCTYPE html><html><body>Log in</body></html>", content_type="text/html"),
        ContentError,
        "text/html",
    ),
    "HTML under a good type": (Answer(b"\n <html><body>Log in</body></html>", content_type=""), ContentError, ""),
    "cut off": (Answer(b"{" + b" " * 5000, cut_after=2000, content_type=""), UnreachableError, "cut off"),
    "another host": (Answer(b"", 302, {"Location": "http://localhost.example/x"}), UnsafeError, "not a host"),
    "a private address": (Answer(b"", 307, {"Location": "http://169.254.169.254/latest"}), UnsafeError, "not a host"),
    "a swollen body": (Answer(b" " * 400_000, content_type=""), TooLargeError, "larger than"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_fault_ends_in_one_clear_error(name: str, fault: str, server: Server) -> None:
    answer, kind, told = FAULTS[fault]
    server.on("*", answer)
    source = source_classes()[name](server.url)
    limits = replace(QUICK, tries=2, max_bytes=100_000)
    with session(limits) as http, pytest.raises(FetchError) as caught:
        source.fetch(http)
    if name == "aws" and fault == "a swollen body":  # its file is meant to be large; its lines are not
        assert isinstance(caught.value, ContentError)
        return
    if name == "gpuhunt" and fault == "HTML under a good type":  # found when the version is read
        assert isinstance(caught.value, ContentError)
        return
    message = str(caught.value)
    assert isinstance(caught.value, kind), message
    assert message.startswith(f"{name}: ")
    assert told in message
    assert server.url in message


@pytest.mark.parametrize("name", [name for name in NAMES if source_classes()[name].needs])
def test_without_credentials_a_source_says_what_it_needs_and_sends_nothing(name: str, server: Server) -> None:
    source = serve_recorded(server, name)
    with HttpSession(session().credentials.__class__({}), QUICK) as http:
        assert source.state(http.credentials) == f"needs {', '.join(source.needs)}"
        with pytest.raises(CredentialsError, match=f"needs {source.needs[0]}"):
            source.fetch(http)
    assert not server.asked


@pytest.mark.parametrize("name", [name for name in NAMES if source_classes()[name].needs])
@pytest.mark.parametrize("status", [401, 403])
def test_wrong_credentials_are_told_apart_from_a_broken_server(name: str, status: int, server: Server) -> None:
    server.on("*", Answer(b'{"error": "bad key"}', status))
    with session() as http, pytest.raises(CredentialsError, match=str(status)):
        source_classes()[name](server.url).fetch(http)


@pytest.mark.parametrize("name", [name for name in NAMES if source_classes()[name].needs])
def test_credentials_stay_out_of_messages_logs_and_kept_answers(
    name: str, server: Server, http: HttpSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    source = serve_recorded(server, name)
    secrets = [SECRETS[need] for need in source.needs if need in SECRETS] + [VERDA_TOKEN]
    said = source.fetch(http).to_bytes() + repr(source.fetch(http)).encode() + repr(http.credentials).encode()
    # A server that repeats what it was sent.
    server.on("*", Answer(b'{"data": {}, "you": "' + "|".join(secrets).encode() + b'"}', 400))
    for path in list(server._answers):
        server.on(path, *server._answers["*"])
    with pytest.raises(FetchError) as caught:
        source.fetch(http)
    said += (str(caught.value) + repr(caught.value) + caplog.text).encode()
    for secret in secrets:
        assert secret.encode() not in said, secret


def test_a_server_that_repeats_the_key_does_not_get_it_into_the_kept_answer(server: Server, http: HttpSession) -> None:
    key = SECRETS["LAMBDA_API_KEY"].encode()
    server.on("/api/v1/instance-types", Answer(b'{"data": {"x": {"asked_with": "' + key + b'"}}}'))
    body = source_classes()["lambda"](server.url).fetch(http).parts[0].body
    assert key not in body
    assert b"[hidden]" in body


CONDITIONAL = ["aws", "azure", "digitalocean", "gcp", "lambda", "lium", "oci", "skypilot", "vultr"]


@pytest.mark.parametrize("name", CONDITIONAL)
def test_nothing_is_sent_again_when_nothing_changed(name: str, server: Server, http: HttpSession) -> None:
    source = serve_recorded(server, name)
    for answers in server._answers.values():
        answers[0].headers["ETag"] = '"v1"'
    first = source.fetch(http)
    server.asked.clear()
    for path in list(server._answers):
        server.on(path, Answer(b"", 304, {"ETag": '"v1"'}, content_type=""))
    second = source.fetch(http, RawPull.from_bytes(first.to_bytes()))
    assert {asked.headers.get("if-none-match") for asked in server.asked} == {'"v1"'}
    assert second.not_modified
    assert not first.not_modified
    assert second.sha256 == first.sha256
    assert source.parse(second, DAY) == source.parse(first, DAY)
    assert second.fetched_at >= first.fetched_at


def test_a_region_that_the_account_has_not_enabled_is_left_out(server: Server) -> None:
    source = serve_recorded(server, "aws-spot")
    good = server._answers["/"][0]
    server.on("/", Answer(b"<Response><Errors/></Response>", 401, content_type="text/xml"), good)
    http = session()
    http.credentials = http.credentials.__class__({**SECRETS, "AWS_REGIONS": "me-south-1, us-east-1"})
    with http:
        pull = source.fetch(http)
    assert [part.label for part in pull.parts] == ["us-east-1 1"]


def test_a_next_page_on_another_host_is_not_asked(server: Server, http: HttpSession) -> None:
    server.on("/api/retail/prices", Answer(b'{"Items": [], "NextPageLink": "https://evil.example/next"}'))
    with pytest.raises(UnsafeError, match="not a host of this source"):
        source_classes()["azure"](server.url).fetch(http)


def test_pages_without_end_are_given_up(server: Server, http: HttpSession) -> None:
    link = f"{server.url}/api/retail/prices?again".encode()
    server.on("/api/retail/prices", Answer(b'{"Items": [], "NextPageLink": "' + link + b'"}'))
    with pytest.raises(ContentError, match="more than 300 pages"):
        source_classes()["azure"](server.url).fetch(http)


def test_a_zip_without_its_file_is_refused(server: Server, http: HttpSession) -> None:
    source = serve_recorded(server, "gpuhunt")
    server.on("/aws/20260822-1/catalog.zip", Answer(b"PK no zip at all", content_type="application/zip"))
    with pytest.raises(ContentError, match=r"not a zip with aws\.csv"):
        source.fetch(http)
