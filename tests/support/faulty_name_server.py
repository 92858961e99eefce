"""Name servers with faults that no maintained server has, built with dnspython.

Each serves one zone at one address.
"""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset


@dataclass
class FaultyNameServer:
    """A server at `address` with these record sets (lines `name ttl IN type rdata`), and with faults.

    `faults` may have: `no_tcp`, `no_edns` (FORMERR), `upward` (a referral to the root), `large_udp` (answers
    larger than allowed), `silent` (never answers), `servfail`, `tarpit` (never ends a TCP connection, and
    never answers over UDP), `forged_over_udp` (has CDS records only over UDP). `asked` counts queries;
    `times` are their instants.
    """

    address: str
    records: tuple[str, ...] = ()
    faults: frozenset[str] = frozenset()
    times: list[float] = field(default_factory=list)


def answer(faulty_server: FaultyNameServer, wire: bytes, *, over_tcp: bool) -> bytes | None:
    """Return the answer to a query, or None for silence."""
    try:
        query = dns.message.from_wire(wire)
    except dns.exception.DNSException:
        return None
    faults = faulty_server.faults
    if faults & {"silent", "tarpit"}:
        return None
    response = dns.message.make_response(query)
    if "no_edns" in faults and query.edns >= 0:
        response.use_edns(False)
        response.set_rcode(dns.rcode.FORMERR)
        return response.to_wire()
    if "servfail" in faults:
        response.set_rcode(dns.rcode.SERVFAIL)
        return response.to_wire()
    if "upward" in faults:
        response.authority.append(dns.rrset.from_text(".", 60, "IN", "NS", "a.root-servers.net."))
        return response.to_wire()
    asked = query.question[0]
    response.flags |= dns.flags.AA
    for line in faulty_server.records:
        name, ttl, _, rdtype, rdata = line.split(" ", 4)
        if over_tcp and rdtype == "CDS" and "forged_over_udp" in faults:
            continue
        if dns.rdatatype.from_text(rdtype) == asked.rdtype and dns.name.from_text(name) == asked.name:
            response.answer.append(dns.rrset.from_text(name, int(ttl), "IN", rdtype, rdata))
    if "large_udp" in faults and not over_tcp:
        padding = " ".join(f'"{"x" * 250}"' for _ in range(6))
        response.additional.append(dns.rrset.from_text("padding.test.", 60, "IN", "TXT", padding))
        return response.to_wire(max_size=65535)
    return response.to_wire(max_size=65535)


@contextmanager
def faulty_servers_running(faulty_servers: Sequence[FaultyNameServer]) -> Iterator[None]:
    """Run these servers in threads."""
    sockets: list[socket.socket] = []
    for faulty_server in faulty_servers:
        family = socket.AF_INET6 if ":" in faulty_server.address else socket.AF_INET
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.bind((faulty_server.address, 53))
        sockets.append(udp)
        threading.Thread(target=_serve_udp, args=(faulty_server, udp), daemon=True).start()
        if "no_tcp" not in faulty_server.faults:
            tcp = socket.socket(family, socket.SOCK_STREAM)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind((faulty_server.address, 53))
            tcp.listen()
            sockets.append(tcp)
            threading.Thread(target=_serve_tcp, args=(faulty_server, tcp), daemon=True).start()
    try:
        yield
    finally:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _serve_udp(faulty_server: FaultyNameServer, udp: socket.socket) -> None:
    with suppress(OSError):
        while True:
            wire, client = udp.recvfrom(65535)
            if not wire:
                return
            faulty_server.times.append(time.monotonic())
            reply = answer(faulty_server, wire, over_tcp=False)
            if reply is not None:
                udp.sendto(reply, client)


def _serve_tcp(faulty_server: FaultyNameServer, tcp: socket.socket) -> None:
    held = ExitStack()
    with held, suppress(OSError):
        while True:
            connection, _ = tcp.accept()
            faulty_server.times.append(time.monotonic())
            if "tarpit" in faulty_server.faults:
                held.enter_context(connection)
                continue
            with connection, suppress(OSError):
                head = connection.recv(2)
                wire = connection.recv(int.from_bytes(head, "big"))
                reply = answer(faulty_server, wire, over_tcp=True)
                if reply is not None:
                    connection.sendall(len(reply).to_bytes(2, "big") + reply)
