"""One sending of one request: safe redirects, status, body within its limits, errors without secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Protocol
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from fetchers import bodies
from fetchers.credentials import Credentials
from fetchers.errors import (
    ContentError,
    CredentialsError,
    FetchError,
    RefusedError,
    TooLargeError,
    UnreachableError,
    UnsafeError,
)
from fetchers.pulls import RawPart, new_part
from fetchers.request import Limits, Request
from fetchers.watchdog import head_within

REDIRECTS = (301, 302, 303, 307, 308)
RETRIED = frozenset({429, *range(500, 600)}) - {501, 505}
_BUSY = 429

_MALFORMED = (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.InvalidHeader)
# What broke, most telling first. The library's own words are not used: they hold the URL with its query.
_WHAT_FAILED: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    ((requests.exceptions.Timeout, urllib3.exceptions.TimeoutError, TimeoutError), "no answer within {read_s:g} s"),
    (requests.exceptions.ProxyError, "the proxy of the environment cannot be used"),
    (requests.exceptions.ConnectionError, "no connection"),
)

Consume = Callable[[Iterator[bytes]], bytes]


class Connections(Protocol):
    """The part of a session that one exchange uses."""

    credentials: Credentials

    def wait_for_turn(self, host: str, interval_s: float) -> None:
        """Wait until the host may be asked again."""

    def clock(self) -> float:
        """Return the time by which limits are kept, seconds."""

    def requests_session(self) -> requests.Session:
        """Return this thread's connections."""


