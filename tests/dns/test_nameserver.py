"""The built-in name server, queried by dig, kdig and unbound, and by clients that misuse connections.

Malformed messages: test_compliance.py, and those of `make fuzz` in tests/long/fuzzing/test_fuzzing.py.
"""

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from sublet.dns import listener, nameserver
from sublet.dns.nameserver import NameServer
from sublet.dns.query import QUERIES_AT_ONCE
from sublet.dns.types import Record, ZoneView
from sublet.errors import Unavailable
from support.in_memory_zone import DS_TEXT, RECORDS, ZONE, many_nameservers, reader_of, serving
from support.name_servers import resolver

MANY = many_nameservers(16, "many.zone.example")
SIBLINGS = [Record("sibling.zone.example", "NS", 300, record.rdata) for record in MANY if record.type == "NS"]
SOA = "ns1.zone.example. hostmaster.zone.example. 2026 7200 900 1209600 60"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(reader_of([*RECORDS, *MANY, *SIBLINGS])) as bound:
        yield bound


class Reply:
    """The output of dig or kdig: code, flags, and the sections' records as (owner, ttl, type, rdata)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = ""
        self.flags: set[str] = set()
        self.sections: dict[str, list[tuple[str, int, str, str]]] = {}
        section = ""
        for line in text.splitlines():
            if "status:" in line:
                self.code = line.split("status:")[1].split(";")[0].split(",")[0].strip()
            elif line.lower().startswith(";; flags:"):
                self.flags = set(line.split(":")[1].split(";")[0].split())
            elif line.startswith(";; ") and "SECTION" in line:
                section = line.split()[1]
            elif line and not line.startswith(";"):
                owner, ttl, _, rdtype, rdata = line.split(None, 4)
                if rdtype == "DS":
                    rdata = " ".join([*rdata.split()[:3], "".join(rdata.split()[3:]).lower()])
                self.sections.setdefault(section, []).append((owner, int(ttl), rdtype, rdata))

    def values(self, section: str, rdtype: str) -> list[str]:
        return sorted(rdata for _, _, kind, rdata in self.sections.get(section, []) if kind == rdtype)


def ask(port: int, *words: str, tool: str = "dig", host: str = "127.0.0.1") -> Reply:
    quick = ["+time=30", "+tries=1"] if tool == "dig" else ["+timeout=30", "+retry=0"]
    command = [tool, f"@{host}", "-p", str(port), "+norecurse", *quick, *words]
    if tool == "dig":
        command.append("+nocookie")
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Reply(done.stdout)


DENIED = {"AUTHORITY": [("zone.example.", 60, "SOA", SOA)]}
FOO_NS = [
    ("foo.zone.example.", 300, "NS", "ns.outside.example."),
    ("foo.zone.example.", 300, "NS", "ns1.foo.zone.example."),
]
FOO_DS = ("foo.zone.example.", 300, "DS", DS_TEXT)
FOO_GLUE = [
    ("ns1.foo.zone.example.", 300, "A", "192.0.2.11"),
    ("ns1.foo.zone.example.", 300, "AAAA", "2001:db8::11"),
]
TO_FOO = {"AUTHORITY": FOO_NS, "ADDITIONAL": FOO_GLUE}
TO_FOO_SIGNED = {"AUTHORITY": [FOO_DS, *FOO_NS], "ADDITIONAL": FOO_GLUE}
ALIAS = ("alias.zone.example.", 300, "CNAME", "text.zone.example.")
HELLO = ("text.zone.example.", 300, "TXT", '"hello"')


def _any(name: str) -> dict[str, object]:
    return {"ANSWER": [(f"{name}.", 300, "TXT", '"any"')]}


ANSWERS = [
    # A delegation, with DS only if the client asks for DNSSEC; the highest one counts, for all types but DS.
    ("www.foo.zone.example", "A +dnssec", "NOERROR", False, TO_FOO_SIGNED),
    ("foo.zone.example", "NS +nodnssec", "NOERROR", False, TO_FOO),
    *((f"{each}.foo.zone.example", "TXT", "NOERROR", False, TO_FOO) for each in ("x.deep", "text", "ns1")),
    *(("text.foo.zone.example", each, "NOERROR", False, TO_FOO) for each in ("DS", "A", "ANY +notcp")),
    ("foo.zone.example", "DS", "NOERROR", True, {"ANSWER": [FOO_DS]}),
    ("bar.zone.example", "DS", "NOERROR", True, DENIED),
    ("zone.example", "DS", "NOERROR", True, DENIED),
    # Nothing
    ("nothing.zone.example", "A", "NXDOMAIN", True, DENIED),
    *((f"{each}.zone.example", "MX", "NOERROR", True, DENIED) for each in ("text", "ent", "ns1")),
    *((each, "A", "REFUSED", False, {}) for each in ("example", "other.example", "xzone.example", ".")),
    # Records
    ("zone.example", "SOA", "NOERROR", True, {"ANSWER": [("zone.example.", 3600, "SOA", SOA)]}),
    ("zone.example", "TXT", "NOERROR", True, {"ANSWER": [("zone.example.", 300, "TXT", '"apex"')]}),
    ("ns1.zone.example", "A", "NOERROR", True, {"ANSWER": [("ns1.zone.example.", 3600, "A", "192.0.2.1")]}),
    ("text.zone.example", "TXT", "NOERROR", True, {"ANSWER": [HELLO]}),
    # Aliases
    ("alias.zone.example", "CNAME", "NOERROR", True, {"ANSWER": [ALIAS]}),
    ("alias.zone.example", "TXT", "NOERROR", True, {"ANSWER": [ALIAS, HELLO]}),
    ("alias.zone.example", "A", "NOERROR", True, {"ANSWER": [ALIAS], **DENIED}),
    # A wildcard adds no other types, and nothing to, below or at a delegation below an existing name.
    *(
        (f"{each}.wild.zone.example", "TXT", "NOERROR", True, _any(f"{each}.wild.zone.example"))
        for each in ("x", "x.y", "*")
    ),
    ("x.wild.zone.example", "A", "NOERROR", True, DENIED),
    ("there.wild.zone.example", "TXT", "NOERROR", True, DENIED),
    ("wild.zone.example", "TXT", "NOERROR", True, DENIED),
    ("x.there.wild.zone.example", "TXT", "NXDOMAIN", True, DENIED),
]


@pytest.mark.parametrize(("tool", "transport"), [("dig", "+notcp"), ("kdig", "+tcp")])
@pytest.mark.parametrize(("name", "words", "code", "is_authoritative", "sections"), ANSWERS)
def test_answers(
    port: int,
    tool: str,
    transport: str,
    name: str,
    words: str,
    code: str,
    is_authoritative: bool,
    sections: dict[str, list[object]],
) -> None:
    reply = ask(port, name, transport, *words.split(), tool=tool)
    assert (reply.code, "aa" in reply.flags) == (code, is_authoritative)
    assert {section: sorted(records) for section, records in reply.sections.items()} == {
        section: sorted(records, key=str) for section, records in sections.items()
    }


def test_the_nameservers_of_the_apex_bring_their_addresses(port: int) -> None:
    reply = ask(port, ZONE, "NS")
    assert reply.values("ANSWER", "NS") == ["ns.elsewhere.example.", "ns1.zone.example."]
    assert reply.sections["ADDITIONAL"] == [("ns1.zone.example.", 3600, "A", "192.0.2.1")]


def test_a_referral_has_the_glue_of_siblings(port: int) -> None:
    assert ask(port, "bar.zone.example", "A").values("ADDITIONAL", "A") == ["192.0.2.11"]
    assert ask(port, "x.cut.wild.zone.example", "TXT").values("AUTHORITY", "NS") == ["ns.outside.example."]


@pytest.mark.parametrize("count", [nameserver.ALIASES_MAX, 3 * nameserver.ALIASES_MAX])
def test_aliases_in_a_row_are_followed_up_to_a_limit(count: int) -> None:
    aliases = [
        Record(f"a{number}.zone.example", "CNAME", 300, f"a{number + 1}.zone.example.")
        for number in range(count)
    ]
    last = Record(f"a{count}.zone.example", "A", 300, "192.0.2.9")
    with serving(reader_of([*aliases, last])) as port:
        reply = ask(port, "a0.zone.example", "A")
    assert (reply.code, "aa" in reply.flags) == ("NOERROR", True)
    assert len(reply.values("ANSWER", "CNAME")) == min(count, 1 + nameserver.ALIASES_MAX)
    assert reply.values("ANSWER", "A") == (["192.0.2.9"] if count <= nameserver.ALIASES_MAX else [])


def test_aliases_in_a_circle_end() -> None:
    records = [
        Record("a.zone.example", "CNAME", 300, "b.zone.example."),
        Record("b.zone.example", "CNAME", 300, "a.zone.example."),
    ]
    with serving(reader_of(records)) as port:
        reply = ask(port, "a.zone.example", "A")
    assert (reply.code, len(reply.values("ANSWER", "CNAME"))) == ("NOERROR", 2)


def test_queries_match_in_any_case_and_answers_keep_the_case(port: int) -> None:
    reply = ask(port, "tExT.ZONE.exaMPLE", "TXT")
    assert ";tExT.ZONE.exaMPLE." in reply.text
    assert reply.values("ANSWER", "TXT") == ['"hello"']
    referral = ask(port, "wWw.fOO.ZONE.exaMPLE", "TXT")
    assert referral.values("ADDITIONAL", "A") == ["192.0.2.11"]


def test_optional_glue_is_left_out_until_the_answer_fits(port: int) -> None:
    reply = ask(port, "sibling.zone.example", "A", "+notcp", "+ignore", "+bufsize=1232")
    assert "tc" not in reply.flags
    assert len(reply.values("AUTHORITY", "NS")) == 16
    addresses = len(reply.sections["ADDITIONAL"])
    assert 0 < addresses < 32
    size_bytes = int(reply.text.split("MSG SIZE  rcvd:")[1].split()[0])
    assert 1232 - 28 < size_bytes <= 1232  # one more AAAA would not have fitted


@pytest.mark.parametrize(
    "name",
    [r"a\.b.zone.example", r"\000\255.zone.example", r"\"\(\;\@\$.zone.example", r"x\032y.zone.example"],
)
def test_unusual_octets_in_a_name(port: int, name: str) -> None:
    assert ask(port, name, "A").code == "NXDOMAIN"


def test_a_dot_inside_a_label_is_not_a_zone_cut(port: int) -> None:
    assert ask(port, r"x\.zone.example", "A").code == "REFUSED"
    assert ask(port, r"x\.foo.zone.example", "A").code == "NXDOMAIN"


def test_queries_over_ipv6_are_answered_and_counted() -> None:
    codes: list[str] = []
    with serving(reader_of(RECORDS), codes, host="::1") as port:
        assert ask(port, ZONE, "SOA", host="::1").code == "NOERROR"
        assert ask(port, "x.zone.example", "SOA", "+tcp", host="::1").code == "NXDOMAIN"
        assert ask(port, ".", "SOA", "+tcp", host="::1").code == "REFUSED"
    assert codes == ["NOERROR", "NXDOMAIN", "REFUSED"]


def test_failing_reader_is_servfail(capfd: pytest.CaptureFixture[str]) -> None:
    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        raise RuntimeError(f"no database for {' '.join(names)}")

    with serving(read_zones) as port:
        for transport in ("+tcp", "+notcp"):
            reply = ask(port, "A.zone.example", "SOA", transport)
            assert reply.code == "SERVFAIL"
            assert ";A.zone.example." in reply.text
    logged = capfd.readouterr().out
    assert logged.count("] nameserver_query_failed") == 2
    assert "no database for a.zone.example" in logged


def test_an_unreadable_record_is_servfail(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(reader_of([Record("bad.zone.example", "A", 300, "no address")])) as port:
        assert ask(port, "bad.zone.example", "A").code == "SERVFAIL"
        assert ask(port, ZONE, "SOA").code == "NOERROR"
    assert "nameserver_query_failed" in capfd.readouterr().out


def test_an_unavailable_or_slow_database_is_servfail_and_a_line_without_trace(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nameserver, "READ_SECONDS", 0.2)

    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        if "away.zone.example" in names:
            raise Unavailable("The database is away.")
        await asyncio.sleep(60)
        return {}

    with serving(read_zones) as port:
        for name in ("away.zone.example", "slow.zone.example"):
            assert ask(port, name, "SOA").code == "SERVFAIL"
    away, slow = capfd.readouterr().out.splitlines()
    assert "nameserver_query_failed" in away
    assert "The database is away." in away
    assert "nameserver_query_failed" in slow
    assert "didn't answer within 0.2 s" in slow


# TCP


def query_wire(name: str = ZONE, rdtype: str = "SOA") -> bytes:
    return dns.message.make_query(name, rdtype, id=4711).to_wire()


def receive(connection: socket.socket) -> dns.message.Message:
    stream = connection.makefile("rb")
    with stream:
        return dns.message.from_wire(stream.read(int.from_bytes(stream.read(2), "big")))


def test_pipelined_queries_are_answered_in_order(port: int) -> None:
    """Unreadable messages, another opcode, a foreign zone, more queries than are read at once, and a query
    octet by octet.
    """
    queries = [query_wire(f"n{number}.zone.example") for number in range(40)]
    queries[3] = b"\0\x01" + bytes(10)  # no question
    queries[5] = queries[5][:-1]
    queries[6] = queries[6][:2] + b"\x28" + queries[6][3:]  # UPDATE
    queries[7] = query_wire("other.example")
    codes = [dns.rcode.NXDOMAIN] * len(queries)
    codes[3], codes[5], codes[6], codes[7] = (
        dns.rcode.FORMERR,
        dns.rcode.FORMERR,
        dns.rcode.NOTIMP,
        dns.rcode.REFUSED,
    )
    queries = [number.to_bytes(2, "big") + wire[2:] for number, wire in enumerate(queries)]
    octets = b"".join(len(wire).to_bytes(2, "big") + wire for wire in queries)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in octets[:80]:
            connection.sendall(bytes([octet]))
            time.sleep(0.001)
        connection.sendall(octets[80:])
        with connection.makefile("rb") as stream:
            for number, code in enumerate(codes):
                reply = stream.read(int.from_bytes(stream.read(2), "big"))
                assert (int.from_bytes(reply[:2], "big"), reply[3] & 0xF) == (number, code)


@pytest.mark.parametrize("last", [b"\xff\xff", b"\x00\x00", b"\x00\x05hello", b"\x00\x0c\0\0\x80" + bytes(9)])
def test_queries_before_a_malformed_message_are_answered(port: int, last: bytes) -> None:
    """An impossible length or a response ends the connection.

    Earlier queries are answered, and nothing behind it is read.
    """
    wire = query_wire()
    asked = len(wire).to_bytes(2, "big") + wire
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(asked * 3 + last + asked)
        with connection.makefile("rb") as stream:
            for _ in range(3):
                response = dns.message.from_wire(stream.read(int.from_bytes(stream.read(2), "big")))
                assert response.rcode() == dns.rcode.NOERROR
            assert closed_by_peer(connection)


def test_all_long_answers_to_pipelined_queries_arrive() -> None:
    long_text = " ".join(['"' + "x" * 250 + '"'] * 200)
    wire = dns.message.make_query("long.zone.example", "TXT").to_wire(prepend_length=True)
    with (
        serving(reader_of([Record("long.zone.example", "TXT", 300, long_text)])) as bound,
        socket.create_connection(("127.0.0.1", bound), timeout=60) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(wire * 40)
        for _ in range(40):
            reply = stream.read(int.from_bytes(stream.read(2), "big"))
            assert len(reply) > 50_000
            assert reply[:2] == wire[2:4]


def test_queries_that_arrive_together_are_answered_by_one_read() -> None:
    asked: list[set[str]] = []
    read = reader_of(RECORDS)

    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        asked.append(set(names))
        return await read(names)

    queries = [query_wire(f"n{number}.zone.example") for number in range(20)] + [query_wire("other.example")]
    with (
        serving(read_zones) as bound,
        socket.create_connection(("127.0.0.1", bound), timeout=60) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(b"".join(len(wire).to_bytes(2, "big") + wire for wire in queries))
        for _ in queries:
            stream.read(int.from_bytes(stream.read(2), "big"))
    assert len(asked) < 10
    assert max(map(len, asked)) <= QUERIES_AT_ONCE
    assert set().union(*asked) == {*(f"n{number}.zone.example" for number in range(20)), "other.example"}


def test_a_later_query_sees_earlier_changes() -> None:
    records: list[Record] = []

    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        return await reader_of(list(records))(names)

    wire = query_wire("late.zone.example", "NS")
    with (
        serving(read_zones) as bound,
        socket.create_connection(("127.0.0.1", bound), timeout=60) as connection,
        connection.makefile("rb") as stream,
    ):
        for expected in (dns.rdatatype.SOA, dns.rdatatype.NS):
            connection.sendall((len(wire).to_bytes(2, "big") + wire) * 3)
            for _ in range(3):
                response = dns.message.from_wire(stream.read(int.from_bytes(stream.read(2), "big")))
                assert response.authority[0].rdtype == expected
            records.append(Record("late.zone.example", "NS", 300, "ns.elsewhere.example."))


def closed_by_peer(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_of_slow_clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS", 0.3)
    with serving(reader_of(RECORDS)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as silent:
            assert closed_by_peer(silent)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
            started = time.monotonic()
            slow.sendall(b"\x0f\x00")  # 3840 octets are to come, an octet at a time
            assert is_dropped(lambda: slow.sendall(b"x"), every_seconds=0.1)
            assert time.monotonic() - started < 60


def test_the_connection_of_a_client_that_never_reads_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS", 0.5)
    long_text = " ".join(['"' + "x" * 250 + '"'] * 200)
    wire = dns.message.make_query("long.zone.example", "TXT").to_wire(prepend_length=True)
    with (
        serving(reader_of([Record("long.zone.example", "TXT", 300, long_text)])) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as greedy,
    ):
        greedy.sendall(wire * 400)  # asks for 20 MB, more than the kernel's buffers hold
        assert is_dropped(lambda: greedy.sendall(wire), every_seconds=0.1)


def test_every_connection_has_a_maximum_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTION_SECONDS", 0.5)
    wire = dns.message.make_query(ZONE, "SOA").to_wire(prepend_length=True)
    started = time.monotonic()
    with (
        serving(reader_of(RECORDS)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as busy,
    ):

        def ask_again() -> None:
            busy.sendall(wire)
            receive(busy)

        assert is_dropped(ask_again, every_seconds=0.1)
        assert time.monotonic() - started > 0.4


def is_dropped(send: Callable[[], None], *, every_seconds: float) -> bool:
    """True if the server ends the connection within a minute while the client continues to send."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            send()
        except TimeoutError:
            return False
        except (OSError, dns.message.ShortHeader):
            return True
        time.sleep(every_seconds)
    return False


