"""The connection to a primary server: signed UPDATE messages, the fence and the whole zone, over TCP with TSIG (RFC 8945).

No answer is believed that isn't signed with our key. What went wrong is told by a cause, one of `CAUSES`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.SOA
import dns.rdtypes.ANY.TXT
import dns.tsig
import dns.tsigkeyring
import dns.update

from sublet.dns.types import Primary
from sublet.dns.update import fence_name

CAUSES = {
    "unreachable": "the name server can't be reached",
    "no_answer": "the name server does not answer",
    "key": "the name server does not know our key, or has another secret for it",
    "clock": "the clocks of the name server and of this host are too far apart",
    "refused": "the name server does not allow this update",
    "zone": "the name server does not hold this zone as its primary",
    "failure": "the name server failed over this update",
    "not_understood": "the name server does not understand this update",
    "unsigned": "an answer was not signed with our key, and isn't believed",
    "fence": "the zone is not as it was left: something else has changed it",
    "in_use": "the name is in use in the zone by records that the registry did not write",
    "partial": "the name server accepted the update and does not serve what was sent",
    "read_back": "what the name server serves can't be read back",
    "settings": "the settings don't have what is needed to reach the name server",
}
"""Why something can't be published, with what it means: for the operator, the metrics and docs/operating/trouble.md."""

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
    """A primary did not do what it was asked: `cause` is one of `CAUSES`, `str()` tells more, for the operator.

    `certain` tells that a signed answer says so; otherwise what was asked may have been done, or may yet be.
    """

    def __init__(self, cause: str, detail: str, *, certain: bool = False) -> None:
        super().__init__(detail)
        self.cause = cause
        self.certain = certain


@dataclass(frozen=True, slots=True)
class Fence:
    """What stands at the fence of a zone, None for nothing (or nothing of our making), and the zone's serial."""

    value: str | None
    serial: int


async def send_update(primary: Primary, message: dns.update.UpdateMessage, *, timeout_seconds: float) -> None:
    """Send an UPDATE and return once a signed NOERROR says that it was applied.

    That says nothing of what the server made of it (`verify.read_back` does).

    Raises:
        PrimaryFault: unreachable, no_answer, key, clock, unsigned; or, by a signed answer, refused, zone, failure,
            not_understood, fence, in_use.
    """
    message.use_tsig(keyring(primary), algorithm=primary.key.algorithm)
    async with connection(primary, timeout_seconds) as (reader, writer):
        response = await _ask(primary, message, reader, writer)
    refuse_unless_good(primary, response)


async def read_fence(primary: Primary, zone: str, *, timeout_seconds: float) -> Fence:
    """Return what stands at the fence of a zone, and the zone's serial.

    Raises:
        PrimaryFault: unreachable, no_answer, key, clock, unsigned, refused, zone, failure, not_understood.
    """
    async with connection(primary, timeout_seconds) as (reader, writer):
        answers = []
        for name, rdtype in ((fence_name(zone), "TXT"), (zone, "SOA")):
            query = dns.message.make_query(name, rdtype, flags=0)
            query.use_tsig(keyring(primary), algorithm=primary.key.algorithm)
            response = await _ask(primary, query, reader, writer)
            if response.rcode() != dns.rcode.NXDOMAIN or not response.had_tsig:
                refuse_unless_good(primary, response)
            if not response.flags & dns.flags.AA:
                raise PrimaryFault("zone", f"{primary.name} has no authority for {zone}", certain=True)
            answers.append([rdata for rrset in response.answer for rdata in rrset])
    texts, soas = answers
    values = [b"".join(each.strings).decode("ascii", "replace") for each in texts if isinstance(each, _TXT)]
    serials = [each.serial for each in soas if isinstance(each, _SOA)]
    if not serials:
        raise PrimaryFault("zone", f"{primary.name} has no SOA record for {zone}", certain=True)
    return Fence(values[0] if len(values) == 1 else None, serials[0])


