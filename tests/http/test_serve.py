"""The server's beginning and its end: where it listens, and how it stops without losing a request."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from sublet.http import serve
from sublet.http.serve import bind, serve_http
from support.bare_http_server import GET, Server, answered, everything, running
from support.hostile_input import parse_answer
from support.waiting import wait_until


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


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
    server.thread.join(60)
    return not server.thread.is_alive()


def test_shutdown_finishes_running_requests_and_closes_idle_connections(
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
def test_a_kept_connection_gets_one_more_answer_during_shutdown(
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


def test_a_new_connection_gets_its_first_answer_during_shutdown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "DRAIN_SECONDS", 60.0)
    with server.connect() as fresh:
        ending(server)
        fresh.sendall(GET)
        assert b"connection: close" in everything(fresh)
    assert has_ended(server)


def test_requests_on_connections_over_the_maximum_are_refused() -> None:
    with running(connections_max=2) as server, server.connect() as first, server.connect() as second:
        for each in (first, second):
            each.sendall(GET)
            assert answered(each)
        with server.connect() as third:
            third.sendall(GET[:-2] + b"Connection: close\r\n\r\n")
            status, headers, body = parse_answer(everything(third))
            assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
            refused = json.loads(body)
            assert (refused["error"], refused["request_id"]) == ("unavailable", headers["x-request-id"])

        def answered_again() -> bool:
            first.sendall(GET)
            return b"HTTP/1.1 200 " in first.recv(65536)

        wait_until(answered_again)


async def _nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Answer nobody."""


def test_the_server_reports_that_it_listens_only_when_it_does() -> None:
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
