"""Send packets to a real name server over UDP and TCP, and check each answer."""

import random
import socket
import struct
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from long.fuzzing.packets import Packets, allowed_bytes, expects_answer, opt_record, query, wire_name
from long.fuzzing.slow import SLOW_SECONDS, is_slow

UNDER_WAY = 100
"""How many packets are sent before their answers are awaited; the server drops packets beyond 1,000."""
HANG_SECONDS = 10.0
TCP_SHARE = 0.02
"""Of the packets, over TCP."""
PIPELINE = 20
"""Packets that one TCP connection carries."""
FINDINGS_MAX = 20
OPT_BYTES = 11


@dataclass(slots=True)
class DnsTally:
    """Counts packets and answers.

    Octets are of answers over UDP; `factor` is the octets of an answer per octet of its packet.
    """

    packets: int = 0
    over_tcp: int = 0
    connections: int = 0
    answers: int = 0
    sent_again: int = 0
    """Packets without an answer for a while, sent once more: over UDP the kernel may drop some."""
    kinds: Counter[str] = field(default_factory=Counter)
    rcodes: Counter[int] = field(default_factory=Counter)
    largest_bytes: int = 0
    largest_factor: float = 0.0
    longest_seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def find(self, sentence: str) -> None:
        """Note what must not be."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(sentence)

    def add(self, other: "DnsTally") -> None:
        """Add what another sender counted."""
        for name in ("packets", "over_tcp", "connections", "answers", "sent_again"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("largest_bytes", "largest_factor", "longest_seconds"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.kinds += other.kinds
        self.rcodes += other.rcodes
        self.findings += other.findings


class Sender:
    """One socket to the name server, and what it met."""

    def __init__(self, address: tuple[str, int], seed: int, names: list[str]) -> None:
        self.tally = DnsTally()
        self._address = address
        self._packets = Packets(seed, names)
        self._draws = random.Random(seed)  # noqa: S311 - which transport comes next, no secret
        self._next_id = self._draws.randrange(65536)

    def send(self, count: int, ends_at: float) -> None:
        """Send `count` packets, or fewer if the time ends first."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            udp.connect(self._address)
            while self.tally.packets < count and time.monotonic() < ends_at:
                left = count - self.tally.packets
                if self._draws.random() < TCP_SHARE * UNDER_WAY / PIPELINE:
                    self._over_tcp(min(left, PIPELINE))
                else:
                    self._over_udp(udp, min(left, UNDER_WAY))

    def _draw(self) -> bytes:
        kind, packet = self._packets.draw()
        self.tally.kinds[kind] += 1
        self.tally.packets += 1
        self._next_id = (self._next_id + 1) % 65536
        return struct.pack("!H", self._next_id) + packet[2:] if len(packet) >= 2 else packet

    def _over_udp(self, udp: socket.socket, count: int) -> None:
        waiting: dict[bytes, bytes] = {}
        for _ in range(count):
            packet = self._draw()
            if expects_answer(packet):
                waiting[packet[:2]] = packet
            udp.send(packet)
        started = time.monotonic()
        asked = list(waiting.values())
        self._receive(udp, waiting, 2.0)
        again = time.monotonic()
        if not waiting and is_slow(again - started, lambda: self._ask_again(udp, asked)):
            packets = " ".join(packet.hex() for packet in asked)
            self.tally.find(
                f"answers over UDP take longer than {SLOW_SECONDS:g} s each time to {packets[:20000]}"
            )
        for packet in waiting.values():
            self.tally.sent_again += 1
            udp.send(packet)
        if waiting:
            self._receive(udp, waiting, HANG_SECONDS)
        for packet in waiting.values():
            self.tally.find(f"no answer in {time.monotonic() - again:.1f} s over UDP to {packet.hex()}")
        self.tally.longest_seconds = max(self.tally.longest_seconds, time.monotonic() - started)

    def _ask_again(self, udp: socket.socket, packets: list[bytes]) -> None:
        for packet in packets:
            udp.send(packet)
        self._receive(udp, {packet[:2]: packet for packet in packets}, HANG_SECONDS)

    def _receive(self, udp: socket.socket, waiting: dict[bytes, bytes], seconds: float) -> None:
        """Receive answers until all have come, or none came for this long."""
        udp.settimeout(seconds)
        while waiting:
            try:
                answer = udp.recv(65535)
            except TimeoutError:
                return
            packet = waiting.pop(answer[:2], None)
            if packet is None:
                # The second answer to a packet that was sent again, or an answer to what should get none.
                if not self.tally.sent_again:
                    self.tally.find(f"an answer that nobody asked for: {answer[:600].hex()}")
                continue
            self._check(packet, answer)

    def _check(self, packet: bytes, answer: bytes) -> None:
        tally = self.tally
        self._check_form(packet, answer)
        tally.largest_bytes = max(tally.largest_bytes, len(answer))
        tally.largest_factor = max(tally.largest_factor, len(answer) / len(packet))
        if len(answer) > 512 and len(answer) > allowed_bytes(packet):
            tally.find(f"an answer of {len(answer)} octets to {packet.hex()}")

    def _check_form(self, packet: bytes, answer: bytes) -> None:
        """Check what holds over UDP and TCP: an answer to this packet, and none but a
        good one has records.
        """
        tally = self.tally
        tally.answers += 1
        if len(answer) < 12 or not answer[2] & 0x80 or (answer[2] ^ packet[2]) & 0x78:
            tally.find(f"{answer[:600].hex()} is no answer to {packet.hex()}")
            return
        rcode = answer[3] & 15
        tally.rcodes[rcode] += 1
        if rcode == 2:
            tally.find(f"SERVFAIL to {packet.hex()}")
        if rcode not in (0, 3) and len(answer) > len(packet) + OPT_BYTES:
            tally.find(f"a refusal of {len(answer)} octets to {packet.hex()}")

    def _over_tcp(self, count: int) -> None:
        """Send packets over one connection, at times with a wrong length or cut off, and read until it is
        closed.
        """
        packets = [self._draw() for _ in range(count)]
        octets = b"".join(len(packet).to_bytes(2, "big") + packet for packet in packets)
        turn = self._draws.random()
        whole = turn < 0.6
        if turn > 0.8:
            octets = octets[: self._draws.randrange(len(octets) + 1)]
        elif not whole:
            place = self._draws.randrange(len(octets))
            octets = octets[:place] + self._draws.randbytes(4) + octets[place:]
        self.tally.over_tcp += count
        self.tally.connections += 1
        started = time.monotonic()
        received = self._exchange(octets)
        seconds = time.monotonic() - started
        self.tally.longest_seconds = max(self.tally.longest_seconds, seconds)
        if is_slow(seconds, lambda: self._exchange(octets)):
            self.tally.find(
                f"a TCP connection takes longer than {SLOW_SECONDS:g} s each time: {octets.hex()[:20000]}"
            )
        self._check_stream({packet[:2]: packet for packet in packets} if whole else {}, received)

    def _exchange(self, octets: bytes) -> bytes:
        """Send octets over a connection of their own, and return what comes until it is closed."""
        received = b""
        try:
            with (
                socket.create_connection(self._address, timeout=HANG_SECONDS) as connection,
                suppress(ConnectionError),  # it closes what it can't read, with our octets still on the way
            ):
                connection.sendall(octets)
                connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65536):
                    received += chunk
        except TimeoutError:
            self.tally.find(f"a TCP connection hangs that began with {octets[:200].hex()}")
        return received

    def _check_stream(self, packets: dict[bytes, bytes], received: bytes) -> None:
        while len(received) >= 2:
            size = int.from_bytes(received[:2], "big")
            answer, received = received[2 : 2 + size], received[2 + size :]
            if len(answer) < size:
                return  # the connection was reset in the middle
            if answer[:2] in packets:
                self._check_form(packets[answer[:2]], answer)
            else:
                self.tally.answers += 1


def referral_factor(address: tuple[str, int], name: str) -> tuple[int, float]:
    """Return the octets of the largest referral to a name over UDP, in all and per octet of its query."""
    packet = b"\x12\x34" + query(wire_name(name), 2, records=(opt_record(65535, flags=0x8000),))[2:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(HANG_SECONDS)
        udp.connect(address)
        udp.send(packet)
        answer = udp.recv(65535)
    assert int.from_bytes(answer[8:10], "big") > 0, "no referral"
    return len(answer), len(answer) / len(packet)


def send_packets(
    address: tuple[str, int], seed: int, names: list[str], count: int, seconds: float
) -> DnsTally:
    """Send packets from this process, for a limited time, and return the counts."""
    sender = Sender(address, seed, names)
    sender.send(count, time.monotonic() + seconds)
    return sender.tally
