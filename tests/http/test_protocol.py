"""A connection's bounds, octet by octet over a socket: heads without end, slow clients, what isn't HTTP, too many at once."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sublet.http import protocol
from sublet.http.protocol import HEAD_MAX_BYTES, URI_MAX_BYTES
from support.bare_http_server import GET, Server, answered, everything, refused, running
from support.serve_process import wait_until


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


HOSTS_REFUSED = [
    *(b"a b", b"a/b", b"a@b", b"a,b", b"<script>", b'"a"', b"a'b", b"a\tb", b"a%41", b"*", b"a\\b", b"$a"),
    *(
        b"\xe4.example",
        b"a:b",
        b"a:123456",
        b"a:1:2",
        b"[::1",
        b"[::1]a",
        b"[",
        b"[g::]",
        b"::1",
    ),
]
HOSTS_TAKEN = [
    *(
        b"names.example.net",
        b"NAMES.example.net.",
        b"a:8053",
        b"127.0.0.1",
        b"127.0.0.1:80",
        b"[::1]",
        b"[2001:db8::1]:8053",
    ),
    *(b"a:", b"sublet_api", b"xn--bcher-kva.example", b""),
]
MALFORMED = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no request line": b"hello\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "high octets in the path": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in a header's name": b"GET / HTTP/1.1\r\nHost: a\r\nA\x00: b\r\n\r\n",
    "a length of letters": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "one length twice": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx",
    "a length and chunks": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
    "chunks, then none": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunks after a control": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare LF after the request line": b"GET / HTTP/1.1\nHost: a\r\n\r\n",
    "bare LF after a field": b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "bare CR": b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    "a folded field": b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
    "an absolute URI": b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "another's absolute URI": b"GET http://evil.example/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path without slash": b"GET x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n",
    "two slashes": b"GET //x HTTP/1.1\r\nHost: a\r\n\r\n",
    "two slashes inside": b"GET /x//y?q=1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL": b"GET /x%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "newline": b"GET /x%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n",
    "DEL": b"GET /x%7F HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    **{f"host {host!r}": b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host for host in HOSTS_REFUSED},
    "an odd host in HTTP/1.0": b"GET / HTTP/1.0\r\nHost: a/b\r\n\r\n",
}


@pytest.mark.parametrize("octets", MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_http_is_refused_in_the_envelope(server: Server, octets: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(octets)
        status, envelope = refused(everything(connection))
    assert (status, envelope["ok"], envelope["error"]) == (400, False, "invalid_request")
    assert server.seen == []


@pytest.mark.parametrize(
    "octets",
    [
        GET,
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /%C3%A4%20b%2F HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /?q=//%00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /" + b"a" * (URI_MAX_BYTES - 1) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_what_is_http_comes_through(server: Server, octets: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(octets)
        assert answered(connection)


@pytest.mark.parametrize("host", HOSTS_TAKEN)
def test_hosts_taken(server: Server, host: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host)
        assert answered(connection)


def test_64_requests_may_be_sent_ahead(server: Server) -> None:
    server.delay_seconds = 0.001
    with server.connect() as connection:
        connection.sendall(GET * (protocol.AHEAD_MAX + 1))
        received = b""
        while received.count(b"HTTP/1.1 200 OK") <= protocol.AHEAD_MAX:
            piece = connection.recv(65536)
            assert piece, "it was closed"
            received += piece
    assert b"connection: close" not in received


def test_what_is_sent_further_ahead_is_not_read_and_the_last_answer_closes(server: Server) -> None:
    server.delay_seconds = 0.001
    with server.connect() as connection:
        connection.sendall(GET * 1000)
        received = everything(connection)
    answers = received.count(b"HTTP/1.1 200 OK")
    assert protocol.AHEAD_MAX < answers <= protocol.AHEAD_MAX + 2
    assert received.count(b"connection: close") == 1
    assert b"connection: close" in received.rpartition(b"HTTP/1.1 200 OK")[2]
    assert len(server.seen) == answers


CHUNKS = {
    "bare LF": b"1\nx\n0\n\n",
    "bare LF in an extension": b"1;a\nb\r\nx\r\n0\r\n\r\n",
    "no number": b"zz\r\nx\r\n0\r\n\r\n",
    "more than it said": b"1\r\nxx\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_a_body_of_broken_chunks_is_not_taken(server: Server, chunks: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        assert b"200 OK" not in everything(connection)


@pytest.mark.parametrize("start", [b"GET /", b"GET /?q="])
def test_a_long_uri_is_refused(server: Server, start: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(start + b"a" * URI_MAX_BYTES + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        status, envelope = refused(everything(connection))
    assert (status, envelope["error"]) == (414, "invalid_request")
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
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (HEAD_MAX_BYTES - 100) + b"\r\n\r\n"
    with server.connect() as connection:
        for start in range(0, len(head), 1000):
            connection.sendall(head[start : start + 1000])
        assert answered(connection)


def test_heads_of_one_connection_are_counted_each(server: Server) -> None:
    request = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 10_000 + b"\r\n\r\n"
    with server.connect() as connection:
        for _ in range(10):
            connection.sendall(request)
            assert answered(connection)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    started = time.perf_counter()
    with server.connect() as connection:
        connection.sendall(sent)
        assert everything(connection) == b""
    assert 0.2 < time.perf_counter() - started < 60


def test_a_head_in_drops_is_not_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each octet in time does not make the whole in time."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    started = time.perf_counter()
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        try:
            while time.perf_counter() - started < 60:
                connection.sendall(b"a")
                time.sleep(0.05)
        except ConnectionError:
            pass
    assert time.perf_counter() - started < 60
    assert server.seen == []


def test_a_second_head_that_does_not_come_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    with server.connect() as connection:
        connection.sendall(GET)
        assert answered(connection)
        connection.sendall(b"GET / HT")
        started = time.perf_counter()
        assert everything(connection) == b""
    assert time.perf_counter() - started < 60
    assert len(server.seen) == 1


def test_a_connection_between_requests_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(GET)
            assert answered(connection)
            time.sleep(0.5)


def test_a_slow_answer_is_not_cut_by_the_deadline_of_the_head(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.2)
    server.delay_seconds = 0.8
    with server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
        connection.sendall(b"{}")
        assert answered(connection)


def test_a_body_that_nobody_waits_for_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.3)
    started = time.perf_counter()
    with server.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
        assert everything(connection) == b""
    assert 0.2 < time.perf_counter() - started < 60


def test_requests_sent_ahead_are_answered_in_turn(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(
            GET * 3 + b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
        )
        received = everything(connection)
    assert received.count(b"HTTP/1.1 200 ") == 4
    assert received.endswith(b"\r\n\r\n2")


def test_nobody_says_where_a_request_comes_from(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\nX-Forwarded-Proto: https\r\n\r\n"
        )
        assert answered(connection)
    assert server.seen[0]["client"][0] == "127.0.0.1"
    assert server.seen[0]["scheme"] == "http"


def test_an_answer_that_nobody_takes_is_not_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client has us hold for it is bounded in time, too: nobody reads here, and the connection is reset."""
    monkeypatch.setattr(protocol, "SEND_SECONDS", 0.3)
    server.space_count = 64 * 1024 * 1024
    with server.connect() as connection:
        connection.sendall(GET)
        wait_until(lambda: bool(server.seen))
        wait_until(lambda: _is_reset(connection))


