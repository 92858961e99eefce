"""Send signed messages to a primary server over TCP, and accept only answers that are signed with our key
(TSIG, RFC 8945).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import cast

import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.SOA
import dns.rdtypes.ANY.TSIG
import dns.rdtypes.ANY.TXT
import dns.rrset
import dns.tsig
import dns.tsigkeyring
import dns.update
from msgspec import Struct

from sublet.dns.serial import is_newer
from sublet.dns.tcp import ConnectionFailed, Streams, connected, read_message
from sublet.dns.types import Primary
from sublet.primaries.update import fence_name, is_fence

CAUSES = {
    "unreachable": "the name server can't be reached",
    "no_answer": "the name server does not answer",
    "key": "the name server does not know our key, or has another secret for it",
    "clock": "the clocks of the name server and of this host are too far apart",
    "refused": "the name server does not allow this update",
    "no_updates": "the name server refuses every update of this zone: it "
    "is frozen, a secondary, or has updates "
    "switched off",
    "zone": "the name server is not a primary of this zone",
    "failure": "the name server failed to apply this update",
    "not_understood": "the name server does not support this update",
    "unsigned": "an answer was not signed with our key, so it was ignored",
    "fence": "something else has changed the zone since the registry's last update",
    "in_use": "the zone has records at the name that the registry did not write",
    "partial": "the name server accepted the update, but does not serve what was sent",
    "read_back": "the name server does not answer questions for the changed names",
    "too_large": "the zone is larger than 4 GiB, or the name server sends it without end",
    "settings": "the settings don't have the name server's address or key",
}
"""The causes for which a change can't be published, with their meanings, for the operator, the metrics and
docs/operating/trouble.md.
"""

_RETRIED = "The registry tries again."
_OPERATOR = "The operator has to correct this."
IN_USE = f"The name is in use: the zone has records of it that the registry did not write. {_OPERATOR}"
NOT_APPLIED = f"The name server refused this change. {_OPERATOR}"
PARTIAL = f"The name server accepted this change, but does not serve all of it yet. {_RETRIED}"
_ZONE = "The registry can't publish changes in this zone right now"
SENTENCES = {
    "unreachable": f"{_ZONE}: its name server can't be reached. {_RETRIED}",
    "no_answer": f"{_ZONE}: its name server does not answer. {_RETRIED}",
    "key": f"{_ZONE}: its name server does not accept the registry's key. {_OPERATOR}",
    "clock": f"{_ZONE}: the clocks of the registry and its name server differ. {_OPERATOR}",
    "refused": f"{_ZONE}: its name server refuses changes. {_OPERATOR}",
    "no_updates": f"{_ZONE}: its name server accepts no updates of the zone. {_OPERATOR}",
    "zone": f"{_ZONE}: its name server does not have the zone. {_OPERATOR}",
    "failure": f"{_ZONE}: its name server fails. {_RETRIED}",
    "not_understood": f"{_ZONE}: its name server does not support this update. {_OPERATOR}",
    "unsigned": f"{_ZONE}: its name server sent an answer without a valid signature. {_OPERATOR}",
    "fence": f"{_ZONE}: something else changed the zone. {_RETRIED}",
    "read_back": f"{_ZONE}: its name server does not answer for the changed names. {_RETRIED}",
    "too_large": f"{_ZONE}: its name server sends too much. {_OPERATOR}",
    "settings": f"{_ZONE}: its name server is not set up. {_OPERATOR}",
}
"""The message to users for each cause that stops a whole zone."""

_TXT = dns.rdtypes.ANY.TXT.TXT
_SOA = dns.rdtypes.ANY.SOA.SOA

_BY_RCODE = {
    dns.rcode.REFUSED: "refused",
    dns.rcode.NOTAUTH: "zone",
    dns.rcode.NOTZONE: "zone",
    dns.rcode.SERVFAIL: "failure",
    dns.rcode.FORMERR: "not_understood",
    dns.rcode.NOTIMP: "not_understood",
    dns.rcode.NXRRSET: "fence",
    dns.rcode.YXRRSET: "fence",
    dns.rcode.YXDOMAIN: "in_use",
}


class PrimaryFault(Exception):  # noqa: N818 - named for whose fault it is
    """A request to a primary failed. `cause` is one of `CAUSES`, `str()` has details for the operator.

    `certain` is True if the cause is known from a signed answer or from the settings. Otherwise the primary
    may have carried out the request, or may still do so.
    """

    def __init__(self, cause: str, detail: str, *, certain: bool = False) -> None:
        super().__init__(detail)
        self.cause = cause
        self.certain = certain


class _NoSignature(PrimaryFault):
    """An answer without a signature; `rcode` is its unauthenticated response code."""

    def __init__(self, detail: str, rcode: dns.rcode.Rcode) -> None:
        super().__init__("unsigned", detail)
        self.rcode = rcode


class Fence(Struct, frozen=True):
    """The value of a zone's fence (None if the zone has no fence), and the zone's serial."""

    value: str | None
    serial: int


FUDGE_SECONDS = 300
"""How far our clock and the clock of a server may differ (RFC 8945, section 10)."""
_FUDGE_MAX_SECONDS = 65535


async def send_update(primary: Primary, message: dns.update.UpdateMessage, *, timeout_seconds: float) -> None:
    """Send an UPDATE message, and return after a signed answer with NOERROR.

    Not checked: that the server serves the changes (see `read_back`).

    Raises:
        PrimaryFault: unreachable, no_answer, key, clock, unsigned, not_understood; or, by a signed answer,
            refused, zone, failure, not_understood, fence, in_use.
    """
    _sign(primary, message)
    async with connection(primary, timeout_seconds) as (reader, writer):
        response = await _ask(primary, message, reader, writer)
    raise_for_rcode(primary, response)


async def raise_serial(primary: Primary, zone: str, serial: int, *, timeout_seconds: float) -> bool:
    """Give a zone this serial if it is newer than the zone's own (RFC 1982), by an UPDATE of the SOA record
    (RFC 2136, section 3.4.2.2).

    Return False if the zone's own serial is as new or newer, so that nothing was sent.

    A secondary transfers a zone only if the serial is newer, so a zone that was restored from an older copy
    needs a newer one. A server ignores an SOA record whose serial is not newer, so the update has no
    prerequisite: a signing PowerDNS serves another serial than it stores. Not checked: that the server uses
    exactly this serial; a signing server may add to it.

    Raises:
        PrimaryFault: those of `send_update`, also if the key may not change the SOA record.
    """
    query = dns.message.make_query(zone, "SOA", flags=0)
    _sign(primary, query)
    async with connection(primary, timeout_seconds) as (reader, writer):
        response = await _ask(primary, query, reader, writer)
    raise_for_rcode(primary, response)
    for rrset in response.answer:
        for soa in rrset:
            if isinstance(soa, _SOA) and is_newer(serial, soa.serial):
                message = dns.update.UpdateMessage(rrset.name)
                message.add(rrset.name, rrset.ttl, soa.replace(serial=serial))
                await send_update(primary, message, timeout_seconds=timeout_seconds)
                return True
    return False


async def accepts_updates(primary: Primary, zone: str, *, timeout_seconds: float) -> bool:
    """True if a server accepts an empty update of the zone.

    The rights of our key don't matter, because servers compare rights with the records of an update. A server
    that accepts no updates at all refuses an empty update: the zone is frozen (Knot, BIND), the server is a
    secondary (BIND), or updates are switched off (PowerDNS).
    """
    try:
        await send_update(
            primary, dns.update.UpdateMessage(dns.name.from_text(zone)), timeout_seconds=timeout_seconds
        )
    except PrimaryFault as fault:
        return not (fault.certain and fault.cause == "refused")
    return True


async def read_fence(primary: Primary, zone: str, *, timeout_seconds: float) -> Fence:
    """Return the fence of a zone, and the zone's serial.

    Raises:
        PrimaryFault: unreachable, no_answer, key, clock, unsigned, zone, failure, not_understood; fence (the
            TXT records are not ours).
    """
    try:
        return await _read_fence(primary, zone, timeout_seconds)
    except _NoSignature as fault:
        # A server that doesn't know the key or the zone often can't sign the answer.
        if fault.rcode == dns.rcode.REFUSED:
            raise PrimaryFault("zone", f"{primary.name} answers REFUSED: it does not have {zone}") from fault
        if fault.rcode != dns.rcode.NOTAUTH:
            raise
    # PowerDNS gives the same answer for a wrong key and for a wrong clock.
    if await _accepts_key_at_any_time(primary, zone, timeout_seconds):
        raise PrimaryFault("clock", _clocks_differ(primary))
    raise PrimaryFault(
        "key", f"{primary.name} does not know the key {primary.key.name}, or has another secret for it"
    )


async def _read_fence(primary: Primary, zone: str, timeout_seconds: float) -> Fence:
    async with connection(primary, timeout_seconds) as (reader, writer):
        answers: list[list[dns.rdata.Rdata]] = []
        questions = [(fence_name(zone), "TXT"), (zone, "SOA"), (f"*.{zone}", "TXT")]
        for name, rdtype in questions:
            if len(answers) == 2 and all(map(_is_fence, answers[0])):
                break  # The TXT records are a fence or absent, so the wildcard didn't create them.
            query = dns.message.make_query(name, rdtype, flags=0)
            _sign(primary, query)
            response = await _ask(primary, query, reader, writer)
            if response.rcode() == dns.rcode.REFUSED:
                raise PrimaryFault(
                    "zone", f"{primary.name} answers REFUSED: it does not have {zone}", certain=True
                )
            if response.rcode() != dns.rcode.NXDOMAIN:
                raise_for_rcode(primary, response)
            if not response.flags & dns.flags.AA:
                raise PrimaryFault("zone", f"{primary.name} has no authority for {zone}", certain=True)
            answers.append([rdata for rrset in response.answer for rdata in rrset])
    texts, soas, *wildcards = answers
    serials = [each.serial for each in soas if isinstance(each, _SOA)]
    if not serials:
        raise PrimaryFault("zone", f"{primary.name} has no SOA record for {zone}", certain=True)
    if texts and wildcards and set(texts) == set(wildcards[0]):
        texts = []  # the zone's wildcard creates these records for any name that doesn't exist (RFC 4592)
    if len(texts) > 1 or not all(map(_is_fence, texts)):
        raise PrimaryFault(
            "fence", f"{fence_name(zone)} has TXT records that are not the registry's", certain=True
        )
    return Fence(_text(texts[0]) if texts else None, serials[0])


def _text(rdata: dns.rdata.Rdata) -> str:
    return b"".join(rdata.strings).decode("ascii", "replace") if isinstance(rdata, _TXT) else ""


def _is_fence(rdata: dns.rdata.Rdata) -> bool:
    return is_fence(_text(rdata))


async def _accepts_key_at_any_time(primary: Primary, zone: str, timeout_seconds: float) -> bool:
    """True if a server accepts our key in a message with the maximum fudge, 18 hours.

    The message is a query, so a replay in these 18 hours does no harm.
    """
    query = dns.message.make_query(zone, "SOA", flags=0)
    _sign(primary, query, fudge_seconds=_FUDGE_MAX_SECONDS)
    try:
        async with connection(primary, timeout_seconds) as (reader, writer):
            await _ask(primary, query, reader, writer)
    except PrimaryFault as fault:
        return fault.cause == "clock"
    return True


@asynccontextmanager
async def connection(primary: Primary, timeout_seconds: float) -> AsyncIterator[Streams]:
    """Open a TCP connection to a primary.

    Raise connection failures, also in the block, as a `PrimaryFault`.
    """
    try:
        async with connected((primary.address, primary.port), timeout_seconds) as streams:
            yield streams
    except ConnectionFailed as failure:
        where = f"{primary.name} ({primary.address}, port {primary.port})"
        raise PrimaryFault(failure.cause, f"{where} {failure}") from failure


def keyring(primary: Primary) -> dict[dns.name.Name, dns.tsig.Key]:
    """Return our key for this primary as a keyring of dnspython."""
    name = dns.name.from_text(primary.key.name)
    return {name: dns.tsig.Key(name, primary.key.secret.reveal(), primary.key.algorithm)}


def _sign(primary: Primary, message: dns.message.Message, fudge_seconds: int = FUDGE_SECONDS) -> None:
    message.use_tsig(keyring(primary), algorithm=primary.key.algorithm, fudge=fudge_seconds)


async def _ask(
    primary: Primary, query: dns.message.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> dns.message.Message:
    # In a thread, because a long update takes 50 ms.
    writer.write(await asyncio.to_thread(query.to_wire, prepend_length=True))
    response = read_signed(primary, await read_message(reader), query)
    if not query.is_response(response):
        raise PrimaryFault("unsigned", f"{primary.name} answered another question")
    return response


def read_signed(primary: Primary, wire: bytes, query: dns.message.Message) -> dns.message.Message:
    """Return the message in `wire`, an answer to `query` that is signed with our key.

    Raises:
        PrimaryFault: key; clock (the server or we found the time of a signature wrong); not_understood (an
            unsigned FORMERR); unsigned (no signature or a wrong one, not a DNS message).
    """
    with signature_faults(primary):
        claimed = dns.message.from_wire(wire, keyring=False)
        if claimed.tsig is None:
            answer = dns.rcode.to_text(claimed.rcode())
            detail = f"{primary.name} answers {answer} without a signature"
            if claimed.rcode() == dns.rcode.FORMERR:  # BIND can't read a record, and so finds no signature
                raise PrimaryFault("not_understood", detail)
            raise _NoSignature(detail, claimed.rcode())
        try:
            return dns.message.from_wire(wire, keyring=keyring(primary), request_mac=query.mac)
        except (dns.tsig.PeerBadTime, dns.tsig.BadTime):
            ahead_seconds = _ahead_seconds(query, claimed)
            how = "ahead of" if ahead_seconds > 0 else "behind"
            detail = f"the clock of {primary.name} is {abs(ahead_seconds)} s {how} this host's"
            raise PrimaryFault("clock", detail) from None


@contextmanager
def signature_faults(primary: Primary) -> Iterator[None]:
    """Raise dnspython's errors about a message or a signature as a `PrimaryFault`: key, clock, unsigned."""
    name = primary.name
    try:
        yield
    except (dns.tsig.PeerBadTime, dns.tsig.BadTime):
        raise PrimaryFault("clock", _clocks_differ(primary)) from None
    except dns.tsig.PeerBadKey:
        raise PrimaryFault("key", f"{name} does not know the key {primary.key.name}") from None
    except dns.tsig.PeerBadSignature:
        raise PrimaryFault("key", f"{name} has another secret for the key {primary.key.name}") from None
    except (dns.exception.DNSException, ValueError) as error:
        raise PrimaryFault("unsigned", f"{name}: {str(error) or type(error).__name__}") from error


