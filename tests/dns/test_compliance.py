"""The EDNS, flag and opcode matrix of ISC's DNS compliance tests, and malformed messages, as raw packets to
the built-in name server.

The expected header is compared whole, so an unknown bit that comes back is a failure. What the RFCs leave
open follows NSD or Knot.
"""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from long.fuzzing.packets import opt_record, query
from support.in_memory_zone import RECORDS, reader_of, serving

QR, AA, TC, RD, RA, Z, AD, CD = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0020, 0x0010
NOERROR, FORMERR, NOTIMP, REFUSED, NOTAUTH = 0, 1, 4, 5, 9
DO = 0x8000
IN, CH, ANY = 1, 3, 255
SOA, TSIG, AXFR, IXFR, TYPE_ANY = 6, 250, 252, 251, 255
ID = 4711
APEX = b"\x04zone\x07example\0"
DELEGATED = b"\x03foo" + APEX
MISSING = b"\x07missing" + APEX


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(reader_of(RECORDS)) as bound:
        yield bound


def message(
    *records: bytes, flags: int = 0, name: bytes = APEX, rdtype: int = SOA, rdclass: int = IN
) -> bytes:
    """Return a message with one question, and these records in its additional section."""
    return struct.pack("!2H", ID, flags) + query(name, rdtype, rdclass, records=records)[4:]


def opt(*options: bytes, payload: int = 1232, version: int = 0, flags: int = 0) -> bytes:
    return opt_record(payload, version=version, flags=flags, options=b"".join(options))


def option(code: int, data: bytes = b"") -> bytes:
    return struct.pack("!2H", code, len(data)) + data


def record(rdtype: int = 1, rdclass: int = IN, rdata: bytes = b"\xc0\0\x02\x01", name: bytes = APEX) -> bytes:
    return name + struct.pack("!HHIH", rdtype, rdclass, 0, len(rdata)) + rdata


ALGORITHM = b"\x0bhmac-sha256\0"
KEY = b"\x03key\x04name\0"
TIMES = struct.pack("!HIH", 0, 1_700_000_000, 300)


def tsig(*, original_id: int = ID, mac: bytes = bytes(32), error: int = 0) -> bytes:
    """Return a TSIG record (RFC 8945, section 4.2)."""
    behind = struct.pack("!3H", original_id, error, 0)
    rdata = ALGORITHM + TIMES + struct.pack("!H", len(mac)) + mac + behind
    return record(TSIG, ANY, rdata, KEY)


def with_counts(wire: bytes, *counts: int) -> bytes:
    """Return a message with other record counts in its header."""
    return wire[:4] + struct.pack("!4H", *counts) + wire[12:]


class Reply(NamedTuple):
    """A reply: the header, the question, and the version, extended code and flags of an OPT record at its
    end.
    """

    id: int
    flags: int
    counts: tuple[int, ...]
    wire: bytes

    @property
    def edns(self) -> tuple[int, int, int] | None:
        """The extended code, version and flags of an OPT record without options, or None."""
        found = self.wire[-11:]
        if self.counts[3] == 0 or found[:3] != b"\0\0\x29" or found[9:] != b"\0\0":
            return None
        code, version, flags = struct.unpack_from("!BBH", found, 5)
        return code, version, flags


def exchange(port: int, wire: bytes, *, over_tcp: bool = False) -> Reply:
    with socket.socket(type=socket.SOCK_STREAM if over_tcp else socket.SOCK_DGRAM) as asker:
        asker.settimeout(60)
        asker.connect(("127.0.0.1", port))
        if over_tcp:
            asker.sendall(len(wire).to_bytes(2, "big") + wire)
            with asker.makefile("rb") as stream:
                reply = stream.read(int.from_bytes(stream.read(2), "big"))
        else:
            asker.send(wire)
            reply = asker.recv(65535)
    head = struct.unpack_from("!6H", reply)
    return Reply(head[0], head[1], head[2:], reply)


