"""Transfer a whole zone from its primary by AXFR (RFC 5936) with TSIG (RFC 8945, section 5.3.1).

Messages are verified when they arrive, and parsed later, because servers disconnect slow clients (Knot after
half a second).
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
from sublet.dns.wire import ANSWER, MALFORMED, SIGNER_TYPES, read_record, walk_records
from sublet.primaries.primary import (
    PrimaryFault,
    connection,
    keyring,
    raise_for_rcode,
    read_signed,
    signature_faults,
)

STALL_SECONDS = 30.0
"""The timeout of the next message of a transfer."""

BYTES_MAX = 4 * 1024**3
"""The maximum memory of a transfer. A signed delegation takes 350 to 750 bytes, so over five million of them
fit.

Without a limit, a broken or hostile server could fill the memory of the host.
"""

_UNSIGNED_IN_A_ROW_MAX = 99


class ZoneTransfer:
    """A transferred zone and its `serial`."""

    def __init__(self, serial: int, messages: list[bytes]) -> None:
        self.serial = serial
        self._messages = deque(messages)

    def take_records(self) -> Iterator[Record]:
        """Yield all records except RRSIG, NSEC and NSEC3, with one SOA record.

        Works only once, because it frees the messages.

        Owners are in lower case without the final dot. Hosts and digests in the rdata of delegations are in
        lower case too.
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
    """Return the whole zone. `clock` returns the real time, to verify the times of signatures.

    Raises:
        PrimaryFault: unreachable, no_answer, key, clock, unsigned, not_understood, too_large; or, by a signed
            answer, refused, zone, failure, not_understood.
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
            incoming.add_message(wire)
    return ZoneTransfer(incoming.serials[0], incoming.messages)


class _Incoming:
    """A transfer in progress: the messages so far, the serials of their SOA records, and the running
    signature.
    """

    def __init__(
        self, primary: Primary, zone: str, query: dns.message.Message, clock: Callable[[], datetime]
    ) -> None:
        self._primary = primary
        self._zone = zone
        self._query = query
        self._clock = clock
        (self._key,) = keyring(primary).values()
        self._signature: dns.tsig.HMACTSig | dns.tsig.GSSTSig | None = None
        self._unsigned_in_a_row = 0
        self._size_bytes = 0
        self.messages: list[bytes] = []
        self.serials: list[int] = []

    @property
    def is_whole(self) -> bool:
        """True if the SOA record that ends the zone has arrived."""
        return len(self.serials) == 2

    def add_message(self, wire: bytes) -> None:
        """Verify and store the next message.

        Use `messages` only if `is_whole`, because only then all messages are verified.
        """
        # With the overhead of Python, which is large for small messages.
        self._size_bytes += sys.getsizeof(wire)
        if self._size_bytes > BYTES_MAX:
            raise PrimaryFault(
                "too_large",
                f"{self._primary.name} sends more than {BYTES_MAX} bytes in the transfer of {self._zone}",
            )
        if not self.messages and (len(wire) < 12 or wire[3] & 0x0F):
            # The server refused the transfer, or sent something else than DNS. The rcode counts only after
            # `read_signed` has verified the signature.
            raise_for_rcode(self._primary, read_signed(self._primary, wire, self._query))
        try:
            tsig_start = self._scan(wire)
        except (dns.exception.DNSException, *MALFORMED) as error:
            text = str(error) or type(error).__name__
            raise PrimaryFault(
                "not_understood", f"{self._primary.name}, in the transfer of {self._zone}: {text}"
            ) from error
        self._verify(wire, tsig_start)
        self.messages.append(wire)
        if self.is_whole and self._unsigned_in_a_row:
            raise PrimaryFault("unsigned", f"{self._primary.name} did not sign the end of the transfer")

    def _scan(self, wire: bytes) -> int | None:
        """Collect the serials of a message's SOA records. Return the start of its TSIG record, or None."""
        query_id, flags = struct.unpack_from("!HH", wire)
        if query_id != self._query.id or not flags & 0x8000 or flags & 0x0F:
            raise ValueError("an answer to another question")
        tsig_start = None
        for each in walk_records(wire):
            if each.section != ANSWER:
                # The TSIG record must be the last one.
                tsig_start = each.owner_at if each.rdtype == dns.rdatatype.TSIG else None
                continue
            if self.is_whole:
                raise ValueError("there are records after the end of the zone")
            if each.rdtype == dns.rdatatype.SOA:
                self.serials.append(int.from_bytes(wire[each.rdata_at + each.rdata_bytes - 20 :][:4], "big"))
            elif not self.serials:
                raise ValueError("the transfer does not begin with the zone's SOA record")
        if self.is_whole and self.serials[0] != self.serials[1]:
            raise ValueError("the serials at the beginning and at the end differ")
        return tsig_start

    def _verify(self, wire: bytes, tsig_start: int | None) -> None:
        if tsig_start is None:
            self._unsigned_in_a_row += 1
            if self._signature is None or self._unsigned_in_a_row > _UNSIGNED_IN_A_ROW_MAX:
                raise PrimaryFault("unsigned", f"{self._primary.name} sends the zone without a signature")
            self._signature.update(wire)  # type: ignore[no-untyped-call] # dnspython has no type for it
            return
        with signature_faults(self._primary):
            owner, used = dns.name.from_wire(wire, tsig_start)
            at = tsig_start + used
            size = int.from_bytes(wire[at + 8 : at + 10], "big")
            rdata = dns.rdata.from_wire(dns.rdataclass.ANY, dns.rdatatype.TSIG, wire, at + 10, size)
            self._signature = dns.tsig.validate(  # type: ignore[no-untyped-call] # dnspython has no type for it
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
        self._unsigned_in_a_row = 0


def _records(wire: bytes) -> Iterator[Record]:
    names: dict[int, str] = {}
    for each in walk_records(wire):
        if each.section == ANSWER and each.rdtype not in SIGNER_TYPES:
            yield read_record(wire, each, names)
