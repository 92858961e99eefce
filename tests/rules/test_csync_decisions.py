"""Decisions about nameservers and glue, as a table: zones that dnspython signs, with NSEC."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import dns.dnssec
import dns.flags
import dns.message
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.zone
import pytest
from dns.rdtypes.ANY.CSYNC import CSYNC

from sublet.child_zones.decide_csync import decide_for_all_servers, has_csync, questions_about
from sublet.child_zones.model import Change, CsyncDecision, Keep, Refuse, ReplayGuard
from sublet.dns.types import Delegation, GlueEntry
from sublet.health.denial import types_in
from sublet.health.model import Observation, Reply, Server, Target
from sublet.structs import replace
from support.child_keys import CHILD, HOUR, ChildKey

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SIGNED = NOW - HOUR
KEY, OTHER = ChildKey.new(), ChildKey.new()
FQDN = "blog.example.net"
OUTSIDE, OWN = "ns.example.org", f"ns1.{FQDN}"
NONE = ReplayGuard()
TARGET = Target(
    FQDN,
    "example.net",
    Delegation((OUTSIDE, OWN), (GlueEntry(OWN, "9.9.9.1"),), (KEY.ds(),)),
    parent_signed=True,
)
SAME = (f"@ NS {OUTSIDE}.", "@ NS ns1", "ns1 A 9.9.9.1")
ALL = "@ CSYNC 7 3 NS A AAAA"


def zone_of(
    records: Sequence[str], *, serial: int = 7, key: ChildKey = KEY, signed: timedelta = -HOUR
) -> dns.zone.Zone:
    """Return a signed zone with NSEC records."""
    lines = ["$TTL 300", f"@ SOA ns host {serial} 1 1 1 60", *records]
    zone = dns.zone.from_text("\n".join(lines) + "\n", origin=CHILD, relativize=False)
    dns.dnssec.sign_zone(
        zone,
        keys=[(key.private, key.dnskey)],
        inception=(NOW + signed).timestamp(),
        expiration=(NOW + 24 * HOUR).timestamp(),
    )
    return zone


def server(zone: dns.zone.Zone, target: Target = TARGET, *, unsigned: Sequence[str] = ()) -> Server:
    """Return the answers of a nameserver with a zone; those to `unsigned` types have no signatures."""

    def reply(owner: str, rdtype: str) -> Reply:
        name = dns.name.from_text(owner + ".")
        message = dns.message.make_response(dns.message.make_query(name, rdtype))
        message.flags |= dns.flags.AA
        kind = dns.rdatatype.from_text(rdtype)
        found = zone.get_rrset(name, kind)
        section, covered = (message.answer, kind) if found else (message.authority, dns.rdatatype.NSEC)
        for rrset in (zone.get_rrset(name, covered), zone.get_rrset(name, "RRSIG", covers=covered)):
            if rrset is not None and not (rrset.rdtype == dns.rdatatype.RRSIG and rdtype in unsigned):
                section.append(rrset)
        return Reply(dns.message.from_wire(message.to_wire()))

    found = Server(OUTSIDE, "9.9.8.1", soa=reply(FQDN, "SOA"), soa_tcp=reply(FQDN, "SOA"))
    found.nameservers = reply(FQDN, "NS")
    for question in questions_about(target, Observation(servers=(found,))):
        found.extra[question] = reply(*question)
    return found


def decided(
    *servers: Server, guard: ReplayGuard = NONE, target: Target = TARGET, **seen: object
) -> CsyncDecision:
    """Return the decision about a delegation whose first nameserver answers at these servers, and the second
    at the last one.
    """
    both = (*servers, replace(servers[-1], host=OWN, address="9.9.9.1"))
    questions = questions_about(target, Observation(servers=both))
    return decide_for_all_servers(target, Observation(servers=both, **seen), questions, guard, NOW)  # type: ignore[arg-type] # by name


def code(decision: CsyncDecision) -> str:
    """Return the code of a refusal, or the kind of another decision."""
    return decision.code if isinstance(decision, Refuse) else type(decision).__name__


MOVED = ("@ NS ns1", "@ NS ns9.example.org.", "ns1 A 9.9.9.1", ALL)
READDRESSED = (*SAME[:2], "ns1 A 9.9.9.2", "ns1 AAAA 2620:fe::9", ALL)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((*SAME, ALL), Keep()),
        (MOVED[:3], Keep()),
        (MOVED, Change((OWN, "ns9.example.org"), (GlueEntry(OWN, "9.9.9.1", None),), 7, SIGNED)),
        (
            READDRESSED,
            Change(
                (OUTSIDE, OWN),
                (GlueEntry(OWN, "9.9.9.2", None), GlueEntry(OWN, None, "2620:fe::9")),
                7,
                SIGNED,
            ),
        ),
        (
            (f"@ NS {OUTSIDE}.", "@ NS ns1", "ns1 AAAA 2620:fe::9", ALL),
            Change((OUTSIDE, OWN), (GlueEntry(OWN, None, "2620:fe::9"),), 7, SIGNED),
        ),
        (
            (*READDRESSED[:-1], "@ CSYNC 7 1 AAAA"),
            Change(
                (OUTSIDE, OWN),
                (GlueEntry(OWN, "9.9.9.1", None), GlueEntry(OWN, None, "2620:fe::9")),
                7,
                SIGNED,
            ),
        ),
        ((*MOVED[:-1], "@ CSYNC 7 3 A AAAA"), Keep()),
        (
            ("@ NS ns7.sub", "ns7.sub A 9.9.9.7", ALL),
            Change((f"ns7.sub.{FQDN}",), (GlueEntry(f"ns7.sub.{FQDN}", "9.9.9.7", None),), 7, SIGNED),
        ),
    ],
)
def test_the_types_in_the_csync_record_are_copied(records: Sequence[str], expected: CsyncDecision) -> None:
    assert decided(server(zone_of(records))) == expected


_REFUSED = {
    "flag unknown": ((*MOVED[:-1], "@ CSYNC 7 5 NS"), {}, "unsupported"),
    "type unknown": ((*MOVED[:-1], "@ CSYNC 7 3 NS MX"), {}, "unsupported"),
    "two records": ((*MOVED, "@ CSYNC 7 1 NS"), {}, "unsupported"),
    "not immediate": ((*MOVED[:-1], "@ CSYNC 7 2 NS"), {}, "not_immediate"),
    "serial too low": ((*MOVED[:-1], "@ CSYNC 8 3 NS"), {}, "serial_too_low"),
    "serial too low, but no minimum": ((*MOVED[:-1], "@ CSYNC 8 1 NS"), {}, "Change"),
    "serial across the end": ((*MOVED[:-1], "@ CSYNC 4294967290 3 NS"), {}, "Change"),
    "followed a newer serial": (MOVED, {"serial": 8}, "replayed"),
    "followed this serial": (MOVED, {"serial": 7}, "Change"),
    "followed newer records": (MOVED, {"signed_after": NOW}, "replayed"),
    "followed equally old records": (MOVED, {"signed_after": SIGNED}, "Change"),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_other_requests_are_refused(case: str) -> None:
    records, guard, expected = _REFUSED[case]
    assert code(decided(server(zone_of(records)), guard=ReplayGuard(**guard))) == expected  # type: ignore[arg-type] # by name


@pytest.mark.parametrize("unsigned", ["CSYNC", "NS", "A", "AAAA", "SOA", "DNSKEY"])
def test_each_record_and_each_proof_must_be_signed(unsigned: str) -> None:
    expected = "chain_broken" if unsigned == "DNSKEY" else "not_authentic"
    assert code(decided(server(zone_of(MOVED), unsigned=[unsigned]))) == expected


def test_the_zone_must_validate_under_the_ds_records() -> None:
    assert code(decided(server(zone_of(MOVED, key=OTHER)))) == "chain_broken"
    assert code(decided(server(zone_of(MOVED, signed=HOUR)))) == "chain_broken"


def test_an_absent_address_needs_a_proof_for_this_name_and_type() -> None:
    forged = server(zone_of(MOVED))
    stripped = forged.extra[OWN, "AAAA"].message
    assert stripped is not None
    forged.extra[OWN, "A"] = Reply(stripped)
    assert code(decided(forged)) == "not_authentic"
    other = server(zone_of(("@ NS ns1", "ns1 A 9.9.9.1", "ns2 A 9.9.9.2", ALL)))
    proof = server(zone_of(("@ NS ns2", "ns2 A 9.9.9.2", ALL))).extra[f"ns2.{FQDN}", "AAAA"]
    other.extra[OWN, "AAAA"] = proof
    assert code(decided(other)) == "not_authentic"
    unknown_hash = dns.rrset.from_text(CHILD, 60, "IN", "NSEC3", f"2 0 0 - {'0' * 32} A")
    proof.message.authority = [unknown_hash]  # type: ignore[union-attr] # the server has answered
    assert code(decided(other)) == "not_authentic"


def test_addresses_of_a_wildcard_are_refused() -> None:
    zone = zone_of(("@ NS ns1", "* A 9.9.9.1", ALL))
    wild = server(zone)
    name, star = dns.name.from_text(OWN + "."), dns.name.from_text("*." + FQDN + ".")
    message = dns.message.make_response(dns.message.make_query(name, "A"))
    message.flags |= dns.flags.AA
    for rdtype, covers in (("A", "NONE"), ("RRSIG", "A")):
        found = zone.find_rdataset(star, rdtype, covers=covers)
        message.answer.append(dns.rrset.from_rdata_list(name, found.ttl, list(found)))
    wild.extra[OWN, "A"] = Reply(message)
    assert code(decided(wild)) == "not_authentic"


def test_nameservers_that_differ_or_are_silent_change_nothing() -> None:
    newest = server(zone_of(MOVED))
    assert code(decided(newest, server(zone_of((*SAME, ALL))))) == "servers_differ"
    assert code(decided(newest, server(zone_of(MOVED, serial=8)))) == "servers_differ"
    meanwhile = server(zone_of(MOVED))
    meanwhile.soa_tcp = server(zone_of(MOVED, serial=6)).soa_tcp
    assert code(decided(meanwhile)) == "servers_differ"
    for question in newest.extra:
        silent = server(zone_of(MOVED))
        silent.extra[question] = Reply(failure="no_answer")
        assert code(decided(silent)) == "servers_silent", question
    assert code(decided(newest, not_public=("10.0.0.1",))) == "servers_silent"
    target = replace(
        TARGET, delegation=replace(TARGET.delegation, nameservers=(OUTSIDE, OWN, "ns3.example.org"))
    )
    assert code(decided(newest, target=target)) == "servers_silent"


def test_a_csync_record_that_changes_something_is_detected() -> None:
    assert has_csync(TARGET, Observation(servers=(server(zone_of(MOVED)),)))
    assert not has_csync(TARGET, Observation(servers=(server(zone_of(SAME)),)))
    csync = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.CSYNC, "1 3 NS AAAA TYPE300")
    assert isinstance(csync, CSYNC)
    assert types_in(csync) == {"NS", "AAAA", "TYPE300"}
