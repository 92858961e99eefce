"""Serials of zones (RFC 1982): which of two is newer, and which one a name server answers with."""

from collections.abc import Sequence

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdtypes.ANY.SOA

from sublet.dns.tcp import ConnectionFailed, connected, read_message

HALF = 2**31

UNKNOWN_CAUSES = ("unreachable", "no_answer", "zone", "failure", "not_understood")
"""Why a server's serial can be unknown: those of `primaries.primary.CAUSES` that an unsigned question can tell."""


def is_newer(serial: int, than: int) -> bool:
    """Tell whether a serial comes after another (RFC 1982, section 3.2).

    Both are unsigned and have 32 bits, and they go on from 4294967295 to 0. Of two that are just 2**31 apart neither is newer:
    a secondary that has one does not follow a primary that has the other.
    """
    return 0 < (serial - than) % 2**32 < HALF


def standing_of(serial: int, primary_serial: int) -> str:
    """Tell how a secondary stands to its primary: "equal"; "behind": it is to follow; "ahead": it will not.

    A secondary only follows to a newer serial (RFC 1995, section 2; RFC 1996, section 4.7). Ahead it is after the primary was built
    anew from something older: it serves what it has until the primary's serial has passed its own.
    """
    if serial == primary_serial:
        return "equal"
    return "behind" if is_newer(primary_serial, serial) else "ahead"


def lacks_since(history: Sequence[tuple[int, float]], serial: int) -> float | None:
    """Return since when a server that has `serial` lacks what its primary has; None where it lacks nothing.

    `history` has each serial of the primary with the instant at which it was first seen, oldest first. What a server lacks it lacks
    since the first of them that is newer than its own: one that follows a busy primary at two seconds' distance is two
    seconds behind for ever, not for longer and longer.
    """
    return next((seen for each, seen in history if is_newer(each, serial)), None)


class SerialUnknown(Exception):  # noqa: N818 - named for what the caller is left with
    """A name server did not tell its serial of a zone: `cause` is one of `UNKNOWN_CAUSES`, `str()` is for the operator."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


async def ask_serial(address: tuple[str, int], zone: str, *, timeout_seconds: float) -> int:
    """Return the serial of the SOA record that a name server answers with for a zone, as anybody may ask it.

    Asked over TCP: an answer can't be forged from aside, and a server that is away is told apart from one that hangs; every server
    of a zone has to take TCP (RFC 9210, section 3).

    Raises:
        SerialUnknown: unreachable, no_answer, not_understood (no DNS, or an unusual code), failure (SERVFAIL, as from a
            secondary whose zone has expired), zone (REFUSED, NOTAUTH, no authority, no SOA record).
    """
    where = f"{address[0]}, port {address[1]},"
    query = dns.message.make_query(zone, "SOA", flags=0)
    try:
        async with connected(address, timeout_seconds) as (reader, writer):
            writer.write(query.to_wire(prepend_length=True))
            response = dns.message.from_wire(await read_message(reader))
    except ConnectionFailed as failure:
        raise SerialUnknown(failure.cause, f"{where} {failure}") from failure
    except (dns.exception.DNSException, ValueError) as error:
        raise SerialUnknown("not_understood", f"{where} sent what is no DNS message") from error
    return _serial_in(response, query, zone, where)


def _serial_in(response: dns.message.Message, query: dns.message.Message, zone: str, where: str) -> int:
    if not query.is_response(response):
        raise SerialUnknown("not_understood", f"{where} answered what it was not asked")
    rcode = response.rcode()
    if rcode != dns.rcode.NOERROR:
        by_rcode = {dns.rcode.REFUSED: "zone", dns.rcode.NOTAUTH: "zone", dns.rcode.SERVFAIL: "failure"}
        sentence = f"{where} answers {dns.rcode.to_text(rcode)} for {zone}"
        raise SerialUnknown(by_rcode.get(rcode, "not_understood"), sentence)
    found = [rdata for rrset in response.answer for rdata in rrset]
    serials = [each.serial for each in found if isinstance(each, dns.rdtypes.ANY.SOA.SOA)]
    if not serials or not response.flags & dns.flags.AA:
        raise SerialUnknown("zone", f"{where} has no authority for {zone}")
    return int(serials[0])
