"""Reading a primary's answers: only answers signed with our key are accepted, and
every fault has its cause.
"""

import asyncio
import random
from collections.abc import Callable

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.tsig
import dns.update
import pytest

from sublet.dns.types import Primary
from sublet.primaries.primary import (
    CAUSES,
    PrimaryFault,
    accepts_updates,
    read_fence,
    read_signed,
    send_update,
)
from sublet.primaries.update import fence_name, new_fence
from support.free_ports import free_address
from support.name_servers import fresh_key

ZONE = "example.test"
KEY = fresh_key("ours")
RING = {dns.name.from_text(KEY.name): dns.tsig.Key(KEY.name, KEY.secret.reveal(), KEY.algorithm)}
SOA = f"{ZONE}. 300 IN SOA ns1.{ZONE}. hostmaster.{ZONE}. 7 3600 900 1209600 300"
FENCE = new_fence()
TEXT = f'{fence_name(ZONE)}. 0 IN TXT "{FENCE}"'
HOST = "127.0.0.1"


def asked() -> dns.message.Message:
    """Return a signed query of the fence."""
    query = dns.message.make_query(fence_name(ZONE), "TXT", flags=0)
    query.use_tsig(RING, algorithm=KEY.algorithm)
    query.to_wire()
    return query


def answer(
    query: dns.message.Message,
    *records: str,
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR,
    flags: int = dns.flags.QR | dns.flags.AA,
    error: int = 0,
    other: bytes = b"",
    key: dns.tsig.Key | None = None,
    is_signed: bool = True,
) -> bytes:
    """Return a server's answer; `error` and `other` are those of the TSIG record."""
    response = dns.message.make_response(query)
    response.flags = flags | (response.flags & 0x7800)
    response.set_rcode(rcode)
    for record in records:
        owner, ttl, _, rdtype, rdata = record.split(" ", 4)
        response.answer.append(dns.rrset.from_text(owner, int(ttl), "IN", rdtype, rdata))
    if is_signed:
        signer = key or RING[dns.name.from_text(KEY.name)]
        response.use_tsig(signer, algorithm=signer.algorithm, tsig_error=error, other_data=other)
        response.request_mac = query.mac or b""
    else:
        response.tsig = None
    return bytes(response.to_wire() or b"")


def primary(port: int = 1) -> Primary:
    return Primary("main", HOST, port, KEY)


def cause_of(wire: bytes, query: dns.message.Message) -> tuple[str, str]:
    with pytest.raises(PrimaryFault) as raised:
        read_signed(primary(), wire, query)
    assert not raised.value.certain
    return raised.value.cause, str(raised.value)


def test_a_signed_answer_is_accepted() -> None:
    query = asked()
    assert read_signed(primary(), answer(query, TEXT), query).answer[0][0].strings == (FENCE.encode(),)


@pytest.mark.parametrize(
    ("options", "cause", "word"),
    [
        ({"is_signed": False}, "unsigned", "NOERROR without a signature"),
        ({"error": dns.rcode.BADKEY}, "key", "does not know"),
        ({"error": dns.rcode.BADSIG}, "key", "another secret"),
        ({"error": dns.rcode.BADTRUNC}, "unsigned", ""),
        ({"key": dns.tsig.Key("theirs", KEY.secret.reveal(), KEY.algorithm)}, "unsigned", "theirs"),
        ({"key": dns.tsig.Key("ours", fresh_key("x").secret.reveal(), KEY.algorithm)}, "unsigned", ""),
        ({"key": dns.tsig.Key("ours", KEY.secret.reveal(), "hmac-sha512")}, "unsigned", ""),
    ],
)
def test_an_answer_not_signed_with_our_key_is_a_fault(
    options: dict[str, object], cause: str, word: str
) -> None:
    query = asked()
    found = cause_of(answer(query, TEXT, **options), query)  # type: ignore[arg-type]
    assert found[0] == cause
    assert word in found[1]