@pytest.fixture(params=[False, True], ids=["udp", "tcp"])
def over_tcp(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# EDNS (RFC 6891)

OPTIONS = {
    "none": b"",
    "unknown": option(100),
    "unknown with data": option(65001, b"data"),
    "NSID": option(3),
    "client subnet": option(8, b"\0\x01\x18\0\xc0\0\x02"),
    "malformed client subnet": option(8, b"\0\x09\x05\x05abc"),
    "expire": option(9),
    "cookie": option(10, bytes(8)),
    "malformed cookie": option(10, b"abc"),
    "keepalive": option(11),
    "padding": option(12, bytes(20)),
    "malformed error": option(15, b"x"),
    "several": option(100) + option(3) + option(8, b"\0\x01\0\0") + option(10, bytes(8)),
}
FLAGS = {"none": 0, "DO": DO, "unknown": 0x0040, "all": 0xFFFF}


@pytest.mark.uncovered
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("version", [0, 1, 2, 255])
def test_edns(port: int, version: int, options: bytes, flags: int, over_tcp: bool) -> None:
    """Options are ignored and not copied, of the flags only DO is copied, and a later version gets BADVERS
    without an answer.
    """
    reply = exchange(port, message(opt(options, version=version, flags=flags)), over_tcp=over_tcp)
    if version == 0:
        assert (reply.id, reply.flags, reply.counts) == (ID, QR | AA, (1, 1, 0, 1))
        assert reply.edns == (0, 0, flags & DO)
    else:
        assert (reply.id, reply.flags, reply.counts) == (ID, QR, (1, 0, 0, 1))
        assert reply.edns == (1, 0, flags & DO)  # BADVERS is 16: the upper octet is 1


def test_a_query_without_edns_gets_an_answer_without_edns(port: int, over_tcp: bool) -> None:
    reply = exchange(port, message(), over_tcp=over_tcp)
    assert (reply.id, reply.flags, reply.counts) == (ID, QR | AA, (1, 1, 0, 0))


def test_an_uncounted_opt_record_is_formerr(port: int) -> None:
    assert exchange(port, with_counts(message(opt()), 1, 0, 0, 0)).flags == QR | FORMERR


@pytest.mark.parametrize("payload", [0, 1, 511, 512, 1232, 4096, 65535])
def test_a_payload_below_512_counts_as_512(port: int, payload: int) -> None:
    """The delegation's referral is longer than 100 octets, and shorter than 512."""
    reply = exchange(port, message(opt(payload=payload, flags=DO), name=DELEGATED))
    assert (reply.flags, reply.counts) == (QR, (1, 0, 3, 3))
    assert 100 < len(reply.wire) <= 512


EDNS_ERRORS = {
    "two OPT records": message(opt(), opt()),
    "a name that is not the root": message(b"\x01a" + opt()),
    "in the answer section": with_counts(message(opt()), 1, 1, 0, 0),
    "in the authority section": with_counts(message(opt()), 1, 0, 1, 0),
    "an option longer than the record": message(opt(b"\0\x64\0\x05ab")),
    "half the head of an option": message(opt(b"\0\x64\0")),
    "a record longer than the message": message(opt(option(100))[:-1]),
}


@pytest.mark.parametrize("wire", EDNS_ERRORS.values(), ids=EDNS_ERRORS)
def test_malformed_edns_is_formerr(port: int, wire: bytes, over_tcp: bool) -> None:
    reply = exchange(port, wire, over_tcp=over_tcp)
    assert (reply.id, reply.flags, reply.counts) == (ID, QR | FORMERR, (0, 0, 0, 0))


# Header flags (RFC 1035, section 4.1.1; RFC 4035, section 3.1.6)


@pytest.mark.uncovered
@pytest.mark.parametrize("flags", [0, AA, TC, RD, RA, Z, AD, CD, AA | TC | RD | RA | Z | AD | CD, 0x000F])
@pytest.mark.parametrize(
    ("name", "expected"), [(APEX, QR | AA), (MISSING, QR | AA | 3), (DELEGATED, QR), (b"\0", QR | REFUSED)]
)
def test_only_the_header_flag_rd_is_copied_to_the_answer(
    port: int, flags: int, name: bytes, expected: int, over_tcp: bool
) -> None:
    for records in ((), (opt(),)):
        reply = exchange(port, message(*records, flags=flags, name=name), over_tcp=over_tcp)
        assert (reply.id, reply.flags) == (ID, expected | flags & RD)


def test_a_response_gets_no_answer(port: int) -> None:
    """The next answer on the socket is that to the next query."""
    with socket.socket(type=socket.SOCK_DGRAM) as asker:
        asker.settimeout(60)
        asker.connect(("127.0.0.1", port))
        for wire in (message(flags=QR), message(flags=QR | 5 << 11), message(flags=QR)[:12], message()[:11]):
            asker.send(wire)
        asker.send(struct.pack("!H", ID + 1) + message()[2:])
        assert asker.recv(65535)[:2] == struct.pack("!H", ID + 1)


# Opcodes (RFC 1035; NOTIFY and UPDATE are not for this server)


@pytest.mark.parametrize("flags", [0, AA | TC | RD | RA | Z | AD | CD], ids=["no flags", "all flags"])
@pytest.mark.parametrize("opcode", range(1, 16))
def test_other_opcodes_are_not_implemented(port: int, opcode: int, flags: int, over_tcp: bool) -> None:
    for wire in (
        message(flags=opcode << 11 | flags),
        message(opt(), flags=opcode << 11 | flags),
        message(flags=opcode << 11 | flags)[:12],
        with_counts(message(flags=opcode << 11 | flags)[:12], 0, 0, 0, 0),
    ):
        reply = exchange(port, wire, over_tcp=over_tcp)
        assert (reply.id, reply.flags) == (ID, QR | opcode << 11 | flags & RD | NOTIMP)
        assert (reply.counts, len(reply.wire)) == ((0, 0, 0, 0), 12)


# Questions, classes and types


MALFORMED = {
    "no question": with_counts(message()[:12], 0, 0, 0, 0),
    "a question that is not counted": with_counts(message(), 0, 0, 0, 0),
    "two questions": with_counts(message() + message()[12:], 2, 0, 0, 0),
    "two questions counted, one there": with_counts(message(), 2, 0, 0, 0),
    "an answer counted, none there": with_counts(message(), 1, 1, 0, 0),
    "an authority record counted, none there": with_counts(message(), 1, 0, 1, 0),
    "an additional record counted, none there": with_counts(message(), 1, 0, 0, 1),
    "a record that is not counted": message() + record(),
    "an octet behind the end": message() + b"x",
    "a header alone": message()[:12],
    "half a question": message()[:-1],
    "a pointer to itself": message(name=b"\xc0\x0c"),
    "a pointer forward": message(name=b"\xc0\x20"),
    "an unknown kind of label": message(name=b"\x41a\0"),
    "a name of 256 octets": message(name=b"\x3f" + b"a" * 63 + (b"\x3f" + b"a" * 63) * 2 + b"\x3e" + b"a" * 62 + b"\0"),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("wire", MALFORMED.values(), ids=MALFORMED)
def test_malformed_messages_are_formerr(port: int, wire: bytes, over_tcp: bool) -> None:
    reply = exchange(port, wire, over_tcp=over_tcp)
    assert (reply.id, reply.flags, reply.counts) == (ID, QR | FORMERR, (0, 0, 0, 0))


def test_a_datagram_longer_than_any_query_is_formerr(port: int) -> None:
    assert exchange(port, message() + bytes(4097)).flags == QR | FORMERR


@pytest.mark.parametrize("section", [1, 2, 3])
def test_records_in_a_query_are_ignored(port: int, section: int) -> None:
    counts = [1, 0, 0, 0]
    counts[section] = 1
    reply = exchange(port, with_counts(message(record()), *counts))
    assert (reply.flags, reply.counts) == (QR | AA, (1, 1, 0, 0))


@pytest.mark.parametrize("rdclass", [0, 2, CH, 4, 254, ANY, 65280])
@pytest.mark.parametrize("name", [APEX, b"\x07version\x04bind\0", b"\x02id\x06server\0"])
def test_other_classes_are_refused(port: int, name: bytes, rdclass: int) -> None:
    reply = exchange(port, message(name=name, rdtype=16, rdclass=rdclass))
    assert (reply.flags, reply.counts) == (QR | REFUSED, (1, 0, 0, 0))


@pytest.mark.parametrize("rdtype", [AXFR, IXFR])
def test_transfers_are_refused(port: int, rdtype: int, over_tcp: bool) -> None:
    reply = exchange(port, message(rdtype=rdtype), over_tcp=over_tcp)
    assert (reply.flags, reply.counts) == (QR | REFUSED, (1, 0, 0, 0))


@pytest.mark.parametrize(
    "rdtype", [0, 10, 41, 46, 47, 48, 50, 99, 128, 249, TSIG, 253, 254, 666, 65280, 65535]
)
def test_a_type_without_records_at_the_apex_is_nodata(port: int, rdtype: int, over_tcp: bool) -> None:
    """NODATA: no error, the SOA record in the authority section (RFC 2308, section 2.2)."""
    reply = exchange(port, message(rdtype=rdtype), over_tcp=over_tcp)
    assert (reply.flags, reply.counts) == (QR | AA, (1, 0, 1, 0))


def test_any_gives_one_of_three_record_sets(port: int, over_tcp: bool) -> None:
    """RFC 8482, section 4.1; the apex has SOA, NS and TXT."""
    reply = exchange(port, message(rdtype=TYPE_ANY), over_tcp=over_tcp)
    assert (reply.flags, reply.counts) == (QR | AA, (1, 1, 0, 0))


# Signatures (RFC 8945): the server has no key, so it knows none


@pytest.mark.parametrize("rdtype", [SOA, AXFR])
def test_an_unknown_key_is_badkey(port: int, rdtype: int, over_tcp: bool) -> None:
    """NOTAUTH and a TSIG record with error 17 and no MAC (sections 5.2.1 and 5.3.2)."""
    reply = exchange(port, message(tsig(original_id=99), rdtype=rdtype, flags=RD), over_tcp=over_tcp)
    assert (reply.id, reply.flags, reply.counts) == (ID, QR | RD | NOTAUTH, (1, 0, 0, 1))
    assert reply.wire == struct.pack("!6H", ID, reply.flags, *reply.counts) + message(rdtype=rdtype)[
        12:
    ] + tsig(mac=b"", error=17)


def test_an_unknown_key_with_edns_is_badkey_with_edns(port: int) -> None:
    reply = exchange(port, message(opt(flags=DO), tsig()))
    assert (reply.flags, reply.counts) == (QR | NOTAUTH, (1, 0, 0, 2))
    assert reply.wire.endswith(opt(flags=DO) + tsig(mac=b"", error=17))


def test_badkey_without_room_has_no_tsig_record(port: int) -> None:
    """Names of 255 octets: the record alone would be longer than a client without EDNS takes."""
    long_name = (b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"a" * 61 + b"\0"
    signed = record(TSIG, ANY, long_name + TIMES + struct.pack("!H32s3H", 32, bytes(32), ID, 0, 0), long_name)
    reply = exchange(port, message(signed))
    assert (reply.flags, reply.counts) == (QR | NOTAUTH, (1, 0, 0, 0))


SIGNATURE_ERRORS = {
    "not the last record": message(tsig(), opt()),
    "two of them": message(tsig(), tsig()),
    "in the answer section": with_counts(message(tsig()), 1, 1, 0, 0),
    "of class IN": message(record(TSIG, IN, ALGORITHM + TIMES + bytes(8), KEY)),
    "half its data": message(record(TSIG, ANY, ALGORITHM + TIMES[:4], KEY)),
}


@pytest.mark.parametrize("wire", SIGNATURE_ERRORS.values(), ids=SIGNATURE_ERRORS)
def test_malformed_signatures_are_formerr(port: int, wire: bytes) -> None:
    reply = exchange(port, wire)
    assert (reply.flags, reply.counts) == (QR | FORMERR, (0, 0, 0, 0))
