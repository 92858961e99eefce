"""HTTP that is hostile or broken: paths, queries, headers, connections.

4xx and a sentence, or the connection is closed.

What isn't HTTP and heads that never end or never come are the proxy's to refuse: those tests go through
nginx.
"""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import product

import pytest

from support.hostile_input import Target, envelope, exchange, nothing_stored, parse_answer, refusal
from support.nginx import Proxy, nginx
from support.repetitions import share

pytestmark = pytest.mark.slow

HEAD_MAX_BYTES = 32 * 1024

PATHS = {
    "NUL": "/subdomains/%00",
    "NUL inside": "/subdomains/blog%00.example.test",
    "an empty segment": "/subdomains//renew",
    "dots up": "/subdomains/..%2f..%2fetc%2fpasswd",
    "10,000 characters": "/subdomains/" + "a" * 10_000,
    "an id beyond 64 bits": "/subdomains/9223372036854775808",
    "an id of full-width digits": "/subdomains/%EF%BC%91",
    "no percent sequence": "/subdomains/%zz",
    "invalid UTF-8": "/subdomains/%ff%fe",
    "overlong UTF-8": "/subdomains/%c0%ae%c0%ae",
    "newline": "/subdomains/blog.example.test%0d%0aX-Injected:%201",
    "SQL": "/subdomains/x'%20OR%20'1'='1",
    "a wildcard": "/subdomains/%25",
    "a ticket beyond 64 bits": "/support/tickets/T-9223372036854775808",
    "a ticket's NUL": "/support/tickets/T-%00",
    "in capitals": "/SUBDOMAINS",
}


def test_a_hostile_path_is_not_found(target: Target) -> None:
    with nothing_stored(target):
        for (name, path), method in product(PATHS.items(), ("GET", "DELETE", "POST")):
            head = target.request_head(method, path, "Content-Length: 0", "Connection: close")
            status, headers, body = parse_answer(exchange(target, head))
            assert status in (400, 404, 405), (name, method, status, body[:300])
            assert envelope(status, headers, body)
            assert "x-injected" not in headers
        for path in ("/subdomains/%/nameservers", "/subdomains/%25/nameservers"):
            refusal(target.call("PUT", path, {"nameservers": []}), 404)


AUTHORIZATIONS = {
    "none": [],
    "empty": ["Authorization:"],
    "scheme alone": ["Authorization: Bearer"],
    "no scheme": ["Authorization: {token}"],
    "another scheme": ["Authorization: Basic {token}"],
    "twice the same": ["Authorization: Bearer {token}", "Authorization: Bearer {token}"],
    "two in one": ["Authorization: Bearer {token}, Bearer {token}"],
    "token and more": ["Authorization: Bearer {token} x"],
    "Latin-1": ["Authorization: Bearer b\xfccher"],
    "high octets": ["Authorization: Bearer \xff\xfe\xc3\x28"],
    "one character off": ["Authorization: Bearer {token}x"],
    "in quotes": ['Authorization: Bearer "{token}"'],
    "SQL": ["Authorization: Bearer ' OR '1'='1"],
    "10,000 characters": ["Authorization: Bearer " + "a" * 10_000],
    "tab": ["Authorization: Bearer\t{token}"],
    "in the query": [],
}


def test_a_hostile_authorization_header_is_refused(target: Target) -> None:
    body = '{"fqdn":"new.example.test"}'
    with nothing_stored(target):
        for name, lines in AUTHORIZATIONS.items():
            query = f"?token={target.user.token}" if name == "in the query" else ""
            raw = [
                f"POST /api/v1/subdomains{query} HTTP/1.1",
                "Host: localhost",
                *(line.replace("{token}", target.user.token) for line in lines),
                "Content-Type: application/json",
                *(f"Content-Length: {len(body)}", "Connection: close", "", body),
            ]
            received = exchange(target, "\r\n".join(raw).encode("latin-1"))
            status, headers, answer = parse_answer(received)
            assert status == 401, (name, answer)
            assert headers["www-authenticate"].startswith("Bearer")
            assert envelope(status, headers, answer)["error"] in ("token_missing", "token_invalid")
            assert target.user.token.encode() not in answer


MALFORMED = {
    "garbage": b"\x00\x01\x02\x03\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\x00" * 64,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown method": b"FROB /api/v1/me HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in the path": b"GET /api/v1/\x00me HTTP/1.1\r\nHost: x\r\n\r\n",
    "a control in a header": b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Y: a\x00b\r\n\r\n",
    "Content-Length: words": b"POST /api/v1/subdomains HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "a length and chunks": b"POST /api/v1/subdomains HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an endless header": b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * (40 * HEAD_MAX_BYTES),
    "an endless path": b"GET /" + b"a" * (2 * HEAD_MAX_BYTES),
    "endless headers": b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\n" + b"X-Many: a\r\n" * 4_000,
}
"""What the parser of the API refuses without a proxy is in tests/http/test_heads.py."""