def test_an_answer_to_another_query_is_a_fault() -> None:
    query, other = asked(), asked()
    assert cause_of(answer(other, TEXT), query)[0] == "unsigned"


@pytest.mark.parametrize(("ahead", "says"), [(400, "400 s ahead of"), (-86400, "86400 s behind")])
def test_a_wrong_clock_is_reported_with_its_difference(ahead: int, says: str) -> None:
    query = asked()
    assert query.tsig is not None
    theirs = (query.tsig[0].time_signed + ahead).to_bytes(6, "big")
    wire = answer(query, rcode=dns.rcode.NOTAUTH, error=dns.rcode.BADTIME, other=theirs)
    assert cause_of(wire, query) == ("clock", f"the clock of main is {says} this host's")


@pytest.mark.uncovered
def test_any_damaged_answer_is_at_most_a_fault() -> None:
    chance = random.Random(4)  # noqa: S311 - the same each time
    query = asked()
    good = answer(query, TEXT)
    meant = read_signed(primary(), good, query)
    for _ in range(3000):
        wire = bytearray(good[: chance.randrange(len(good) + 1)] if chance.random() < 0.3 else good)
        for _ in range(chance.randrange(1, 8)):
            if wire:
                wire[chance.randrange(len(wire))] = chance.randrange(256)
        read = fault = None
        try:
            read = read_signed(primary(), bytes(wire), query)
        except PrimaryFault as raised:
            fault = raised
        if fault is not None:
            assert fault.cause in CAUSES
            assert not fault.certain
        else:  # parts that no signature covers, such as the id, which is compared separately
            assert read is not None
            assert (read.answer, read.rcode(), read.flags) == (meant.answer, meant.rcode(), meant.flags)


Script = Callable[[dns.message.Message], bytes | None]


