"""A proxy for DNS over TCP in front of a real server. It can hold messages and change answers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import dns.message
import dns.opcode

OnQuery = Callable[[bytes], bytes | None]
"""Returns the message to forward for a query. If it returns None, nothing is forwarded and the connection
hangs.
"""
OnAnswer = Callable[[bytes], bytes | None]
"""Returns the bytes to forward for an answer, with their length prefix. If it returns None, the connection is
closed.
"""


def framed(wire: bytes) -> bytes:
    """Return a message with its length prefix for TCP."""
    return len(wire).to_bytes(2, "big") + wire


@dataclass
class DnsProxy:
    """A proxy to `target`. A test may change `target`, `on_query` and `on_answer` while it runs."""

    target: tuple[str, int]
    listening: socket.socket
    on_query: OnQuery = lambda wire: wire
    on_answer: OnAnswer = framed
    held: list[bytes] = field(default_factory=list)
    """The messages that `hold_next_update` held."""

    @property
    def address(self) -> tuple[str, int]:
        """The address of the proxy."""
        host, port = self.listening.getsockname()
        return host, port

    def hold_next_update(self) -> None:
        """Hold the next UPDATE message in `held`. Its sender gets no answer."""

        def hold(wire: bytes) -> bytes | None:
            if (wire[2] >> 3) & 0xF != dns.opcode.UPDATE:
                return wire
            self.held.append(wire)
            self.on_query = lambda each: each
            return None

        self.on_query = hold

    def deliver(self, wire: bytes) -> dns.message.Message:
        """Send a message to the server, and return the answer. Its signature isn't checked."""
        with socket.create_connection(self.target, 10) as connection:
            connection.sendall(framed(wire))
            answer = _read(connection)
        assert answer is not None
        return dns.message.from_wire(answer, keyring=False, ignore_trailing=True)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self.target, 10) as server:
            while (query := _read(client)) is not None:
                passed = self.on_query(query)
                if passed is None:
                    _read(client)  # until the client disconnects
                    return
                server.sendall(framed(passed))
                answer = _read(server)
                answered = None if answer is None else self.on_answer(answer)
                if answered is None:
                    return
                client.sendall(answered)
                if answered != framed(answered[2:]):
                    return


def _read(connection: socket.socket) -> bytes | None:
    with connection.makefile("rb", buffering=0) as file:
        prefix = _exactly(file.read, 2)
        return None if prefix is None else _exactly(file.read, int.from_bytes(prefix, "big"))


def _exactly(read: Callable[[int], bytes | None], size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = read(size - len(data))
        if not more:
            return None
        data += more
    return data


@contextmanager
def dns_proxy(target: tuple[str, int] = ("", 0)) -> Iterator[DnsProxy]:
    """Run a proxy on a free loopback port, and close its connections at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = DnsProxy(target, listening)
        threading.Thread(target=proxy._serve, daemon=True).start()
        yield proxy
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
