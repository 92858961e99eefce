"""Write responses with compressed names (RFC 1035, section 4.1), within the limits of their transport (rules;
no network).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import dns.flags
import dns.rcode
import dns.rdataclass
import dns.rdatatype

from sublet.dns.query import Query
from sublet.dns.rrsets import Labels, RRset, name_of
from sublet.dns.wire import HEADER_BYTES

UDP_PAYLOAD_BYTES = 1232
"""The maximum size of a UDP response, which we announce too. No IPv6 path fragments such a response (DNS flag
day 2020).
"""

# As integers, because combining dnspython's flags takes longer than writing a record.
_QR, _AA, _TC, _RD, _DO = (
    int(each) for each in (dns.flags.QR, dns.flags.AA, dns.flags.TC, dns.flags.RD, dns.flags.DO)
)
_OPT_TYPE, _IN = int(dns.rdatatype.OPT), int(dns.rdataclass.IN)
_UDP_BYTES_WITHOUT_EDNS = 512
_TCP_BYTES = 65535
_POINTER = 0xC000
_POINTED_AT_MAX = 0x3FFF
_Pointers = dict[str, bytes]
"""The compression pointer to each name in the message."""


class Content(NamedTuple):
    """The records of a response before they are fitted to a size. Only `extras` may be left out.

    `wildcard` is the wildcard that created the answer, or empty.
    """

    rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    authoritative: bool = True
    answer: tuple[RRset, ...] = ()
    authority: tuple[RRset, ...] = ()
    glue: tuple[RRset, ...] = ()
    extras: tuple[RRset, ...] = ()
    wildcard: str = ""


class Response(NamedTuple):
    """A response message.

    `about` is the name under which the rate limit counts the response: the wildcard that created the answer,
    else the owner of the first record of the answer or authority section. `about` is empty if there are no
    records, because such a response amplifies nothing.
    """

    rcode: dns.rcode.Rcode
    wire: bytes
    about: str = ""


def header_response(wire: bytes, rcode: dns.rcode.Rcode) -> Response:
    """Return a response of only a header, with the id, opcode and RD bit of the message in `wire`."""
    return Response(rcode, wire[:2] + bytes([_QR >> 8 | (wire[2] & 0x79), rcode]) + bytes(8))


def bare_response(query: Query, rcode: dns.rcode.Rcode, flags: int = 0) -> Response:
    """Return a response with an rcode, the question in its original case (if the query has one), and no
    records.

    A query with an OPT record gets an OPT record, with our payload size and the query's DO bit (RFC 6891, RFC
    3225). A signed query gets a TSIG record, unless the response would exceed the 512 bytes that all UDP
    clients accept.
    """
    return _finish(query, rcode, flags, bytearray(HEADER_BYTES) + query.question, (0, 0, 0))


def truncated_response(query: Query, response: Response) -> Response:
    """Return the response with TC and no records, so that the client asks again over TCP."""
    flags = int.from_bytes(response.wire[2:4], "big") & _AA
    return bare_response(query, response.rcode, flags | _TC)


def fitted_response(query: Query, content: Content, *, over_tcp: bool) -> Response:
    """Return the response with as many extras as fit.

    If the other records don't fit, return a response with TC and no records.
    """
    flags = _AA if content.authoritative else 0
    size_bytes = (_TCP_BYTES if over_tcp else _udp_size(query)) - len(_opt_record(query, content.rcode))
    message = bytearray(HEADER_BYTES) + query.question
    pointers = _question_pointers(query.labels)
    counts = [0, 0, 0]
    for section, rrsets in enumerate((content.answer, content.authority, content.glue)):
        for rrset in rrsets:
            counts[section] += _write_rrset(message, pointers, rrset, query.id)
    if len(message) > size_bytes:
        return bare_response(query, content.rcode, flags | _TC)
    for rrset in content.extras:
        before = len(message)
        count = _write_rrset(message, pointers, rrset, query.id)
        if len(message) > size_bytes:
            del message[before:]
            break
        counts[2] += count
    about = content.wildcard or name_of((content.answer or content.authority)[0].owner)
    return _finish(query, content.rcode, flags, message, counts)._replace(about=about)


def _udp_size(query: Query) -> int:
    return min(max(query.payload_bytes or 0, _UDP_BYTES_WITHOUT_EDNS), UDP_PAYLOAD_BYTES)


def _finish(
    query: Query,
    rcode: dns.rcode.Rcode,
    flags: int,
    message: bytearray,
    counts: Sequence[int],
) -> Response:
    """Return the response after adding the header, the OPT record and the TSIG record."""
    flags |= _QR | (_RD if query.recursion_desired else 0) | (int(rcode) & 0xF)
    trailing = [each for each in (_opt_record(query, rcode), query.tsig_reply) if each]
    if query.tsig_reply and len(message) + sum(map(len, trailing)) > _UDP_BYTES_WITHOUT_EDNS:
        trailing.remove(query.tsig_reply)
    struct.pack_into(
        "!6H",
        message,
        0,
        query.id,
        flags,
        1 if query.question else 0,
        counts[0],
        counts[1],
        counts[2] + len(trailing),
    )
    return Response(rcode, bytes(message) + b"".join(trailing))


def _opt_record(query: Query, rcode: dns.rcode.Rcode) -> bytes:
    if query.payload_bytes is None:
        return b""
    flags = _DO if query.wants_dnssec else 0
    return struct.pack("!BHHBBHH", 0, _OPT_TYPE, UDP_PAYLOAD_BYTES, int(rcode) >> 4, 0, flags, 0)


def _question_pointers(labels: Labels) -> _Pointers:
    pointers = {}
    at = HEADER_BYTES
    for name, label in labels:
        pointers[name] = (_POINTER | at).to_bytes(2, "big")
        at += len(label)
    return pointers


def _write_rrset(message: bytearray, pointers: _Pointers, rrset: RRset, rotation: int) -> int:
    """Append the records of an RRset, and return their number.

    `rotation` varies the first record, which many clients always use.
    """
    first = rotation % len(rrset.rdatas)
    fixed = struct.pack("!HHI", rrset.rdtype, _IN, rrset.ttl_seconds)
    for rdata in rrset.rdatas[first:] + rrset.rdatas[:first]:
        _write_name(message, pointers, rrset.owner)
        message += fixed
        at = len(message)
        message += b"\0\0"
        for part in rdata.parts:
            if isinstance(part, bytes):
                message += part
            else:
                _write_name(message, pointers, part)
        message[at : at + 2] = (len(message) - at - 2).to_bytes(2, "big")
    return len(rrset.rdatas)


def _write_name(message: bytearray, pointers: _Pointers, labels: Labels) -> None:
    """Append a name.

    Instead of a suffix that the message has already, in upper or lower case, append a pointer.
    """
    for name, label in labels:
        pointer = pointers.get(name)
        if pointer is not None:
            message += pointer
            return
        if len(message) <= _POINTED_AT_MAX:
            pointers[name] = (_POINTER | len(message)).to_bytes(2, "big")
        message += label
    message += b"\0"
