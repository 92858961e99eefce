"""Servers with generated configurations that are killed, frozen, changed by hand and rebuilt; their resolvers
and secondaries.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dns.exception
import dns.flags
import dns.rcode
import dns.rdatatype
import pytest

from sublet.dns.types import Secondary
from support.dns_updates import DS, WHOLE, ZONE, accepted, at, delegate, is_accepted, remove
from support.name_servers import KINDS, NameServerProcess, primary, resolve, resolver, secondary
from support.serve_process import free_address, wait_until


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NameServerProcess]:
    """A server that a test may kill."""
    kind: str = request.param
    with primary(kind, tmp_path / kind, ZONE) as running:
        yield running


@pytest.mark.slow
def test_acknowledged_updates_survive_a_kill(own: NameServerProcess) -> None:
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
def test_hand_edits_and_a_rebuild_change_the_zone(own: NameServerProcess) -> None:
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
def test_a_frozen_server_answers_once_thawed(own: NameServerProcess) -> None:
    own.freeze()
    with pytest.raises(dns.exception.Timeout):
        own.ask(ZONE, "SOA", timeout=0.5)
    own.thaw()
    assert own.serial() > 0


@pytest.mark.slow
def test_a_resolver_validates_the_chain_of_trust(own: NameServerProcess, tmp_path: Path) -> None:
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
    try:
        return one.serial() == other.serial()
    except OSError:  # NSD ends connections when it takes a new zone
        return False


def serves_signed_ds(server: NameServerProcess) -> bool:
    try:
        answer = server.ask("foo.zone.example", "DS", want_dnssec=True).answer
    except OSError:  # as above: it may load the zone in two steps
        return False
    return {rrset.rdtype for rrset in answer} == {dns.rdatatype.DS, dns.rdatatype.RRSIG}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_secondaries_follow(kind: str, tmp_path: Path) -> None:
    places = [free_address("127.0.0.2"), free_address("127.0.0.3")]
    known = [Secondary(f"ns{number}.zone.example", *place) for number, place in enumerate(places, start=2)]
    with (
        primary(kind, tmp_path / "p", ZONE, secondaries=known) as first,
        secondary("nsd", tmp_path / "n", of=first, address=places[0]) as nsd,
        secondary("knot", tmp_path / "k", of=first, address=places[1]) as knot,
    ):
        for label in ("foo", "bar", "baz"):
            # PowerDNS on SQLite: an update that collides with its storing of notifications fails, and must be
            # retried.
            wait_until(partial(is_accepted, first, delegate(label)))
        for follower in (nsd, knot):
            wait_until(partial(same_serial, follower, first))
            wait_until(partial(serves_signed_ds, follower))
