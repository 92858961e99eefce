"""A whole zone as its primary serves it, by AXFR (RFC 5936) with TSIG over every message (RFC 8945, section 5.3.1).

What comes is only counted and verified while it comes, and read later: a server (Knot, after half a second) closes the connection
on who takes the zone too slowly.
"""

import asyncio
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime

import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig

from sublet.dns.tcp import read_message
from sublet.dns.types import Primary, Record
from sublet.dns.wire import ANSWER, MALFORMED, SIGNER_TYPES, read_record, walk
from sublet.primaries.primary import (
    PrimaryFault,
    connection,
    keyring,
    read_signed,
    refuse_unless_good,
    signature_faults,
)

STALL_SECONDS = 30.0
"""How long a primary may take for the next message of a transfer."""

BYTES_MAX = 4 * 1024**3
"""What a zone may take in memory while it comes. A signed delegation is 350 to 750 bytes, so over five million of them fit.

Without a bound a server that is broken, or not ours any more, takes all memory of the host within the time of a transfer.
"""

_UNSIGNED_IN_A_ROW_MAX = 99


class ZoneTransfer:
    """A zone at one instant, with its `serial`; its messages are kept as they came until `take_records`."""

    def __init__(self, serial: int, messages: list[bytes]) -> None:
        self.serial = serial
        self._messages = deque(messages)

    def take_records(self) -> Iterator[Record]:
        """Give all records, once: the SOA once, without RRSIG, NSEC and NSEC3; each message is forgotten behind it.

        Owners are in lower case without the final dot, and so are hosts and digests in the rdata of delegations.
        """
        had_soa = False
        while self._messages:
            for record in _records(self._messages.popleft()):
                if record.type != "SOA" or not had_soa:
                    yield record
                had_soa = had_soa or record.type == "SOA"


async def transfer_zone(
    primary: Primary, zone: str, clock: Callable[[], datetime], *, timeout_seconds: float
) -> ZoneTransfer:
    """Return the whole zone; `clock` is the real one, which the signatures' times are held against.

    Raises:
        PrimaryFault: unreachable, no_answer, key, clock, unsigned; or, by a signed answer, refused, zone, failure,
            not_understood; too_large, however much of it is signed.
    """
    query = dns.message.make_query(zone, dns.rdatatype.AXFR, flags=0)
    query.use_tsig(keyring(primary), algorithm=primary.key.algorithm)
    incoming = _Incoming(primary, zone, query, clock)
    async with connection(primary, timeout_seconds) as (reader, writer):
        writer.write(query.to_wire(prepend_length=True))
        while not incoming.is_whole:
            try:
                async with asyncio.timeout(min(STALL_SECONDS, timeout_seconds)):
                    wire = await read_message(reader)
            except TimeoutError:
                raise PrimaryFault("no_answer", f"{primary.name} stalls in the transfer of {zone}") from None
            incoming.take(wire)
    return ZoneTransfer(incoming.serials[0], incoming.messages)


class _Incoming:
    """A transfer under way: the messages so far, the serials of the zone's SOA records in them, the running signature."""

    def __init__(
        self, primary: Primary, zone: str, query: dns.message.Message, clock: Callable[[], datetime]
    ) -> None:
        self._primary = primary
        self._zone = zone
        self._query = query
        self._clock = clock
        (self._key,) = keyring(primary).values()
        self._signature: dns.tsig.HMACTSig | dns.tsig.GSSTSig | None = None
        self._unsigned = 0
        self._size_bytes = 0
        self.messages: list[bytes] = []
        self.serials: list[int] = []

    @property
    def is_whole(self) -> bool:
        """Whether the SOA record that ends the zone has come."""
        return len(self.serials) == 2

    def take(self, wire: bytes) -> None:
        """Take the next message. What it says counts only once the transfer is whole, since then all of it is signed."""
        self._size_bytes += sys.getsizeof(
            wire
        )  # with what Python needs for it: messages may be very small and very many
        if self._size_bytes > BYTES_MAX:
            raise PrimaryFault(
                "too_large",
                f"{self._primary.name} sends more than {BYTES_MAX} bytes in the transfer of {self._zone}",
            )
        if not self.messages and (len(wire) < 12 or wire[3] & 0x0F):
            # A refusal, or nonsense: one message, whose signature says more where there is one.
            refuse_unless_good(self._primary, read_signed(self._primary, wire, self._query))
        try:
            tsig_start = self._look(wire)
        except (dns.exception.DNSException, *MALFORMED) as error:
            text = str(error) or type(error).__name__
            raise PrimaryFault(
                "not_understood", f"{self._primary.name}, in the transfer of {self._zone}: {text}"
            ) from error
        self._verify(wire, tsig_start)
        self.messages.append(wire)
        if self.is_whole and self._unsigned:
            raise PrimaryFault("unsigned", f"{self._primary.name} leaves the end of the transfer unsigned")

    def _look(self, wire: bytes) -> int | None:
        """Find the SOA records of a message, and return where its TSIG record begins."""
        query_id, flags = struct.unpack_from("!HH", wire)
        if query_id != self._query.id or not flags & 0x8000 or flags & 0x0F:
            raise ValueError("an answer to something else")
        tsig_start = None
        for each in walk(wire):
            if each.section != ANSWER:
                tsig_start = each.start if each.rdtype == dns.rdatatype.TSIG else None  # as the last one only
                continue
            if self.is_whole:
                raise ValueError("there is more after the end of the zone")
            if each.rdtype == dns.rdatatype.SOA:
                self.serials.append(int.from_bytes(wire[each.rdata + each.size - 20 :][:4], "big"))
            elif not self.serials:
                raise ValueError("it does not begin with the zone's SOA record")
        if self.is_whole and self.serials[0] != self.serials[1]:
            raise ValueError("the serial at its end is another than at its beginning")
        return tsig_start

    def _verify(self, wire: bytes, tsig_start: int | None) -> None:
        if tsig_start is None:
            self._unsigned += 1
            if self._signature is None or self._unsigned > _UNSIGNED_IN_A_ROW_MAX:
                raise PrimaryFault("unsigned", f"{self._primary.name} sends the zone without a signature")
            self._signature.update(wire)  # type: ignore[no-untyped-call] # dnspython's own has none
            return
        with signature_faults(self._primary):
            owner, used = dns.name.from_wire(wire, tsig_start)
            at = tsig_start + used
            size = int.from_bytes(wire[at + 8 : at + 10], "big")
            rdata = dns.rdata.from_wire(dns.rdataclass.ANY, dns.rdatatype.TSIG, wire, at + 10, size)
            self._signature = dns.tsig.validate(  # type: ignore[no-untyped-call] # as above
                wire,
                self._key,
                owner,
                rdata,
                int(self._clock().timestamp()),
                self._query.mac,
                tsig_start,
                self._signature,
                multi=True,
            )
        self._unsigned = 0


def _records(wire: bytes) -> Iterator[Record]:
    names: dict[int, str] = {}
    for each in walk(wire):
        if each.section == ANSWER and each.rdtype not in SIGNER_TYPES:
            yield read_record(wire, each, names)
