"""A proxy in front of the service that delays, cuts, loses or repeats answers."""

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

FATES = (
    "passed",
    "late",
    "cut before",
    "cut after",
    "cut within",
    "sent twice",
    "answered twice",
    "bad gateway",
)
LATE_SECONDS = 0.2
BAD_GATEWAY = (
    b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<h1>502</h1>\r\n"
)


@dataclass
class HttpProxy:
    """A proxy to `target`. It draws the fate of each request from `fates`, and counts them in `done`."""

    target: tuple[str, int]
    listening: socket.socket
    draws: random.Random
    fates: tuple[str, ...] = FATES
    drawn: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    @property
    def url(self) -> str:
        """The address of the API through the proxy."""
        host, port = self.listening.getsockname()
        return f"http://{host}:{port}/api/v1"

    def serve(self) -> None:
        """Serve each connection on a thread, until the socket is closed."""
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def _serve_one(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while (request := read_message(connection)) and self._answer(connection, request):
                pass

    def _answer(self, connection: socket.socket, request: bytes) -> bool:
        """Answer a request by its fate. Return False if that ends the connection."""
        fate = self._draw()
        self.done[fate] += 1
        if fate == "cut before":
            return False
        if fate == "bad gateway":
            connection.sendall(BAD_GATEWAY)
            return True
        answer = self._ask(request)
        if fate == "sent twice":
            answer = self._ask(request)
        elif fate == "late":
            time.sleep(LATE_SECONDS)
        elif fate == "answered twice":
            answer += answer
        elif fate == "cut within":
            connection.sendall(answer[: len(answer) // 2])
            return False
        elif fate == "cut after":
            return False
        connection.sendall(answer)
        return True

    def _draw(self) -> str:
        """Return the next fate. Each is drawn once in random order, then all are drawn again."""
        if not self.drawn:
            self.drawn = self.draws.sample(self.fates, len(self.fates))
        return self.drawn.pop()

    def _ask(self, request: bytes) -> bytes:
        with socket.create_connection(self.target, timeout=60) as service:
            service.sendall(request)
            return read_message(service)


def read_message(connection: socket.socket) -> bytes:
    """Return a whole request or answer with `Content-Length`; empty at the end of the connection."""
    found = b""
    while b"\r\n\r\n" not in found:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    lengths = [
        line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    ]
    missing = (int(lengths[0]) if lengths else 0) - len(body)
    while missing > 0:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        found, missing = found + piece, missing - len(piece)
    return found


@contextmanager
def http_proxy(base_url: str, seed: int) -> Iterator[HttpProxy]:
    """Run a proxy to the service at `base_url`."""
    host, _, port = base_url.partition("://")[2].partition("/")[0].partition(":")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        draws = random.Random(seed)  # noqa: S311 - fates, no secrets
        proxy = HttpProxy((host, int(port)), listening, draws)
        thread = threading.Thread(target=proxy.serve)
        thread.start()
        try:
            yield proxy
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(60)
