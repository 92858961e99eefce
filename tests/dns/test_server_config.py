"""The generated configurations, tried on the real servers: what works, and what nobody may do."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dns.exception
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

from name_servers import (
    KINDS,
    NameServerProcess,
    find_program,
    fresh_key,
    missing_programs,
    primary,
    resolve,
    resolver,
    secondary,
)
from serving import free_address, wait_until
from sublet.dns.types import Record, Secondary, TsigKey

ZONE = "zone.example"
DS = f"12345 13 2 {'ab' * 32}"
Build = Callable[[dns.update.UpdateMessage], object]


@dataclass(frozen=True)
class Outcome:
    """What an update was answered: the code, the error in the TSIG record, and whether the answer is signed."""

    rcode: str
    tsig_error: str
    is_signed: bool


def send(server: NameServerProcess, build: Build, *, key: TsigKey | None = None, zone: str = ZONE) -> Outcome:
    """Send one update over TCP, signed if there is a key, and return the answer unverified: refusals are often unsigned."""
    message = dns.update.UpdateMessage(zone)
    if key is not None:
        ring = {dns.name.from_text(key.name): dns.tsig.Key(key.name, key.secret, key.algorithm)}
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


def is_accepted(server: NameServerProcess, build: Build) -> bool:
    return send(server, build, key=server.key).rcode == "NOERROR"


def skip_without(*kinds: str) -> None:
    missing = missing_programs(*kinds)
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NameServerProcess]:
    skip_without(request.param)
    with primary(request.param, tmp_path_factory.mktemp(request.param), ZONE) as running:
        yield running


def delegate(label: str) -> Build:
    """Everything that a delegation may be made of."""

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
    """Return what stands at and below a label."""
    top = f"{label}.{ZONE}"
    return {
        (each.owner, each.type, each.rdata)
        for each in server.records()
        if each.owner == top or each.owner.endswith(f".{top}")
    }


WHOLE = {
    ("foo.zone.example", "NS", "ns1.foo.zone.example."),
    ("foo.zone.example", "NS", "ns.elsewhere.example."),
    ("foo.zone.example", "DS", DS),
    ("ns1.foo.zone.example", "A", "192.0.2.11"),
    ("ns1.foo.zone.example", "AAAA", "2001:db8::11"),
}


def test_a_delegation_comes_is_served_and_goes(server: NameServerProcess) -> None:
    accepted(server, delegate("foo"))
    assert at(server, "foo") == WHOLE
    referral = server.ask("www.foo.zone.example", "A", want_dnssec=True)
    assert not referral.flags & dns.flags.AA
    kinds = {rrset.rdtype for rrset in referral.authority}
    assert kinds == {dns.rdatatype.NS, dns.rdatatype.DS, dns.rdatatype.RRSIG}
    assert len(referral.additional) >= 2
    accepted(server, remove("foo"))
    assert at(server, "foo") == set()


def test_an_update_behind_the_fence(server: NameServerProcess) -> None:
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
    "SOA": lambda message: message.replace(
        "@", 300, "SOA", "ns.thief.example. root.thief.example. 4000000000 1 1 1 1"
    ),
    "NSEC3PARAM": lambda message: message.add("@", 0, "NSEC3PARAM", "1 0 50 abcd"),
    "one of two": one_of_two,
}
"""What the key may not do. Each server refuses the whole message, also where only one record of it is forbidden."""

REFUSED = {
    # An ACL that does not match is to Knot as if there were no such key: the answer is unsigned, its TSIG error is BADKEY.
    "knot": Outcome("NOTAUTH", "BADKEY", is_signed=False),
    "bind": Outcome("REFUSED", "NOERROR", is_signed=True),
    "powerdns": Outcome("SERVFAIL", "NOERROR", is_signed=True),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_key_may_do_no_more(server: NameServerProcess, name: str) -> None:
    before = server.records()
    assert send(server, FORBIDDEN[name], key=server.key) == REFUSED[server.kind]
    assert server.records() == before


def test_text_stands_at_the_fence_alone(server: NameServerProcess) -> None:
    answer = send(server, lambda message: message.add("other", 300, "TXT", "mine"), key=server.key)
    if server.kind == "knot":  # one rule has one list of types, whatever the name
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
def test_nobody_else_may_update(server: NameServerProcess, who: str) -> None:
    keys = {
        "no key": None,
        "wrong secret": fresh_key(server.key.name),
        "unknown key": fresh_key("somebody"),
        "the secondaries' key": server.transfer_key,
    }
    before = server.records()
    assert send(server, delegate("foo"), key=keys[who]) == STRANGERS[who][server.kind]
    assert server.records() == before


@pytest.mark.parametrize("zone", ["other.example", "example", "foo.zone.example"])
def test_no_other_zone(server: NameServerProcess, zone: str) -> None:
    answer = send(server, delegate("foo"), key=server.key, zone=zone)
    assert answer.rcode == "NOTAUTH"


def test_a_name_outside_the_zone(server: NameServerProcess) -> None:
    answer = send(
        server, lambda message: message.add("www.other.example.", 300, "A", "192.0.2.66"), key=server.key
    )
    assert answer == (
        REFUSED["knot"] if server.kind == "knot" else Outcome("NOTZONE", "NOERROR", is_signed=True)
    )


def test_transfers_want_a_key(server: NameServerProcess) -> None:
    assert Record("ns1.zone.example", "A", 3600, "127.0.0.1") in server.records()
    assert dns.query.tcp(dns.message.make_query(ZONE, "AXFR"), server.address, 10, server.port).rcode() in (
        dns.rcode.REFUSED,
        dns.rcode.NOTAUTH,
    )
    with pytest.raises((dns.xfr.TransferError, dns.tsig.PeerError)):
        server.transfer(fresh_key(server.key.name))


def test_no_recursion(server: NameServerProcess) -> None:
    query = dns.message.make_query("www.elsewhere.example", "A")
    answer = dns.query.udp(query, server.address, 10, server.port)
    assert answer.rcode() == dns.rcode.REFUSED
    assert not answer.flags & dns.flags.RA


def test_names_can_not_be_walked(server: NameServerProcess) -> None:
    parameters = server.ask(ZONE, "NSEC3PARAM").answer[0][0]
    assert (parameters.algorithm, parameters.iterations, parameters.salt) == (1, 0, b"")
    denial = server.ask("nothing.zone.example", "A", want_dnssec=True)
    kinds = {rrset.rdtype for rrset in denial.authority}
    assert dns.rdatatype.NSEC3 in kinds
    assert dns.rdatatype.NSEC not in kinds
    keys = server.ask(ZONE, "DNSKEY").answer[0]
    assert [(key.flags, key.algorithm) for key in keys] == [(257, 13)]


def test_the_server_tells_little_of_itself(server: NameServerProcess) -> None:
    query = dns.message.make_query("version.bind", "TXT", "CH")
    answer = dns.query.udp(query, server.address, 10, server.port)
    told = "".join(rdata.to_text() for rrset in answer.answer for rdata in rrset)
    assert not any(digit in told for digit in "0123456789")


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NameServerProcess]:
    """A server that a test may kill."""
    kind: str = request.param
    skip_without(kind)
    with primary(kind, tmp_path / kind, ZONE) as running:
        yield running


@pytest.mark.slow
def test_what_was_answered_survives_a_kill(own: NameServerProcess) -> None:
    for number in range(3):
        accepted(own, delegate(f"foo{number}"))
        own.kill()
        own.start()
        assert len(at(own, f"foo{number}")) == 5
    accepted(own, remove("foo0"))
    before = own.records()
    own.kill()
    own.start()
    assert own.records() == before
    own.stop()
    own.start()
    assert own.records() == before


@pytest.mark.slow
def test_changed_by_hand_and_rebuilt(own: NameServerProcess) -> None:
    accepted(own, delegate("foo"))
    serial, old = own.serial(), own.zone_text()
    own.nsupdate(
        [
            "add hand.zone.example. 300 A 192.0.2.77",
            "add mail.zone.example. 300 MX 10 mail.example.",
            "delete foo.zone.example. DS",
            "delete foo.zone.example. NS ns.elsewhere.example.",
        ]
    )
    assert own.serial() > serial
    assert ("hand.zone.example", "A", "192.0.2.77") in at(own, "hand")
    assert at(own, "foo") == WHOLE - {
        ("foo.zone.example", "DS", DS),
        ("foo.zone.example", "NS", "ns.elsewhere.example."),
    }
    own.nsupdate(["delete hand.zone.example.", "delete mail.zone.example. MX"])
    assert at(own, "hand") == at(own, "mail") == set()
    anchor = own.trust_anchor()
    own.rebuild(old)
    assert at(own, "foo") == WHOLE
    own.rebuild()
    assert {each.owner for each in own.records()} == {ZONE, "ns1.zone.example"}
    assert own.trust_anchor() == anchor
    accepted(own, delegate("foo"))
    assert at(own, "foo") == WHOLE


@pytest.mark.slow
def test_a_frozen_server_answers_later(own: NameServerProcess) -> None:
    own.freeze()
    with pytest.raises(dns.exception.Timeout):
        own.ask(ZONE, "SOA", timeout=0.5)
    own.thaw()
    assert own.serial() > 0


@pytest.mark.slow
def test_a_resolver_finds_the_chain_whole(own: NameServerProcess, tmp_path: Path) -> None:
    if find_program("unbound") is None:
        pytest.skip("unbound not installed")
    accepted(own, delegate("foo"))
    accepted(own, delegate("bar"))
    accepted(own, remove("bar"))
    stubs = {ZONE: (own.address, own.port)}
    with resolver(tmp_path / "unbound", stubs, [own.trust_anchor()]) as asked:
        for name, rdtype, rcode in (
            (ZONE, "SOA", "NOERROR"),
            ("ns1.zone.example", "A", "NOERROR"),
            ("foo.zone.example", "DS", "NOERROR"),
            ("bar.zone.example", "DS", "NXDOMAIN"),
            ("nothing.zone.example", "A", "NXDOMAIN"),
        ):
            answer = resolve(asked, name, rdtype)
            assert (dns.rcode.to_text(answer.rcode()), bool(answer.flags & dns.flags.AD)) == (rcode, True), (
                name
            )


def same_serial(one: NameServerProcess, other: NameServerProcess) -> bool:
    return one.serial() == other.serial()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_secondaries_follow(kind: str, tmp_path: Path) -> None:
    skip_without(kind, "nsd", "knot")
    places = [free_address("127.0.0.2"), free_address("127.0.0.3")]
    known = [Secondary(f"ns{number}.zone.example", *place) for number, place in enumerate(places, start=2)]
    with (
        primary(kind, tmp_path / "p", ZONE, secondaries=known) as first,
        secondary("nsd", tmp_path / "n", of=first, address=places[0]) as nsd,
        secondary("knot", tmp_path / "k", of=first, address=places[1]) as knot,
    ):
        for label in ("foo", "bar", "baz"):
            # PowerDNS on SQLite: an update that meets the bookkeeping of notifications fails, and is to be sent again.
            wait_until(partial(is_accepted, first, delegate(label)))
        for follower in (nsd, knot):
            wait_until(partial(same_serial, follower, first), 20)
            answer = follower.ask("foo.zone.example", "DS", want_dnssec=True)
            assert {rrset.rdtype for rrset in answer.answer} == {dns.rdatatype.DS, dns.rdatatype.RRSIG}
