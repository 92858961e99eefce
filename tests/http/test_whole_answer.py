"""An answer in one piece: octet by octet what the server makes of two messages, and never two where there should be one."""

import gc
import re
import time
from itertools import takewhile

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from sublet.http.security_headers import SECURITY_HEADERS
from support.bare_http_server import GET, answered, everything, running

REQUESTS = {
    "GET": GET,
    "HEAD": b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a body": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "a body that is waited for": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    "two sent ahead": GET * 2,
    "the last one": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
}


def answers(octets: bytes, headers: dict[str, str], *, in_one_piece: bool) -> bytes:
    """Return what comes back for some octets, up to the server's end, with one date for any."""
    with running(drain_seconds=0.0) as server:
        server.in_one_piece, server.headers = in_one_piece, headers
        with server.connect() as connection:
            connection.sendall(octets)
            ends = time.monotonic() + 30
            expected = 1 if "connection" in headers else octets.count(b"HTTP/")
            while len(server.seen) < expected and time.monotonic() < ends:
                time.sleep(0.01)
            server.stop()
            return re.sub(rb"date: [^\r]+", b"date: then", everything(connection))


@pytest.mark.parametrize("octets", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("headers", [{}, {"x-a": "b", "connection": "close"}], ids=["kept", "closed"])
def test_it_is_what_two_messages_are(octets: bytes, headers: dict[str, str]) -> None:
    whole = answers(octets, headers, in_one_piece=True)
    assert whole == answers(octets, headers, in_one_piece=False)
    assert whole.count(b"HTTP/1.1 200 OK\r\n") >= 1


def test_it_has_the_headers_of_every_answer() -> None:
    lines = answers(GET, {"x-a": "b"}, in_one_piece=True).decode().split("\r\n")
    head = dict(line.split(": ", 1) for line in takewhile(bool, lines[1:]))
    assert head == {"date": "then", "x-a": "b", "content-length": "1", **SECURITY_HEADERS}


@pytest.mark.parametrize("value", ["b\r\nset-cookie: c", "b\nset-cookie: c", "b\rc"])
def test_a_field_of_two_lines_is_a_fault(value: str) -> None:
    """Splitting an answer takes a line's end in a field: whoever lets one through, it ends here."""
    answer = answers(GET, {"x-a": value}, in_one_piece=True)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"cookie" not in answer


def test_a_client_that_has_gone_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    with running() as server:
        server.delay_seconds = 0.2
        with server.connect() as connection:
            connection.sendall(GET)
            while not server.seen:
                time.sleep(0.01)
        time.sleep(0.3)
        server.delay_seconds = 0
        with server.connect() as another:
            another.sendall(REQUESTS["the last one"])
            assert everything(another).startswith(b"HTTP/1.1 200 ")
    assert caplog.records == []


def test_requests_that_were_answered_are_not_left_to_the_collector() -> None:
    """The garbage collector stops the process, for longer the more garbage there is."""
    with running() as server, server.connect() as connection:
        gc.collect()
        gc.disable()
        try:
            before = _count_requests()
            for _ in range(20):
                connection.sendall(GET)
                assert answered(connection)
            server.seen.clear()
            assert _count_requests() - before <= 2
        finally:
            gc.enable()


def _count_requests() -> int:
    return sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects())
