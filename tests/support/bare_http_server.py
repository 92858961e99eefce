"""The HTTP server with an application that answers with the body's length, for tests of the server's own
limits.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sublet.http.serve import listen, serve_http

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass(slots=True)
class Server:
    """A server whose application answers 200 with the body's length, after `delay_seconds`."""

    port: int = 0
    delay_seconds: float = 0
    seen: list[Scope] = field(default_factory=list)
    stop: Callable[[], object] = lambda: None
    thread: threading.Thread | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body, and answer."""
        self.seen.append(scope)
        length, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            length += len(message["body"])
            more = message["more_body"]
        await asyncio.sleep(self.delay_seconds)
        await Response(str(length))(scope, receive, send)

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@contextmanager
def running(**options: Any) -> Iterator[Server]:
    """Run a server in a thread. `options` are options of `serve_http`."""
    server = Server()
    listening = listen("127.0.0.1", 0)
    server.port = listening.getsockname()[1]
    ready = threading.Event()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        server.stop = lambda: loop.call_soon_threadsafe(stop.set)
        ready.set()
        await serve_http(server.app, listening, stop, **options)

    server.thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    server.thread.start()
    assert ready.wait(60)
    try:
        yield server
    finally:
        if server.thread.is_alive():
            server.stop()
        server.thread.join(60)
        assert not server.thread.is_alive()


def everything(connection: socket.socket) -> bytes:
    """Return all octets until the server closes or resets the connection."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def answered(connection: socket.socket) -> bool:
    """Read a whole answer of the application. Return True if it is a success."""
    received = b""
    while not re.search(rb"\r\n\r\n[0-9]$", received):
        chunk = connection.recv(1000)
        if not chunk:
            return False
        received += chunk
    return received.startswith(b"HTTP/1.1 200 ")
