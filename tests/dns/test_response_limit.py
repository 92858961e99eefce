"""The limit on equal responses over UDP."""

import asyncio
import socket
from collections import Counter
from collections.abc import Sequence

import pytest

from long.fuzzing.packets import opt_record, query, wire_name
from sublet.dns import response_limit
from sublet.dns.nameserver import NameServer
from sublet.dns.response_limit import ResponseLimit
from sublet.limits import RESPONSES_PER_SECOND
from support.in_memory_zone import RECORDS, reader_of, serving
from support.network_namespace import runs_outside

TC = 0x02
SERVER, CLIENT, NEIGHBOUR, STRANGER = "198.51.100.1", "203.0.113.7", "203.0.113.200", "203.0.114.7"


@pytest.fixture
def full() -> ResponseLimit:
    """A limit that 203.0.113.7 has just reached with equal responses."""
    limit = ResponseLimit()
    assert [
        limit.count_response(CLIENT, 0, "foo.zone.example", 7.1) for _ in range(RESPONSES_PER_SECOND)
    ] == [False] * RESPONSES_PER_SECOND
    return limit


@pytest.mark.parametrize(
    ("host", "rcode", "about", "at_seconds", "expected"),
    [
        (CLIENT, 0, "foo.zone.example", 7.9, True),
        (NEIGHBOUR, 0, "foo.zone.example", 7.9, True),
        (STRANGER, 0, "foo.zone.example", 7.9, False),
        ("2001:db8::7", 0, "foo.zone.example", 7.9, False),
        (CLIENT, 3, "foo.zone.example", 7.9, False),
        (CLIENT, 0, "bar.zone.example", 7.9, False),
        (CLIENT, 0, "foo.zone.example", 8.0, False),
    ],
)
def test_equal_responses_of_one_network_in_one_second_are_counted(
    full: ResponseLimit, host: str, rcode: int, about: str, at_seconds: float, expected: bool
) -> None:
    assert full.count_response(host, rcode, about, at_seconds) == expected


@pytest.mark.parametrize(
    ("host", "other", "together"),
    [
        ("2001:db8:0:aa00::1", "2001:db8:0:aaff:1::1", True),
        ("2001:db8:0:aa00::1", "2001:db8:0:ab00::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("192.0.2.1", "192.0.2.254", True),
        ("192.0.2.1", "192.0.3.1", False),
    ],
)
def test_networks_have_24_or_56_bits(host: str, other: str, together: bool) -> None:
    limit = ResponseLimit()
    for _ in range(RESPONSES_PER_SECOND):
        limit.count_response(host, 0, "zone.example", 1.0)
    assert limit.count_response(other, 0, "zone.example", 1.0) == together


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_is_never_limited(host: str) -> None:
    limit = ResponseLimit()
    assert not any(
        limit.count_response(host, 0, "zone.example", 1.0) for _ in range(10 * RESPONSES_PER_SECOND)
    )


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limit, "_SLOT_COUNT", 100)
    limit = ResponseLimit()
    for number in range(10_000):
        limit.count_response(f"10.{number // 256}.{number % 256}.1", 0, "zone.example", 1.0)
    assert len(limit._counts) <= 100


def replies(
    names: Sequence[str], *, hosts: Sequence[str] = (), over_tcp: bool = False
) -> tuple[list[bytes], Counter[str]]:
    """The responses to queries for text in these names, and how many of them were counted as limited."""
    counted: Counter[str] = Counter()
    server = NameServer(reader_of(RECORDS), on_limited=lambda: counted.update(["limited"]))
    wires = [query(wire_name(name), 16, records=(opt_record(),)) for name in names]
    found = asyncio.run(server._reply(wires, over_tcp=over_tcp, hosts=hosts))
    return [each or b"" for each in found], counted


COUNT = 10 * RESPONSES_PER_SECOND


@pytest.mark.parametrize(
    "names",
    [
        ["foo.zone.example"] * COUNT,
        [f"n{number}.foo.zone.example" for number in range(COUNT)],
        [f"n{number}.zone.example" for number in range(COUNT)],
        [f"n{number}.wild.zone.example" for number in range(COUNT)],
        ["zone.example"] * COUNT,
        ["alias.zone.example"] * COUNT,
    ],
    ids=["delegation", "below a delegation", "missing names", "wildcard", "apex", "alias"],
)
def test_responses_above_the_limit_are_truncated(names: list[str]) -> None:
    """Truncated responses say no more than their queries.

    A new second may begin in between, and allow as many full ones again.
    """
    found, counted = replies(names, hosts=[CLIENT] * COUNT)
    truncated = [each for each in found if each[2] & TC]
    assert truncated
    assert COUNT - len(truncated) >= RESPONSES_PER_SECOND
    assert counted["limited"] == len(truncated)
    for name, each in zip(names, found, strict=True):
        if each[2] & TC:
            assert len(each) == len(query(wire_name(name), 16, records=(opt_record(),)))


def test_no_response_over_tcp_is_limited() -> None:
    found, counted = replies(["foo.zone.example"] * COUNT, over_tcp=True)
    assert not any(each[2] & TC for each in found)
    assert not counted


def test_refusals_are_not_limited() -> None:
    found, counted = replies(["other.example"] * COUNT, hosts=[CLIENT] * COUNT)
    assert not any(each[2] & TC for each in found)
    assert not counted


def test_the_limit_over_the_network(request: pytest.FixtureRequest) -> None:
    """A client at another address gets truncated responses after the limit; loopback and TCP get all
    responses in full.
    """
    if runs_outside(request, [SERVER, CLIENT]):
        return
    wire = query(wire_name("foo.zone.example"), 2)
    with serving(reader_of(RECORDS), host=SERVER) as port, serving(reader_of(RECORDS)) as local_port:
        found = exchange(CLIENT, (SERVER, port), wire, COUNT)
        assert len([each for each in found if not each[2] & TC]) >= RESPONSES_PER_SECOND
        assert any(each[2] & TC and len(each) == len(wire) for each in found)
        with socket.create_connection((SERVER, port), timeout=60, source_address=(CLIENT, 0)) as connection:
            connection.sendall(len(wire).to_bytes(2, "big") + wire)
            with connection.makefile("rb") as stream:
                assert not stream.read(int.from_bytes(stream.read(2), "big"))[2] & TC
        local = exchange("127.0.0.1", ("127.0.0.1", local_port), wire, COUNT)
        assert not any(each[2] & TC for each in local)


def exchange(client: str, server: tuple[str, int], wire: bytes, count: int) -> list[bytes]:
    """Send a query many times, a few at once, and return the responses."""
    found = []
    with socket.socket(type=socket.SOCK_DGRAM) as asker:
        asker.bind((client, 0))
        asker.connect(server)
        asker.settimeout(60)
        for _ in range(count // 20):
            for _ in range(20):
                asker.send(wire)
            found += [asker.recv(65535) for _ in range(20)]
    return found
