"""Delegation health: when names are checked, when their states change, and which addresses checks may ask."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from sublet.dns.types import Delegation, DsRecord
from sublet.health.answers import questions_of_resolvers
from sublet.health.control import impaired_report
from sublet.health.findings import CODES, REFUSED_CODES, report
from sublet.health.model import (
    BROKEN,
    DEGRADED,
    HEALTHY,
    UNKNOWN,
    Health,
    HostAddresses,
    Observation,
    Question,
    Reply,
    Report,
    Server,
    Target,
)
from sublet.health.query_limits import Budget, QueryRateLimit, may_ask, parse_networks
from sublet.health.schedule import after_check, is_breakage_due, is_recovery_due, new_health, next_pause
from sublet.limits import QUERIES_PER_SECOND
from sublet.structs import replace

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def checked(health: Health, state: str, at: datetime, generation: int = 1) -> Health:
    return after_check(health, Report(state, (), at), generation, at, 0.5)


def test_the_first_check_of_a_generation_sets_the_state() -> None:
    first = checked(new_health(1, NOW, NOW), BROKEN, NOW)
    assert (first.state, first.since, first.due_at - NOW) == (BROKEN, NOW, HOUR * 1.05)
    changed = checked(first, HEALTHY, NOW + MINUTE, generation=2)
    assert (changed.state, changed.since) == (HEALTHY, NOW + MINUTE)
    assert changed.due_at - NOW - MINUTE == timedelta(days=1)


def test_a_later_change_of_state_needs_two_equal_checks_ten_minutes_apart() -> None:
    healthy = checked(new_health(1, NOW, NOW), HEALTHY, NOW)
    once = checked(healthy, BROKEN, NOW + HOUR)
    assert (once.state, once.next_state, once.due_at) == (HEALTHY, BROKEN, NOW + HOUR + 10 * MINUTE)
    soon = checked(once, BROKEN, NOW + HOUR + MINUTE)  # by a user, too early to confirm
    assert (soon.state, soon.due_at) == (HEALTHY, NOW + HOUR + 10 * MINUTE)
    other = checked(once, DEGRADED, NOW + HOUR + 10 * MINUTE)
    assert (other.state, other.next_state, other.next_since) == (HEALTHY, DEGRADED, NOW + HOUR + 10 * MINUTE)
    back = checked(once, HEALTHY, NOW + HOUR + 10 * MINUTE)
    assert (back.state, back.next_state) == (HEALTHY, None)
    twice = checked(once, BROKEN, NOW + HOUR + 10 * MINUTE)
    assert (twice.state, twice.next_state, twice.since) == (BROKEN, None, NOW + HOUR + 10 * MINUTE)


@pytest.mark.parametrize(
    ("state", "failures", "wait"),
    [
        (HEALTHY, 0, timedelta(days=1)),
        (DEGRADED, 0, timedelta(days=1)),
        (BROKEN, 1, HOUR),
        (BROKEN, 3, 4 * HOUR),
        (BROKEN, 90, timedelta(days=1)),
        (UNKNOWN, 1, 10 * MINUTE),
        (UNKNOWN, 2, 20 * MINUTE),
    ],
)
def test_pauses_between_checks_double_while_a_name_is_broken(
    state: str, failures: int, wait: timedelta
) -> None:
    waits = [next_pause(state, failures, chance / 10) for chance in range(11)]
    assert wait * 0.9 <= min(waits) <= wait <= max(waits) <= wait * 1.1


def test_a_name_is_checked_soon_after_an_outage_of_the_registry() -> None:
    health = new_health(1, NOW, NOW)
    for number in range(10):
        health = after_check(health, impaired_report("No answers.", NOW), 1, NOW + number * HOUR, 0.5)
    assert health.due_at == NOW + 9 * HOUR + 30 * MINUTE
    later = NOW + 10 * HOUR
    unfinished = checked(health, UNKNOWN, later)
    assert unfinished.due_at <= later + 11 * MINUTE
    assert checked(unfinished, UNKNOWN, later).failures == 2


def test_a_lasting_breakage_and_its_end_are_mailed() -> None:
    broken = checked(new_health(1, NOW, NOW), BROKEN, NOW)
    assert not is_breakage_due(broken, NOW + 2 * HOUR)
    assert is_breakage_due(broken, NOW + 3 * HOUR)
    mailed = replace(broken, mailed_at=NOW + 3 * HOUR)
    assert not is_breakage_due(mailed, NOW + 9 * HOUR)
    assert not is_recovery_due(mailed)
    assert not is_recovery_due(replace(mailed, state=UNKNOWN))
    assert is_recovery_due(replace(mailed, state=DEGRADED))


def test_only_public_and_allowed_addresses_are_queried() -> None:
    allowed = parse_networks("10.1.0.0/16, fd00:1::/32")
    asked = ("9.9.9.9", "2620:fe::9", "10.1.2.3", "fd00:1::53")
    refused = (
        "10.2.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "fd00:2::53",
        "224.0.0.1",
        "64:ff9b::7f00:1",
    )
    assert all(may_ask(each, allowed) for each in asked)
    assert not any(may_ask(each, allowed) for each in refused)
    assert not may_ask("10.1.2.3")


def test_a_budget_allows_only_its_number_of_queries() -> None:
    budget = Budget(2)
    assert [budget.spend() for _ in range(4)] == [True, True, False, False]


def test_an_address_gets_at_most_its_number_of_queries_in_any_second() -> None:
    async def ask() -> list[float]:
        rate_limit, clock = QueryRateLimit(), asyncio.get_running_loop().time

        async def one() -> float:
            await rate_limit.wait("9.9.9.9")
            return clock()

        return sorted(await asyncio.gather(*(one() for _ in range(2 * QUERIES_PER_SECOND + 1))))

    times = asyncio.run(ask())
    assert all(b - a > 0.95 for a, b in zip(times, times[QUERIES_PER_SECOND:], strict=False))


FQDN = "shop.example.test"
QUESTIONS = questions_of_resolvers(FQDN, "random")
SOA = f"{FQDN}. 60 IN SOA . . 1 2 3 4 5"


def target_with(*ds: DsRecord) -> Target:
    delegation = Delegation(("ns1.example.org",), (), ds)
    return Target(FQDN, "example.test", delegation, parent_signed=True)


def state_of(*servers: Server, ds: tuple[DsRecord, ...] = ()) -> str:
    hosts = (HostAddresses("ns1.example.org", ("9.9.9.9",)),)
    return report(target_with(*ds), Observation(hosts, servers), NOW).state


def reply(question: Question, rcode: str = "NOERROR", *, answer: str = "", authority: str = SOA) -> Reply:
    message = dns.message.make_response(dns.message.make_query(*question))
    message.flags |= dns.flags.AA
    message.set_rcode(dns.rcode.from_text(rcode))
    for section, line in ((message.answer, answer), (message.authority, "" if answer else authority)):
        if line:
            owner, ttl, _, rdtype, rdata = line.split(" ", 4)
            section.append(dns.rrset.from_text(owner, int(ttl), "IN", rdtype, rdata))
    return Reply(message)


def good_server() -> Server:
    """A server that answers all questions. It has no addresses and no other names."""
    answers = {each: reply(each) for each in QUESTIONS}
    soa = reply((FQDN, "SOA"), answer=SOA)
    return Server("ns1.example.org", "9.9.9.9", answers=answers, soa=soa, soa_tcp=soa)


def server_that(failure: str | Reply, *questions: Question) -> Server:
    """A good server but for its answers to these questions."""
    bad = Reply(failure=failure) if failure in ("no_answer", "not_asked") else failure
    server = good_server()
    for each in questions:
        server.answers[each] = reply(each, bad) if isinstance(bad, str) else bad
    return server


SILENT, PLAIN = Reply(failure="no_answer"), reply((FQDN, "SOA"), answer=SOA)
DEAD = Server("ns1.example.org", "9.9.9.9", {QUESTIONS[0]: SILENT}, soa=SILENT, soa_tcp=SILENT)


def test_an_interrupted_check_reports_no_nameserver_as_broken() -> None:
    ds = DsRecord(1, 13, 2, "00" * 32)
    keyless = replace(good_server(), dnskey=reply((FQDN, "DNSKEY")))
    unasked = Server("ns1.example.org", "9.9.9.9")
    assert [state_of(each, ds=(ds,)) for each in (unasked, good_server(), keyless)] == [
        UNKNOWN,
        UNKNOWN,
        BROKEN,
    ]
    unfound = Observation((HostAddresses("ns1.example.org", failure="unknown"),))
    assert report(target_with(), unfound, NOW).state == UNKNOWN
    assert state_of(DEAD) == BROKEN
    assert state_of(server_that("not_asked", QUESTIONS[2])) == UNKNOWN


def test_a_name_is_broken_if_its_addresses_or_the_names_below_it_get_no_answer() -> None:
    apex, below = QUESTIONS[:2], QUESTIONS[2]
    cut = reply((FQDN, "A"))
    assert cut.message is not None
    cut.message.flags |= dns.flags.TC
    upward = reply((FQDN, "A"), authority=". 60 IN NS a.root-servers.net.")
    same = reply((FQDN, "A"), authority=f"{FQDN}. 60 IN NS ns1.example.org.")
    alias = reply((FQDN, "A"), answer=f"{FQDN}. 60 IN CNAME elsewhere.test.")
    without_soa = reply((FQDN, "SOA"))
    edns_error = reply((FQDN, "SOA"), "FORMERR")
    not_implemented = reply((FQDN, "SOA"), "NOTIMP")
    without_authority, other_case = good_server(), good_server()
    without_authority.answers[below] = reply(below)
    without_authority.answers[below].message.flags &= ~dns.flags.AA  # type: ignore[union-attr]
    other_case.answers[below] = replace(reply(below), is_case_kept=False)
    expected: list[tuple[Server, str, set[str]]] = [
        (good_server(), HEALTHY, set()),
        (server_that("SERVFAIL", *apex), BROKEN, {"answers_fail"}),
        (server_that("no_answer", *apex), BROKEN, {"answers_fail"}),
        (server_that("NXDOMAIN", *apex), BROKEN, {"answers_fail"}),
        (server_that("SERVFAIL", below), BROKEN, {"answers_fail"}),
        (server_that("no_answer", below), BROKEN, {"answers_fail"}),
        (server_that("NXDOMAIN", below), HEALTHY, set()),
        (server_that("SERVFAIL", apex[1]), DEGRADED, {"answers_fail"}),
        (server_that("no_answer", apex[1]), DEGRADED, {"answers_fail"}),
        (server_that("REFUSED", *QUESTIONS), BROKEN, {"lame"}),
        (server_that(upward, *QUESTIONS), BROKEN, {"lame"}),
        (server_that(same, *QUESTIONS), DEGRADED, {"answers_fail"}),
        (server_that(alias, *apex), DEGRADED, {"alias_at_apex"}),
        (without_authority, DEGRADED, {"not_authoritative"}),
        (other_case, DEGRADED, {"case_changed"}),
        (replace(good_server(), soa=without_soa, soa_tcp=without_soa), DEGRADED, {"soa_missing"}),
        (replace(good_server(), soa=SILENT, soa_tcp=SILENT), DEGRADED, {"soa_missing"}),
        (replace(good_server(), soa=edns_error, soa_plain=PLAIN), HEALTHY, {"edns_broken"}),
        (replace(good_server(), soa=not_implemented, soa_plain=PLAIN), DEGRADED, {"edns_broken"}),
        (replace(good_server(), soa_tcp=SILENT), DEGRADED, {"nameserver_unreachable_over_tcp"}),
        (replace(server_that(cut, *QUESTIONS), soa_tcp=SILENT), BROKEN, {"nameserver_unreachable_over_tcp"}),
        (replace(good_server(), dnskey=SILENT), DEGRADED, {"answers_fail"}),
        (DEAD, BROKEN, {"nameserver_unreachable"}),
        (replace(DEAD, soa_plain=PLAIN), BROKEN, {"nameserver_unreachable"}),  # EDNS dropped everywhere
        (replace(DEAD, soa_plain=PLAIN, soa_tcp=PLAIN), BROKEN, {"nameserver_unreachable"}),  # over UDP
    ]
    hosts = (HostAddresses("ns1.example.org", ("9.9.9.9",)),)
    for server, state, codes in expected:
        found = report(target_with(), Observation(hosts, (server,)), NOW)
        assert (found.state, {each.code for each in found.findings} - {"single_point"}) == (state, codes), (
            found
        )


def test_malformed_answers_are_not_called_silence() -> None:
    bad = Reply(failure="malformed")
    hosts = (HostAddresses("ns1.example.org", ("9.9.9.9",)),)
    for server in (server_that(bad, *QUESTIONS[:2]), replace(DEAD, answers={QUESTIONS[0]: bad}, soa=bad)):
        found = report(target_with(), Observation(hosts, (server,)), NOW).findings[0]
        assert "malformed" in found.message
        assert "port 53" not in found.hint


def test_a_finding_names_a_limited_number_of_nameservers() -> None:
    reached = reply((FQDN, "NS"))
    assert reached.message is not None
    hosts = [f"ns{number:03}.example.org." for number in range(500)]
    reached.message.answer = [dns.rrset.from_text(FQDN + ".", 60, "IN", "NS", *hosts)]
    seen = Observation(
        (HostAddresses("ns1.example.org", ("9.9.9.9",)),), (replace(good_server(), nameservers=reached),)
    )
    (found,) = [each for each in report(target_with(), seen, NOW).findings if each.code == "ns_set_differs"]
    assert found.message.endswith("ns011.example.org, ns012.example.org and 487 more.")


def test_another_nameserver_that_answers_keeps_a_name_from_being_broken() -> None:
    apex, below = server_that("SERVFAIL", *QUESTIONS[:2]), server_that("SERVFAIL", QUESTIONS[2])
    assert state_of(apex, good_server()) == DEGRADED
    assert state_of(apex, below) == DEGRADED  # each answers what the other one doesn't
    assert state_of(apex, DEAD) == BROKEN


def test_the_registry_s_resolver_makes_no_name_broken() -> None:
    hosts = (HostAddresses("ns1.example.org", ("9.9.9.9",)),)
    resolved = {each: reply(each, "SERVFAIL") for each in QUESTIONS}
    for server, state, codes in (
        (good_server(), DEGRADED, {"resolver_fails"}),
        (DEAD, BROKEN, {"nameserver_unreachable"}),
    ):
        found = report(target_with(), Observation(hosts, (server,), resolved=resolved), NOW)
        assert (found.state, {each.code for each in found.findings} - {"single_point"}) == (state, codes)


def test_the_page_on_health_lists_every_finding() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating" / "health.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (?:error|warning|notice|as )", page, re.MULTILINE)
    assert listed == [*CODES, *REFUSED_CODES]
