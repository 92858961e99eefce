"""Zone transfers: they give the records that dnspython reads, and only completely signed transfers are
accepted.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat

import dns.message
import dns.name
import dns.rcode
import dns.rrset
import dns.tsig
import dns.zone
import pytest

from sublet.dns.types import Primary, Record
from sublet.primaries.primary import PrimaryFault, keyring
from sublet.primaries.transfer import ZoneTransfer, _Incoming, transfer_zone
from sublet.structs import replace
from support.name_servers import KINDS, NameServerProcess, fresh_key, primary

ZONE = "zone.example"
PRIMARY = Primary("main", "192.0.2.1", 53, fresh_key("key"))
SOA = "@ 300 IN SOA ns1 hostmaster 7 3600 900 604800 300"
PARTS = [
    [SOA, "a 300 IN NS NS.Elsewhere.Example.", "a 300 IN DS 2371 13 2 1F987CC6583E92DF0890718C42A1D3B1A1F4B4A6B2D8A1DD09A4C1D7F4D3E5A6"],  # noqa: E501
    ["ns1 300 IN AAAA 2001:DB8:0::1", r"od\.d 300 IN TXT \"Case Matters\"", "* 300 IN MX 10 Mail", "B 300 IN NS ns.b"],  # noqa: E501
    ["a 300 IN RRSIG NS 13 3 300 20300101000000 20260101000000 1 zone.example. AAAA", SOA],
]  # fmt: skip
WANTED = {
    Record(ZONE, "SOA", 300, f"ns1.{ZONE}. hostmaster.{ZONE}. 7 3600 900 604800 300"),
    Record(f"a.{ZONE}", "NS", 300, "ns.elsewhere.example."),
    Record(f"a.{ZONE}", "DS", 300, "2371 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"),  # noqa: E501
    Record(f"ns1.{ZONE}", "AAAA", 300, "2001:db8::1"),
    Record(rf"od\.d.{ZONE}", "TXT", 300, '"Case Matters"'),
    Record(f"*.{ZONE}", "MX", 300, f"10 Mail.{ZONE}."),
    Record(f"b.{ZONE}", "NS", 300, f"ns.b.{ZONE}."),
}  # fmt: skip


def _rrset(line: str) -> dns.rrset.RRset:
    owner, ttl, _, kind, rdata = line.replace('\\"', '"').split(" ", 4)
    origin = dns.name.from_text(ZONE)
    name = origin if owner == "@" else dns.name.from_text(owner, origin)
    return dns.rrset.from_text_list(name, int(ttl), "IN", kind, [rdata], origin=origin, relativize=False)


def _query() -> dns.message.Message:
    query = dns.message.make_query(ZONE, "AXFR", flags=0)
    query.use_tsig(keyring(PRIMARY))
    query.to_wire()
    return query


def _wires(
    query: dns.message.Message,
    parts: Iterable[list[str]],
    *,
    unsigned: tuple[int, ...] = (),
    key: Primary = PRIMARY,
) -> Iterator[bytes]:
    """The messages of a transfer as a server signs them. The next signature covers the `unsigned` ones."""
    context = None
    for number, lines in enumerate(parts):
        response = dns.message.make_response(query)
        response.answer = [_rrset(line) for line in lines]
        if number in unsigned:
            response.tsig = None
            wire = response.to_wire()
            assert context is not None
            context.update(wire)
            yield wire
            continue
        response.use_tsig(keyring(key))
        response.request_mac = query.mac or b""
        yield response.to_wire(multi=True, tsig_ctx=context)
        context = response.tsig_ctx


def _take(
    wires: Callable[[dns.message.Message], Iterator[bytes]], *, ahead: timedelta = timedelta()
) -> ZoneTransfer:
    query = _query()
    incoming = _Incoming(PRIMARY, ZONE, query, lambda: datetime.now(UTC) + ahead)
    for wire in wires(query):
        incoming.add_message(wire)
    assert incoming.is_whole
    return ZoneTransfer(incoming.serials[0], incoming.messages)


def test_a_transfer_in_several_messages() -> None:
    taken = _take(lambda query: _wires(query, PARTS))
    assert taken.serial == 7
    assert set(taken.take_records()) == WANTED
    assert list(taken.take_records()) == []


def test_intermediate_messages_may_be_unsigned() -> None:
    assert set(_take(lambda query: _wires(query, PARTS, unsigned=(1,))).take_records()) == WANTED


def _changed(wires: Iterator[bytes], number: int) -> Iterator[bytes]:
    for index, wire in enumerate(wires):
        yield wire.replace(b"Case Matters", b"Case Mutters") if index == number else wire


@pytest.mark.parametrize(
    ("wires", "cause"),
    [
        (lambda query: _changed(_wires(query, PARTS), 1), "unsigned"),
        (lambda query: _changed(_wires(query, PARTS, unsigned=(1,)), 1), "unsigned"),
        (lambda query: _wires(query, PARTS, unsigned=(2,)), "unsigned"),
        (lambda query: _wires(query, [PARTS[1], PARTS[2]]), "not_understood"),
        (lambda query: _wires(query, [PARTS[0], [SOA.replace(" 7 ", " 8 ")]]), "not_understood"),
        (lambda query: _wires(query, [PARTS[0], [SOA, "c 300 IN NS ns.c"]]), "not_understood"),
        (lambda _: _wires(_query(), PARTS), "not_understood"),
        (lambda _query: [b"nonsense"], "unsigned"),
        (lambda query: [wire[:-3] for wire in _wires(query, PARTS)], "not_understood"),
        (lambda query: [_refused(query)], "refused"),
    ],
)  # fmt: skip
def test_an_incomplete_or_unsigned_transfer_is_a_fault(
    wires: Callable[[dns.message.Message], Iterator[bytes]], cause: str
) -> None:
    with pytest.raises(PrimaryFault) as caught:
        _take(wires)
    assert caught.value.cause == cause, str(caught.value)


def _refused(query: dns.message.Message) -> bytes:
    response = dns.message.make_response(query)
    response.set_rcode(dns.rcode.REFUSED)
    response.use_tsig(keyring(PRIMARY))
    response.request_mac = query.mac or b""
    return response.to_wire()


def test_a_wrong_secret_and_a_wrong_clock_are_reported() -> None:
    other = Primary("main", "192.0.2.1", 53, fresh_key("key"))
    with pytest.raises(PrimaryFault) as caught:
        _take(lambda query: _wires(query, PARTS, key=other))
    assert caught.value.cause == "unsigned"
    with pytest.raises(PrimaryFault) as caught:
        _take(lambda query: _wires(query, PARTS), ahead=timedelta(hours=1))
    assert caught.value.cause == "clock"


def test_an_endless_transfer_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sends correctly signed messages without end, over a real connection."""
    monkeypatch.setattr("sublet.primaries.transfer.BYTES_MAX", 200_000)
    sent: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        query = dns.message.from_wire(wire, keyring=keyring(PRIMARY))
        endless = chain(
            [PARTS[0]], repeat([f"n{number} 300 IN NS ns.elsewhere.example." for number in range(100)])
        )
        with suppress(ConnectionError):
            for part in _wires(query, endless):
                writer.write(len(part).to_bytes(2, "big") + part)
                await writer.drain()
                sent.append(len(part))
                await asyncio.sleep(0)  # a drain that doesn't wait lets no other task run
        writer.close()

    async def transfer() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            await transfer_zone(
                replace(PRIMARY, address=host, port=port), ZONE, lambda: datetime.now(UTC), timeout_seconds=60
            )

    with pytest.raises(PrimaryFault) as caught:
        asyncio.run(transfer())
    assert (caught.value.cause, "200000 bytes" in str(caught.value)) == ("too_large", True)
    assert sum(sent) < 50_000_000, "what was under way"


