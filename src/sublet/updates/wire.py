"""Read messages of DNS UPDATE with TSIG, and write their responses (RFC 2136, RFC
8945; no SQL, no network).
"""

import hmac
import struct
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.wire

from sublet.dns.wire import HEADER_BYTES

MESSAGE_BYTES_MAX: Final = 16_384
RECORDS_MAX: Final = 500
"""The maximum number of records in a message, because the work to parse it grows with them."""
FUDGE_SECONDS: Final = 300
"""The maximum difference of the clocks. A message may ask for less."""
ALGORITHM: Final = dns.tsig.HMAC_SHA256
DeriveSecret = Callable[[str], bytes | None]
"""Returns the secret of the key with this name in lower case, without the final dot; None if no key has such
a name.
"""
_MAC_OCTETS: Final = 32
_MAC_OCTETS_MIN: Final = 16
"""Half of the MAC: a shorter one is no MAC (RFC 8945, section 5.2.2.1)."""
_TIME_OCTETS: Final = 6
_CLASS_ANY_OR_NONE: Final = (dns.rdataclass.ANY, dns.rdataclass.NONE)


class BadMessageError(Exception):
    """The message is answered with `wire`, and nothing else happens."""

    def __init__(self, wire: bytes) -> None:
        super().__init__("bad message")
        self.wire = wire


class ParsedMessage(NamedTuple):
    """A message.

    `key_name` is the key that signed it, in lower case without the final dot; None if it is unsigned.
    """

    message: dns.message.Message
    key_name: str | None


def parse_message(wire: bytes, derive_secret: DeriveSecret, now: datetime) -> ParsedMessage:
    """Parse a message, and check its signature if it has one.

    Raises:
        BadMessageError: the message is malformed (FORMERR, also for a MAC of an impossible length), or its
            TSIG is wrong (NOTAUTH with BADKEY, BADSIG, BADTIME or BADTRUNC).
    """
    try:
        last_record_at = _scan(wire)
        message = dns.message.from_wire(wire, keyring=False)
    except Exception:  # noqa: BLE001 - dnspython parses hostile octets here
        raise BadMessageError(header_response(wire, dns.rcode.FORMERR)) from None
    if message.tsig is None:
        return ParsedMessage(message, None)
    return ParsedMessage(message, _check_signature(wire, message, last_record_at, derive_secret, now))


def _scan(wire: bytes) -> int:
    """Return where the last record begins, which dnspython doesn't tell, and check what it ignores.

    Raises:
        ValueError, struct.error, DNSException: the message is malformed, has more than `RECORDS_MAX` records,
        a TTL isn't 0 that must be (RFC 2136, sections 2.4 and 2.5), or a TSIG has another class than ANY (RFC
        8945, section 4.2).
    """
    _, flags, *counts = struct.unpack_from("!HHHHHH", wire)
    if sum(counts) > RECORDS_MAX or flags & dns.flags.QR:
        raise ValueError
    is_update = dns.opcode.from_flags(flags) == dns.opcode.UPDATE
    parser = dns.wire.Parser(wire, HEADER_BYTES)
    for _ in range(counts[0]):
        parser.get_name(decompress=True)
        parser.get_struct("!HH")
    record_at = parser.current
    for section, count in enumerate(counts[1:], 1):
        for _ in range(count):
            record_at = parser.current
            parser.get_name(decompress=True)
            rdtype, rdclass, ttl, octets = parser.get_struct("!HHIH")
            parser.get_bytes(octets)
            if rdtype == dns.rdatatype.TSIG and (rdclass, ttl) != (dns.rdataclass.ANY, 0):
                raise ValueError
            if is_update and ttl and (section == 1 or (section == 2 and rdclass in _CLASS_ANY_OR_NONE)):
                raise ValueError
    return record_at


