"""A proxy in front of a real name server that alters or loses its answers.

The zones of the names have three labels, such as n1.reg.test.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

ZONE_LABELS = 4
"""The number of labels of a zone, with the root's."""
BEHIND_SECONDS = 5.0


@dataclass(frozen=True)
class Asked:
    """A query to the proxy, over UDP or TCP."""

    query: dns.message.Message
    tcp: bool

    @property
    def rdtype(self) -> str:
        """The type of the question."""
        return dns.rdatatype.to_text(self.query.question[0].rdtype)

    @property
    def is_apex(self) -> bool:
        """True if the question is about the zone's own name."""
        return len(self.query.question[0].name) == ZONE_LABELS

    def refuse(self, rcode: str) -> dns.message.Message:
        """Return an error response."""
        response = dns.message.make_response(self.query)
        response.set_rcode(dns.rcode.from_text(rcode))
        return response


Fault = Callable[[Asked, dns.message.Message], dns.message.Message | None]
"""Returns the answer for a query, made of the real server's answer; None: no answer."""
Chosen = Callable[[Asked], bool]


def _types(*rdtypes: str) -> Chosen:
    return lambda asked: asked.is_apex and asked.rdtype in rdtypes


def _below(asked: Asked) -> bool:
    return not asked.is_apex


def _any(_asked: Asked) -> bool:
    return True


def _has_edns(asked: Asked) -> bool:
    return asked.query.edns >= 0


def _is_edns_over_udp(asked: Asked) -> bool:
    return _has_edns(asked) and not asked.tcp


def _rcode(chosen: Chosen, rcode: str, *, edns: bool = True) -> Fault:
    def fault(asked: Asked, answer: dns.message.Message) -> dns.message.Message | None:
        if not chosen(asked):
            return answer
        response = asked.refuse(rcode)
        if not edns:
            response.use_edns(False)
        return response

    return fault


def _drop(chosen: Chosen) -> Fault:
    return lambda asked, answer: None if chosen(asked) else answer


def _nodata(chosen: Chosen, *, with_soa: bool) -> Fault:
    def fault(asked: Asked, answer: dns.message.Message) -> dns.message.Message:
        if not chosen(asked):
            return answer
        response = asked.refuse("NOERROR")
        response.flags |= dns.flags.AA
        if with_soa:
            zone = dns.name.Name(asked.query.question[0].name.labels[-ZONE_LABELS:])
            response.authority.append(
                dns.rrset.from_text(zone, 60, "IN", "SOA", "ns. host. 1 3600 900 86400 60")
            )
        return response

    return fault


def _referral(owner_labels: int) -> Fault:
    def fault(asked: Asked, _answer: dns.message.Message) -> dns.message.Message:
        response = asked.refuse("NOERROR")
        owner = dns.name.Name(asked.query.question[0].name.labels[-owner_labels:])
        response.authority.append(dns.rrset.from_text(owner, 60, "IN", "NS", "ns.elsewhere.test."))
        return response

    return fault


def _edit(change: Callable[[Asked, dns.message.Message], None]) -> Fault:
    def fault(asked: Asked, answer: dns.message.Message) -> dns.message.Message:
        change(asked, answer)
        return answer

    return fault


def _strip(*rdtypes: str) -> Fault:
    """Remove the records of these types, and the signatures over them; `RRSIG` alone means all signatures."""
    kinds = {dns.rdatatype.from_text(each) for each in rdtypes}

    def change(_asked: Asked, answer: dns.message.Message) -> None:
        for section in (answer.answer, answer.authority, answer.additional):
            section[:] = [each for each in section if each.rdtype not in kinds and each.covers not in kinds]

    return _edit(change)


def _clear_aa(_asked: Asked, answer: dns.message.Message) -> None:
    answer.flags &= ~dns.flags.AA


def _set_ra(_asked: Asked, answer: dns.message.Message) -> None:
    answer.flags |= dns.flags.RA


def _echo_as(change: Callable[[bytes], bytes]) -> Fault:
    def edit(_asked: Asked, answer: dns.message.Message) -> None:
        name = dns.name.Name(tuple(change(each) for each in answer.question[0].name.labels))
        answer.question = [dns.rrset.RRset(name, answer.question[0].rdclass, answer.question[0].rdtype)]

    return _edit(edit)


def _truncate(asked: Asked, answer: dns.message.Message) -> None:
    if not asked.tcp:
        answer.flags |= dns.flags.TC
        answer.answer, answer.authority, answer.additional = [], [], []


def _tc_without_tcp(asked: Asked, answer: dns.message.Message) -> dns.message.Message | None:
    _truncate(asked, answer)
    return None if asked.tcp else answer


def _drop_soa_of_negative(_asked: Asked, answer: dns.message.Message) -> None:
    if not answer.answer:
        answer.authority = []


def _soa_of_parent(_asked: Asked, answer: dns.message.Message) -> None:
    if not answer.answer:
        text = "ns. host. 1 3600 900 86400 60"
        owner = dns.name.Name(answer.question[0].name.labels[-ZONE_LABELS + 1 :])
        answer.authority = [dns.rrset.from_text(owner, 60, "IN", "SOA", text)]


def _alias_at_apex(asked: Asked, answer: dns.message.Message) -> None:
    if asked.is_apex and asked.rdtype != "DNSKEY":
        answer.authority = []
        target = "knot1.hosts.test."
        answer.answer = [dns.rrset.from_text(asked.query.question[0].name, 60, "IN", "CNAME", target)]


def _without_edns(asked: Asked, answer: dns.message.Message) -> None:
    answer.use_edns(False)
    _strip("RRSIG", "NSEC", "NSEC3")(asked, answer)


