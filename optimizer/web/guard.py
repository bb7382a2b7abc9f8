"""What every request has to pass before any route sees it: its Host, its origin, its token, its size."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimizer.web.metrics import Metrics
from optimizer.web.problems import Problem, problem_of, response
from optimizer.web.settings import ServeSettings

# Routes of the service; all others are the page's, which sets its own policy and asks for the token itself.
OWN = ("/api/", "/openapi.json", "/docs", "/metrics", "/healthz")
OPEN = ("/healthz",)  # without a token
BODY_TIME_S = 30.0
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OWN_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}


def is_own(path: str) -> bool:
    """Say whether a path is one of the service's routes, and not the page's."""
    return any(path == one.rstrip("/") or path.startswith(one if one.endswith("/") else f"{one}/") for one in OWN)


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, metrics: Metrics):
        self.app, self.settings, self.metrics = app, settings, metrics
        self._hosts = settings.host_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a problem."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        problem, more = self._refused(scope, headers)
        if scope["type"] == "websocket":
            if problem is not None:
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                found = MutableHeaders(scope=message)
                for name, value in {**HEADERS, **(OWN_HEADERS if is_own(scope["path"]) else {})}.items():
                    found.setdefault(name, value)
            await send(message)

        try:
            if problem is None and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
                body, problem = await self._body(headers, receive)
                receive = _replayed(body, receive)
            if problem is not None:
                await response(problem, more)(scope, receive, sending)
            else:
                await self.app(scope, receive, sending)
        finally:
            self.metrics.requested(scope, status, time.perf_counter() - began)

    def _refused(self, scope: Scope, headers: Headers) -> tuple[Problem | None, dict[str, str]]:
        host = headers.get("host", "")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            said = f"this service is not called {host[:200]!r}; --allow-host NAME lets it be"
            return problem_of(421, said), {}
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return problem_of(403, "requests from pages of other origins are not answered"), {}
        if not is_own(scope["path"]) or scope["path"] in OPEN:
            return None, {}
        if not self.settings.token_holds(_bearer(headers)):
            said = "expected the service's token, as in Authorization: Bearer TOKEN"
            return problem_of(401, said), {"WWW-Authenticate": 'Bearer realm="shardwise"'}
        return None, {}

    async def _body(self, headers: Headers, receive: Receive) -> tuple[bytes, Problem | None]:
        """Return the whole body, or what is wrong with it."""
        most = self.settings.max_body_bytes
        too_large = problem_of(413, f"the body is larger than {most:,} bytes")
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and int(declared[:20]) > most:
            return b"", too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_TIME_S):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return b"", problem_of(400, "the request broke off")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        return b"", too_large
                    if not message.get("more_body", False):
                        return b"".join(parts), None
        except TimeoutError:
            return b"", problem_of(408, f"the body did not come within {BODY_TIME_S:g} s")


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port, lower case."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") and ":" in host else host
    return name.strip("[]").lower()


def _bearer(headers: Headers) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