def _is_reset(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
    except ConnectionError:
        return True
    return False


def test_a_large_answer_that_is_taken_in_turns_arrives_whole(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "SEND_SECONDS", 5.0)
    server.space_count = 8 * 1024 * 1024
    with server.connect() as connection:
        connection.sendall(GET[:-2] + b"Connection: close\r\n\r\n")
        received = everything(connection)
    assert len(received) > server.space_count
    assert received.endswith(b" 0")


def is_open(connection: socket.socket) -> bool:
    """Tell whether the other side has not closed, without waiting."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(10)


def test_of_too_many_connections_the_one_that_waits_longest_gives_way() -> None:
    with running(connections_max=3) as server, ExitStack() as stack:

        def connect(sent: bytes) -> socket.socket:
            connection = stack.enter_context(server.connect())
            connection.sendall(sent)
            return connection

        used = connect(GET)
        assert answered(used)
        silent, slow = connect(b""), connect(GET[:9])
        used.sendall(GET)
        assert answered(used)  # and waits anew from here on
        assert answered(connect(GET))
        wait_until(lambda: not is_open(silent))
        assert is_open(slow)
        assert answered(connect(GET))
        wait_until(lambda: not is_open(slow))
        used.sendall(GET)
        assert answered(used)


def test_of_too_many_connections_none_gives_way_that_is_being_answered() -> None:
    with running(connections_max=2) as server, ExitStack() as stack:
        server.delay_seconds = 1
        busy = [stack.enter_context(server.connect()) for _ in range(2)]
        for connection in busy:
            connection.sendall(GET)
        wait_until(lambda: len(server.seen) == 2)
        with server.connect() as third:
            status, envelope = refused(everything(third))
        assert (status, envelope["error"]) == (503, "unavailable")
        assert all(answered(connection) for connection in busy)
        with server.connect() as fourth:
            fourth.sendall(GET)
            assert answered(fourth)


def test_many_silent_connections_keep_nobody_out() -> None:
    """Twice as many as there may be, which send nothing: whoever asks is answered, and the oldest silent ones are gone."""
    with running(connections_max=50) as server, ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(100)]
        for _ in range(20):
            with server.connect() as connection:
                connection.sendall(GET)
                assert answered(connection)
        wait_until(lambda: sum(is_open(each) for each in silent) <= 50)
        assert not is_open(silent[0])
