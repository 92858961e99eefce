"""DNS UPDATE with TSIG over the real service, by nsupdate and by hand (docs/certificates.md)."""

import base64
import random
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.query
import dns.rcode
import dns.tsig
import dns.update
import httpx
import pytest

from sublet.operations.idempotency import WriteResult, write_once
from sublet.operations.idempotency_store import key_in_use_refusal
from sublet.updates import server
from support.error_triggers import new_name, new_user, unused_name
from support.free_ports import free_port
from support.open_registry import opened
from support.programs import find_program
from support.repetitions import share
from support.running_service import Registrant, RunningService
from support.waiting import wait_until

SECRET = "0123456789abcdef0123456789abcdef"
MALFORMED = share(200, whole=10_000)


@dataclass(frozen=True)
class Key:
    """An update key of a name."""

    id: int
    fqdn: str
    name: str
    secret: str

    def ring(self, secret: str = "") -> dns.tsig.Key:
        return dns.tsig.Key(self.name, secret or self.secret, "hmac-sha256")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with open_to_updates(tmp_path_factory.mktemp("updates")) as service:
        yield service


@contextmanager
def open_to_updates(folder: Path, **settings: Any) -> Iterator[RunningService]:
    """Run a service that answers DNS UPDATE."""
    (folder / "key").write_text(SECRET)
    listen = f"127.0.0.1:{free_port()}"
    with opened(
        folder, free_quota=200, update_key_file=str(folder / "key"), update_listen=listen, **settings
    ) as service:
        yield service


@pytest.fixture(scope="module")
def user(shop: RunningService) -> Registrant:
    return new_user(shop)


def port(shop: RunningService) -> int:
    return int(shop.settings.update_listen.rpartition(":")[2])


def new_key(shop: RunningService, user: Registrant, fqdn: str = "", **members: Any) -> Key:
    fqdn = fqdn or new_name(shop, user)
    answer = shop.call(user, "POST", f"/subdomains/{fqdn}/update-keys", members)
    assert answer.status_code == 201, answer.text
    key = answer.json()["update_key"]
    return Key(key["id"], fqdn, key["key_name"], answer.json()["secret"])


def records(shop: RunningService, user: Registrant, key: Key) -> dict[tuple[str, str], list[str]]:
    found = shop.call(user, "GET", f"/subdomains/{key.fqdn}/records").json()["records"]
    return {(each["name"], each["type"]): each["values"] for each in found}


