"""The server's bounds, octet by octet over a socket: heads without end, slow clients, what isn't HTTP, the end of a process."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from starlette.types import Receive, Scope, Send

from sublet.http import serve
from sublet.http.serve import HEAD_MAX_BYTES, bind, listen, serve_http

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
        self.seen.append(scope)
        length, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            length += len(message["body"])
            more = message["more_body"]
        await asyncio.sleep(self.delay_seconds)
        body = str(length).encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@contextmanager
def running() -> Iterator[Server]:
    server = Server()
    listening = listen("127.0.0.1", 0)
    server.port = listening.getsockname()[1]
    ready = threading.Event()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        server.stop = lambda: loop.call_soon_threadsafe(stop.set)
        ready.set()
        await serve_http(server.app, listening, stop)

    server.thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    server.thread.start()
    assert ready.wait(5)
    try:
        yield server
    finally:
        if server.thread.is_alive():
            server.stop()
        server.thread.join(15)
        assert not server.thread.is_alive()


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


def everything(connection: socket.socket) -> bytes:
    """Read until the other side closes; a reset counts as its end."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def answered(connection: socket.socket) -> bool:
    """Read one whole answer of the application; tell whether it is a success."""
    received = b""
    while not re.search(rb"\r\n\r\n[0-9]$", received):
        chunk = connection.recv(1000)
        if not chunk:
            return False
        received += chunk
    return received.startswith(b"HTTP/1.1 200 ")


def refused(received: bytes) -> tuple[int, dict[str, object]]:
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert b"connection: close" in head
    assert b"server:" not in head.lower()
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    "request_octets",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a client that begins with TLS
        b"hello\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nA\x00: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_in_the_envelope(server: Server, request_octets: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(request_octets)
        status, envelope = refused(everything(connection))
    assert (status, envelope["ok"], envelope["error"]) == (400, False, "invalid_request")
    assert server.seen == []


def test_a_large_head_in_many_fields_is_refused(server: Server) -> None:
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(100))
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + fields + b"\r\n")
        assert refused(everything(connection))[0] == 431
    assert server.seen == []


@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\nX"])
def test_a_part_of_a_head_that_never_ends_is_refused(server: Server, start: bytes) -> None:
    sent = 0
    with server.connect() as connection:
        connection.sendall(start)
        try:
            while sent < 20 * HEAD_MAX_BYTES:
                connection.sendall(b"a" * 1024)
                sent += 1024
                time.sleep(0.001)
        except ConnectionError:
            pass
    assert sent < 20 * HEAD_MAX_BYTES, "it was read without end"
    assert server.seen == []


def test_a_head_below_the_bound_passes_in_small_pieces(server: Server) -> None:
    head = b"GET / HTTP/1.1\r\nX: " + b"a" * (HEAD_MAX_BYTES - 100) + b"\r\n\r\n"
    with server.connect() as connection:
        for start in range(0, len(head), 1000):
            connection.sendall(head[start : start + 1000])
        assert answered(connection)


def test_heads_of_one_connection_are_counted_each(server: Server) -> None:
    request = b"GET / HTTP/1.1\r\nX: " + b"a" * 10_000 + b"\r\n\r\n"
    with server.connect() as connection:
        for _ in range(10):
            connection.sendall(request)
            assert answered(connection)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.3)
    started = time.perf_counter()
    with server.connect() as connection:
        connection.sendall(sent)
        assert everything(connection) == b""
    assert 0.2 < time.perf_counter() - started < 5