def _check_signature(
    wire: bytes, message: dns.message.Message, tsig_at: int, derive_secret: DeriveSecret, now: datetime
) -> str:
    """Return the name of the key that signed a message, and have the response signed with it.

    The signature is checked before the time (RFC 8945, section 5.2), so that only holders of a key get signed
    responses.
    """
    assert message.tsig is not None  # noqa: S101 - the caller looked
    owner, tsig = message.tsig.name, message.tsig[0]
    name = owner.to_text(omit_final_dot=True).lower()
    secret = derive_secret(name) if tsig.algorithm == ALGORITHM else None
    if secret is None:
        raise BadMessageError(tsig_error_response(message, dns.rcode.BADKEY, now))
    if not _MAC_OCTETS_MIN <= len(tsig.mac) <= _MAC_OCTETS:
        raise BadMessageError(header_response(wire, dns.rcode.FORMERR))
    key = dns.tsig.Key(owner, secret, ALGORITHM)
    record_count = int.from_bytes(wire[10:12], "big") - 1  # without the TSIG record
    signed = wire[:10] + record_count.to_bytes(2, "big") + wire[HEADER_BYTES:tsig_at]
    expected, _ = dns.tsig.sign(signed, key, tsig, tsig.time_signed, b"")  # type: ignore[no-untyped-call]
    if not hmac.compare_digest(expected.mac[: len(tsig.mac)], tsig.mac):
        raise BadMessageError(tsig_error_response(message, dns.rcode.BADSIG, now))
    message.keyring = key
    if abs(now.timestamp() - tsig.time_signed) > min(tsig.fudge, FUDGE_SECONDS):
        told = int(now.timestamp()).to_bytes(_TIME_OCTETS, "big")
        raise BadMessageError(_signed_error_response(message, key, dns.rcode.BADTIME, told))
    if len(tsig.mac) < _MAC_OCTETS:
        raise BadMessageError(_signed_error_response(message, key, dns.rcode.BADTRUNC, b""))
    return name


def header_response(wire: bytes, rcode: dns.rcode.Rcode) -> bytes:
    """Return a response that is only a header, to a message of at least a header."""
    flags = (int.from_bytes(wire[2:4], "big") & 0x7900) | dns.flags.QR | rcode
    return wire[:2] + struct.pack("!HHHHH", flags, 0, 0, 0, 0)


def write_response(response: dns.message.Message) -> bytes:
    """Return the octets of a response, which is signed if its message was.

    Raises:
        dns.exception.TooBig: the response is longer than a message may be.
    """
    return bytes(response.to_wire(max_size=65_535))


def tsig_error_response(message: dns.message.Message, error: dns.rcode.Rcode, now: datetime) -> bytes:
    """Return the response NOTAUTH with an unsigned TSIG record with an error (RFC 8945, section 5.3.2)."""
    assert message.tsig is not None  # noqa: S101 - the caller looked
    signed_at = int(now.timestamp())
    tsig = message.tsig[0].replace(time_signed=signed_at, mac=b"", error=error, other=b"")
    return _refused_header(message, tsig_count=1) + _tsig_record(message.tsig.name, tsig)


def _signed_error_response(
    message: dns.message.Message, key: dns.tsig.Key, error: dns.rcode.Rcode, other: bytes
) -> bytes:
    """Return the signed response NOTAUTH with BADTIME and our time as `other`, or with BADTRUNC (RFC 8945,
    section 5.3.2).

    It is signed at the client's time, so that the client doesn't refuse it for its time too.
    """
    assert message.tsig is not None  # noqa: S101 - the caller looked
    asked = message.tsig[0]
    unsigned = asked.replace(mac=b"", error=error, other=other)
    header = _refused_header(message, tsig_count=0)
    tsig, _ = dns.tsig.sign(header, key, unsigned, asked.time_signed, asked.mac)  # type: ignore[no-untyped-call]
    return _refused_header(message, tsig_count=1) + _tsig_record(key.name, tsig)


def _refused_header(message: dns.message.Message, *, tsig_count: int) -> bytes:
    flags = dns.flags.QR | dns.opcode.to_flags(message.opcode()) | dns.rcode.NOTAUTH
    return struct.pack("!HHHHHH", message.id, flags, 0, 0, 0, tsig_count)


def _tsig_record(owner: dns.name.Name, tsig: dns.rdata.Rdata) -> bytes:
    name, rdata = owner.to_wire() or b"", tsig.to_wire() or b""
    return name + struct.pack("!HHIH", dns.rdatatype.TSIG, dns.rdataclass.ANY, 0, len(rdata)) + rdata
