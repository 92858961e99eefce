"""Decisions about the requests of all nameservers of a child."""

from datetime import UTC, datetime, timedelta

import dns.flags
import dns.message
import dns.rrset
import pytest

from sublet.child_zones.cds_answers import TYPES, decide_for_all_servers, requests_ds
from sublet.child_zones.model import Decision, Keep, Proof, Refuse, Replace, Rules, Wait
from sublet.dns.types import Delegation, DsRecord
from sublet.health.model import Observation, Reply, Server, Target
from sublet.structs import replace
from support.child_keys import CHILD, HOUR, ChildKey, cdnskeys, cds, dnskeys, sign

NOW = datetime(2026, 5, 1, tzinfo=UTC)
OLD, NEW = ChildKey.new(), ChildKey.new()
HOSTS = ("ns1.example.org", "ns2.example.org")
TARGET = Target("blog.example.net", "example.net", Delegation(HOSTS, (), (OLD.ds(),)), parent_signed=True)
SOA = dns.rrset.from_text(CHILD, 300, "IN", "SOA", "ns.example. host.example. 1 1 1 1 1")
SILENT = Reply(failure="no_answer")


def server(
    number: int, *wanted: ChildKey, begins: timedelta = -HOUR, flags: int = dns.flags.QR | dns.flags.AA
) -> Server:
    """Return the answers of a nameserver that asks for DS records of these keys."""
    sets = {"SOA": SOA, "DNSKEY": dnskeys([OLD, NEW])} | ({"CDS": cds(wanted)} if wanted else {})

    def reply(rdtype: str) -> Reply:
        message = dns.message.make_response(dns.message.make_query(CHILD, rdtype))
        message.flags = dns.flags.Flag(flags)
        rrset = sets.get(rdtype)
        if rrset is not None:
            signatures = sign(rrset, [OLD, NEW], NOW, begins=begins)
            message.answer = [rrset, dns.rrset.from_rdata_list(CHILD, 300, signatures)]
        return Reply(dns.message.from_wire(message.to_wire()))

    found = Server(HOSTS[number - 1], f"9.9.{number}.1", soa=reply("SOA"), soa_tcp=reply("SOA"))
    found.extra = {(TARGET.fqdn, each): reply(each) for each in TYPES}
    return found


def decided(*servers: Server, **seen: object) -> Decision:
    """Return the decision about the DS records."""
    return decide_for_all_servers(TARGET, Observation(servers=servers, **seen), None, Rules(), NOW)  # type: ignore[arg-type] # by name


def code(decision: Decision) -> str:
    """Return the code of a refusal."""
    assert isinstance(decision, Refuse), decision
    return decision.code


def test_all_nameservers_ask_for_the_same() -> None:
    assert decided(server(1), server(2)) == Keep()
    assert decided(server(1, OLD), server(2, OLD)) == Keep()
    asked = (server(1, NEW), server(2, NEW, begins=-2 * HOUR))
    assert decided(*asked) == Replace((NEW.ds(),), NOW - 2 * HOUR)
    assert requests_ds(TARGET, Observation(servers=asked))
    assert not requests_ds(TARGET, Observation(servers=(server(1),)))


def test_records_seen_only_over_udp_change_nothing() -> None:
    forged = server(1)
    forged.cds_udp = server(1, NEW).extra[TARGET.fqdn, "CDS"]
    assert code(decided(forged, server(2))) == "udp_differs"
    asked = server(1, NEW)
    asked.cds_udp = server(1, OLD).extra[TARGET.fqdn, "CDS"]
    assert decided(asked, server(2, NEW)) == Replace((NEW.ds(),), NOW - HOUR)
    asked.cds_udp = SILENT
    assert isinstance(decided(asked, server(2, NEW)), Replace)


def test_different_answers_of_nameservers_change_nothing() -> None:
    assert code(decided(server(1, NEW), server(2))) == "servers_differ"
    assert code(decided(server(1, NEW), server(2, OLD))) == "servers_differ"
    assert code(decided(server(1, NEW), server(2, NEW, begins=HOUR))) == "servers_differ"


@pytest.mark.parametrize("rdtype", [*TYPES, "SOA"])
def test_a_silent_nameserver_changes_nothing(rdtype: str) -> None:
    silent = server(2, NEW)
    if rdtype == "SOA":
        silent.soa_tcp = SILENT
    else:
        silent.extra[TARGET.fqdn, rdtype] = SILENT
    assert code(decided(server(1, NEW), silent)) == "servers_silent"


@pytest.mark.parametrize("rdtype", TYPES)
def test_a_set_with_too_many_records_is_refused(rdtype: str) -> None:
    """Also if all nameservers have it, and the other sets are small."""
    keys = [ChildKey.new() for _ in range(33)]
    many = {"CDS": cds(keys), "CDNSKEY": cdnskeys(keys), "DNSKEY": dnskeys(keys)}[rdtype]
    both = server(1, NEW), server(2, NEW)
    for each in both:
        message = each.extra[TARGET.fqdn, rdtype].message
        assert message is not None
        message.answer = [many]
    decision = decided(*both)
    assert isinstance(decision, Refuse)
    assert (decision.code, decision.message[:12]) == ("unsupported", "More than 32")


def test_nameservers_that_were_not_asked_change_nothing() -> None:
    both = server(1, NEW), server(2, NEW)
    assert code(decided(both[0])) == "servers_silent"
    assert code(decided(*both, not_public=("10.0.0.1",))) == "servers_silent"
    late = server(2, NEW)
    late.extra = {}
    assert code(decided(both[0], late)) == "servers_silent"
    assert code(decided(both[0], server(2, NEW, flags=dns.flags.QR))) == "servers_silent"
    unrouted = Server(HOSTS[1], "2620:1::1", soa=Reply(failure="no_route"))
    assert isinstance(decided(*both, unrouted), Replace)
    assert code(decided(both[0], unrouted)) == "servers_silent"


def test_the_first_ds_records_need_the_signalling_records() -> None:
    target = replace(TARGET, delegation=Delegation(HOSTS))
    seen = Observation(servers=(server(1, NEW), server(2, NEW)))

    def first(proof: Proof | None) -> Decision:
        return decide_for_all_servers(target, seen, proof, Rules(), NOW)

    assert code(first(None)) == "not_bootstrapped"
    decision = first(Proof(cds([NEW])))
    assert isinstance(decision, Replace)
    assert decision.ds_records == (DsRecord(NEW.ds().key_tag, 13, 2, NEW.ds().digest),)


def test_a_wait_needs_the_same_records_at_all_nameservers() -> None:
    target = replace(TARGET, delegation=Delegation(HOSTS))

    def first(*servers: Server) -> Decision:
        rules = Rules(accepted_after=timedelta(days=7))
        return decide_for_all_servers(target, Observation(servers=servers), None, rules, NOW)

    waiting = first(server(1, NEW), server(2, NEW, begins=-2 * HOUR))
    assert isinstance(waiting, Wait)
    assert (waiting.ds_records, waiting.signed_at) == ((NEW.ds(),), NOW - 2 * HOUR)
    assert code(first(server(1, NEW), server(2, OLD))) == "servers_differ"
    assert code(first(server(1, NEW))) == "servers_silent"