def served(script: Script, then: Callable[[Primary], object]) -> object:
    """Run `then` against a server that answers by a script: with bytes without their length; None closes the
    connection.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(2), "big")
                query = dns.message.from_wire(await reader.readexactly(size), keyring=RING)
                wire = script(query)
                if wire is None:
                    break
                writer.write(len(wire).to_bytes(2, "big") + wire)
        except EOFError:
            pass
        finally:
            writer.close()

    async def run() -> object:
        async with await asyncio.start_server(serve, HOST, 0) as server:
            return await then(primary(server.sockets[0].getsockname()[1]))  # type: ignore[misc]

    return asyncio.run(run())


def fence(of: Primary) -> object:
    return read_fence(of, ZONE, timeout_seconds=60)


def fence_cause(script: Script) -> str:
    with pytest.raises(PrimaryFault) as raised:
        served(script, fence)
    return raised.value.cause


def as_asked(query: dns.message.Message, *texts: str, **options: object) -> bytes:
    """Answer the fence's question with these records, the SOA's with the SOA."""
    records = texts if query.question[0].rdtype == dns.rdatatype.TXT else (SOA,)
    return answer(query, *records, **options)  # type: ignore[arg-type]


def test_the_fence_and_the_serial_are_read() -> None:
    found = served(lambda query: as_asked(query, TEXT), fence)
    assert (found.value, found.serial) == (FENCE, 7)  # type: ignore[attr-defined]


def test_a_zone_without_a_fence() -> None:
    found = served(as_asked, fence)
    assert found.value is None  # type: ignore[attr-defined]


def test_a_fence_written_by_hand_is_a_fault() -> None:
    assert fence_cause(_by_hand) == "fence"


def _by_hand(query: dns.message.Message) -> bytes:
    """Answer with a TXT record at the fence that no registry wrote; there is no wildcard."""
    at_fence = query.question[0].name == dns.name.from_text(fence_name(ZONE))
    return as_asked(query, *([f'{fence_name(ZONE)}. 0 IN TXT "by hand"'] if at_fence else []))


def test_a_record_from_a_wildcard_is_not_a_fence() -> None:
    found = served(lambda query: as_asked(query, f'{query.question[0].name} 0 IN TXT "any"'), fence)
    assert found.value is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rcode", "is_signed", "cause"),
    [
        (dns.rcode.NXDOMAIN, False, "unsigned"),
        (dns.rcode.SERVFAIL, False, "unsigned"),
        (dns.rcode.SERVFAIL, True, "failure"),
        (dns.rcode.REFUSED, True, "zone"),
        (dns.rcode.REFUSED, False, "zone"),
        (dns.rcode.NOTAUTH, False, "key"),
        (dns.rcode.NXDOMAIN, True, "zone"),
    ],
)
def test_the_causes_of_refusals_to_read_the_fence(
    rcode: dns.rcode.Rcode, is_signed: bool, cause: str
) -> None:
    assert fence_cause(lambda query: answer(query, rcode=rcode, is_signed=is_signed)) == cause


def test_a_server_without_authority_is_a_fault_of_the_zone() -> None:
    assert fence_cause(lambda query: as_asked(query, TEXT, flags=dns.flags.QR)) == "zone"


def test_a_wrong_clock_is_detected_from_an_unsigned_refusal() -> None:
    """PowerDNS refuses without a signature, unless the query allows a large time difference."""

    def script(query: dns.message.Message) -> bytes:
        assert query.tsig is not None
        if query.tsig[0].fudge <= 300:
            return answer(query, rcode=dns.rcode.NOTAUTH, is_signed=False)
        return as_asked(query)

    assert fence_cause(script) == "clock"


def test_a_server_that_closes_the_connection_gives_no_answer() -> None:
    assert fence_cause(lambda _: None) == "no_answer"


def test_a_closed_port_is_unreachable() -> None:
    with pytest.raises(PrimaryFault) as raised:
        asyncio.run(read_fence(primary(free_address()[1]), ZONE, timeout_seconds=60))
    assert raised.value.cause == "unreachable"


@pytest.mark.parametrize(
    ("rcode", "cause"),
    [
        (dns.rcode.REFUSED, "refused"),
        (dns.rcode.NOTAUTH, "zone"),
        (dns.rcode.NOTZONE, "zone"),
        (dns.rcode.SERVFAIL, "failure"),
        (dns.rcode.FORMERR, "not_understood"),
        (dns.rcode.NOTIMP, "not_understood"),
        (dns.rcode.NXRRSET, "fence"),
        (dns.rcode.YXRRSET, "fence"),
        (dns.rcode.YXDOMAIN, "in_use"),
        (dns.rcode.BADCOOKIE, "not_understood"),
    ],
)
@pytest.mark.parametrize("is_signed", [True, False])
def test_the_causes_of_refused_updates(rcode: dns.rcode.Rcode, cause: str, is_signed: bool) -> None:
    def send(of: Primary) -> object:
        return send_update(of, dns.update.UpdateMessage(dns.name.from_text(ZONE)), timeout_seconds=60)

    with pytest.raises(PrimaryFault) as raised:
        served(lambda query: answer(query, rcode=rcode, is_signed=is_signed), send)
    # BIND doesn't sign the FORMERR about a record that it can't read.
    of_unsigned = cause if rcode == dns.rcode.FORMERR else "unsigned"
    assert (raised.value.cause, raised.value.certain) == (cause if is_signed else of_unsigned, is_signed)


@pytest.mark.parametrize(
    ("rcode", "is_signed", "takes"),
    [
        (dns.rcode.NOERROR, True, True),
        (dns.rcode.REFUSED, True, False),
        (dns.rcode.REFUSED, False, True),
        (dns.rcode.SERVFAIL, True, True),
    ],
)
def test_only_a_signed_refusal_shows_that_updates_are_not_accepted(
    rcode: dns.rcode.Rcode, is_signed: bool, takes: bool
) -> None:
    found = served(
        lambda query: answer(query, rcode=rcode, is_signed=is_signed),
        lambda of: accepts_updates(of, ZONE, timeout_seconds=60),
    )
    assert found is takes
