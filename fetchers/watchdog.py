"""Ends the wait for an answer's head at the total time limit.

The read time limit starts anew with every byte, so that a server which sends its head byte by byte could hold a
request for days. The body has no such hole: it is read in pieces, and the time is looked at between them.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import requests.adapters
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.response import HTTPResponse

_local = threading.local()


@contextlib.contextmanager
def head_within(seconds: float) -> Iterator[None]:
    """Let requests of this thread wait at most this long for the head of their answer."""
    _local.seconds = seconds
    try:
        yield
    finally:
        _local.seconds = None


@contextlib.contextmanager
def _shut_after(sock: socket.socket | None, seconds: float | None) -> Iterator[None]:
    if sock is None or seconds is None:
        yield
        return

    def shut() -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _HttpConnection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        with _shut_after(self.sock, getattr(_local, "seconds", None)):
            return super().getresponse()


class _HttpsConnection(HTTPSConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        with _shut_after(self.sock, getattr(_local, "seconds", None)):
            return super().getresponse()


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


_POOLS = {"http": _HttpPool, "https": _HttpsPool}


class WatchedAdapter(requests.adapters.HTTPAdapter):
    """Connections, direct or through a proxy, whose wait for an answer's head can be ended."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Make the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager
