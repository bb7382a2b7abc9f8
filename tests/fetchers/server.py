"""A web server on this machine that answers as told: well, slowly, cut off, busy, swollen, or by sending elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """One answer of the server.

    Attributes:
        body: what is sent, or pieces of it.
        status: HTTP status.
        headers: further headers.
        content_type: of the body; "" sends none.
        cut_after: bytes after which the connection is dropped although more was announced.
        before: called before the answer is sent (to wait).
        between: called between the pieces of the body.
        chunked: send without a length, in HTTP chunks.
    """

    body: bytes | Callable[[], Iterator[bytes]] = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    cut_after: int | None = None
    before: Callable[[], object] = lambda: None
    between: Callable[[], object] = lambda: None
    chunked: bool = False


@dataclass
class Asked:
    """One request as the server got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Server:
    """Answers each path by a queue of answers, the last of which stays; a path is matched without its query first."""

    def __init__(self, port: int):
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self._answers: dict[str, list[Answer]] = {}
        self._lock = threading.Lock()

    def on(self, path: str, *answers: Answer) -> Server:
        self._answers[path] = list(answers)
        return self

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            for path in (asked.path, asked.path.partition("?")[0], "*"):
                queue = self._answers.get(path)
                if queue:
                    return queue.pop(0) if len(queue) > 1 else queue[0]
        return Answer(b'{"error": "not found"}', 404)


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:
                self.close_connection = True

        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.answer(Asked(self.command, self.path, headers, self.rfile.read(length)))
            self._send(answer)

        def _send(self, answer: Answer) -> None:
            answer.before()
            self.send_response(answer.status)
            if answer.content_type:
                self.send_header("Content-Type", answer.content_type)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            pieces = answer.body() if callable(answer.body) else iter([answer.body])
            if callable(answer.body) or answer.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self._send_chunks(answer, pieces)
                return
            body = b"".join(pieces)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if answer.status != 304 and self.command != "HEAD":
                self.wfile.write(body if answer.cut_after is None else body[: answer.cut_after])
            if answer.cut_after is not None:
                self.close_connection = True

        def _send_chunks(self, answer: Answer, pieces: Iterator[bytes]) -> None:
            sent = 0
            for piece in pieces:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                answer.between()
                sent += len(piece)
                if answer.cut_after is not None and sent >= answer.cut_after:
                    self.close_connection = True
                    return
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_HEAD = _reply  # noqa: N815 - names that the library calls

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server = Server(httpd.server_address[1])
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
