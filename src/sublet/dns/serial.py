"""Compute and compare the serials of zones (RFC 1982), and query a name server for the serial of a zone.

On the built-in name server, a change of the apex raises the stored serial of a zone (`next_serial`), and a
change of a name raises the seconds that are added to it (`served_serial`). Two changes of names in one second
give the same serial. No secondary depends on the serial, because the built-in name server refuses transfers.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdtypes.ANY.SOA

from sublet.dns.tcp import ConnectionFailed, connected, read_message

_HALF = 2**31
SERIAL_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def is_newer(serial: int, than: int) -> bool:
    """True if a serial comes after another (RFC 1982, section 3.2).

    Serials are unsigned 32-bit numbers that wrap from 4294967295 to 0. If two serials are exactly 2**31
    apart, neither is newer.
    """
    return 0 < (serial - than) % 2**32 < _HALF


def went_back(serial: int, before: int) -> bool:
    """True if a secondary with the serial `before` would not transfer a zone with `serial`: they differ, and
    `serial` isn't newer.

    A secondary transfers only a zone with a newer serial (RFC 1995, section 2; RFC 1996, section 4.7). A
    serial goes back if the zone was rebuilt from an older one.
    """
    return serial != before and not is_newer(serial, before)


def next_serial(serial: int) -> int:
    """Return the serial after this one. The result is never 0."""
    return serial % (2**32 - 1) + 1


def zone_seconds(at: datetime) -> int:
    """Return the whole seconds from the start of 2026 to `at`, at least 0, for `served_serial`."""
    return max(0, int((at - SERIAL_EPOCH).total_seconds()))


def served_serial(serial: Any, seconds: Any) -> Any:
    """Return the serial of a zone on the built-in name server: the stored serial plus the `zone_seconds` of
    the zone's last change.

    The result isn't stored, so that changes of names don't contend for one row of the zone. So it is the same
    after several changes of names in one second. Both arguments may be SQL expressions. The result is never
    0.
    """
    return (serial + seconds - 1) % (2**32 - 1) + 1


def lacks_since(history: Sequence[tuple[int, float]], serial: int) -> float | None:
    """Return since when a server with `serial` lacks changes of its primary; None if the server lacks none.

    `history` has the primary's serials, oldest first, each with the time at which it was first seen. The
    result is the time of the first serial that is newer than `serial`.
    """
    return next((seen for each, seen in history if is_newer(each, serial)), None)


class SerialUnknown(Exception):  # noqa: N818 - named for what the caller sees
    """A name server gave no serial. `cause` is one of those of `query_serial`, with the meanings of
    `primaries.primary.CAUSES`. `str()` is for the operator.
    """

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


async def query_serial(address: tuple[str, int], zone: str, *, timeout_seconds: float) -> int:
    """Query a name server without a key, and return the serial of a zone.

    The query uses TCP, which all servers must accept (RFC 9210, section 3). Other hosts can't forge the
    answer, and TCP distinguishes a refused connection from a server that hangs.

    Raises:
        SerialUnknown: unreachable, no_answer, not_understood (not a DNS message, or an unusual rcode),
            failure (SERVFAIL, for example from a secondary whose zone has expired), zone (REFUSED, NOTAUTH,
            no authority, no SOA record).
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
        raise SerialUnknown("not_understood", f"{where} sent something that is not a DNS message") from error
    return _serial_in(response, query, zone, where)


def _serial_in(response: dns.message.Message, query: dns.message.Message, zone: str, where: str) -> int:
    if not query.is_response(response):
        raise SerialUnknown("not_understood", f"{where} answered another question")
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
