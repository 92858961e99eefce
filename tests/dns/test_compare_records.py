"""Reading back records from our own server and from misbehaving ones; comparing a zone with the registry."""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from sublet.dns import read_back as dns_read_back
from sublet.dns.difference import matches
from sublet.dns.read_back import ReadBackFailed, read_back
from sublet.dns.types import Record
from sublet.primaries.compare_zone import NameDifference, ZoneDifferences, compare_zone
from sublet.structs import replace
from support.in_memory_zone import DS_TEXT, RECORDS, many_nameservers, reader_of, serving

ZONE = "zone.example"
NAMES = [f"n{number}.zone.example" for number in range(250)]
MANY = many_nameservers(13, "many.zone.example")
FOO = [record for record in RECORDS if record.owner in {"foo.zone.example", "ns1.foo.zone.example"}]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    extra = [Record(name, "NS", 300, f"ns.{name[1:]}.") for name in NAMES[::2]]
    extra += [Record("own.zone.example", "NS", 300, "own.zone.example.")]
    extra += [Record("own.zone.example", "AAAA", 300, "2001:db8::5")]
    extra += [Record("left.zone.example", "A", 300, "192.0.2.9")]
    with serving(reader_of([*RECORDS, *MANY, *extra])) as bound:
        yield bound


def read(port: int, names: list[str], empty_owners: tuple[str, ...] = ()) -> Mapping[str, tuple[Record, ...]]:
    address = ("127.0.0.1", port)
    return asyncio.run(
        read_back(address, ZONE, dict.fromkeys(names, ()), timeout_seconds=60, empty_owners=empty_owners)
    )


def test_delegation_with_glue_and_ds(port: int) -> None:
    served = read(port, ["foo.zone.example"])
    assert set(served) == {"foo.zone.example"}
    assert set(served["foo.zone.example"]) == set(FOO)
    assert any(record.type == "DS" and record.rdata == DS_TEXT for record in served["foo.zone.example"])


def test_addresses_of_hosts_elsewhere_do_not_count(port: int) -> None:
    assert read(port, ["bar.zone.example"])["bar.zone.example"] == (
        Record("bar.zone.example", "NS", 300, "ns1.foo.zone.example."),
    )


def test_host_that_is_the_name_itself(port: int) -> None:
    assert {record.type for record in read(port, ["own.zone.example"])["own.zone.example"]} == {"NS", "AAAA"}


def test_all_glue_of_many_hosts(port: int) -> None:
    assert set(read(port, ["many.zone.example"])["many.zone.example"]) == set(MANY)


@pytest.mark.parametrize(
    "name",
    ["none.zone.example", "ent.zone.example", "text.zone.example", "alias.zone.example", "left.zone.example"],
)
def test_no_delegation_is_empty(port: int, name: str) -> None:
    assert read(port, [name]) == {name: ()}


def test_several_windows_of_names(port: int) -> None:
    served = read(port, NAMES)
    assert list(served) == NAMES
    assert [bool(records) for records in served.values()] == [number % 2 == 0 for number in range(250)]
    assert served["n248.zone.example"] == (Record("n248.zone.example", "NS", 300, "ns.248.zone.example."),)


def test_nothing_asked(port: int) -> None:
    assert read(port, []) == {}


def test_left_over_records_are_reported(port: int) -> None:
    absent = (
        "left.zone.example",
        "gone.zone.example",
        "bar.zone.example",
        "ns1.foo.zone.example",
        "text.zone.example",
    )
    served = read(port, ["left.zone.example"], absent)
    assert served["left.zone.example"] == (Record("left.zone.example", "A", 300, "192.0.2.9"),)
    assert served["gone.zone.example"] == ()
    assert {record.type for record in served["bar.zone.example"]} == {"NS"}
    assert {record.type for record in served["ns1.foo.zone.example"]} == {"A", "AAAA"}
    assert [each.type for each in served["text.zone.example"]] == ["TXT"]


def test_zone_that_is_not_served_fails(port: int) -> None:
    with pytest.raises(
        ReadBackFailed, match=r"127\.0\.0\.1:\d+ answers REFUSED to NS at foo\.other\.example\."
    ):
        read(port, ["foo.other.example"])


def test_name_below_another_delegation_fails(port: int) -> None:
    with pytest.raises(ReadBackFailed, match="neither an answer with authority nor a referral"):
        read(port, ["deep.foo.zone.example"])