def _clocks_differ(primary: Primary) -> str:
    return f"the clocks of {primary.name} and of this host differ by more than {FUDGE_SECONDS} s"


def _ahead_seconds(query: dns.message.Message, response: dns.message.Message) -> int:
    """Return how many seconds the server's clock is ahead of ours, from the TSIG record of a response (RFC
    8945, section 5.2.3).
    """
    asked, answered = _tsig(query), _tsig(response)
    theirs = answered.time_signed
    if answered.error == dns.rcode.BADTIME and len(answered.other) == 6:
        theirs = int.from_bytes(answered.other, "big")
    return int(theirs - asked.time_signed)


def _tsig(message: dns.message.Message) -> dns.rdtypes.ANY.TSIG.TSIG:
    return cast("dns.rdtypes.ANY.TSIG.TSIG", cast("dns.rrset.RRset", message.tsig)[0])


def raise_for_rcode(primary: Primary, response: dns.message.Message) -> None:
    """Raise a `PrimaryFault` that is `certain` if the rcode of a signed response isn't NOERROR."""
    rcode = response.rcode()
    if rcode != dns.rcode.NOERROR:
        cause = _BY_RCODE.get(rcode, "not_understood")
        raise PrimaryFault(cause, f"{primary.name} answers {dns.rcode.to_text(rcode)}", certain=True)
