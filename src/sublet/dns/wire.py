"""Parse the parts of DNS messages that delegations and records need (RFC 1035, section 4.1).

dnspython builds an object for each record, also for signatures. Those objects took three quarters of the time
of a read-back, and nine tenths of the time of a transfer. So this module uses dnspython only for unusual
names and records.
"""

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from sublet.dns.types import DELEGATION_TYPES, Record

MALFORMED = (ValueError, IndexError, struct.error, RecursionError)
"""The exceptions that parsing an invalid message raises, besides dnspython's `DNSException`."""

HEADER_BYTES = 12
ANSWER, AUTHORITY, ADDITIONAL = 0, 1, 2
SIGNER_TYPES = frozenset({dns.rdatatype.RRSIG, dns.rdatatype.NSEC, dns.rdatatype.NSEC3})
"""The types of the records that a signing server adds. They are two thirds of a signed zone."""

_TYPE_NAMES = {int(dns.rdatatype.from_text(each)): each for each in DELEGATION_TYPES}


class Place(NamedTuple):
    """The position of a record in a message: the section, the offsets of the owner and of the rdata.

    Also the fields of the record.
    """

    section: int
    owner_at: int
    rdata_at: int
    rdata_bytes: int
    rdtype: int
    rdclass: int
    ttl_seconds: int


def walk_records(wire: bytes) -> Iterator[Place]:
    """Yield the places of all records of a message, without the questions.

    Raises:
        ValueError, IndexError, struct.error: not a DNS message, or its length is wrong.
    """
    questions, *counts = struct.unpack_from("!4H", wire, 4)
    at = HEADER_BYTES
    for _ in range(questions):
        at = after_name(wire, at) + 4
    for section, count in enumerate(counts):
        for _ in range(count):
            owner_at, at = at, after_name(wire, at)
            rdtype, rdclass, ttl_seconds, size = struct.unpack_from("!HHIH", wire, at)
            at += 10 + size
            yield Place(section, owner_at, at - size, size, rdtype, rdclass, ttl_seconds)
    if at != len(wire):
        raise ValueError("the message has the wrong length")


def after_name(wire: bytes, at: int) -> int:
    """Return the offset after the name at the offset `at`.

    A name ends in a pointer or the root (section 4.1.4).
    """
    while (length := wire[at]) != 0:
        if length >= 0xC0:
            return at + 2
        at += 1 + length
    return at + 1


def read_name(wire: bytes, at: int, names: dict[int, str]) -> str:
    """Return the name at the offset `at`, in lower case with the final dot.

    `names` caches the names of the message by offset.
    """
    known = names.get(at)
    if known is not None:
        return known
    length = wire[at]
    if length >= 0xC0:
        before = int.from_bytes(wire[at : at + 2], "big") & 0x3FFF
        if before >= at:
            raise ValueError("a name points forward")
        return read_name(wire, before, names)
    if length == 0:
        return "."
    label = wire[at + 1 : at + 1 + length]
    if label.translate(None, b"-_").isalnum():
        rest = read_name(wire, at + 1 + length, names)
        text = label.decode("ascii").lower() + ("." if rest == "." else f".{rest}")
    else:  # dnspython escapes other characters
        text = dns.name.from_wire(wire, at)[0].to_text().lower()
    names[at] = text
    return text


def read_record(wire: bytes, place: Place, names: dict[int, str]) -> Record:
    """Return the record at a place.

    The owner, and the hosts and digests in the rdata of delegations, are in lower case.
    """
    owner = read_name(wire, place.owner_at, names)
    type_name = _TYPE_NAMES.get(place.rdtype)
    if type_name is None:
        rdtype = dns.rdatatype.RdataType(place.rdtype)
        text = _rdata(wire, place).to_text()
        return Record(owner.removesuffix("."), dns.rdatatype.to_text(rdtype), place.ttl_seconds, text)
    return Record(
        owner.removesuffix("."), type_name, place.ttl_seconds, _delegation_rdata(wire, place, names)
    )


def _delegation_rdata(wire: bytes, place: Place, names: dict[int, str]) -> str:
    data = wire[place.rdata_at : place.rdata_at + place.rdata_bytes]
    if place.rdtype == dns.rdatatype.NS:
        return read_name(wire, place.rdata_at, names)
    if place.rdtype == dns.rdatatype.A:
        return str(IPv4Address(data))
    if place.rdtype == dns.rdatatype.DS and place.rdata_bytes > 4:
        key_tag, algorithm, digest_type = struct.unpack_from("!HBB", data)
        return f"{key_tag} {algorithm} {digest_type} {data[4:].hex()}"
    if place.rdtype == dns.rdatatype.AAAA:
        return str(IPv6Address(data))
    return _rdata(wire, place).to_text().lower()


def _rdata(wire: bytes, place: Place) -> dns.rdata.Rdata:
    return dns.rdata.from_wire(
        dns.rdataclass.RdataClass(place.rdclass),
        dns.rdatatype.RdataType(place.rdtype),
        wire,
        place.rdata_at,
        place.rdata_bytes,
    )