def ask_over(connection: socket.socket) -> dns.rcode.Rcode:
    wire = query_wire()
    connection.sendall(len(wire).to_bytes(2, "big") + wire)
    return receive(connection).rcode()


def test_the_longest_idle_connection_makes_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 3)
    with serving(reader_of(RECORDS)) as port:
        held = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(3)]
        for number in (1, 0, 2):
            assert ask_over(held[number]) == dns.rcode.NOERROR
        with socket.create_connection(("127.0.0.1", port), timeout=60) as new:
            assert ask_over(new) == dns.rcode.NOERROR
            assert closed_by_peer(held[1])
            for number in (0, 2):
                assert ask_over(held[number]) == dns.rcode.NOERROR
        for connection in held:
            connection.close()


def test_a_client_over_its_share_loses_its_own_oldest_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_PER_CLIENT", 2)
    with serving(reader_of(RECORDS)) as port:
        other = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0))
        assert ask_over(other) == dns.rcode.NOERROR
        held = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(3)]
        assert ask_over(held[2]) == dns.rcode.NOERROR
        assert closed_by_peer(held[0])
        assert ask_over(other) == dns.rcode.NOERROR
        for connection in (other, *held):
            connection.close()


def test_a_connection_is_refused_while_all_others_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(nameserver, "READ_SECONDS", 60)
    reading = threading.Semaphore(0)

    async def read_for_long(_names: Collection[str]) -> Mapping[str, ZoneView]:
        reading.release()
        await asyncio.sleep(60)
        return {}

    wire = query_wire()
    with serving(read_for_long) as port:
        busy = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(2)]
        for connection in busy:
            connection.sendall(len(wire).to_bytes(2, "big") + wire)
            assert reading.acquire(timeout=60)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as refused:
            assert closed_by_peer(refused)
        for connection in busy:
            connection.close()


