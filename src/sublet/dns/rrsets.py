"""Names, records and RRsets in the form that the built-in name server writes into responses.

With dnspython's types, building these took most of the time of a response: dnspython searches RRsets for
duplicates by canonical forms, and validates names octet by octet. Here the rdata of a record is built once
and cached. dnspython parses only unusual names and types.
"""

import re
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import dns.name
import dns.rdata
import dns.rdatatype

from sublet.dns.names import NAME_OCTETS_MAX

Labels = tuple[tuple[str, bytes], ...]
r"""A name as one pair for each label, without the root: `a.Test` is `(("a.test", b"\x01a"), ("test",
b"\x04Test"))`.

The first part is the name from this label on, in the form of `ZoneView` (lower case, no final dot, unusual
octets as `\ddd`). The second part is the label in wire form: its length and octets, in the original case.
"""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_DIGEST_BYTES = {1: 20, 2: 32, 4: 48}
"""The length of a DS record's digest, by digest type (RFC 3658, RFC 4509, RFC 6605)."""


class Rdata(NamedTuple):
    """The rdata of a record: octets, and names that may be compressed.

    `canonical` is its canonical form (RFC 4034, section 6.2).
    """

    rdtype: int
    parts: tuple[bytes | Labels, ...]
    canonical: bytes


class RRset(NamedTuple):
    """An RRset of class IN."""

    owner: Labels
    rdtype: int
    ttl_seconds: int
    rdatas: tuple[Rdata, ...]


def labels_of(labels: Sequence[bytes]) -> Labels:
    """Return the name with these labels, which don't include the root."""
    texts = [_escaped(label) for label in labels]
    name = ".".join(texts)
    found = []
    at = 0
    for text, label in zip(texts, labels, strict=True):
        found.append((name[at:], bytes((len(label),)) + label))
        at += len(text) + 1
    return tuple(found)


def _escaped(label: bytes) -> str:
    if label.translate(None, b"-_").isalnum():
        return label.decode("ascii").lower()
    return dns.name.Name((label,)).to_text().lower()


@lru_cache(maxsize=4096)
def labels_of_text(text: str) -> Labels:
    """Return the name in a text, with or without the final dot.

    Raises dnspython's errors if the text is not a name.
    """
    plain = text.removesuffix(".")
    if len(plain) <= NAME_OCTETS_MAX and _PLAIN_NAME.fullmatch(plain):
        return labels_of(plain.encode("ascii").split(b"."))
    return labels_of(dns.name.from_text(text).labels[:-1])


def name_of(labels: Labels) -> str:
    """Return the name in the form of `ZoneView`."""
    return labels[0][0] if labels else ""


@lru_cache(maxsize=4096)
def read_rdata(type_name: str, text: str) -> Rdata:
    """Return the rdata of a `Record`.

    The result is cached: most responses need the same rdata, and dnspython takes at least 50 µs.

    Raises dnspython's errors if it can't parse the text.
    """
    try:
        return _PARSERS[type_name](text)
    # Without a fast parser for the type, or if the fast parser can't read the text.
    except (KeyError, ValueError, OSError, struct.error):
        return _read_by_dnspython(type_name, text)


def name_rdata(rdtype: int, labels: Labels) -> Rdata:
    """Return rdata that consists of one name."""
    return Rdata(rdtype, (labels,), b"".join(label for _, label in labels).lower() + b"\0")


def _nameserver(text: str) -> Rdata:
    if not text.endswith("."):
        raise ValueError("not an absolute name")
    return name_rdata(int(dns.rdatatype.NS), labels_of_text(text))


def _octets(rdtype: int, wire: bytes) -> Rdata:
    return Rdata(int(rdtype), (wire,), wire)


def _ds(text: str) -> Rdata:
    key_tag, algorithm, digest_type, digest = text.split(" ")
    octets = bytes.fromhex(digest)
    if len(octets) != _DIGEST_BYTES.get(int(digest_type)):
        raise ValueError("a digest of another length")
    numbers = struct.pack("!HBB", int(key_tag), int(algorithm), int(digest_type))
    return _octets(dns.rdatatype.DS, numbers + octets)


_PARSERS: Mapping[str, Callable[[str], Rdata]] = {
    "NS": _nameserver,
    "A": lambda text: _octets(dns.rdatatype.A, socket.inet_pton(socket.AF_INET, text)),
    "AAAA": lambda text: _octets(dns.rdatatype.AAAA, socket.inet_pton(socket.AF_INET6, text)),
    "DS": _ds,
}


def _read_by_dnspython(type_name: str, text: str) -> Rdata:
    rdata = dns.rdata.from_text("IN", type_name, text)
    wire = rdata.to_wire()
    assert wire is not None  # noqa: S101 - None only if `file` is given
    # Names may be compressed in the rdata of these types (RFC 1035), but not of later types (RFC 3597,
    # section 4).
    match rdata.rdtype:
        case dns.rdatatype.NS | dns.rdatatype.CNAME | dns.rdatatype.PTR:
            parts: tuple[bytes | Labels, ...] = (_name_in(wire, 0),)
        case dns.rdatatype.MX:
            parts = (wire[:2], _name_in(wire, 2))
        case _:
            parts = (wire,)
    return Rdata(int(rdata.rdtype), parts, rdata.to_digestable())


def _name_in(wire: bytes, at: int) -> Labels:
    return labels_of(dns.name.from_wire(wire, at)[0].labels[:-1])
