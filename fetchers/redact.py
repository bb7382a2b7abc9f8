"""Takes credentials out of everything that is shown, logged or kept."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
# Shorter values stand in too many innocent places to be replaced there.
SHORTEST_SECRET = 6

_SECRET_NAME = r"[\w.\-]*(?:key|token|secret|signature|password|passwd|credential|auth)[\w.\-]*"
_QUERY = re.compile(rf"([?&;]{_SECRET_NAME}=)[^&;#\s\"']+", re.IGNORECASE)
_USER = re.compile(r"(\b[a-z][a-z0-9+.\-]*://)[^/@\s]+@", re.IGNORECASE)
_HEADER = re.compile(
    r"\b(authorization|x-api-key|x-apitoken|api-key|x-amz-security-token)(['\"]?\s*[:=]\s*)(?:[^\r\n,}]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=\-]{6,}", re.IGNORECASE)


class Redactor:
    """Knows the secrets in use and replaces them, in whatever spelling they travel, by "[hidden]"."""

    def __init__(self, secrets: Iterable[str] = ()):
        self._spellings: frozenset[str] = frozenset()
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide this value from now on, also URL-quoted and in base64."""
        if len(secret) < SHORTEST_SECRET:
            return
        encoded = base64.b64encode(secret.encode()).decode()
        # A new set each time: other threads may be reading the old one.
        self._spellings = self._spellings | {secret, quote(secret, safe=""), quote_plus(secret), encoded}

    def text(self, text: str) -> str:
        """Return the text without known secrets and without what stands where secrets usually do."""
        for spelling in self._longest_first():
            text = text.replace(spelling, HIDDEN)
        text = _QUERY.sub(rf"\g<1>{HIDDEN}", text)
        text = _USER.sub(rf"\g<1>{HIDDEN}@", text)
        text = _HEADER.sub(rf"\g<1>\g<2>{HIDDEN}", text)
        return _BEARER.sub(rf"\g<1> {HIDDEN}", text)

    def bytes(self, body: bytes) -> bytes:
        """Return bytes to keep, without known secrets: some servers repeat what they were sent."""
        for spelling in self._longest_first():
            body = body.replace(spelling.encode(), HIDDEN.encode())
        return body

    def _longest_first(self) -> list[str]:
        return sorted(self._spellings, key=len, reverse=True)


class RedactingFilter(logging.Filter):
    """Rewrites log records of the HTTP libraries, which print the whole path and query."""

    def __init__(self, redactor: Redactor):
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record, with secrets hidden."""
        record.msg = self._redactor.text(record.getMessage())
        record.args = ()
        record.exc_info = record.exc_text = None
        return True


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without these secrets and without what stands where secrets usually do."""
    return Redactor(secrets).text(text)