def test_a_head_in_drops_is_not_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each octet in time does not make the whole in time."""
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.3)
    started = time.perf_counter()
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        try:
            while time.perf_counter() - started < 5:
                connection.sendall(b"a")
                time.sleep(0.05)
        except ConnectionError:
            pass
    assert time.perf_counter() - started < 5
    assert server.seen == []


def test_a_second_head_that_does_not_come_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.3)
    with server.connect() as connection:
        connection.sendall(GET)
        assert answered(connection)
        connection.sendall(b"GET / HT")
        started = time.perf_counter()
        assert everything(connection) == b""
    assert time.perf_counter() - started < 5
    assert len(server.seen) == 1


def test_a_connection_between_requests_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.2)
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(GET)
            assert answered(connection)
            time.sleep(0.5)


def test_a_slow_answer_is_not_cut_by_the_deadline_of_the_head(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(serve, "BODY_SECONDS", 0.2)
    server.delay_seconds = 0.8
    with server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n")
        connection.sendall(b"{}")
        assert answered(connection)


def test_a_body_that_nobody_waits_for_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "BODY_SECONDS", 0.3)
    started = time.perf_counter()
    with server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        assert everything(connection) == b""
    assert 0.2 < time.perf_counter() - started < 5


def test_requests_sent_ahead_are_answered_in_turn(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(GET * 3 + b"POST / HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        received = everything(connection)
    assert received.count(b"HTTP/1.1 200 ") == 4
    assert received.endswith(b"\r\n\r\n2")


def test_nobody_says_where_a_request_comes_from(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"GET / HTTP/1.1\r\nX-Forwarded-For: 203.0.113.1\r\nX-Forwarded-Proto: https\r\n\r\n"
        )
        assert answered(connection)
    assert server.seen[0]["client"][0] == "127.0.0.1"
    assert server.seen[0]["scheme"] == "http"


def ending(server: Server) -> None:
    """Tell it to stop, and wait until it takes no new connections."""
    server.stop()
    while True:
        try:
            server.connect().close()
        except ConnectionError:
            return
        time.sleep(0.01)


def has_ended(server: Server) -> bool:
    assert server.thread is not None
    server.thread.join(5)
    return not server.thread.is_alive()


def test_at_the_end_requests_under_way_finish_and_idle_connections_close(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "DRAIN_SECONDS", 0.3)
    server.delay_seconds = 1
    with server.connect() as idle, server.connect() as busy:
        busy.sendall(GET)
        while not server.seen:
            time.sleep(0.01)
        server.stop()
        assert everything(idle) == b""
        answer = everything(busy)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answer
    assert has_ended(server)
    with pytest.raises(ConnectionRefusedError):
        server.connect()


@pytest.mark.parametrize("sent_before", [b"", GET[:5]], ids=["idle", "in a head"])
def test_at_the_end_a_kept_connection_has_one_more_request(
    server: Server, monkeypatch: pytest.MonkeyPatch, sent_before: bytes
) -> None:
    """A client can't know that the server ends, and what it has sent by then must not be lost."""
    monkeypatch.setattr(serve, "DRAIN_SECONDS", 60.0)
    with server.connect() as kept:
        kept.sendall(GET)
        assert answered(kept)
        kept.sendall(sent_before)
        ending(server)
        kept.sendall(GET[len(sent_before) :])
        answer = everything(kept)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answer
    assert has_ended(server)  # long before the time is over: no connection was left


def test_at_the_end_requests_sent_ahead_are_all_answered(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "DRAIN_SECONDS", 60.0)
    with server.connect() as kept:
        ending(server)
        kept.sendall(GET * 3)
        answer = everything(kept)
    assert answer.count(b"HTTP/1.1 200 ") == 3
    assert answer.count(b"connection: close") == 1
    assert has_ended(server)


def test_at_the_end_a_connection_without_a_request_has_its_first(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "DRAIN_SECONDS", 60.0)
    with server.connect() as fresh:
        ending(server)
        fresh.sendall(GET)
        assert b"connection: close" in everything(fresh)
    assert has_ended(server)


def test_a_taken_address_is_an_error() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", first.getsockname()[1])


def test_ipv6() -> None:
    with listen("::1", 0) as listening:
        assert listening.getsockname()[0] == "::1"


async def _nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Answer nobody."""


def test_it_is_told_that_it_listens_once_it_does() -> None:
    connected = []

    async def story() -> None:
        stop, listening = asyncio.Event(), bind("127.0.0.1", 0)
        address = listening.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

        def told() -> None:
            with socket.create_connection(address):
                connected.append(address)
            stop.set()

        await serve_http(_nothing, listening, stop, on_listening=told)

    asyncio.run(story())
    assert connected


def test_an_address_that_somebody_else_listens_on_by_then_is_an_error() -> None:
    async def story() -> None:
        late = bind("127.0.0.1", 0)
        with bind(*late.getsockname()) as first, late:
            first.listen()
            with pytest.raises(OSError, match="in use"):
                await serve_http(_nothing, late, asyncio.Event())

    asyncio.run(story())
