"""A man in the middle: stands before a name server's TCP port and may spoil what it answers."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Tamper = Callable[[bytes], bytes | None]
"""From an answer as it came to the bytes that are passed on, with their length before them; None hangs up."""


def framed(wire: bytes) -> bytes:
    """Return a message as it goes over TCP."""
    return len(wire).to_bytes(2, "big") + wire


class Middleman:
    """Passes messages on, both ways, one at a time; `tamper` may be set at any time."""

    def __init__(self, port: int, server: tuple[str, int]) -> None:
        self.port = port
        self.server = server
        self.tamper: Tamper = framed

    def serve(self, client: socket.socket) -> None:
        """Serve one connection until either side ends it."""
        with client, suppress(OSError, EOFError), socket.create_connection(self.server, 10) as server:
            while True:
                server.sendall(framed(_read(client)))
                spoiled = self.tamper(_read(server))
                if spoiled is None:
                    return
                client.sendall(spoiled)
                if spoiled != framed(spoiled[2:]):
                    return


def _read(stream: socket.socket) -> bytes:
    size = int.from_bytes(_read_exactly(stream, 2), "big")
    return _read_exactly(stream, size)


def _read_exactly(stream: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = stream.recv(size - len(found))
        if not part:
            raise EOFError
        found += part
    return found


@contextmanager
def middleman() -> Iterator[Middleman]:
    """A middleman that listens on a free port; whom it stands before is said later (`server`)."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            found.serve(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as listening:
        found = Middleman(listening.server_address[1], ("", 0))
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            listening.shutdown()
            thread.join(10)
