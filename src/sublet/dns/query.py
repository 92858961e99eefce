"""A query as the built-in name server takes it: the usual one read by hand, every other by dnspython (RFC 1035, section 4.1)."""

import struct
from typing import NamedTuple

import dns.flags
import dns.message

from sublet.dns.rrsets import Labels, labels_of, name_of
from sublet.dns.wire import HEADER_BYTES

_NAME_BYTES_MAX = 255
_ONE_QUESTION = b"\0\1\0\0\0\0"
"""The counts of questions, answers and authority records."""
_DO = int(dns.flags.DO)
_OPT_START = b"\0\0\x29"
"""The root, and the type OPT."""


class Query(NamedTuple):
    """A query, as far as it is looked at.

    `question` is the one question as it was sent, uncompressed and with its case; empty where there isn't exactly one. `payload_bytes` is
    what EDNS announces, None without EDNS (RFC 6891).
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

    @property
    def name(self) -> str:
        r"""The name asked for, as `ZoneView` and `Record` write it: lower case, no final dot; odd octets as `\ddd`, the root as ""."""
        return name_of(self.labels)


def read_query(wire: bytes) -> Query:
    """Return what a message of opcode QUERY asks.

    Raises what dnspython raises for what is no message, or has a signature (we have no keys).
    """
    return _read_usual(wire) or _read_by_dnspython(wire)


def _read_usual(wire: bytes) -> Query | None:
    """Return a query of one plain question, with at most an OPT record of version 0 without options behind it; None for any other."""
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
    behind = wire[end:]
    payload_bytes, wants_dnssec = None, False
    if at + 1 - HEADER_BYTES > _NAME_BYTES_MAX or len(wire) < end:
        return None
    if wire[10:12] == b"\0\1" and len(behind) == 11 and behind.startswith(_OPT_START):
        payload_bytes, _, version, flags, options_bytes = struct.unpack_from("!HBBHH", behind, 3)
        if version or options_bytes:
            return None
        wants_dnssec = bool(flags & _DO)
    elif behind or wire[10:12] != b"\0\0":
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
        0,
        wants_dnssec,
    )


def _read_by_dnspython(wire: bytes) -> Query:
    message = dns.message.from_wire(wire)
    query = Query(message.id, bool(message.flags & dns.flags.RD), b"")
    if message.edns >= 0:
        query = query._replace(
            payload_bytes=message.payload,
            edns_version=message.edns,
            wants_dnssec=bool(message.ednsflags & dns.flags.DO),
        )
    if len(message.question) != 1:
        return query
    asked = message.question[0]
    name = asked.name.to_wire()
    assert name is not None  # noqa: S101 - nothing was given to write it to
    return query._replace(
        question=name + struct.pack("!HH", asked.rdtype, asked.rdclass),
        labels=labels_of(asked.name.labels[:-1]),
        rdtype=int(asked.rdtype),
        rdclass=int(asked.rdclass),
    )
