"""A proxy between Sublet and PostgreSQL that cuts connections at a chosen message.

It reads the client's messages (PostgreSQL's documentation, "Message Formats"). Each has a type of one byte, a
length of four bytes, and a body. A rule applies once, to the first message that contains its text.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Rule:
    """A rule for the first message that contains `text`. `point` is `before`, `after` or `hold`."""

    text: bytes
    point: str
    reached: threading.Event = field(default_factory=threading.Event)
    """Set when the client has been disconnected."""
    released: threading.Event = field(default_factory=threading.Event)
    """Set by the test to forward a held message."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set when the server has answered the message, or has disconnected."""


@dataclass
class Proxy:
    """A running proxy with its `url` and its rules."""

    url: str
    rules: list[Rule] = field(default_factory=list)
    connections: int = 0

    def lose(self, text: bytes, point: str) -> Rule:
        """Cut the connection before the message is forwarded, or after the server's answer, which the client
        doesn't get; or hold the message.
        """
        rule = Rule(text, point)
        self.rules.append(rule)
        return rule

    def take(self, message: bytes) -> Rule | None:
        """Return the rule for a message, and remove the rule."""
        for rule in self.rules:
            if rule.text in message:
                self.rules.remove(rule)
                return rule
        return None


@contextmanager
def run_proxy(url: str) -> Iterator[Proxy]:
    """Run a proxy in front of the server with this address."""
    parts = urlsplit(url)
    target = (str(parts.hostname), int(parts.port or 5432))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    proxy = Proxy(
        f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"
    )
    ends: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            proxy.connections += 1
            server = socket.create_connection(target)
            ends.extend((client, server))
            link = _Link(proxy, client, server)
            for run in (link.to_server, link.to_client):
                threading.Thread(target=run, daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield proxy
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join(60)
        for each in ends:
            _end(each)
            each.close()


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


class _Link:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._rule: Rule | None = None

    def to_server(self) -> None:
        read = b""
        begun = False  # the first message has no type
        try:
            while data := self._client.recv(65536):
                read += data
                while len(read) >= (at := 1 if begun else 0) + 4:
                    length = at + int.from_bytes(read[at : at + 4], "big")
                    if len(read) < length:
                        break
                    message, read, begun = read[:length], read[length:], True
                    if not self._pass_on(message):
                        return
        except OSError:
            pass
        _end(self._server)

    def _pass_on(self, message: bytes) -> bool:
        """Forward a message by its rule. Return True if the connection is still open."""
        rule = None if self._rule else self._proxy.take(message)
        if rule is None:
            self._server.sendall(message)
            return self._rule is None or message[:1] != b"S"
        if rule.point == "before":
            _end(self._server)
            _end(self._client)
            rule.reached.set()
            return False
        self._rule = rule
        if rule.point == "hold":
            _end(self._client)
            rule.reached.set()
            rule.released.wait(60)
        with suppress(OSError):
            self._server.sendall(message)
        return message[:1] == b"P"  # the server answers a Parse after its Sync

    def to_client(self) -> None:
        last = b""
        with suppress(OSError):
            while data := self._server.recv(65536):
                if self._rule is None:
                    self._client.sendall(data)
                elif (last := last[-5:] + data)[-6:-1] == b"Z\x00\x00\x00\x05":  # ReadyForQuery
                    break
        _end(self._client)
        _end(self._server)
        if self._rule is not None:
            self._rule.answered.set()
            self._rule.reached.set()
