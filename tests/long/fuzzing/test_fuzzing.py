"""A share of `make fuzz` with a fixed seed; and that each of its checks finds what it is for."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from long.fuzzing.aim import DAMAGED, RAW, WELL_FORMED, Aim, Request
from long.fuzzing.canaries import AUDIT, BACKUP, LOG, Canary, found_in
from long.fuzzing.dns_clients import DnsTally, Sender
from long.fuzzing.http_clients import Client, split_answers
from long.fuzzing.packets import Packets, allowed_bytes, expects_answer, opt_record, query, wire_name
from long.fuzzing.run import Asked, fuzz
from long.fuzzing.slow import CONFIRMATIONS, SLOW_SECONDS

SEED = 20261122


@pytest.mark.slow
@pytest.mark.sqlite_only
def test_hostile_requests_and_packets_cause_no_fault() -> None:
    outcome = fuzz(Asked(SEED, requests=2000, packets=10_000, inputs=200, seconds=400))
    assert outcome.findings == []
    assert outcome.short == []
    # It did reach what it is aimed at: every operation, every kind of packet, success and refusal. So few
    # requests seldom create something.
    assert len(outcome.http.operations) > 20
    assert set(outcome.http.kinds) == {WELL_FORMED, DAMAGED, RAW}
    assert {200, 400, 401, 403, 404, 405, 422} <= set(outcome.http.statuses)
    assert {0, 1, 3, 4, 5, 9} <= set(outcome.dns.rcodes)
    assert outcome.dns.over_tcp > 100
    assert outcome.busy > 10


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


@contextmanager
def answering_tcp(octets: bytes) -> Iterator[tuple[str, int]]:
    """A service that answers one request, whatever it is, with these octets."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(octets)

        thread = threading.Thread(target=run)
        thread.start()
        yield listening.getsockname()
        thread.join()


@pytest.mark.parametrize(
    ("octets", "token", "found"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "a", None),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "a", None),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "a", "500: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET", "a", "the canary b'secret'"),
        (b"HTTP/1.1 200 OK\r\nX: SECRET\r\nContent-Length: 0\r\n\r\n", "", "the canary b'secret'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nSECRET", "owner", None),
        (b"", "a", "closed without an answer"),
    ],
)
def test_a_service_that_answers_wrongly_is_found(octets: bytes, token: str, found: str | None) -> None:
    with answering_tcp(octets) as address:
        aim = Aim(address, (), {}, (), ())
        client = Client(aim, (Canary("ticket text", "Secret", ("owner",)),))
        client.send(Request(WELL_FORMED, "GET /me", token, b"GET /me HTTP/1.1\r\n\r\n"))
        client.close()
    assert client.tally.requests == 1
    if found is None:
        assert client.tally.findings == []
    else:
        assert [each for each in client.tally.findings if found in each]


@pytest.mark.parametrize(("slow_answers", "found"), [(1, False), (10, True)])
def test_an_answer_that_is_always_slow_is_found(slow_answers: int, *, found: bool) -> None:
    """A single one is the machine's: the request is sent again, three times at most."""
    octets = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            for number in range(1 + CONFIRMATIONS if found else 2):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    time.sleep(1.2 * SLOW_SECONDS if number < slow_answers else 0)
                    connection.sendall(octets)

        thread = threading.Thread(target=run)
        thread.start()
        client = Client(Aim(listening.getsockname(), (), {}, (), ()), (Canary("ticket text", "x-secret"),))
        client.send(Request(WELL_FORMED, "GET /me", "a", b"GET /me HTTP/1.1\r\n\r\n"))
        client.close()
        thread.join(60)
    assert not thread.is_alive()
    assert client.tally.requests == 1
    assert [each for each in client.tally.findings if "takes longer than 0.5 s" in each] == (
        client.tally.findings if found else []
    )
    assert bool(client.tally.findings) == found


def test_several_answers_of_one_connection_are_separated() -> None:
    one = b"HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nabc"
    other = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nxyz"
    assert split_answers(one + other) == [(404, one), (400, other)]
    parts = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert split_answers(parts + one) == [(200, parts), (404, one)]
    assert split_answers(b"nothing") == []


def test_leaked_canaries_are_found() -> None:
    token = Canary("token", "sublet_ABC")
    sent = Canary("token", "sublet_DEF", ("sublet_DEF",), sent_about=True)
    octets = b"\x00 a row with SUBLET_abc and sublet_def"
    assert len(found_in(LOG, octets, (token, sent))) == 2
    assert len(found_in(BACKUP, octets, (token, sent))) == 1
    assert found_in(LOG, b"none", (token, sent)) == []
    email = Canary("e-mail address", "a@example.org")
    assert len(found_in(LOG, b"to a@example.org", (email,))) == 1
    assert found_in(AUDIT, b"added a@example.org", (email,)) == []


def test_packets_are_of_every_kind_and_the_same_for_a_seed() -> None:
    one, again = (Packets(SEED, ["example.test"]) for _ in range(2))
    drawn = [one.draw() for _ in range(2000)]
    assert drawn == [again.draw() for _ in range(2000)]
    kinds = Counter(kind for kind, _ in drawn)
    assert len(kinds) == 14
    assert max(len(packet) for _, packet in drawn) > 4096
    assert 1000 < sum(expects_answer(packet) for _, packet in drawn) < 2000


def test_the_values_that_an_answer_may_have() -> None:
    name = wire_name("example.test")
    assert allowed_bytes(query(name)) == 512
    assert allowed_bytes(query(name, records=(opt_record(100),))) == 512
    assert allowed_bytes(query(name, records=(opt_record(800),))) == 800
    assert allowed_bytes(query(name, records=(opt_record(65535),))) == 1232
    assert allowed_bytes(b"nonsense") == 512


def test_tallies_are_summed() -> None:
    one, other = DnsTally(packets=1, largest_bytes=5), DnsTally(packets=2, largest_bytes=3, findings=["a"])
    one.add(other)
    assert (one.packets, one.largest_bytes, one.findings) == (3, 5, ["a"])
