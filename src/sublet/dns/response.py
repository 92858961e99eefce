"""Write responses with compressed names (RFC 1035, section 4.1), within the limits of their transport (rules; no network)."""

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
"""The maximum size of a UDP response, which we announce too. No IPv6 path fragments such a response (DNS flag day 2020)."""

# As integers, because combining dnspython's flags takes longer than writing a record.
_QR, _AA, _TC, _RD, _DO = (
    int(each) for each in (dns.flags.QR, dns.flags.AA, dns.flags.TC, dns.flags.RD, dns.flags.DO)
)
_OPT_TYPE, _IN = int(dns.rdatatype.OPT), int(dns.rdataclass.IN)
_PLAIN_UDP_BYTES = 512
_TCP_BYTES = 65535
_POINTER = 0xC000
_POINTED_AT_MAX = 0x3FFF
_Places = dict[str, bytes]
"""Compression pointers, by name."""


class Content(NamedTuple):
    """The content of a response of any size. If `glue` doesn't fit, the response is truncated; `extras` may be left out.

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
    """A response's code, its octets, and the name that its records are about.

    `about` is the owner of the answer, the delegation, or the zone of a negative answer. It is empty if the response has no records, and
    so amplifies nothing.
    """

    rcode: dns.rcode.Rcode
    wire: bytes
    about: str = ""


def bare_response(query: Query, rcode: dns.rcode.Rcode, flags: int = 0) -> Response:
    """Return a response with a code and no records. It repeats the question, if any, in its original case.

    An OPT record answers an OPT record, with our payload size and the DO bit of the query (RFC 6891, RFC 3225). A TSIG record answers a
    TSIG record, unless the response would be longer than all UDP clients accept.
    """
    return _finished(query, rcode, flags, bytearray(HEADER_BYTES) + query.question, (0, 0, 0))


def truncated_response(query: Query, response: Response) -> Response:
    """Return the response with TC and no records, so that the client asks again over TCP."""
    flags = int.from_bytes(response.wire[2:4], "big") & _AA
    return bare_response(query, response.rcode, flags | _TC)


def fitted_response(query: Query, content: Content, *, over_tcp: bool) -> Response:
    """Return the response with as many extras as fit. If the other records don't fit, it has TC and no records."""
    flags = _AA if content.authoritative else 0
    size_bytes = (_TCP_BYTES if over_tcp else _udp_bytes(query)) - len(_opt(query, content.rcode))
    message = bytearray(HEADER_BYTES) + query.question
    places = _places(query.labels)
    counts = [0, 0, 0]
    for section, rrsets in enumerate((content.answer, content.authority, content.glue)):
        for rrset in rrsets:
            counts[section] += _write_rrset(message, places, rrset, query.id)
    if len(message) > size_bytes:
        return bare_response(query, content.rcode, flags | _TC)
    for rrset in content.extras:
        before = len(message)
        count = _write_rrset(message, places, rrset, query.id)
        if len(message) > size_bytes:
            del message[before:]
            break
        counts[2] += count
    about = content.wildcard or name_of((content.answer or content.authority)[0].owner)
    return _finished(query, content.rcode, flags, message, counts)._replace(about=about)


def _udp_bytes(query: Query) -> int:
    return min(max(query.payload_bytes or 0, _PLAIN_UDP_BYTES), UDP_PAYLOAD_BYTES)


def _finished(
    query: Query,
    rcode: dns.rcode.Rcode,
    flags: int,
    message: bytearray,
    counts: Sequence[int],
) -> Response:
    """Return the response after adding the header, the OPT record and the TSIG record."""
    flags |= _QR | (_RD if query.recursion_desired else 0) | (int(rcode) & 0xF)
    behind = [each for each in (_opt(query, rcode), query.tsig_reply) if each]
    if query.tsig_reply and len(message) + sum(map(len, behind)) > _PLAIN_UDP_BYTES:
        behind.remove(query.tsig_reply)
    struct.pack_into(
        "!6H",
        message,
        0,
        query.id,
        flags,
        1 if query.question else 0,
        counts[0],
        counts[1],
        counts[2] + len(behind),
    )
    return Response(rcode, bytes(message) + b"".join(behind))


def _opt(query: Query, rcode: dns.rcode.Rcode) -> bytes:
    if query.payload_bytes is None:
        return b""
    flags = _DO if query.wants_dnssec else 0
    return struct.pack("!BHHBBHH", 0, _OPT_TYPE, UDP_PAYLOAD_BYTES, int(rcode) >> 4, 0, flags, 0)


def _places(labels: Labels) -> _Places:
    """Return the pointers to the names in the question."""
    places = {}
    at = HEADER_BYTES
    for name, label in labels:
        places[name] = (_POINTER | at).to_bytes(2, "big")
        at += len(label)
    return places


def _write_rrset(message: bytearray, places: _Places, rrset: RRset, turn: int) -> int:
    """Append the records of a set, and return their number.

    `turn` rotates them, because many clients always use the first one.
    """
    first = turn % len(rrset.rdatas)
    fixed = struct.pack("!HHI", rrset.rdtype, _IN, rrset.ttl_seconds)
    for rdata in rrset.rdatas[first:] + rrset.rdatas[:first]:
        _write_name(message, places, rrset.owner)
        message += fixed
        at = len(message)
        message += b"\0\0"
        for part in rdata.parts:
            if isinstance(part, bytes):
                message += part
            else:
                _write_name(message, places, part)
        message[at : at + 2] = (len(message) - at - 2).to_bytes(2, "big")
    return len(rrset.rdatas)


def _write_name(message: bytearray, places: _Places, labels: Labels) -> None:
    """Append a name. For a suffix that the message has already, in any case, append a pointer."""
    for name, label in labels:
        pointer = places.get(name)
        if pointer is not None:
            message += pointer
            return
        if len(message) <= _POINTED_AT_MAX:
            places[name] = (_POINTER | len(message)).to_bytes(2, "big")
        message += label
    message += b"\0"
