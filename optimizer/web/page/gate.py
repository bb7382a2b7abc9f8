"""Who may open the page: where the service has a token, it is asked for once and kept as a signed cookie.

Requests of other sites' pages, and under other names, the service's own guard refuses before they come here.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "shardwise_page"
KEPT_S = 12 * 3600
LOGIN = "/login"
MOST_FORM_BYTES = 4096
WRONG_WAIT_S = 0.5  # a wrong token is answered no sooner
# The toolkit compiles its templates in the browser and sets styles from them; all of it comes from this service, and
# nothing else may be loaded, called or framed.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)


class Token(Protocol):
    """Settings of the service, as far as they say who may use it."""

    @property
    def token(self) -> str | None:
        """What is asked for; None where anyone may."""

    def token_holds(self, given: str | None) -> bool:
        """Say whether a token is the service's."""


class Gate:
    """Lets requests of the page through: all of them, or, where a token is set, of those who showed it."""

    def __init__(self, app: App, settings: Token):
        self._app, self._settings = app, settings
        self._key = hashlib.sha256(b"shardwise page\0" + (settings.token or "").encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self._settings.token is None or self._is_known(headers):
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "http":
            await self._ask(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "a token is needed"})

    def _is_known(self, headers: dict[str, str]) -> bool:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._settings.token_holds(bearer.strip()):
            return True
        cookies = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        return any(name == COOKIE and self._holds(value) for name, _, value in cookies)

    def _signed(self, until: int) -> str:
        return f"{until}.{hmac.new(self._key, str(until).encode(), hashlib.sha256).hexdigest()}"

    def _holds(self, cookie: str) -> bool:
        until = cookie.partition(".")[0]
        if not until.isascii() or not until.isdigit() or len(until) > 12 or int(until) < time.time():
            return False
        return hmac.compare_digest(cookie.encode("latin-1", "replace"), self._signed(int(until)).encode())

    async def _ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask for the token, or take it and go on where the reader wanted to."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in query if name == "token"), None)
        rest = [(name, value) for name, value in query if name not in ("token", "next")]
        onward = "/" + (f"?{urlencode(rest)}" if rest else "")
        if scope["method"] == "POST" and scope["path"] == LOGIN:
            form = dict(parse_qsl((await _body(receive)).decode("latin-1"), keep_blank_values=True))
            given, wanted = form.get("token", ""), form.get("next", "/")
            onward = wanted if wanted == "/" or wanted.startswith("/?") else "/"
        if given is not None and self._settings.token_holds(given.strip()):
            await _answer(send, 303, b"", [(b"location", onward.encode("latin-1", "replace")), self._cookie(scope)])
            return
        if given is not None:
            await asyncio.sleep(WRONG_WAIT_S)
        if scope["path"] not in ("/", LOGIN):
            await _answer(send, 401, b"a token is needed", [(b"content-type", b"text/plain; charset=utf-8")])
            return
        said = "" if given is None else '<p role="alert">This is not the token of this service.</p>'
        page = LOGIN_PAGE.format(said=said, onward=escape(onward, quote=True))
        await _answer(send, 401, page.encode(), [(b"content-type", b"text/html; charset=utf-8")])

    def _cookie(self, scope: Scope) -> tuple[bytes, bytes]:
        secure = "; Secure" if scope.get("scheme") in ("https", "wss") else ""
        value = self._signed(int(time.time()) + KEPT_S)
        said = f"{COOKIE}={value}; Path=/; Max-Age={KEPT_S}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", said.encode()


async def _body(receive: Receive) -> bytes:
    body = b""
    while len(body) <= MOST_FORM_BYTES:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body") or message["type"] != "http.request":
            break
    return body[:MOST_FORM_BYTES]


def _with_headers(send: Send) -> Send:
    """Return a sender that adds the page's own headers to what is answered."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in _HEADERS}
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in own]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status, "headers": [*headers, length, *_HEADERS, _NOT_KEPT]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


_NOT_KEPT = (b"cache-control", b"no-store")
# With no referrer at all a browser would send the login form as one of no origin, which the guard refuses.
_HEADERS = ((b"content-security-policy", POLICY.encode()), (b"referrer-policy", b"same-origin"))
LOGIN_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>shardwise: token</title><style>
:root{{color-scheme:light dark}}
body{{font:16px/1.5 system-ui,sans-serif;display:grid;place-content:center;min-height:90vh;margin:0;padding:16px}}
form{{display:grid;gap:10px;width:min(340px,90vw)}}
input,button{{font:inherit;padding:9px 12px;border-radius:7px;border:1px solid GrayText}}
button{{font-weight:600;cursor:pointer;background:#0067a3;color:#fff;border-color:#0067a3}}
[role=alert]{{color:#b3261e;background:#fff;padding:2px 6px;margin:0}}
</style></head><body><main><h1>shardwise</h1>
<form method="post" action="/login"><input type="hidden" name="next" value="{onward}">
<label for="token">Token of this service</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>{said}
<button>Open the page</button></form></main></body></html>
"""
