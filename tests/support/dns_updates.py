"""UPDATE messages that a test sends to a server, their answers, and the delegation
that they add or remove.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass

import dns.message
import dns.name
import dns.rcode
import dns.tsig
import dns.update

from sublet.dns.types import TsigKey
from support.name_servers import NameServerProcess

ZONE = "zone.example"
DS = f"12345 13 2 {'ab' * 32}"
Build = Callable[[dns.update.UpdateMessage], object]


@dataclass(frozen=True)
class Outcome:
    """The answer to an update: the code, the error in the TSIG record, and whether the answer is signed."""

    rcode: str
    tsig_error: str
    is_signed: bool


def send(server: NameServerProcess, build: Build, *, key: TsigKey | None = None, zone: str = ZONE) -> Outcome:
    """Send an update over TCP, signed if a key is given.

    Return the answer unverified, because refusals are often unsigned.
    """
    message = dns.update.UpdateMessage(zone)
    if key is not None:
        ring = {dns.name.from_text(key.name): dns.tsig.Key(key.name, key.secret.reveal(), key.algorithm)}
        message.use_tsig(ring)
    build(message)
    query = message.to_wire()
    with socket.create_connection((server.address, server.port), 10) as connection:
        connection.sendall(len(query).to_bytes(2, "big") + query)
        with connection.makefile("rb") as stream:
            answer = stream.read(int.from_bytes(stream.read(2), "big"))
    reply = dns.message.from_wire(answer, keyring=False)
    tsig = reply.tsig[0] if reply.tsig else None
    return Outcome(
        dns.rcode.to_text(reply.rcode()),
        dns.rcode.to_text(tsig.error, tsig=True) if tsig is not None else "",
        tsig is not None and bool(tsig.mac),
    )


def accepted(server: NameServerProcess, build: Build) -> None:
    assert send(server, build, key=server.key) == Outcome("NOERROR", "NOERROR", is_signed=True)


def delegate(label: str) -> Build:
    """Return a function that adds a delegation with every type of record."""

    def build(message: dns.update.UpdateMessage) -> None:
        message.add(label, 300, "NS", f"ns1.{label}", "ns.elsewhere.example.")
        message.add(f"ns1.{label}", 300, "A", "192.0.2.11")
        message.add(f"ns1.{label}", 300, "AAAA", "2001:db8::11")
        message.add(label, 300, "DS", DS)

    return build


def remove(label: str) -> Build:
    def build(message: dns.update.UpdateMessage) -> None:
        for owner in (label, f"ns1.{label}"):
            for kind in ("NS", "DS", "A", "AAAA"):
                message.delete(owner, kind)

    return build


def at(server: NameServerProcess, label: str) -> set[tuple[str, str, str]]:
    """Return the records at and below a label."""
    top = f"{label}.{ZONE}"
    return {
        (each.owner, each.type, each.rdata)
        for each in server.records()
        if each.owner == top or each.owner.endswith(f".{top}")
    }