def test_a_closed_port_fails() -> None:
    with serving(reader_of([])) as port:
        pass
    with pytest.raises(ReadBackFailed, match="can't be reached"):
        read(port, ["foo.zone.example"])


# Servers that misbehave

Misbehave = Callable[[dns.message.Message], Sequence[dns.message.Message | bytes] | None]
"""Returns what is sent for a query; if it returns None, the connection is closed."""


def ask_misbehaving(
    misbehave: Misbehave, timeout_seconds: float = 60, names: Sequence[str] = ("foo.zone.example",)
) -> Mapping[str, tuple[Record, ...]]:
    """Read back a name from a server that treats each query as the test says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size_bytes = int.from_bytes(await reader.readexactly(2), "big")
                query = dns.message.from_wire(await reader.readexactly(size_bytes))
                assert not query.flags & dns.flags.RD
                assert query.ednsflags & dns.flags.DO
                replies = misbehave(query)
                if replies is None:
                    return
                for each in replies:
                    writer.write(each if isinstance(each, bytes) else each.to_wire(prepend_length=True))
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    async def story() -> Mapping[str, tuple[Record, ...]]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            address = server.sockets[0].getsockname()
            return await read_back(address, ZONE, dict.fromkeys(names, ()), timeout_seconds=timeout_seconds)

    return asyncio.run(story())


def nodata(query: dns.message.Message) -> dns.message.Message:
    response = dns.message.make_response(query)
    response.flags |= dns.flags.AA
    return response


def changed(query: dns.message.Message, **changes: object) -> dns.message.Message:
    """Return an answer without records, with other fields."""
    response = nodata(query)
    for name, value in changes.items():
        setattr(response, name, value)
    return response


def servfail(query: dns.message.Message) -> dns.message.Message:
    response = dns.message.make_response(query)
    response.set_rcode(dns.rcode.SERVFAIL)
    return response


def of_bar(query: dns.message.Message) -> dns.message.Message:
    return dns.message.make_query("bar.zone.example", query.question[0].rdtype, id=query.id)


QR_AA = dns.flags.QR | dns.flags.AA
NEITHER = "neither an answer with authority nor a referral"
UP = [dns.rrset.from_text(".", 300, "IN", "NS", "a.root-servers.net.")]
FROM_CACHE = [dns.rrset.from_text("foo.zone.example.", 300, "IN", "NS", "ns1.foo.zone.example.")]


@pytest.mark.parametrize(
    ("misbehave", "sentence"),
    [
        (lambda query: [changed(query, id=(query.id + 1000) % 65536)], "answered another question"),
        (lambda query: [nodata(of_bar(query))], "answered another question"),
        (lambda query: [query], "answered another question"),
        (lambda query: [changed(query, flags=QR_AA | dns.flags.TC)], "truncated response over TCP"),
        (lambda query: [servfail(query)], "answers SERVFAIL to NS at foo.zone.example"),
        (lambda _: [b"\x00\x0bhello world"], "not a DNS message"),
        (lambda _: None, "closed the connection"),
        (lambda query: [changed(query, flags=dns.flags.QR)], NEITHER),
        (lambda query: [changed(query, flags=dns.flags.QR, authority=UP)], NEITHER),
        (lambda query: [changed(query, flags=dns.flags.QR, answer=FROM_CACHE)], NEITHER),
    ],
)
def test_misbehaving_server(misbehave: Misbehave, sentence: str) -> None:
    with pytest.raises(ReadBackFailed, match=sentence):
        ask_misbehaving(misbehave)


def test_silent_server() -> None:
    with pytest.raises(ReadBackFailed, match=r"did not answer within 0\.3 s"):
        ask_misbehaving(lambda _: [], timeout_seconds=0.3)


def test_a_slow_server_has_the_timeout_for_each_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """A distant server takes longer than that for many records."""
    monkeypatch.setattr(dns_read_back, "WINDOW_QUERIES", 1)

    def slow(query: dns.message.Message) -> Sequence[dns.message.Message]:
        time.sleep(0.15)
        return [nodata(query)]

    assert set(ask_misbehaving(slow, timeout_seconds=3, names=NAMES[:15])) == set(NAMES[:15])


def test_a_lost_connection_is_reported_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio must not log each query on the lost connection too."""
    connect = asyncio.open_connection

    async def ask_dying() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = listening.getsockname()
            reached = threading.Event()

            def accept_and_reset() -> None:
                connection = listening.accept()[0]
                reached.wait(60)
                _reset(connection)

            accepting = threading.Thread(target=accept_and_reset)

            async def connect_and_lose(*args: Any) -> Any:
                pair = await connect(*args)
                reached.set()
                accepting.join()
                return pair

            monkeypatch.setattr(asyncio, "open_connection", connect_and_lose)
            accepting.start()
            await read_back(address, ZONE, dict.fromkeys(NAMES, ()), timeout_seconds=60)

    with pytest.raises(ReadBackFailed) as raised:
        asyncio.run(ask_dying())
    assert raised.value.cause == "no_answer"  # the server was reached
    assert caplog.messages == []


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_answers_in_another_order_and_another_case() -> None:
    kept: list[dns.message.Message] = []

    def reverse(query: dns.message.Message) -> list[dns.message.Message]:
        kept.append(query)
        replies = []
        for earlier in reversed(kept[-2:]) if len(kept) % 2 == 0 else ():
            response = nodata(earlier)
            name = earlier.question[0].name.to_text().upper()
            if earlier.question[0].rdtype == dns.rdatatype.NS:
                response.flags &= ~dns.flags.AA
                response.authority = [dns.rrset.from_text(name, 300, "IN", "NS", f"NS1.{name}")]
                response.additional = [dns.rrset.from_text(f"NS1.{name}", 300, "IN", "A", "192.0.2.11")]
            replies.append(response)
        return replies

    served = ask_misbehaving(reverse, names=("foo.zone.example", "bar.zone.example"))
    assert [each.question[0].rdtype for each in kept] == [dns.rdatatype.NS] * 2 + [dns.rdatatype.DS] * 2
    for name in ("foo.zone.example", "bar.zone.example"):
        assert served[name] == (
            Record(name, "NS", 300, f"ns1.{name}."),
            Record(f"ns1.{name}", "A", 300, "192.0.2.11"),
        )


