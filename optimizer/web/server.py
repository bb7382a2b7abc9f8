"""Serving the application: the port is taken first, and the end is orderly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from optimizer.errors import QuestionError
from optimizer.web.app import create_app
from optimizer.web.settings import ServeSettings

BACKLOG = 2048


class _Server(uvicorn.Server):
    """Ends with exit code 0 when it is told to end; a second signal ends it at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM for as long as it serves."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(settings: ServeSettings) -> socket.socket:
    """Take the address to listen on.

    Raises:
        QuestionError: it cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise QuestionError(f"--host {settings.host}: is no address of this machine ({error.strerror})") from None
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise QuestionError(
            f"--port {settings.port}: cannot be had on {settings.host} ({error.strerror}); name another one with "
            "--port, or 0 for any that is free"
        ) from None
    return found


def address_of(taken: socket.socket) -> str:
    """Return the address of a socket for a browser."""
    host, port = taken.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(settings: ServeSettings, say: Callable[[str], None]) -> None:
    """Serve until told to end by SIGINT or SIGTERM.

    Args:
        settings: how.
        say: told in a line where the service is, once its port is taken.

    Raises:
        QuestionError: the port cannot be had.
    """
    taken = listen(settings)
    with taken:
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(settings.stop_s)),
            lifespan="on",
        )
        say(address_of(taken))
        asyncio.run(_Server(config).serve(sockets=[taken]))
