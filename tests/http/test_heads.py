"""Heads of requests, octet by octet: what the parser and the API refuse.

What the proxy refuses: tests/contract/test_hostile_http.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sublet.http.head import URI_MAX_BYTES
from support.hostile_input import Target, envelope, exchange, parse_answer, prepare
from support.running_service import registry_address, running_service


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder: Path = tmp_path_factory.mktemp("heads")
    with running_service(registry_address(folder), publish_wait_ms=0) as service:
        yield prepare(service)


def ask(target: Target, head: bytes) -> tuple[int, bytes]:
    """Send a request with the user's token, and return status and body of the answer."""
    fields = b"Authorization: Bearer %s\r\nConnection: close\r\n\r\n" % target.user.token.encode()
    status, headers, body = parse_answer(exchange(target, head.replace(b"\r\n\r\n", b"\r\n" + fields, 1)))
    assert "server" not in headers
    return status, body


ME = b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\n\r\n"
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
    "HTTP/0.9": b"GET /api/v1/me\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /api/v1/me HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",  # noqa: E501
    "two slashes": b"GET //api/v1/me HTTP/1.1\r\nHost: a\r\n\r\n",
    "two slashes inside": b"GET /api/v1//me?q=1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL": b"GET /api/v1/subdomains/x%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "newline": b"GET /api/v1/subdomains/x%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n",
    "DEL": b"GET /api/v1/subdomains/x%7F HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": b"GET /api/v1/me HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    **{f"host {host!r}": b"GET /api/v1/me HTTP/1.1\r\nHost: %s\r\n\r\n" % host for host in HOSTS_REFUSED},
    "an odd host in HTTP/1.0": b"GET /api/v1/me HTTP/1.0\r\nHost: a/b\r\n\r\n",
}
NOT_HTTP = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no request line": b"hello\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "high octets in the path": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in a header's name": b"GET / HTTP/1.1\r\nHost: a\r\nA\x00: b\r\n\r\n",
    "a length of letters": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "one length twice": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx",
    "a length and chunks": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",  # noqa: E501
    "chunks and a length": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",  # noqa: E501
    "chunks, then none": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunks after a control": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",  # noqa: E501
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare LF after the request line": b"GET / HTTP/1.1\nHost: a\r\n\r\n",
    "bare LF after a field": b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "bare CR": b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    "a folded field": b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
    "a path without slash": b"GET x HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("octets", MALFORMED.values(), ids=MALFORMED)
def test_the_api_refuses_a_head_in_its_envelope(target: Target, octets: bytes) -> None:
    status, body = ask(target, octets)
    envelope = json.loads(body)
    assert (status, envelope["ok"], envelope["error"]) == (400, False, "invalid_request")


@pytest.mark.parametrize("octets", NOT_HTTP.values(), ids=NOT_HTTP)
def test_the_parser_refuses_a_head_in_the_envelope_and_closes_the_connection(
    target: Target, octets: bytes
) -> None:
    status, headers, body = parse_answer(exchange(target, octets))
    assert (status, headers["connection"]) == (400, "close")
    assert envelope(status, headers, body)["error"] == "invalid_request"


@pytest.mark.parametrize(
    "octets",
    [
        ME,
        b"GET /api/v1/me HTTP/1.0\r\n\r\n",
        b"GET /api/v1/subdomains?q=//%20a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://a/api/v1/me HTTP/1.1\r\nHost: a\r\n\r\n",
        *(b"GET /api/v1/me HTTP/1.1\r\nHost: %s\r\n\r\n" % host for host in HOSTS_TAKEN),
    ],
)
def test_valid_heads_are_accepted(target: Target, octets: bytes) -> None:
    assert ask(target, octets)[0] == 200


def test_trailers_are_no_headers(target: Target) -> None:
    head = b"POST /api/v1/subdomains HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert ask(target, head + b"0\r\nHost: b\r\n\r\n")[0] == 422


@pytest.mark.parametrize("start", [b"/api/v1/subdomains/", b"/api/v1/subdomains?q="])
def test_a_long_uri_is_refused(target: Target, start: bytes) -> None:
    for length, expected in ((URI_MAX_BYTES, {400, 404}), (URI_MAX_BYTES + 1, {414})):
        path = start + b"a" * (length - len(start))
        status, body = ask(target, b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        assert status in expected
    assert json.loads(body)["error"] == "invalid_request"


def test_pipelined_requests_are_answered_in_order(target: Target) -> None:
    ahead = target.request_head("GET", "/me") * 3
    received = exchange(target, ahead + target.request_head("GET", "/nowhere", "Connection: close"))
    assert received.count(b"HTTP/1.1 200 ") == 3
    assert b"HTTP/1.1 404 " in received.rpartition(b"HTTP/1.1 200 ")[2]


def test_a_request_after_an_unread_body_is_answered(target: Target) -> None:
    """A refusal before the body is read: the rest of the body isn't taken for a request."""
    body = b"GET /api/v1/me HTTP/1.1\r\nHost: a\r\n\r\n"
    refused = target.request_head("POST", "/nowhere", f"Content-Length: {len(body)}") + body
    received = exchange(target, refused + target.request_head("GET", "/me", "Connection: close"))
    assert received.count(b"HTTP/1.1 ") == 2
    assert received.startswith(b"HTTP/1.1 404 ")
    assert b"HTTP/1.1 200 " in received


def test_a_refusal_before_100_continue_closes_the_connection(target: Target) -> None:
    """The client may send the body or not, so nothing after the refusal can be read as a request."""
    head = target.request_head("POST", "/nowhere", "Content-Length: 40", "Expect: 100-continue")
    status, headers, _ = parse_answer(exchange(target, head))
    assert (status, headers["connection"]) == (404, "close")