# Pure


NS = Record("a.example", "NS", 300, "ns.b.example.")


@pytest.mark.parametrize(
    ("desired", "served", "same"),
    [
        ([], [], True),
        ([NS], [NS], True),
        ([NS], [], False),
        ([], [NS], False),
        (FOO, list(reversed(FOO)), True),
        (FOO, FOO[1:], False),
        ([NS], [Record("a.example", "NS", 301, "ns.b.example.")], False),
        ([NS], [Record("a.example", "NS", 300, "NS.b.EXAMPLE.")], True),
        ([NS], [Record("a.example", "NS", 300, "ns2.b.example.")], False),
        ([NS], [Record("b.example", "NS", 300, "ns.b.example.")], False),
        (
            [Record("n.a.example", "AAAA", 300, "2001:db8::1")],
            [Record("n.a.example", "AAAA", 300, "2001:DB8:0:0::1")],
            True,
        ),
        ([Record("a.example", "DS", 300, DS_TEXT)], [Record("a.example", "DS", 300, DS_TEXT.upper())], True),
        ([Record("a.example", "A", 300, "what")], [Record("a.example", "A", 300, "else")], False),
    ],
)
def test_matches(desired: list[Record], served: list[Record], same: bool) -> None:
    assert matches(iter(desired), iter(served)) is same


