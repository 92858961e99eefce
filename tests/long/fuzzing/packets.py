"""Packets for a name server: good queries, damaged ones, and every kind of nonsense that the format allows.

A seeded generator draws them: hypothesis takes a hundred times as long, and a run needs a million.
"""

import random
import struct
from collections.abc import Callable

import dns.edns
import dns.message

PLAIN_BYTES = 512
"""The largest UDP answer to a query without EDNS (RFC 1035, section 4.2.1)."""
EDNS_BYTES = 1232
"""The largest to one with it, by our own bound."""
_TYPES = (1, 2, 5, 6, 12, 15, 16, 28, 43, 46, 47, 48, 50, 64, 65, 99, 255, 257)
_ODD_TYPES = (0, 41, 249, 250, 251, 252, 253, 254, 65280, 65535)
_CLASSES = (1, 1, 1, 3, 4, 254, 255, 0, 65535)
# The service ignores all options, so their data isn't checked.
for _option in (dns.edns.OptionType.ECS, dns.edns.OptionType.COOKIE, dns.edns.OptionType.EDE):
    dns.edns.register_type(dns.edns.GenericOption, _option)
_OPTIONS = (3, 5, 8, 9, 10, 11, 12, 14, 15, 20, 65001)


def wire_name(text: str) -> bytes:
    """Return a name of ASCII labels in wire form."""
    labels = [label.encode() for label in text.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def opt_record(payload: int = 1232, *, version: int = 0, flags: int = 0, options: bytes = b"") -> bytes:
    """Return an OPT record (RFC 6891, section 6.1)."""
    return b"\0" + struct.pack("!HHBBHH", 41, payload, 0, version, flags, len(options)) + options


def query(name: bytes, rdtype: int = 1, rdclass: int = 1, *, records: tuple[bytes, ...] = ()) -> bytes:
    """Return a query with one question, and these records in its additional section."""
    head = struct.pack("!HHHHHH", 0, 0, 1, 0, 0, len(records))
    return head + name + struct.pack("!HH", rdtype, rdclass) + b"".join(records)


class Packets:
    """Draws packets about the names of a zone; the same seed draws the same."""

    def __init__(self, seed: int, names: list[str]) -> None:
        self._draws = random.Random(seed)  # noqa: S311 - what is sent next, no secret
        self._names = [wire_name(name) for name in names]
        self._kinds: list[tuple[str, Callable[[], bytes]]] = [
            ("query", self._query),
            ("query", self._query),
            ("random octets", self._random),
            ("random after a header", self._after_header),
            ("damaged", self._damaged),
            ("damaged", self._damaged),
            ("cut off", self._cut_off),
            ("something after the end", self._longer),
            ("compression", self._compression),
            ("many questions", self._many_questions),
            ("wrong counts", self._counts),
            ("EDNS", self._edns),
            ("EDNS", self._edns),
            ("opcode and flags", self._flags),
            ("class and type", self._class_and_type),
            ("name", self._name),
            ("signature", self._signed),
        ]

    def draw(self) -> tuple[str, bytes]:
        """Return a packet and what kind it is."""
        kind, make = self._draws.choice(self._kinds)
        return kind, make()

    def _known(self) -> bytes:
        name = self._draws.choice(self._names)
        if self._draws.random() < 0.3:
            name = wire_name(f"w{self._draws.randrange(100)}")[:-1] + name
        if self._draws.random() < 0.2:
            name = name.upper()
        return name if len(name) <= 255 else b"\0"

    def _octets(self, most: int) -> bytes:
        return self._draws.randbytes(self._draws.randrange(most))

    def _query(self) -> bytes:
        records = (opt_record(self._draws.choice((512, 1232, 4096)), flags=self._draws.choice((0, 0x8000))),)
        return query(
            self._known(), self._draws.choice(_TYPES), records=records if self._draws.random() < 0.6 else ()
        )

    def _random(self) -> bytes:
        return self._octets(self._draws.choice((12, 40, 600, 600, 600, 6000)))

    def _after_header(self) -> bytes:
        counts = [self._draws.choice((0, 0, 1, 1, 2, 7, 65535)) for _ in range(4)]
        return struct.pack("!HHHHHH", 0, self._draws.choice((0, 0x0100)), *counts) + self._octets(300)

    def _damaged(self) -> bytes:
        octets = bytearray(self._query())
        for _ in range(self._draws.randrange(1, 6)):
            octets[self._draws.randrange(len(octets))] = self._draws.randrange(256)
        return bytes(octets)

    def _cut_off(self) -> bytes:
        octets = self._query()
        return octets[: self._draws.randrange(len(octets))]

    def _longer(self) -> bytes:
        return self._query() + self._octets(self._draws.choice((2, 40, 500, 4000)))

    def _compression(self) -> bytes:
        pointers = (
            b"\xc0\x0c",  # to itself
            b"\xc0\x0e\xc0\x0c",  # two to each other
            b"\x01a\xc0\x0c",  # ever longer
            b"\xc0\x00",  # into the header
            b"\xc0\x04",
            b"\xff\xff",  # far behind the end
            b"\xc0",  # half a pointer
            b"".join(b"\xc0" + bytes([14 + 2 * step]) for step in range(100)) + b"\0",  # a long chain forward
            b"\x3f" + b"a" * 63 + b"\xc0\x0c",
        )
        name = self._draws.choice(pointers)
        first = query(name, self._draws.choice(_TYPES))
        if self._draws.random() < 0.5:
            return first
        # A good question, and a chain of pointers backwards in the records behind it.
        chain = b"".join(
            struct.pack("!H", 0xC000 | self._draws.randrange(12, 200))
            + struct.pack("!HHIH", 2, 1, 0, 2)
            + b"\xc0\x0c"
            for _ in range(self._draws.randrange(1, 20))
        )
        good = bytearray(query(self._known(), 2) + chain)
        struct.pack_into("!H", good, self._draws.choice((6, 8, 10)), self._draws.choice((1, 20, 65535)))
        return bytes(good)

    def _many_questions(self) -> bytes:
        count = self._draws.choice((0, 2, 3, 30, 120))
        head = struct.pack("!HHHHHH", 0, 0, count, 0, 0, 0)
        return head + b"".join(self._known() + b"\0\x02\0\x01" for _ in range(count))

    def _counts(self) -> bytes:
        octets = bytearray(self._query())
        for place in (4, 6, 8, 10):
            if self._draws.random() < 0.4:
                struct.pack_into("!H", octets, place, self._draws.choice((0, 1, 2, 100, 65535)))
        return bytes(octets)

    def _edns(self) -> bytes:
        payload = self._draws.choice((0, 1, 11, 511, 512, 513, 1231, 1232, 1233, 4096, 65535))
        options = b""
        for _ in range(self._draws.randrange(4)):
            body = self._octets(self._draws.choice((1, 5, 20, 300)))
            length = len(body) if self._draws.random() < 0.8 else self._draws.randrange(65536)
            options += struct.pack("!HH", self._draws.choice(_OPTIONS), length) + body
        record = opt_record(
            payload,
            version=self._draws.choice((0, 0, 0, 0, 1, 255)),
            flags=self._draws.choice((0, 0x8000, 0xFFFF)),
            options=options,
        )
        if self._draws.random() < 0.1:
            record = self._known() + record[1:]  # an OPT below another name than the root
        records = (record,) * self._draws.choice((1, 1, 1, 1, 2, 3))
        octets = bytearray(query(self._known(), self._draws.choice(_TYPES), records=records))
        if self._draws.random() < 0.1:  # an OPT in another section
            struct.pack_into("!HHH", octets, 6, *self._draws.choice(((1, 0, 0), (0, 1, 0))))
        return bytes(octets)

    def _flags(self) -> bytes:
        octets = bytearray(self._query())
        octets[2], octets[3] = self._draws.randrange(256), self._draws.randrange(256)
        return bytes(octets)

    def _class_and_type(self) -> bytes:
        rdtype = self._draws.choice(_TYPES + _ODD_TYPES)
        return query(self._known(), rdtype, self._draws.choice(_CLASSES), records=(opt_record(),))

    def _name(self) -> bytes:
        below = self._draws.choice(self._names)
        shapes = (
            (b"\x3f" + b"a" * 63) * 3 + bytes([61]) + b"b" * 61 + b"\0",  # 255 octets
            (b"\x3f" + b"a" * 63) * 4 + b"\0",  # 257
            b"\x40" + b"a" * 64 + below,  # a label type that there is not
            b"\x80" + b"a" * 20 + below,
            b"\x01\0" + below,
            b"\x03a.b" + below,
            b"\x01*" + below,
            b'\x05\xff\xfe\\"\n' + below,
            b"\x01a" * 120 + below,
            b"\x01a" * 126 + b"\0",
            b"\0",
        )
        return query(self._draws.choice(shapes), self._draws.choice(_TYPES), records=(opt_record(),))

    def _signed(self) -> bytes:
        rdtype = self._draws.choice((250, 250, 24, 249))
        body = wire_name("hmac-sha256")
        if rdtype == 250 and self._draws.random() < 0.5:  # a well-formed TSIG with an unknown key (RFC 8945)
            body += struct.pack("!HIHH", 0, 1_700_000_000, 300, 32) + self._draws.randbytes(32) + bytes(6)
        else:
            body += self._octets(80)
        length = len(body) if self._draws.random() < 0.7 else self._draws.randrange(65536)
        record = wire_name("sublet") + struct.pack("!HHIH", rdtype, 255, 0, length) + body
        return query(self._known(), 2, records=(record,))


def expects_answer(packet: bytes) -> bool:
    """Return True if a packet gets an answer over UDP: responses and packets shorter than a header don't."""
    return len(packet) >= 12 and not packet[2] & 0x80


def allowed_bytes(packet: bytes) -> int:
    """Return the most octets that an answer to this packet may have over UDP."""
    try:
        asked = dns.message.from_wire(packet, keyring=False)
    except Exception:  # noqa: BLE001 - any fault means a malformed message, which gets a short answer
        return PLAIN_BYTES
    announced = asked.payload if asked.edns >= 0 else PLAIN_BYTES
    return min(max(announced, PLAIN_BYTES), EDNS_BYTES)