def test_a_transfer_below_the_size_limit_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sublet.primaries.transfer.BYTES_MAX", 5_000)
    assert set(_take(lambda query: _wires(query, PARTS)).take_records()) == WANTED


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NameServerProcess]:
    with primary(request.param, tmp_path_factory.mktemp(request.param), ZONE) as running:
        names = [f"add n{number}.{ZONE}. 300 NS ns{number % 7}.Provider.example." for number in range(40)]
        running.nsupdate([*names, f"add n1.{ZONE}. 300 A 192.0.2.7"])
        yield running


@pytest.mark.slow
def test_a_transfer_has_the_records_that_dnspython_reads(server: NameServerProcess) -> None:
    found = asyncio.run(
        transfer_zone(server.as_primary(), ZONE, lambda: datetime.now(UTC), timeout_seconds=60)
    )
    assert found.serial == server.serial()
    of_signing = {"SOA", "NSEC3PARAM", "DNSKEY", "CDS", "CDNSKEY", "TYPE65534"}
    records = {each for each in found.take_records() if each.type not in of_signing}
    lower = {Record(each.owner, each.type, each.ttl_seconds, each.rdata.lower()) for each in server.records()}
    assert records == lower


@pytest.mark.slow
def test_a_key_that_may_not_transfer_is_refused(server: NameServerProcess) -> None:
    unknown = Primary("main", server.address, server.port, fresh_key("unknown"))
    with pytest.raises(PrimaryFault) as caught:
        asyncio.run(transfer_zone(unknown, ZONE, lambda: datetime.now(UTC), timeout_seconds=60))
    assert caught.value.cause in {"key", "refused", "zone", "unsigned"}  # PowerDNS signs no refusal
