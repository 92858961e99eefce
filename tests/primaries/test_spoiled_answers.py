"""The publisher accepts only answers signed with our key: a proxy changes the answers of a real server."""

from collections.abc import Iterator
from dataclasses import replace

import dns.message
import dns.opcode
import dns.rcode
import pytest

from sublet.config import PrimarySettings
from sublet.primaries import primary_zone
from support.dns_proxy import DnsProxy, OnAnswer, dns_proxy, framed
from support.primary_faults import fails_for, healed
from support.repetitions import share
from support.running_service import Registrant
from support.service_on_primary import ServiceOn, service_on

pytestmark = pytest.mark.slow


def without_signature(wire: bytes) -> bytes:
    """Return the message without its TSIG record, which is the last one."""
    message = dns.message.from_wire(wire, keyring=False)
    if message.tsig is None:
        return wire
    at = wire.rindex(message.tsig.name.to_wire() or b"")
    additional = int.from_bytes(wire[10:12], "big") - 1
    return wire[:10] + additional.to_bytes(2, "big") + wire[12:at]


def stripped(wire: bytes) -> bytes | None:
    return framed(without_signature(wire))


def updates_stripped(wire: bytes) -> bytes | None:
    is_update = dns.message.from_wire(wire, keyring=False).opcode() == dns.opcode.UPDATE
    return framed(without_signature(wire) if is_update else wire)


def flipped(wire: bytes) -> bytes | None:
    message = dns.message.from_wire(wire, keyring=False)
    if message.tsig is None:
        return framed(wire)
    at = wire.rindex(message.tsig[0].mac)
    return framed(wire[:at] + bytes([wire[at] ^ 1]) + wire[at + 1 :])


def said_to_have_failed(wire: bytes) -> bytes | None:
    return framed(wire[:3] + bytes([wire[3] & 0xF0 | dns.rcode.SERVFAIL]) + wire[4:])


def garbage(wire: bytes) -> bytes | None:
    return framed(bytes(range(200)))


def nothing(wire: bytes) -> bytes | None:
    return framed(b"")


def half(wire: bytes) -> bytes | None:
    return framed(wire)[: len(wire) // 2]


def hung_up(wire: bytes) -> bytes | None:
    return None


@pytest.fixture(scope="module")
def between() -> Iterator[DnsProxy]:
    with dns_proxy() as found:
        yield found


@pytest.fixture(scope="module")
def on(between: DnsProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOn]:
    def before(section: PrimarySettings) -> PrimarySettings:
        between.target = (section.address, section.port)
        return replace(section, port=between.address[1])

    with service_on("knot", tmp_path_factory.mktemp("knot"), before=before, publish_wait_ms=0) as found:
        yield found


SPOILED = [
    (updates_stripped, "unsigned"),
    (hung_up, "no_answer"),
    (stripped, "unsigned"),
    (flipped, "unsigned"),
    (said_to_have_failed, "unsigned"),
    (garbage, "unsigned"),
    (nothing, "unsigned"),
    (half, "no_answer"),
]


@pytest.mark.parametrize(("tamper", "cause"), share(SPOILED[:2], whole=SPOILED))
def test_a_changed_answer_is_not_accepted(
    on: ServiceOn,
    ada: Registrant,
    between: DnsProxy,
    tamper: OnAnswer,
    cause: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(primary_zone, "TIMEOUT_SECONDS", 2.0)
    between.on_answer = tamper
    try:
        fqdn = fails_for(on, ada, cause)
    finally:
        between.on_answer = framed
    healed(on, ada, fqdn)