class Exchange:
    """One sending of one request, with its redirects."""

    def __init__(self, session: Connections, request: Request, limits: Limits, deadline: float):
        self._session = session
        self._request = request
        self._limits = limits
        self._deadline = deadline
        self._source = request.origin.source
        self._url = session.credentials.redactor.text(request.url)

    def run(self, consume: Consume) -> RawPart:
        """Return the answer. Raises FetchError; its `again` says whether another try may help."""
        try:
            with self._follow() as response:
                return self._read(response, consume)
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, HTTPException, OSError) as error:
            # The library's own text can hold the query and with it a key: it is not passed on.
            failure = self._network_failure(error)
        except bodies.CutOffError:
            failure = self._unreachable("the answer was cut off")
        except bodies.BodyTooLargeError:
            failure = self._error(
                TooLargeError,
                f"the answer is larger than {self._limits.max_bytes / 1e6:g} MB",
                "It is not what this source usually sends; look at it by hand.",
            )
        except bodies.UnknownEncodingError as error:
            failure = self._error(
                ContentError,
                f"the answer is compressed as {str(error)[:20]!r}",
                f"Only {bodies.ACCEPT_ENCODING} was asked for.",
            )
        raise failure from None

    def _follow(self) -> requests.Response:
        """Send the request and follow its redirects by hand. Returns an open response with a final status."""
        origin, request = self._request.origin, self._request
        reason = origin.why_not_there(request.url) if request.from_answer else origin.why_not(request.url)
        if reason:
            raise self._error(
                UnsafeError, f"the request was not sent: {reason}", "Report it if the provider has moved."
            )
        method, url, body, headers = request.method, request.url, request.body, dict(request.headers)
        seen = set()
        for _ in range(self._limits.redirects + 1):
            seen.add(url)
            response = self._send(method, url, headers, body)
            self._time_left()
            if response.status_code not in REDIRECTS:
                return self._final(response)
            location = response.headers.get("Location", "")
            response.close()
            target = urljoin(url, location)
            shown = self._session.credentials.redactor.text(target)[:200]
            reason = origin.why_not_there(target) if location else "it names no address"
            reason = reason or ("it leads in a circle" if target in seen and response.status_code != 303 else "")
            if reason:
                raise self._error(
                    UnsafeError,
                    f"a redirect to {shown} was not followed: {reason}",
                    "Report it if the provider has moved.",
                )
            if urlsplit(target).netloc != urlsplit(url).netloc:
                headers = {name: value for name, value in headers.items() if name.lower() in ("accept", "content-type")}
            if response.status_code == 303:
                method, body = "GET", None
            url = target
        raise self._error(
            UnsafeError, f"more than {self._limits.redirects} redirects", "Report it if the provider has moved."
        )

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> requests.Response:
        self._session.wait_for_turn(urlsplit(url).netloc, self._request.origin.interval_s)
        left = self._time_left()
        previous = self._request.previous
        asked = dict(headers)
        if previous is not None and previous.body:
            asked.update({"If-None-Match": previous.etag} if previous.etag else {})
            asked.update({"If-Modified-Since": previous.last_modified} if previous.last_modified else {})
        with head_within(left):
            return self._session.requests_session().request(
                method,
                url,
                headers=asked,
                data=body,
                auth=_no_netrc,
                timeout=(min(self._limits.connect_s, left), min(self._limits.read_s, left)),
                allow_redirects=False,
                stream=True,
            )

    def _final(self, response: requests.Response) -> requests.Response:
        """Return the response when it answers the question, else raise what is wrong with it."""
        status = response.status_code
        if 200 <= status < 300 or (status == 304 and self._request.previous is not None):
            return response
        response.close()
        if status in (401, 403) and self._request.headers:
            raise self._error(
                CredentialsError,
                f"the server does not accept the credentials (HTTP {status})",
                "Check that they are current and may read prices.",
            )
        retry_after_s = _retry_after_s(response.headers.get("Retry-After", ""))
        asks = "" if retry_after_s is None else f" and asks to wait {retry_after_s:.0f} s"
        what = "the server is asked too often" if status == _BUSY else "the server refuses the request"
        do = (
            "Try again later."
            if status in RETRIED
            else "If it persists, the provider has changed its interface; report it."
        )
        error = RefusedError(
            self._source,
            f"{what} (HTTP {status}){asks}",
            do,
            url=self._url,
            again=status in RETRIED,
            retry_after_s=retry_after_s,
        )
        error.status = status
        raise error

    def _read(self, response: requests.Response, consume: Consume) -> RawPart:
        now = datetime.now(UTC)
        previous = self._request.previous
        if response.status_code == 304 and previous is not None:
            return previous.again(now)
        headers = response.headers
        content_type = headers.get("Content-Type", "")
        if bodies.wrong_type(self._request.expect, content_type):
            raise self._wrong_content(f"it says that it is {content_type[:60]!r}")
        size, digest = 0, hashlib.sha256()

        def counted(pieces: Iterator[bytes]) -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                if size == 0 and self._request.expect != "zip" and bodies.looks_like_html(piece):
                    raise self._wrong_content("it is a web page (a login, block or error page?)")
                size += len(piece)
                digest.update(piece)
                yield piece

        encoding = headers.get("Content-Encoding", "")
        chunks = bodies.read_chunks(response.raw, self._time_left)
        body = consume(counted(bodies.decode(chunks, encoding, self._limits.max_bytes)))
        if self._request.expect == "json":
            self._check_json(body)
        return new_part(
            label=self._request.label,
            url=self._url,
            fetched_at=now,
            body=self._session.credentials.redactor.bytes(body),
            received_bytes=size,
            received_sha256=digest.hexdigest(),
            content_type=content_type,
            etag=headers.get("ETag", ""),
            last_modified=headers.get("Last-Modified", ""),
        )

    def _check_json(self, body: bytes) -> None:
        try:
            bodies.load_json(body)
        except ValueError:
            raise self._wrong_content("it is empty" if not body.strip() else "it is not whole JSON") from None

    def _time_left(self) -> float:
        left = self._deadline - self._session.clock()
        if left <= 0:
            raise self._out_of_time()
        return left

    def _out_of_time(self) -> FetchError:
        error = self._unreachable(f"no whole answer within {self._limits.total_s:g} s")
        error.again = False
        return error

    def _network_failure(self, error: Exception) -> FetchError:
        if self._session.clock() >= self._deadline:
            return self._out_of_time()
        if isinstance(error, requests.exceptions.SSLError):
            return self._error(
                UnreachableError,
                "the server's certificate is not accepted",
                "Certificates are always checked; behind an inspecting proxy set REQUESTS_CA_BUNDLE.",
            )
        if isinstance(error, _MALFORMED):
            return self._error(UnsafeError, "the URL or a header is malformed", "Report it.")
        told = next((what for kinds, what in _WHAT_FAILED if isinstance(error, kinds)), "the answer was cut off")
        return self._unreachable(told.format(read_s=self._limits.read_s))

    def _unreachable(self, what: str) -> UnreachableError:
        return UnreachableError(
            self._source,
            what,
            "Check the network and the provider's status page; try again later.",
            url=self._url,
            again=True,
        )

    def _wrong_content(self, what: str) -> ContentError:
        return ContentError(
            self._source,
            f"the answer is not {self._request.expect.upper()}: {what}",
            "If it persists, the provider has changed its interface or blocks this machine.",
            url=self._url,
        )

    def _error(self, kind: type[FetchError], what: str, do: str) -> FetchError:
        return kind(self._source, what, do, url=self._url)


def _no_netrc(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keep `requests` from putting passwords of ~/.netrc into requests."""
    return prepared


def _retry_after_s(text: str) -> float | None:
    """Return the seconds of a Retry-After header, given as seconds or as a date; None when it says nothing usable."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
