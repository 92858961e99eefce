"""The generated configurations on the real servers: permitted updates, and refused ones."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.tsig
import dns.update
import dns.xfr
import pytest

from sublet.dns.serial import is_newer
from sublet.dns.types import Record, TsigKey
from sublet.primaries.primary import raise_serial
from support.name_servers import KINDS, NameServerProcess, fresh_key, primary

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


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NameServerProcess]:
    with primary(request.param, tmp_path_factory.mktemp(request.param), ZONE) as running:
        yield running


def test_updates_require_the_value_of_the_fence(server: NameServerProcess) -> None:
    first = fence("one", lambda message: message.absent("_sublet", "TXT"))
    stale = fence("three", lambda message: message.present("_sublet", "TXT", "one"))
    try:
        accepted(server, first)
        assert send(server, first, key=server.key).rcode == "YXRRSET"
        accepted(server, fence("two", lambda message: message.present("_sublet", "TXT", "one")))
        assert send(server, stale, key=server.key).rcode == "NXRRSET"
        assert at(server, "_sublet") == {("_sublet.zone.example", "TXT", '"two"')}
    finally:
        accepted(server, lambda message: message.delete("_sublet", "TXT"))


def fence(value: str, prerequisite: Build) -> Build:
    def build(message: dns.update.UpdateMessage) -> None:
        prerequisite(message)
        message.replace("_sublet", 0, "TXT", value)

    return build


def test_a_name_in_use_stops_a_first_publication(server: NameServerProcess) -> None:
    accepted(server, delegate("used"))

    def again(message: dns.update.UpdateMessage) -> None:
        message.absent("used")
        message.add("used", 300, "NS", "ns.thief.example.")

    assert send(server, again, key=server.key).rcode == "YXDOMAIN"
    accepted(server, remove("used"))


def one_of_two(message: dns.update.UpdateMessage) -> None:
    message.add("other", 300, "NS", "ns.elsewhere.example.")
    message.add("other", 300, "MX", "10 mail.example.")


FORBIDDEN: dict[str, Build] = {
    "MX": lambda message: message.add("other", 300, "MX", "10 mail.example."),
    "CNAME": lambda message: message.add("other", 300, "CNAME", "www.example."),
    "DNAME": lambda message: message.add("other", 300, "DNAME", "www.example."),
    "SRV": lambda message: message.add("other", 300, "SRV", "0 0 1 www.example."),
    "DNSKEY": lambda message: message.add("other", 300, "DNSKEY", f"256 3 13 {'YWJj' * 22}"),
    "NS at the apex": lambda message: message.add("@", 300, "NS", "ns.thief.example."),
    "other NS at the apex": lambda message: message.replace("@", 300, "NS", "ns.thief.example."),
    "no NS at the apex": lambda message: message.delete("@", "NS"),
    "nothing at the apex": lambda message: message.delete("@"),
    "A at the apex": lambda message: message.add("@", 300, "A", "192.0.2.66"),
    "TXT at the apex": lambda message: message.add("@", 300, "TXT", "mine"),
    "NSEC3PARAM": lambda message: message.add("@", 0, "NSEC3PARAM", "1 0 50 abcd"),
    "one of two": one_of_two,
}
"""Updates that the key must not make. Each server refuses the whole message, even if only one record of it is
forbidden.
"""

REFUSED = {
    # If no ACL matches, Knot answers as for an unknown key: unsigned, with the TSIG error BADKEY.
    "knot": Outcome("NOTAUTH", "BADKEY", is_signed=False),
    "bind": Outcome("REFUSED", "NOERROR", is_signed=True),
    "powerdns": Outcome("SERVFAIL", "NOERROR", is_signed=True),
}


@pytest.mark.uncovered
@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_key_can_not_make_other_updates(server: NameServerProcess, name: str) -> None:
    before = server.records()
    assert send(server, FORBIDDEN[name], key=server.key) == REFUSED[server.kind]
    assert server.records() == before


def test_the_key_may_raise_the_serial(server: NameServerProcess) -> None:
    newer = (server.serial() + 1000) % 2**32
    assert asyncio.run(raise_serial(server.as_primary(), ZONE, newer, timeout_seconds=60))
    # A signing server may add to the serial that it was sent.
    assert server.serial() == newer or is_newer(server.serial(), newer)
    before = server.serial()
    # Older than the first serial, because PowerDNS may answer from its cache.
    older = (newer - 5000) % 2**32
    assert not asyncio.run(raise_serial(server.as_primary(), ZONE, older, timeout_seconds=60))
    assert server.serial() == before


def test_the_key_may_write_txt_only_at_the_fence(server: NameServerProcess) -> None:
    answer = send(server, lambda message: message.add("other", 300, "TXT", "mine"), key=server.key)
    if server.kind == "knot":  # a rule has one list of types for all names
        assert answer.rcode == "NOERROR"
        accepted(server, lambda message: message.delete("other", "TXT"))
    else:
        assert answer == REFUSED[server.kind]
    assert at(server, "other") == set()


STRANGERS: dict[str, dict[str, Outcome]] = {
    "no key": {
        "knot": Outcome("NOTAUTH", "", is_signed=False),
        "bind": Outcome("REFUSED", "", is_signed=False),
        "powerdns": Outcome("SERVFAIL", "", is_signed=False),
    },
    "wrong secret": {
        "knot": Outcome("NOTAUTH", "BADSIG", is_signed=False),
        "bind": Outcome("NOTAUTH", "BADSIG", is_signed=False),
        "powerdns": Outcome("REFUSED", "", is_signed=False),
    },
    "unknown key": {
        "knot": Outcome("NOTAUTH", "BADKEY", is_signed=False),
        "bind": Outcome("NOTAUTH", "BADKEY", is_signed=False),
        "powerdns": Outcome("REFUSED", "", is_signed=False),
    },
    "the secondaries' key": REFUSED,
}


@pytest.mark.parametrize("who", STRANGERS)
def test_no_other_key_may_update(server: NameServerProcess, who: str) -> None:
    keys = {
        "no key": None,
        "wrong secret": fresh_key(server.key.name),
        "unknown key": fresh_key("stranger"),
        "the secondaries' key": server.transfer_key,
    }
    before = server.records()
    assert send(server, delegate("foo"), key=keys[who]) == STRANGERS[who][server.kind]
    assert server.records() == before


@pytest.mark.parametrize("zone", ["other.example", "example", "foo.zone.example"])
def test_updates_of_other_zones_are_refused(server: NameServerProcess, zone: str) -> None:
    answer = send(server, delegate("foo"), key=server.key, zone=zone)
    assert answer.rcode == "NOTAUTH"


def test_updates_of_names_outside_the_zone_are_refused(server: NameServerProcess) -> None:
    answer = send(
        server, lambda message: message.add("www.other.example.", 300, "A", "192.0.2.66"), key=server.key
    )
    assert answer == (
        REFUSED["knot"] if server.kind == "knot" else Outcome("NOTZONE", "NOERROR", is_signed=True)
    )


def test_transfers_require_a_key(server: NameServerProcess) -> None:
    assert Record("ns1.zone.example", "A", 3600, "127.0.0.1") in server.records()
    assert dns.query.tcp(dns.message.make_query(ZONE, "AXFR"), server.address, 10, server.port).rcode() in (
        dns.rcode.REFUSED,
        dns.rcode.NOTAUTH,
    )
    with pytest.raises((dns.xfr.TransferError, dns.tsig.PeerError)):
        server.transfer(fresh_key(server.key.name))


def test_recursion_is_refused(server: NameServerProcess) -> None:
    query = dns.message.make_query("www.elsewhere.example", "A")
    answer = dns.query.udp(query, server.address, 10, server.port)
    assert answer.rcode() == dns.rcode.REFUSED
    assert not answer.flags & dns.flags.RA


def test_denials_use_nsec3_so_that_names_can_not_be_enumerated(server: NameServerProcess) -> None:
    parameters = server.ask(ZONE, "NSEC3PARAM").answer[0][0]
    assert (parameters.algorithm, parameters.iterations, parameters.salt) == (1, 0, b"")
    denial = server.ask("nothing.zone.example", "A", want_dnssec=True)
    kinds = {rrset.rdtype for rrset in denial.authority}
    assert dns.rdatatype.NSEC3 in kinds
    assert dns.rdatatype.NSEC not in kinds
    keys = server.ask(ZONE, "DNSKEY").answer[0]
    assert [(key.flags, key.algorithm) for key in keys] == [(257, 13)]


def test_the_server_hides_its_version(server: NameServerProcess) -> None:
    query = dns.message.make_query("version.bind", "TXT", "CH")
    answer = dns.query.udp(query, server.address, 10, server.port)
    told = "".join(rdata.to_text() for rrset in answer.answer for rdata in rrset)
    assert not any(digit in told for digit in "0123456789")


def test_files_with_secrets_are_not_readable_by_all(server: NameServerProcess) -> None:
    secrets = [each.reveal().encode() for each in (server.key.secret, server.transfer_key.secret)]
    files = [path for folder in "csr" for path in (server.folder / folder).rglob("*") if path.is_file()]
    with_secret = [path for path in files if any(each in path.read_bytes() for each in secrets)]
    assert with_secret
    assert [path for path in with_secret if path.stat().st_mode & 0o007] == []