def test_start_and_close() -> None:
    async def story() -> None:
        server = NameServer(reader_of(RECORDS))
        first = await server.start("127.0.0.1", 0)
        second = await server.start("127.0.0.1", 0)
        assert first != second
        for host in ("127.0.0.1", "127.0.0..1"):  # in use, and misspelt
            with pytest.raises(OSError):  # noqa: PT011 - the system's words
                await server.start(host, first)
        with socket.create_connection(("127.0.0.1", first), timeout=60) as client:
            await asyncio.sleep(0.1)
            await server.close()
            assert closed_by_peer(client)
        again = NameServer(reader_of(RECORDS))
        assert await again.start("127.0.0.1", first) == first
        await again.close()

    asyncio.run(story())


def test_a_port_in_use_for_udp_is_released_for_tcp() -> None:
    async def is_released() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match="in use"):
                await NameServer(reader_of(RECORDS)).start("127.0.0.1", port)
            with socket.socket() as free:
                try:
                    free.bind(("127.0.0.1", port))
                except OSError:  # still in use, or taken by another process meanwhile
                    return False
                return True

    # Another process may take one port, but not five in a row.
    assert any(asyncio.run(is_released()) for _ in range(5))


# A resolver


def test_unbound_accepts_the_answers(port: int, tmp_path: Path) -> None:
    """With 0x20 (unbound drops answers whose question has another case) and query name minimisation (RFC
    9156).

    No referral is followed here: NS records name no port, and a server on port 53 is not a test's to start.
    """
    strict = [" qname-minimisation: yes", " use-caps-for-id: yes"]
    with resolver(tmp_path, {ZONE: ("127.0.0.1", port)}, options=strict) as (_, resolver_port):
        assert resolved(resolver_port, "text.zone.example", "TXT").values("ANSWER", "TXT") == ['"hello"']
        under = resolved(resolver_port, "under.ent.zone.example", "TXT")
        assert under.values("ANSWER", "TXT") == ['"below nothing"']
        alias = resolved(resolver_port, "alias.zone.example", "TXT")
        assert alias.values("ANSWER", "TXT") == ['"hello"']
        assert resolved(resolver_port, "no.such.zone.example", "A").code == "NXDOMAIN"
        assert len(resolved(resolver_port, "foo.zone.example", "DS").values("ANSWER", "DS")) == 1


def resolved(port: int, name: str, rdtype: str) -> Reply:
    """Return the resolver's answer."""
    for _ in range(50):
        command = ["dig", "@127.0.0.1", "-p", str(port), "+time=2", "+tries=1", name, rdtype]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        # A resolver answers SERVFAIL if it got no answer in time on a busy machine. No query here should get
        # it.
        if done.returncode == 0 and "status: SERVFAIL" not in done.stdout:
            return Reply(done.stdout)
        time.sleep(0.1)
    raise AssertionError(done.stdout)
