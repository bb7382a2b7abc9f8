"""The one way to the network: time limits, retries, size limits, polite rate, safe redirects, no secrets in messages.

    session = HttpSession(Credentials.from_environment())
    part = session.get(Origin("vast", "https://console.vast.ai"), "https://console.vast.ai/api/v0/bundles/")

Errors are those of `fetchers.errors`. TLS is always verified; proxies come from the environment, as `requests` has it.
"""

from __future__ import annotations

import json as json_module
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any
from urllib.parse import urlencode

import requests

from fetchers import bodies
from fetchers.bodies import Expect
from fetchers.credentials import Credentials
from fetchers.errors import FetchError
from fetchers.exchange import Consume, Exchange
from fetchers.pulls import RawPart
from fetchers.redact import RedactingFilter
from fetchers.request import Limits, Request
from fetchers.targets import Origin
from fetchers.watchdog import WatchedAdapter

__all__ = ["HttpSession", "Limits", "user_agent"]

# Loggers that print addresses with their query.
_TALKATIVE = ("urllib3.connection", "urllib3.connectionpool", "urllib3.poolmanager", "urllib3.response")


class HttpSession:
    """Sends requests for all sources of one refresh; safe to share between threads.

    Args:
        credentials: what sources may ask for; the environment's when left out.
        limits: the time and size limits.
        sleep, clock, draw: the passing of time and chance, for tests.
    """

    def __init__(
        self,
        credentials: Credentials | None = None,
        limits: Limits | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ):
        self.credentials = Credentials.from_environment() if credentials is None else credentials
        self.limits = limits or Limits()
        self._sleep = sleep
        self._clock = clock
        self._draw = draw
        self._local = threading.local()
        self._opened: list[requests.Session] = []
        self._lock = threading.Lock()
        self._next_start: dict[str, float] = {}
        self._filter = RedactingFilter(self.credentials.redactor)
        for name in _TALKATIVE:
            logging.getLogger(name).addFilter(self._filter)

    def __enter__(self) -> HttpSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for name in _TALKATIVE:
            logging.getLogger(name).removeFilter(self._filter)
        with self._lock:
            for session in self._opened:
                session.close()
            self._opened.clear()

    def get(
        self,
        origin: Origin,
        url: str,
        *,
        label: str = "all",
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        expect: Expect = "json",
        previous: RawPart | None = None,
        from_answer: bool = False,
        limits: Limits | None = None,
        consume: Consume | None = None,
    ) -> RawPart:
        """Return the answer to a GET.

        Args:
            origin: who is asked.
            url: what is asked, absolute.
            label: the part's label.
            params: put behind the URL.
            headers: further request headers, credentials among them.
            expect: what the answer must be; JSON is checked to be whole.
            previous: the part of the look before: nothing is sent again when the server says that it still holds.
            from_answer: the URL stood in an answer (a next page), so it is checked as a redirect is.
            limits: other limits than the session's.
            consume: makes the bytes to keep from the decompressed stream, for answers too large to hold. Called anew
                at every try.

        Raises:
            FetchError: see `fetchers.errors`.
        """
        request = Request(
            origin=origin,
            label=label,
            method="GET",
            url=url + (("&" if "?" in url else "?") + urlencode(params) if params else ""),
            headers=headers or {},
            expect=expect,
            previous=previous,
            from_answer=from_answer,
        )
        return self._exchange(request, limits or self.limits, consume or b"".join)

    def post(
        self,
        origin: Origin,
        url: str,
        *,
        json: Any = None,
        data: bytes | None = None,
        label: str = "all",
        headers: Mapping[str, str] | None = None,
        expect: Expect = "json",
        limits: Limits | None = None,
    ) -> RawPart:
        """Return the answer to a POST that only reads (a query in its body); it is retried as a GET is."""
        kind = {"Content-Type": "application/json"} if data is None else {}
        request = Request(
            origin=origin,
            label=label,
            method="POST",
            url=url,
            headers={**kind, **(headers or {})},
            body=json_module.dumps(json).encode() if data is None else data,
            expect=expect,
        )
        return self._exchange(request, limits or self.limits, b"".join)

    def _exchange(self, request: Request, limits: Limits, consume: Consume) -> RawPart:
        deadline = self._clock() + limits.total_s
        for number in range(1, limits.tries + 1):
            try:
                return Exchange(self, request, limits, deadline).run(consume)
            except FetchError as error:
                pause = self._pause(error, number, limits)
                if not error.again or pause is None or number == limits.tries or self._clock() + pause > deadline:
                    raise
            self._sleep(pause)
        raise AssertionError("unreachable: the last try returns or raises")

    def _pause(self, error: FetchError, number: int, limits: Limits) -> float | None:
        """Return the pause before the next try; None when the server asks for more than is waited."""
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= limits.longest_retry_after_s else None
        longest: float = min(limits.longest_pause_s, limits.first_pause_s * 2 ** (number - 1))
        return longest * (0.5 + 0.5 * self._draw())

    def wait_for_turn(self, host: str, interval_s: float) -> None:
        """Wait until the host may be asked again."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next_start.get(host, now))
            self._next_start[host] = start + interval_s
        if start > now:
            self._sleep(start - now)

    def clock(self) -> float:
        """Return the time by which limits are kept, seconds."""
        return self._clock()

    def requests_session(self) -> requests.Session:
        """Return this thread's connections."""
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
            session.mount("http://", WatchedAdapter())
            session.mount("https://", WatchedAdapter())
            session.headers.update({"User-Agent": user_agent(), "Accept-Encoding": bodies.ACCEPT_ENCODING})
            with self._lock:
                self._opened.append(session)
        return session


@lru_cache(maxsize=1)
def user_agent() -> str:
    """Return what requests say of themselves: the program and its version, nothing of the user."""
    try:
        return f"shardwise/{metadata.version('shardwise')}"
    except metadata.PackageNotFoundError:
        return "shardwise"