def _other_question(_asked: Asked, answer: dns.message.Message) -> None:
    name = dns.name.from_text("elsewhere.test.")
    answer.question = [dns.rrset.RRset(name, answer.question[0].rdclass, answer.question[0].rdtype)]


ADDRESSES = _types("A", "AAAA")
FAULTS: dict[str, Fault] = {
    "none": lambda _asked, answer: answer,
    # no usable answer at all
    "silent": _drop(_any),
    "servfail": _rcode(_any, "SERVFAIL"),
    "refused": _rcode(_any, "REFUSED"),
    "nxdomain": _rcode(_any, "NXDOMAIN"),
    "formerr": _rcode(_any, "FORMERR"),
    "notimp": _rcode(_any, "NOTIMP"),
    "upward": _referral(1),
    "sideways": _referral(ZONE_LABELS),
    "other-question": _edit(_other_question),
    "tcp-only": _drop(lambda asked: not asked.tcp),
    "tc-without-tcp": _tc_without_tcp,
    # EDNS
    "edns-dropped": _drop(_has_edns),
    "edns-dropped-over-udp": _drop(_is_edns_over_udp),
    "edns-formerr": _rcode(_has_edns, "FORMERR", edns=False),
    "edns-notimp": _rcode(_has_edns, "NOTIMP", edns=False),
    "edns-servfail": _rcode(_has_edns, "SERVFAIL"),
    "edns-ignored": _edit(_without_edns),
    # some questions
    "apex-servfail": _rcode(ADDRESSES, "SERVFAIL"),
    "apex-refused": _rcode(ADDRESSES, "REFUSED"),
    "apex-dropped": _drop(ADDRESSES),
    "apex-notimp": _rcode(ADDRESSES, "NOTIMP"),
    "apex-nxdomain": _rcode(ADDRESSES, "NXDOMAIN"),
    "a-servfail": _rcode(_types("A"), "SERVFAIL"),
    "aaaa-servfail": _rcode(_types("AAAA"), "SERVFAIL"),
    "aaaa-dropped": _drop(_types("AAAA")),
    "aaaa-notimp": _rcode(_types("AAAA"), "NOTIMP"),
    "aaaa-nxdomain": _rcode(_types("AAAA"), "NXDOMAIN"),
    "below-servfail": _rcode(_below, "SERVFAIL"),
    "below-refused": _rcode(_below, "REFUSED"),
    "below-dropped": _drop(_below),
    "below-notimp": _rcode(_below, "NOTIMP"),
    "soa-nodata": _nodata(_types("SOA"), with_soa=True),
    "soa-empty": _nodata(_types("SOA"), with_soa=False),
    "soa-notimp": _rcode(_types("SOA"), "NOTIMP"),
    "soa-refused": _rcode(_types("SOA"), "REFUSED"),
    "soa-servfail": _rcode(_types("SOA"), "SERVFAIL"),
    "soa-dropped": _drop(_types("SOA")),
    "ns-servfail": _rcode(_types("NS"), "SERVFAIL"),
    "ns-dropped": _drop(_types("NS")),
    "ns-nodata": _nodata(_types("NS"), with_soa=True),
    "dnskey-servfail": _rcode(_types("DNSKEY"), "SERVFAIL"),
    "dnskey-dropped": _drop(_types("DNSKEY")),
    # contents
    "nsec-stripped": _strip("NSEC", "NSEC3"),
    "signatures-stripped": _strip("RRSIG"),
    "negative-without-soa": _edit(_drop_soa_of_negative),
    "soa-of-parent": _edit(_soa_of_parent),
    "alias-at-apex": _edit(_alias_at_apex),
    # manners
    "no-aa": _edit(_clear_aa),
    "recursive-flag": _edit(_set_ra),
    "upper-case": _echo_as(bytes.upper),
    "lower-case": _echo_as(bytes.lower),
    "truncated": _edit(_truncate),
    "no-tcp": _drop(lambda asked: asked.tcp),
}
"""What a proxy can do, by name."""


@dataclass(frozen=True)
class FaultProxy:
    """A proxy at `address`, port 53, for the server `behind`, with a fault of `FAULTS`."""

    address: str
    behind: str
    fault: str


@contextmanager
def fault_proxies_running(proxies: Sequence[FaultProxy]) -> Iterator[None]:
    """Run these proxies in a thread."""
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(stopping.set))
        sockets = [await _serve(each) for each in proxies]
        ready.set()
        await stopping.wait()
        for udp, tcp in sockets:
            udp.close()
            tcp.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        for each in stop:
            each()
        thread.join(60)


async def _serve(proxy: FaultProxy) -> tuple[asyncio.DatagramTransport, asyncio.Server]:
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(proxy), local_addr=(proxy.address, 53))

    async def over_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                wire = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
                answer = await _answer(proxy, wire, tcp=True)
                if answer is None:
                    break
                writer.write(len(answer).to_bytes(2, "big") + answer)
        writer.close()

    tcp = await asyncio.start_server(over_tcp, proxy.address, 53)
    return udp, tcp


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, wire: bytes, client: tuple[str, int]) -> None:
        async def reply() -> None:
            answer = await _answer(self._proxy, wire, tcp=False)
            if answer is not None and not self._transport.is_closing():
                self._transport.sendto(answer, client)

        _run(self._tasks, reply())


def _run(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _answer(proxy: FaultProxy, wire: bytes, *, tcp: bool) -> bytes | None:
    with suppress(dns.exception.DNSException, OSError, EOFError):
        query = dns.message.from_wire(wire)
        ask = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        answer = await ask(query, proxy.behind, BEHIND_SECONDS)
        changed = FAULTS[proxy.fault](Asked(query, tcp), answer)
        return None if changed is None else changed.to_wire(max_size=65535)
    return None
