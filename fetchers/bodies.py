"""Reading an answer's body: decompressed here, so that neither a slow nor a swollen one gets past its limits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

ACCEPT_ENCODING = "gzip, deflate"
CHUNK_BYTES = 65_536

Expect = Literal["json", "csv", "zip", "xml"]

_TYPES: dict[Expect, tuple[str, ...]] = {
    "json": ("json", "text/plain", "octet-stream"),
    "csv": ("csv", "text/plain", "octet-stream", "ms-excel"),
    "zip": ("zip", "octet-stream"),
    "xml": ("xml", "text/plain"),
}


class RawBody(Protocol):
    """The part of urllib3's response that is read here."""

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        """Return what has arrived, at most `amt` bytes, b"" at the end."""


class CutOffError(Exception):
    """The body ended before its end."""


class BodyTooLargeError(Exception):
    """The body holds more bytes than allowed."""


class UnknownEncodingError(Exception):
    """The body is compressed in a way that was not asked for."""


def read_chunks(raw: RawBody, check_time: Callable[[], object]) -> Iterator[bytes]:
    """Yield a body as it arrives, still compressed; urllib3 raises when fewer bytes come than announced."""
    while chunk := raw.read1(CHUNK_BYTES, decode_content=False):
        check_time()
        yield chunk


def decode(chunks: Iterator[bytes], encoding: str, max_bytes: int) -> Iterator[bytes]:
    """Yield the decompressed body in pieces of bounded size.

    Raises:
        BodyTooLargeError: more than max_bytes came out.
        CutOffError: the compressed data is broken or ends too early.
        UnknownEncodingError: neither gzip nor deflate.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        pieces = chunks
    elif encoding in ("gzip", "x-gzip", "deflate"):
        pieces = _inflate(chunks)
    else:
        raise UnknownEncodingError(encoding)
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > max_bytes:
            raise BodyTooLargeError
        yield piece


def _inflate(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield decompressed gzip or zlib data; several gzip members may follow each other."""
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    fresh = True
    try:
        for chunk in chunks:
            data = chunk
            while data:
                if inflater.eof:
                    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
                fresh = False
                piece = inflater.decompress(data, CHUNK_BYTES)
                data = inflater.unconsumed_tail or inflater.unused_data
                if piece:
                    yield piece
    except zlib.error as error:
        raise CutOffError from error
    if not fresh and not inflater.eof:
        raise CutOffError


def wrong_type(expect: Expect, content_type: str) -> bool:
    """Return whether an answer says of itself that it is something else. One that says nothing is looked into."""
    kind = content_type.split(";", 1)[0].strip().lower()
    return bool(kind) and not any(accepted in kind for accepted in _TYPES[expect])


def looks_like_html(body: bytes) -> bool:
    """Return whether a body is a web page (a login, block or error page, a captive portal)."""
    start = body[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def load_json(body: bytes) -> Any:
    """Return parsed JSON. Raises ValueError for what is not whole JSON, also when it is nested without end."""
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
