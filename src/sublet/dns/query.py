"""Parse queries for the built-in name server: the common form by hand, for speed, others by dnspython (RFC
1035, section 4.1).
"""

import struct
from typing import NamedTuple

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from sublet.dns.rrsets import Labels, labels_of, name_of
from sublet.dns.wire import HEADER_BYTES

QUERY_BYTES_MAX = 4096
"""The maximum length of a query. A name has at most 255 octets, and EDNS adds little."""
QUERIES_AT_ONCE = 16
"""The maximum number of queries that share one read of the zones. All other tasks wait while these queries
are answered.
"""
_NAME_BYTES_MAX = 255
_ONE_QUESTION = b"\0\1\0\0\0\0"
"""The counts of questions, answers and authority records: 1, 0 and 0."""
_DO = int(dns.flags.DO)
_OPT_START = b"\0\0\x29"
"""The start of an OPT record: the root and the type."""


class Query(NamedTuple):
    """The parts of a query that its answer needs.

    `question` is the question in wire form, uncompressed, in the client's upper and lower case; empty if the
    message has no question or several. `payload_bytes` is the size that EDNS announces; None without EDNS
    (RFC 6891). `tsig_reply` is the TSIG record for the response to a signed query.
    """

    id: int
    recursion_desired: bool
    question: bytes
    labels: Labels = ()
    rdtype: int = 0
    rdclass: int = 0
    payload_bytes: int | None = None
    edns_version: int = 0
    wants_dnssec: bool = False
    tsig_reply: bytes = b""

    @property
    def name(self) -> str:
        r"""The query name, in the form of `ZoneView`: lower case, no final dot, unusual octets as `\ddd`, the
        root as "".
        """
        return name_of(self.labels)


def read_query(wire: bytes) -> Query:
    """Return the query in a message of opcode QUERY. Raises dnspython's errors if the message is malformed.

    Not checked: signatures, because we have no keys, and EDNS options, because we ignore them (RFC 6891,
    section 6.1.2).
    """
    return _parse_common(wire) or _read_by_dnspython(wire)


def _parse_common(wire: bytes) -> Query | None:
    """Return the query if the message has the common form: one uncompressed question, at most one OPT record.

    Otherwise return None.
    """
    if wire[4:10] != _ONE_QUESTION:
        return None
    labels = []
    at = HEADER_BYTES
    try:
        while (length := wire[at]) != 0:
            if length > 63:
                return None
            labels.append(wire[at + 1 : at + 1 + length])
            at += 1 + length
    except IndexError:
        return None
    end = at + 5
    rest = wire[end:]
    payload_bytes, version, wants_dnssec = None, 0, False
    if at + 1 - HEADER_BYTES > _NAME_BYTES_MAX or len(wire) < end:
        return None
    if wire[10:12] == b"\0\1" and len(rest) >= 11 and rest.startswith(_OPT_START):
        payload_bytes, _, version, flags, options_bytes = struct.unpack_from("!HBBHH", rest, 3)
        if len(rest) != 11 + options_bytes or not _are_edns_options(rest[11:]):
            return None
        wants_dnssec = bool(flags & _DO)
    elif rest or wire[10:12] != b"\0\0":
        return None
    rdtype, rdclass = struct.unpack_from("!HH", wire, at + 1)
    return Query(
        int.from_bytes(wire[:2], "big"),
        bool(wire[2] & 1),
        wire[HEADER_BYTES:end],
        labels_of(labels),
        rdtype,
        rdclass,
        payload_bytes,
        version,
        wants_dnssec,
    )


def _are_edns_options(octets: bytes) -> bool:
    """True if the octets are a sequence of complete EDNS options."""
    at = 0
    while at + 4 <= len(octets):
        at += 4 + int.from_bytes(octets[at + 2 : at + 4], "big")
    return at == len(octets)


def _read_by_dnspython(wire: bytes) -> Query:
    message = dns.message.from_wire(wire, keyring=False)
    query = Query(message.id, bool(message.flags & dns.flags.RD), b"")
    if message.edns >= 0:
        query = query._replace(
            payload_bytes=message.payload,
            edns_version=message.edns,
            wants_dnssec=bool(message.ednsflags & dns.flags.DO),
        )
    if message.tsig is not None:
        query = query._replace(tsig_reply=_bad_key_tsig(message.tsig, message.id))
    if len(message.question) != 1:
        return query
    asked = message.question[0]
    name = asked.name.to_wire()
    assert name is not None  # noqa: S101 - None only if `file` is given
    return query._replace(
        question=name + struct.pack("!HH", asked.rdtype, asked.rdclass),
        labels=labels_of(asked.name.labels[:-1]),
        rdtype=int(asked.rdtype),
        rdclass=int(asked.rdclass),
    )


def _bad_key_tsig(tsig: dns.rrset.RRset, query_id: int) -> bytes:
    """Return the TSIG record for an unknown key: error BADKEY and no MAC (RFC 8945, section 5.3.2)."""
    name = tsig.name.to_wire()
    answered = tsig[0].replace(original_id=query_id, mac=b"", error=dns.rcode.BADKEY, other=b"")
    rdata: bytes = answered.to_wire()
    assert name is not None  # noqa: S101 - None only if `file` is given
    return name + struct.pack("!HHIH", tsig.rdtype, tsig.rdclass, 0, len(rdata)) + rdata