SOA = Record("zone.example", "SOA", 300, "ns1.zone.example. h.zone.example. 1 2 3 4 5")
APEX = [
    SOA,
    Record("zone.example", "NS", 300, "ns1.zone.example."),
    Record("zone.example", "DNSKEY", 300, "x"),
]
A_NS = Record("a.zone.example", "NS", 300, "ns.a.zone.example.")
A_GLUE = Record("ns.a.zone.example", "A", 300, "192.0.2.1")
A_OLD_GLUE = Record("old.a.zone.example", "A", 300, "192.0.2.2")
B_NS = Record("b.zone.example", "NS", 300, "ns.elsewhere.example.")
DESIRED = {"a.zone.example": (A_NS, A_GLUE), "b.zone.example": (B_NS,)}
OURS = {"a.zone.example", "ns.a.zone.example", "old.a.zone.example", "b.zone.example", "gone.zone.example"}
FENCE = Record("_sublet.zone.example", "TXT", 60, '"fence"')
HAND_MADE = Record("mail.zone.example", "MX", 300, "10 mx.example.")
HAND_MADE_CUT = Record("dept.zone.example", "NS", 300, "ns.elsewhere.example.")
GONE_NS = Record("gone.zone.example", "NS", 300, "ns.elsewhere.example.")
A_TEXT = Record("a.zone.example", "TXT", 300, '"x"')


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        ([A_NS, A_GLUE, B_NS], ZoneDifferences()),
        ([B_NS, A_GLUE, A_NS, B_NS, SOA], ZoneDifferences()),
        ([A_NS, A_GLUE], ZoneDifferences(missing=("b.zone.example",))),
        ([], ZoneDifferences(missing=("a.zone.example", "b.zone.example"))),
        (
            [A_NS, B_NS],
            ZoneDifferences(different=(NameDifference("a.zone.example", (A_NS,), (A_NS, A_GLUE)),)),
        ),
        (
            [A_GLUE, B_NS],
            ZoneDifferences(different=(NameDifference("a.zone.example", (A_GLUE,), (A_NS, A_GLUE)),)),
        ),
        ([A_NS, A_GLUE, B_NS, A_OLD_GLUE], ZoneDifferences(orphaned=(A_OLD_GLUE,))),
        ([A_NS, A_GLUE, B_NS, GONE_NS], ZoneDifferences(orphaned=(GONE_NS,))),
        ([A_NS, A_GLUE, B_NS, HAND_MADE, HAND_MADE_CUT], ZoneDifferences(foreign=(HAND_MADE_CUT, HAND_MADE))),
        ([A_NS, A_GLUE, B_NS, A_TEXT], ZoneDifferences(foreign=(A_TEXT,))),
        ([A_NS, A_GLUE, B_NS, FENCE], ZoneDifferences()),
        ([A_NS, A_GLUE, B_NS, Record("a.zone.example", "RRSIG", 300, "DS ...")], ZoneDifferences()),
    ],
)
def test_compare_zone(live: list[Record], expected: ZoneDifferences) -> None:
    found = compare_zone([*APEX, *live], DESIRED, OURS, ignored={FENCE.owner})
    assert found == expected
    assert found.needs_no_repair is not bool(expected.missing or expected.different or expected.orphaned)


OWN_A, OWN_AAAA = (
    Record("ns1.zone.example", "A", 300, "192.0.2.53"),
    Record("ns1.zone.example", "AAAA", 300, "2001:db8::53"),
)


@pytest.mark.parametrize(
    ("live", "foreign", "own_servers"),
    [
        ([OWN_A, OWN_AAAA], (), (OWN_A, OWN_AAAA)),
        ([replace(OWN_A, owner="ns2.zone.example")], (replace(OWN_A, owner="ns2.zone.example"),), ()),
        (
            [
                Record("zone.example", "NS", 300, "NS2.Zone.Example."),
                replace(OWN_A, owner="ns2.zone.example"),
            ],
            (),
            (replace(OWN_A, owner="ns2.zone.example"),),
        ),
        # Another server outside the zone has no records in it, and a name below a registered name isn't at
        # the apex.
        ([Record("zone.example", "NS", 300, "ns.elsewhere.example."), OWN_A], (), (OWN_A,)),
        (
            [OWN_A, Record("ns1.zone.example", "TXT", 300, '"x"')],
            (Record("ns1.zone.example", "TXT", 300, '"x"'),),
            (OWN_A,),
        ),
        (
            [Record("ns1.zone.example", "NS", 300, "ns.elsewhere.example.")],
            (Record("ns1.zone.example", "NS", 300, "ns.elsewhere.example."),),
            (),
        ),
    ],
)
def test_addresses_of_the_zones_own_name_servers_are_not_foreign(
    live: list[Record], foreign: tuple[Record, ...], own_servers: tuple[Record, ...]
) -> None:
    found = compare_zone([*APEX, *live], {}, OURS)
    assert found == ZoneDifferences(foreign=foreign, own_servers=own_servers)


def test_name_with_no_records_is_not_desired() -> None:
    found = compare_zone([SOA, GONE_NS], {"gone.zone.example": ()}, OURS)
    assert found == ZoneDifferences(orphaned=(GONE_NS,))


def test_the_fence_is_foreign_unless_ignored() -> None:
    assert compare_zone([SOA, FENCE], {}, OURS) == ZoneDifferences(foreign=(FENCE,))


def test_an_incomplete_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no SOA"):
        compare_zone([A_NS], DESIRED, OURS)
