"""A share of `make fuzz` with a fixed seed; and that each of its checks finds what it is for."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from long.fuzzing.dns_clients import Sender
from long.fuzzing.packets import expects_answer
from long.fuzzing.run import Asked, fuzz
from support.repetitions import share

SEED = 20261122
PACKETS, INPUTS = share((2000, 40), whole=(5000, 100))


@pytest.mark.slow
@pytest.mark.sqlite_only
def test_hostile_packets_cause_no_fault() -> None:
    outcome = fuzz(Asked(SEED, packets=PACKETS, inputs=INPUTS, seconds=400))
    assert outcome.findings == []
    assert outcome.short == []
    assert {0, 1, 3, 4, 5, 9} <= set(outcome.dns.rcodes)
    assert outcome.dns.over_tcp > PACKETS // 250


@contextmanager
def answering_udp(answer: Callable[[bytes], bytes]) -> Iterator[tuple[str, int]]:
    """A name server that answers as a test says."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))

        def run() -> None:
            while True:
                packet, address = udp.recvfrom(65535)
                if packet == b"end":
                    return
                if expects_answer(packet):
                    udp.sendto(answer(packet), address)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield udp.getsockname()
        finally:
            udp.sendto(b"end", udp.getsockname())
            thread.join()


def _header(packet: bytes, rcode: int) -> bytes:
    return packet[:2] + bytes([0x80 | (packet[2] & 0x79), rcode]) + bytes(8)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (lambda packet: _header(packet, 1), None),
        (lambda packet: _header(packet, 2), "SERVFAIL"),
        (lambda packet: _header(packet, 1) + bytes(len(packet)), "a refusal of"),
        (lambda packet: _header(packet, 0) + bytes(1300), "an answer of 1312 octets"),
        (lambda packet: _header(packet, 0) + bytes(600), "an answer of 612 octets"),
        (lambda packet: packet, "is no answer to"),
        (lambda packet: b"\xff\xff" + _header(packet, 0)[2:], "an answer that nobody asked for"),
    ],
)
def test_a_name_server_that_answers_wrongly_is_found(
    answer: Callable[[bytes], bytes], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("long.fuzzing.dns_clients.TCP_SHARE", 0)
    monkeypatch.setattr("long.fuzzing.dns_clients.HANG_SECONDS", 0.2)
    with answering_udp(answer) as address:
        sender = Sender(address, SEED, ["example.test"])
        sender.send(60, float("inf"))
    assert sender.tally.packets == 60
    if found is None:
        assert sender.tally.findings == []
        assert sender.tally.answers == sender.tally.rcodes[1] > 30
    else:
        assert any(found in each for each in sender.tally.findings), sender.tally.findings