_TXT = dns.rdtypes.ANY.TXT.TXT
_SOA = dns.rdtypes.ANY.SOA.SOA


@asynccontextmanager
async def connection(
    primary: Primary, timeout_seconds: float
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a TCP connection, and tell what goes wrong on it as a PrimaryFault."""
    writer = None
    where = f"{primary.name} ({primary.address}, port {primary.port})"
    try:
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_connection(primary.address, primary.port)
            yield reader, writer
    except TimeoutError:
        if writer is None:
            raise PrimaryFault(
                "unreachable", f"{where} takes no connection within {timeout_seconds:g} s"
            ) from None
        raise PrimaryFault("no_answer", f"{where} did not answer within {timeout_seconds:g} s") from None
    except EOFError:
        raise PrimaryFault("no_answer", f"{where} closed the connection without an answer") from None
    except OSError as error:
        cause = "unreachable" if writer is None else "no_answer"
        raise PrimaryFault(cause, f"{where}: {error.strerror or error}") from error
    finally:
        if writer is not None:
            writer.transport.abort()


def keyring(primary: Primary) -> dict[dns.name.Name, dns.tsig.Key]:
    """Return our key on this primary, as dnspython takes it."""
    name = dns.name.from_text(primary.key.name)
    return {name: dns.tsig.Key(name, primary.key.secret, primary.key.algorithm)}


async def _ask(
    primary: Primary, query: dns.message.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> dns.message.Message:
    """Send a signed message and return its answer, signed or not; what its TSIG record tells is raised."""
    writer.write(query.to_wire(prepend_length=True))
    size_bytes = int.from_bytes(await reader.readexactly(2), "big")
    response = read_signed(primary, await reader.readexactly(size_bytes), query)
    if not query.is_response(response):
        raise PrimaryFault("unsigned", f"{primary.name} answered what it was not asked")
    return response


def read_signed(primary: Primary, wire: bytes, query: dns.message.Message) -> dns.message.Message:
    """Return the message in `wire`, whose signature is right if it has one (`had_tsig`).

    Raises:
        PrimaryFault: key, clock (the server says so of our message, or we of its), unsigned (a wrong signature, no message).
    """
    with signature_faults(primary):
        return dns.message.from_wire(wire, keyring=keyring(primary), request_mac=query.mac)


@contextmanager
def signature_faults(primary: Primary) -> Iterator[None]:
    """Tell what dnspython finds wrong with a message or its signature as a PrimaryFault: key, clock, unsigned."""
    name = primary.name
    try:
        yield
    except dns.tsig.PeerBadTime:
        raise PrimaryFault("clock", f"{name}: the time of our message is too far from its own") from None
    except dns.tsig.BadTime:
        raise PrimaryFault("clock", f"{name}: the time of its answer is too far from ours") from None
    except (dns.tsig.PeerBadKey, dns.message.UnknownTSIGKey):
        raise PrimaryFault("key", f"{name} does not know the key {primary.key.name}") from None
    except dns.tsig.PeerBadSignature:
        raise PrimaryFault("key", f"{name} has another secret for the key {primary.key.name}") from None
    except (dns.exception.DNSException, ValueError) as error:
        raise PrimaryFault("unsigned", f"{name}: {str(error) or type(error).__name__}") from error


def refuse_unless_good(primary: Primary, response: dns.message.Message) -> None:
    """Let a signed NOERROR pass.

    Raises:
        PrimaryFault: by the response code; unsigned.
    """
    rcode = response.rcode()
    signed = bool(response.had_tsig)
    if rcode != dns.rcode.NOERROR:
        cause = _BY_RCODE.get(rcode, "not_understood")
        raise PrimaryFault(cause, f"{primary.name} answers {dns.rcode.to_text(rcode)}", certain=signed)
    if not signed:
        raise PrimaryFault("unsigned", f"{primary.name} answers without a signature")