@pytest.fixture(scope="module")
def proxy(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with nginx(tmp_path_factory.mktemp("proxy"), "{}:{}".format(*target.address)) as running:
        yield running


def proxied(proxy: Proxy, octets: bytes) -> bytes:
    """Send octets through the proxy, and return what comes back until it closes."""
    with proxy.connect() as connection:
        received = b""
        with suppress(OSError):
            connection.sendall(octets)
        with suppress(OSError):
            while chunk := connection.recv(65536):
                received += chunk
        return received


def test_malformed_http_is_refused_in_the_envelope(target: Target, proxy: Proxy) -> None:
    with nothing_stored(target):
        for name, octets in MALFORMED.items():
            status, headers, body = parse_answer(proxied(proxy, octets))
            assert status in (400, 401, 414, 431), (name, body[:300])
            assert envelope(status, headers, body)
        assert target.call("GET", "/me").status_code == 200


def send_64_mebibytes(proxy: Proxy, start: bytes) -> bytes:
    """Send a start and then octets without end, and return the answer; require that the proxy doesn't hold
    them.
    """
    before = proxy.memory_bytes()
    with proxy.connect() as connection:
        connection.sendall(start)
        with suppress(OSError):
            for _ in range(1024):
                connection.sendall(b"a" * 65536)
        assert proxy.memory_bytes() - before < 4 << 20
        connection.settimeout(1)
        with suppress(OSError):
            return connection.recv(65536)
    return b""


def test_a_head_of_megabytes_is_refused_and_not_buffered(target: Target, proxy: Proxy) -> None:
    answer = send_64_mebibytes(proxy, target.request_head("GET", "/me", "X-Long: ")[:-4])
    assert answer[:12] in (b"", b"HTTP/1.1 431")


def test_an_endless_trailer_is_not_buffered(target: Target, proxy: Proxy) -> None:
    head = target.request_head(
        "POST", "/subdomains", "Content-Type: application/json", "Transfer-Encoding: chunked"
    )
    with nothing_stored(target):
        answer = send_64_mebibytes(proxy, head + b"2\r\n{}\r\n0\r\nX-Trailer: ")
    assert answer[:10] in (b"", b"HTTP/1.1 4")


def test_an_incomplete_body_stores_nothing(target: Target) -> None:
    head = target.request_head("POST", "/subdomains", "Content-Type: application/json", "Content-Length: 100")
    with nothing_stored(target):
        exchange(target, head + b'{"fqdn":"new.example.test"}', ends=True)


def test_a_valid_request_before_garbage_gets_its_own_answer(target: Target, proxy: Proxy) -> None:
    """What follows on the connection must not be taken for the answer to the request before it."""
    received = proxied(proxy, target.request_head("GET", "/me") + b"\x00garbage\r\n\r\n")
    status, _, body = parse_answer(received)
    assert status == 200, received[:300]
    assert b'"ok":true' in body


HEADERS = {
    "Idempotency-Key: empty": ("Idempotency-Key:", 400),
    "Idempotency-Key: long": ("Idempotency-Key: " + "a" * 256, 400),
    "Idempotency-Key: high octets": ("Idempotency-Key: \xff", 400),
    "Idempotency-Key: space": ("Idempotency-Key: a b", 400),
    "Idempotency-Key: twice": ("Idempotency-Key: a\r\nIdempotency-Key: b", 400),
    "X-Request-Id: high octets": ("X-Request-Id: \xff\xfe", 422),
    "X-Request-Id: markup": ("X-Request-Id: <script>", 422),
    "X-Forwarded-For: words": ("X-Forwarded-For: not an address, \xff", 422),
    "Accept: nothing we have": ("Accept: image/png", 422),
    "Accept: high octets": ("Accept: \xff;q=\xfe", 422),
    "Expect: something": ("Expect: 200-ok", 422),
    "Upgrade: websocket": ("Connection: close, upgrade\r\nUpgrade: websocket", 422),
    "Host: a second one": ("Host: evil.example", 400),
    "Range": ("Range: bytes=0-1", 422),
}


def test_a_hostile_header_changes_no_answer(target: Target) -> None:
    body = b'{"label":"*","domain":"example.test"}'
    with nothing_stored(target):
        for name, (line, expected) in HEADERS.items():
            head = target.request_head(
                "POST",
                "/subdomains",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                *(["Connection: close"] if "upgrade" not in line else []),
                line,
            )
            received = exchange(target, head + body)
            status, headers, answer = parse_answer(received)
            assert status == expected, (name, received[:500])
            assert envelope(status, headers, answer)
            assert b"<script>" not in received


@pytest.mark.whole
def test_a_connection_without_a_head_times_out(target: Target, proxy: Proxy) -> None:
    for octets in (b"", target.request_head()[:-4]):
        started = time.monotonic()
        assert proxied(proxy, octets) == b""
        assert 9 < time.monotonic() - started < 60


def test_clients_that_send_a_byte_at_a_time_do_not_delay_others(target: Target) -> None:
    """Without a proxy: slow heads cost a connection each, slow bodies end after 10 s."""
    head = target.request_head(
        "POST", "/subdomains", "Content-Type: application/json", "Content-Length: 1000"
    )
    with ExitStack() as stack, nothing_stored(target):
        slow = [stack.enter_context(socket.create_connection(target.address, timeout=60)) for _ in range(50)]
        for number, connection in enumerate(slow):
            connection.sendall(head if number % 2 else b"")
        for position in range(share(5, whole=15)):
            for number, connection in enumerate(slow):
                connection.sendall(b"{" if number % 2 else head[position : position + 1])
            for _ in range(5):
                assert target.call("GET", "/me").status_code == 200
            if position == 0:
                # A request that had waited for a slow client would be answered after the end of its body.
                assert not select.select(slow, [], [], 0)[0]
            time.sleep(0.2)