def nsupdate(shop: RunningService, key: Key, *lines: str, zone: str = "", tcp: bool = False) -> str:
    """Run nsupdate with a script; return what it says, empty if the update was accepted."""
    script = [f"server 127.0.0.1 {port(shop)}", *([f"zone {zone}"] if zone else []), *lines, "send", ""]
    done = subprocess.run(
        [find_program("nsupdate"), "-y", f"hmac-sha256:{key.name}:{key.secret}", *(["-v"] if tcp else [])],
        input="\n".join(script), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def accepted(shop: RunningService, key: Key, *lines: str, **options: Any) -> None:
    assert nsupdate(shop, key, *lines, **options) == ""


def send(shop: RunningService, message: dns.message.Message, *, tcp: bool = True) -> dns.message.Message:
    ask = dns.query.tcp if tcp else dns.query.udp
    return ask(message, "127.0.0.1", port=port(shop), timeout=60)


def update_of(key: Key, zone: str = "") -> dns.update.UpdateMessage:
    return dns.update.UpdateMessage(zone or key.fqdn, keyring=key.ring())


def test_nsupdate_adds_and_deletes(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    fqdn = key.fqdn
    challenge = f"_acme-challenge.{fqdn}"
    accepted(shop, key, f'update add {challenge} 120 TXT "one"', f'update add {challenge} 120 TXT "two"')
    assert sorted(shop.dig(challenge, "TXT", "+short").split()) == ['"one"', '"two"']
    accepted(shop, key, f'update delete {challenge} TXT "one"', zone=fqdn, tcp=True)
    assert records(shop, user, key) == {("_acme-challenge", "TXT"): ['"two"']}
    domain = fqdn.partition(".")[2]
    accepted(
        shop,
        key,
        f"update add {fqdn} 5 A 8.8.4.4",
        f"update add www.{fqdn} 300 CNAME x.example.",
        zone=domain,
    )
    assert shop.call(user, "GET", f"/subdomains/{fqdn}/records?name=@").json()["records"][0]["ttl"] == 60
    accepted(shop, key, f"update delete {challenge}", f"update delete {fqdn} A")
    assert records(shop, user, key) == {("www", "CNAME"): ["x.example."]}
    accepted(shop, key, f"update add www.{fqdn} 300 A 8.8.4.4", f"update add www.{fqdn} 300 CNAME y.example.")
    assert records(shop, user, key) == {("www", "CNAME"): ["y.example."]}


def test_hosts_in_values_are_compared_in_any_case(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    for rdtype, value in (
        ("CNAME", "Host.Provider.Example."),
        ("HTTPS", "0 Host.Provider.Example."),
        ("MX", "10 Host.Provider.Example."),
        ("SRV", "1 2 443 Host.Provider.Example."),
    ):
        line = f"x.{key.fqdn} 300 {rdtype} {value}"
        accepted(shop, key, f"update add {line}")
        accepted(shop, key, f"prereq yxrrset x.{key.fqdn} {rdtype} {value}", f"update add {line}")
        assert records(shop, user, key) == {("x", rdtype): [value.lower()]}
        accepted(shop, key, f"update delete x.{key.fqdn} {rdtype} {value}")
        assert records(shop, user, key) == {}


def test_every_prerequisite(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    fqdn = key.fqdn
    accepted(shop, key, f"update add {fqdn} 300 A 8.8.4.4", f"update add {fqdn} 300 A 8.8.8.8")
    add = f'update add {fqdn} 300 TXT "x"'
    for line, error in (
        (f"prereq nxdomain {fqdn}", "YXDOMAIN"),
        (f"prereq yxdomain none.{fqdn}", "NXDOMAIN"),
        (f"prereq nxrrset {fqdn} A", "YXRRSET"),
        (f"prereq yxrrset {fqdn} AAAA", "NXRRSET"),
        (f"prereq yxrrset {fqdn} A 8.8.4.4", "NXRRSET"),
    ):
        assert error in nsupdate(shop, key, line, add), line
    assert list(records(shop, user, key)) == [("@", "A")]
    both = (f"prereq yxrrset {fqdn} A 8.8.8.8", f"prereq yxrrset {fqdn} A 8.8.4.4")
    rest = (
        f"prereq yxdomain {fqdn}",
        f"prereq nxdomain none.{fqdn}",
        f"prereq yxrrset {fqdn} A",
        f"prereq nxrrset {fqdn} AAAA",
    )
    accepted(shop, key, *both, *rest, add)
    assert list(records(shop, user, key)) == [("@", "A"), ("@", "TXT")]


def test_one_message_is_one_transaction(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    good = f"update add {key.fqdn} 300 A 8.8.4.4"
    for bad in (
        f"update add www.{key.fqdn} 300 A 10.0.0.1",
        f"update add www.{key.fqdn} 300 NS ns1.provider.example.",
        f"update add none.{key.fqdn.partition('.')[2]} 300 A 8.8.4.4",
    ):
        assert "REFUSED" in nsupdate(shop, key, good, bad, zone=key.fqdn.partition(".")[2]), bad
        assert records(shop, user, key) == {}, bad
    outside = update_of(key)
    outside.add("www.example.org.", 300, "A", "8.8.4.4")
    assert send(shop, outside).rcode() == dns.rcode.NOTZONE
    assert send(shop, update_of(key, "example.org")).rcode() == dns.rcode.NOTAUTH


def test_wrong_keys(shop: RunningService, user: Registrant) -> None:
    key, other = new_key(shop, user), new_key(shop, user)
    add = f"update add {key.fqdn} 300 A 8.8.4.4"
    wrong = Key(key.id, key.fqdn, key.name, base64.b64encode(b"x" * 32).decode())
    assert "BADSIG" in nsupdate(shop, wrong, add, zone=key.fqdn)
    unknown = Key(0, key.fqdn, f"key999999.{key.fqdn}", key.secret)
    assert "BADSIG" in nsupdate(shop, unknown, add, zone=key.fqdn)
    nobody = Key(0, key.fqdn, "some.other.name", key.secret)
    assert "BADKEY" in nsupdate(shop, nobody, add, zone=key.fqdn)
    assert "REFUSED" in nsupdate(shop, other, add, zone=key.fqdn.partition(".")[2])
    assert "NOTAUTH" in nsupdate(shop, other, add, zone=key.fqdn)
    unsigned = dns.update.UpdateMessage(key.fqdn)
    unsigned.add(f"{key.fqdn}.", 300, "A", "8.8.4.4")
    for tcp in (True, False):
        assert send(shop, unsigned, tcp=tcp).rcode() == dns.rcode.REFUSED
    shop.call(user, "DELETE", f"/subdomains/{key.fqdn}/update-keys/{key.id}")
    assert "BADKEY" in nsupdate(shop, key, add, zone=key.fqdn)
    assert records(shop, user, key) == {}


def test_replayed_and_late_messages(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    first = update_of(key)
    first.replace(f"{key.fqdn}.", 300, "A", "8.8.4.4")
    wire = first.to_wire()
    for _ in range(2):
        assert exchange(shop, wire).rcode() == dns.rcode.NOERROR
    second = update_of(key)
    second.replace(f"{key.fqdn}.", 300, "A", "8.8.8.8")
    assert send(shop, second).rcode() == dns.rcode.NOERROR
    assert exchange(shop, wire).rcode() == dns.rcode.NOERROR
    assert records(shop, user, key) == {("@", "A"): ["8.8.8.8"]}
    for late in (-400, 400):
        message = update_of(key)
        message.delete(f"{key.fqdn}.")
        sent = signed_at(message, time.time() + late)
        answer = exchange(shop, sent)
        assert (answer.rcode(), answer.tsig_error) == (dns.rcode.NOTAUTH, dns.rcode.BADTIME)
        assert answer.tsig is not None
        tsig = answer.tsig[0]
        assert abs(int.from_bytes(tsig.other, "big") - time.time()) < 60
        # The client checks the time of the signature too, with its own clock.
        assert tsig.time_signed == dns.message.from_wire(sent, keyring=False).tsig[0].time_signed  # type: ignore[index]
    assert records(shop, user, key) == {("@", "A"): ["8.8.8.8"]}


def test_a_message_that_is_sent_again_while_it_runs_waits(
    shop: RunningService, user: Registrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = [key_in_use_refusal()]

    async def write_beside_the_first(*arguments: Any, **options: Any) -> WriteResult:
        if running:
            raise running.pop()
        return await write_once(*arguments, **options)

    monkeypatch.setattr(server, "write_once", write_beside_the_first)
    key = new_key(shop, user)
    message = update_of(key)
    message.replace(f"{key.fqdn}.", 300, "A", "8.8.4.4")
    assert send(shop, message).rcode() == dns.rcode.NOERROR
    assert running == []


def test_only_the_holder_of_a_key_gets_signed_answers(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    late = bytearray(signed_at(update_of(key), time.time() - 400))
    late[-10] ^= 1  # in the MAC
    answer = exchange(shop, bytes(late))
    assert (answer.rcode(), answer.tsig_error) == (dns.rcode.NOTAUTH, dns.rcode.BADSIG)
    assert answer.tsig[0].mac == b""  # type: ignore[index]
    patient = update_of(key)
    patient.use_tsig(key.ring(), fudge=3_600)
    answer = exchange(shop, signed_at(patient, time.time() - 400))
    assert answer.tsig_error == dns.rcode.BADTIME, (
        "a client can't prolong the time in which others may replay"
    )


def test_a_mac_of_an_impossible_length_is_malformed(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    wire = dns.update.UpdateMessage(key.fqdn, id=1).to_wire()
    for mac_octets, rcode in ((32, "NOERROR"), (16, "NOTAUTH"), (15, "FORMERR"), (33, "FORMERR")):
        answer = exchange(shop, signed(wire, key, mac_octets=mac_octets))
        assert dns.rcode.to_text(answer.rcode()) == rcode, mac_octets


def test_a_shortened_mac_is_too_short(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    wire = dns.update.UpdateMessage(key.fqdn, id=1).to_wire()
    answer = exchange(shop, signed(wire, key, mac_octets=16))
    assert (answer.rcode(), answer.tsig_error) == (dns.rcode.NOTAUTH, dns.rcode.BADTRUNC)
    assert len(answer.tsig[0].mac) == 32, "signed (RFC 8945, section 5.3.2)"  # type: ignore[index]
    wrong = bytearray(signed(wire, key, mac_octets=16))
    wrong[-10] ^= 1  # in the MAC
    assert exchange(shop, bytes(wrong)).tsig_error == dns.rcode.BADSIG


def test_other_versions_of_edns_are_refused(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    update = update_of(key)
    update.add(f"_acme-challenge.{key.fqdn}.", 60, "TXT", "a")
    unsigned = dns.message.make_query("records.test", "SOA")
    for message in (update, unsigned):
        message.use_edns(1)
        answer = send(shop, message)
        assert (answer.rcode(), answer.payload) == (dns.rcode.BADVERS, 1_232)
    assert records(shop, user, key) == {}


def test_a_long_message_needs_a_connection(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    message = update_of(key)
    for number in range(40):
        message.add(f"_acme-challenge.{key.fqdn}.", 60, "TXT", f"{number:050}")
    assert exchange_udp(shop, message.to_wire())[3] & 0xF == dns.rcode.REFUSED
    assert records(shop, user, key) == {}
    assert send(shop, message).rcode() == dns.rcode.NOERROR


def test_no_answer_to_a_stranger_is_longer_than_its_message(shop: RunningService) -> None:
    padded = dns.message.make_query("records.test", "SOA", use_edns=0)
    padded.use_edns(0, options=[dns.edns.GenericOption(dns.edns.OptionType.PADDING, b"")])
    for sent in (dns.message.make_query("records.test", "SOA"), padded):
        wire = sent.to_wire()
        answer = exchange_udp(shop, wire)
        assert len(answer) <= len(wire)
        cut = dns.message.from_wire(answer, keyring=False)
        assert (cut.flags & dns.flags.TC, cut.answer) == (dns.flags.TC, [])
        assert exchange(shop, wire).answer
    # A long name that two others point to.
    name = dns.name.from_text(".".join(["a" * 60] * 4)).to_wire()
    assert name is not None
    question = struct.pack("!HHHHHH", 1, 5 << 11, 1, 0, 0, 1) + name + struct.pack("!HH", 6, 1)
    rdata = b"\xc0\x0c" + struct.pack("!HIHHHHH", 0, 0, 300, 0, 1, 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", 250, 255, 0, len(rdata)) + rdata
    assert len(exchange_udp(shop, question + record)) <= len(question + record)


def exchange_udp(shop: RunningService, wire: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", port(shop)))
        client.settimeout(60)
        client.send(wire)
        return client.recv(65_535)


def signed_at(message: dns.message.Message, instant: float) -> bytes:
    """Return a message that is signed at another time."""
    real = time.time
    time.time = lambda: instant  # dnspython has no other way
    try:
        return message.to_wire()
    finally:
        time.time = real


def exchange(shop: RunningService, wire: bytes) -> dns.message.Message:
    """Send octets over TCP; return the response, whose signature isn't checked."""
    with socket.create_connection(("127.0.0.1", port(shop)), timeout=60) as connection:
        connection.sendall(len(wire).to_bytes(2, "big") + wire)
        length = int.from_bytes(receive(connection, 2), "big")
        return dns.message.from_wire(receive(connection, length), keyring=False)


def receive(connection: socket.socket, count: int) -> bytes:
    octets = b""
    while len(octets) < count:
        piece = connection.recv(count - len(octets))
        assert piece, "the connection was closed"
        octets += piece
    return octets


def test_a_transfer_has_the_records_of_the_name(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    accepted(shop, key, f"update add www.{key.fqdn} 300 A 8.8.4.4", f'update add {key.fqdn} 300 TXT "a b"')
    words = [
        "dig",
        "@127.0.0.1",
        "-p",
        str(port(shop)),
        "-y",
        f"hmac-sha256:{key.name}:{key.secret}",
        "+time=60",
        "+nocmd",
        "+nostats",
    ]
    said = subprocess.run(
        [*words, key.fqdn, "AXFR"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    found = [
        line.split()[3]
        for line in said.splitlines()
        if line and not line.startswith(";") and "TSIG" not in line.split()
    ]
    assert [each for each in found if each != "NS"] == ["SOA", "TXT", "A", "SOA"], said
    assert "NS" in found
    said = subprocess.run(
        [*words, "records.test", "AXFR"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "Transfer failed" in said
    query = dns.message.make_query(key.fqdn, "AXFR")
    assert send(shop, query).rcode() == dns.rcode.REFUSED


def test_a_transfer_that_is_too_long_for_a_message_is_refused(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    shop.operator("domain", "edit", "records.test", "--record-sets-max", "500")
    for first in (0, 200):  # more than the body of one request may have
        owners = [".".join([f"{number:060}"] * 3) for number in range(first, first + 200)]
        sets = [{"name": each, "type": "A", "values": ["8.8.4.4"]} for each in owners]
        path = f"/subdomains/{key.fqdn}/records"
        assert shop.call(user, "PATCH", path, {"records": sets}).status_code == 200
    query = dns.message.make_query(key.fqdn, "AXFR")
    query.use_tsig(key.ring())
    assert send(shop, query).rcode() == dns.rcode.REFUSED


def test_clients_find_the_zone(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    below = send(shop, dns.message.make_query(f"_acme-challenge.{key.fqdn}", "SOA"))
    assert (below.rcode(), below.answer, below.authority[0].name) == (
        0,
        [],
        dns.name.from_text("records.test"),
    )
    at = send(shop, dns.message.make_query("records.test", "SOA"))
    assert at.flags & dns.flags.AA
    assert at.answer[0].name == dns.name.from_text("records.test")
    for name, rdtype in (("example.org", "SOA"), (key.fqdn, "A"), ("records.test", "AXFR")):
        assert send(shop, dns.message.make_query(name, rdtype)).rcode() == dns.rcode.REFUSED
    for keyring in (None, key.ring()):
        notify = dns.message.make_query("records.test", "SOA")
        notify.set_opcode(dns.opcode.NOTIFY)
        if keyring is not None:
            notify.use_tsig(keyring)
        assert send(shop, notify).rcode() == dns.rcode.NOTIMP


def test_malformed_messages_change_nothing(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    accepted(shop, key, f"update add {key.fqdn} 300 A 8.8.4.4")
    before = records(shop, user, key)
    message = update_of(key)
    message.present(f"{key.fqdn}.", "A")
    message.delete(f"{key.fqdn}.")
    message.add(f"www.{key.fqdn}.", 300, "TXT", "x")
    wire = message.to_wire()
    source = random.Random(7)  # noqa: S311 - the same messages each time
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", port(shop)))
        client.settimeout(60)
        for number in range(MALFORMED):
            sent = mutated(wire, source)
            if number % 20 == 0:
                assert shop.call(user, "GET", "/me").status_code == 200
            if sent.lower() == wire.lower():  # the same names, so the signature is right
                continue
            client.send(sent)
            if len(sent) < 12 or sent[2] & 0x80:
                continue
            answer = client.recv(65_535)
            # An answer to a late copy that an earlier message made has another id, so nothing waits for it.
            assert answer[:2] == sent[:2]
            assert len(answer) <= len(sent), "an unsigned answer is longer than its message"
            assert answer[3] & 0xF != dns.rcode.SERVFAIL, sent.hex()
            assert answer[3] & 0xF != dns.rcode.NOERROR, sent.hex()
    assert records(shop, user, key) == before
    assert send(shop, message).rcode() == dns.rcode.NOERROR


def mutated(wire: bytes, source: random.Random) -> bytes:
    """Return a message with some octets changed, removed or added, or random octets."""
    octets = bytearray(wire)
    kind = source.randrange(5)
    if kind == 0:
        return source.randbytes(source.randrange(200))
    if kind == 1:
        return bytes(octets[: source.randrange(len(octets))])
    if kind == 2:
        return bytes(octets) + source.randbytes(source.randrange(1, 50))
    for _ in range(source.randrange(1, 5)):
        place = source.randrange(2, 12) if kind == 3 else source.randrange(12, len(octets))
        octets[place] ^= source.randrange(1, 256)
    return bytes(octets)


def test_each_section_is_checked(shop: RunningService, user: Registrant) -> None:
    key = new_key(shop, user)
    origin = f"{key.fqdn}."
    for section, rdclass, rdtype, ttl, rdata in (
        ("prerequisite", 255, 255, 1, b""),
        ("prerequisite", 254, 1, 1, b""),
        ("prerequisite", 1, 1, 1, b"\x08\x08\x04\x04"),
        ("prerequisite", 255, 1, 0, b"\x08\x08\x04\x04"),
        ("prerequisite", 1, 252, 0, b""),
        ("update", 255, 1, 1, b""),
        ("update", 254, 1, 1, b"\x08\x08\x04\x04"),
        ("update", 255, 252, 0, b""),
        ("update", 255, 1, 0, b"\x08\x08\x04\x04"),
        ("update", 1, 255, 60, b""),
        ("prerequisite", 3, 16, 0, b"\x01x"),
        ("update", 3, 16, 60, b"\x01x"),
    ):
        counts = (1, 1, 0, 0) if section == "prerequisite" else (1, 0, 1, 0)
        name = dns.name.from_text(origin).to_wire()
        assert name is not None
        record = name + struct.pack("!HHIH", rdtype, rdclass, ttl, len(rdata)) + rdata
        wire = struct.pack("!HHHHHH", 1, 5 << 11, *counts) + name + struct.pack("!HH", 6, 1) + record
        assert exchange(shop, signed(wire, key)).rcode() == dns.rcode.FORMERR, (section, rdclass, rdtype, ttl)


def signed(wire: bytes, key: Key, mac_octets: int = 32) -> bytes:
    """Return a message of octets with a signature, cut or prolonged to a length."""
    empty = dns.message.Message(id=1)
    empty.use_tsig(key.ring())
    assert empty.tsig is not None
    rdata, _ = dns.tsig.sign(wire, key.ring(), empty.tsig[0], int(time.time()), b"")  # type: ignore[no-untyped-call]
    rdata = rdata.replace(mac=(rdata.mac * 2)[:mac_octets])
    owner, octets = dns.name.from_text(key.name).to_wire(), rdata.to_wire()
    assert owner is not None
    record = owner + struct.pack("!HHIH", 250, 255, 0, len(octets)) + octets
    return bytes(wire[:10] + struct.pack("!H", 1) + wire[12:] + record)


def test_changes_of_all_protocols_are_serial(shop: RunningService, user: Registrant) -> None:
    """UPDATE, API and dyndns2 change the same name, and UPDATE and API the same RRset.

    Each change is there in the end.
    """
    key = new_key(shop, user)
    token = shop.issue_token(user.email, "records:write")
    path = f"/subdomains/{key.fqdn}/records"

    def by_update(number: int) -> None:
        message = update_of(key)
        message.add(f"u{number}.{key.fqdn}.", 300, "A", "8.8.4.4")
        message.add(f"{key.fqdn}.", 300, "TXT", f"u{number}")
        assert send(shop, message).rcode() == dns.rcode.NOERROR

    def by_api(number: int) -> None:
        """Add a value as clients do that read before they write."""
        wait_until(lambda: add_by_api(number))

    def add_by_api(number: int) -> bool:
        found = shop.call(user, "GET", path)
        values = [
            value for each in found.json()["records"] if each["type"] == "TXT" for value in each["values"]
        ]
        changed = {"name": "@", "type": "TXT", "values": [*values, f'"a{number}"']}
        other = {"name": f"a{number}", "type": "A", "values": ["8.8.4.4"]}
        sent = {"records": [changed, other]}
        status = shop.call(user, "PATCH", path, sent, If_Match=found.headers["etag"]).status_code
        assert status in (200, 412)
        return status == 200

    def by_dyndns(number: int) -> None:
        url = shop.origin + "/nic/update"
        query = {"hostname": f"d{number}.{key.fqdn}", "myip": "8.8.4.4"}
        assert shop.client.get(url, params=query, auth=("none", token)).text == "good 8.8.4.4\n"

    with ThreadPoolExecutor(6) as pool:
        list(
            pool.map(
                lambda each: each[0](each[1]),
                [(by, n) for n in range(8) for by in (by_update, by_api, by_dyndns)],
            )
        )
    stored = records(shop, user, key)
    assert set(stored.pop(("@", "TXT"))) == {f'"{by}{n}"' for by in "ua" for n in range(8)}
    assert {owner for owner, _ in stored} == {f"{by}{n}" for by in "uad" for n in range(8)}
    assert shop.doctor() == [], "the audit events are in serial order, and lead to what is stored"


def test_the_changes_of_records_in_a_day_are_limited(tmp_path: Path) -> None:
    """The limit counts the changes of one name by all protocols together."""
    with open_to_updates(tmp_path, rate_limits=True, record_changes_per_day=4) as service:
        user = new_user(service)
        key = new_key(service, user)
        path = f"/subdomains/{key.fqdn}"
        token = service.issue_token(user.email, "records:write")

        def by_update(number: int) -> str:
            message = update_of(key)
            message.add(f"{key.fqdn}.", 300, "TXT", f"u{number}")
            return dns.rcode.to_text(send(service, message).rcode())

        def by_api(number: int) -> httpx.Response:
            record_set = {"name": "@", "type": "TXT", "values": [f'"{number}"']}
            return service.call(user, "PATCH", f"{path}/records", {"records": [record_set]})

        def by_zone_file(number: int) -> httpx.Response:
            body = {"zone_file": f"{key.fqdn}. 300 IN TXT z{number}"}
            return service.call(user, "PUT", f"{path}/zonefile", body)

        def by_dyndns(number: int) -> str:
            query = {"hostname": key.fqdn, "myip": f"8.8.4.{number}"}
            return service.client.get(service.origin + "/nic/update", params=query, auth=("none", token)).text

        assert (by_update(1), by_api(1).status_code) == ("NOERROR", 200)
        assert (by_zone_file(1).status_code, by_dyndns(1)) == (200, "good 8.8.4.1\n")
        stored = records(service, user, key)
        assert (by_update(2), by_dyndns(2)) == ("REFUSED", "abuse\n")
        for answer in (by_api(2), by_zone_file(2)):
            assert (answer.status_code, answer.json()["error"]) == (429, "rate_limited")
            assert 86_000 < int(answer.headers["retry-after"]) <= 86_400
        assert records(service, user, key) == stored
        assert by_dyndns(1) == "nochg 8.8.4.1\n"
        key = new_key(service, user)  # of another name
        assert by_dyndns(3) == "good 8.8.4.3\n"


VALUES = {
    "A": ("8.8.4.4", "8.8.8.8"),
    "CAA": ('0 issue "ca.example"', '0 issue "evil.example"'),
    "MX": ("10 mx.provider.example.", "5 evil.example."),
    "TXT": ('"v=spf1 -all"', '"v=spf1 +all"'),
    "CNAME": ("my-site.pages.example.", "evil.example."),
}
"""Of some types a value that is stored, and another."""
NEVER = {"NS": "ns1.evil.example.", "DS": "1 13 2 " + "ab" * 32, "DNAME": "evil.example."}
"""Types that no name may have, and a value of each."""


def test_a_leaked_key_of_certificates_changes_nothing_else(shop: RunningService, user: Registrant) -> None:
    """Each change of RFC 2136, section 2.5, for some types and other owners; and the secret at the API."""
    fqdn, other = unused_name("records.test"), unused_name("records.test")
    shop.register(user, other, records=[{"name": "@", "type": "A", "values": ["8.8.4.4"]}])
    others = ("@", "*", "x_acme-challenge", "_acme-challengex", "www._acme-challenge")
    at = {rdtype: "alias" if rdtype == "CNAME" else "www" for rdtype in VALUES}
    stored = [(at[rdtype], rdtype, VALUES[rdtype][0]) for rdtype in VALUES]
    stored += [(owner, "TXT", '"x"') for owner in others]
    sets = [{"name": owner, "type": rdtype, "values": [value]} for owner, rdtype, value in stored]
    shop.register(user, fqdn, records=sets)
    key = new_key(shop, user, fqdn, record_names=["_acme-challenge", "_acme-challenge.*"])
    before = records(shop, user, key)

    full = {owner: fqdn if owner == "@" else f"{owner}.{fqdn}" for owner in (*others, *at.values())}
    changes: list[tuple[str, ...]] = [("add", full[at[each]], each, VALUES[each][1]) for each in VALUES]
    changes += [("add", name, "TXT", '"y"') for name in (*full.values(), f"new.{fqdn}", other)]
    changes += [("add", f"_acme-challenge.{fqdn}", *each) for each in NEVER.items()]
    changes += [("delete", full[owner], rdtype, value) for owner, rdtype, value in stored]
    changes += [("delete", full[owner], rdtype) for owner, rdtype, _ in stored]
    changes += [("delete", name) for name in (*full.values(), other)]
    for verb, name, *rest in changes:
        message = update_of(key, "records.test")
        message.add(f"_acme-challenge.www.{fqdn}.", 60, "TXT", "x")
        getattr(message, verb)(f"{name}.", *([300] if verb == "add" else []), *rest)
        assert send(shop, message).rcode() == dns.rcode.REFUSED, (verb, name, *rest)
    assert records(shop, user, key) == before
    left = shop.call(user, "GET", f"/subdomains/{other}/records").json()["records"]
    assert [each["values"] for each in left] == [["8.8.4.4"]]
    allowed = update_of(key)
    allowed.add(f"_acme-challenge.www.{fqdn}.", 60, "TXT", "x")
    assert send(shop, allowed).rcode() == dns.rcode.NOERROR
    for password in (key.secret, key.name):
        assert shop.call(password, "GET", "/me").status_code == 401
        url = shop.origin + "/nic/update"
        assert shop.client.get(url, params={"hostname": fqdn}, auth=("none", password)).status_code == 401
