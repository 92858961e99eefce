"""Delegation health: when names are checked, when their states change, and which addresses checks may ask."""

import asyncio
import re
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from sublet.dns.types import Delegation, DsRecord
from sublet.health.control import impaired_report
from sublet.health.findings import CODES, REFUSED_CODES, report
from sublet.health.model import (
    BROKEN,
    DEGRADED,
    HEALTHY,
    NOT_ASKED,
    UNKNOWN,
    Health,
    HostAddresses,
    Observation,
    Reply,
    Report,
    Server,
    Target,
)
from sublet.health.query_limits import QUERIES_PER_SECOND, Budget, QueryRateLimit, may_ask, parse_networks
from sublet.health.schedule import (
    after_check,
    is_breakage_due,
    is_recovery_due,
    new_health,
    next_pause,
)

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


def test_an_interrupted_check_reports_no_nameserver_as_broken() -> None:
    ds = DsRecord(1, 13, 2, "00" * 32)
    delegation = Delegation(("ns1.example.org",), (), (ds,))
    target = Target("shop.example.test", "example.test", delegation, parent_signed=True)
    hosts = (HostAddresses("ns1.example.org", ("9.9.9.9",)),)
    query = dns.message.make_query("shop.example.test", "SOA")
    message = dns.message.make_response(query)
    message.flags |= dns.flags.AA
    message.answer.append(dns.rrset.from_text("shop.example.test.", 60, "IN", "SOA", ". . 1 2 3 4 5"))
    unasked = Server("ns1.example.org", "9.9.9.9")
    without_keys = replace(unasked, soa=Reply(message))
    keyless = replace(without_keys, dnskey=Reply(dns.message.make_response(query)))
    states = [
        report(target, Observation(hosts, (server,)), NOW).state
        for server in (unasked, without_keys, keyless)
    ]
    assert states == [UNKNOWN, UNKNOWN, BROKEN]
    unfound = Observation((HostAddresses("ns1.example.org", failure="unknown"),))
    assert report(target, unfound, NOW).state == UNKNOWN
    silent = replace(unasked, soa=Reply(failure="no_answer"))
    assert report(target, Observation(hosts, (silent,)), NOW).state == BROKEN


def test_a_name_whose_only_answers_resolvers_can_not_use_is_broken() -> None:
    delegation = Delegation(("ns1.example.org",))
    target = Target("shop.example.test", "example.test", delegation, parent_signed=True)
    hosts = (HostAddresses("ns1.example.org", ("9.9.9.9",)),)
    whole = dns.message.make_response(dns.message.make_query("shop.example.test", "SOA"))
    whole.flags |= dns.flags.AA
    truncated, edns_error = copy(whole), copy(whole)
    truncated.flags |= dns.flags.TC
    edns_error.set_rcode(dns.rcode.FORMERR)
    whole.answer = [dns.rrset.from_text("shop.example.test.", 60, "IN", "SOA", ". . 1 2 3 4 5")]
    good, silent = Reply(whole), Reply(failure="no_answer")
    for soa, over_tcp, plain, state in (
        (Reply(truncated), good, NOT_ASKED, HEALTHY),
        (Reply(truncated), silent, NOT_ASKED, BROKEN),
        (good, silent, NOT_ASKED, DEGRADED),
        (silent, good, good, BROKEN),  # EDNS dropped over UDP
        (silent, silent, good, BROKEN),  # EDNS dropped everywhere
        (Reply(edns_error), good, good, HEALTHY),
    ):
        server = Server("ns1.example.org", "9.9.9.9", soa=soa, soa_tcp=over_tcp, soa_plain=plain)
        found = report(target, Observation(hosts, (server,)), NOW)
        assert found.state == state, (soa, over_tcp, plain, found)


def test_the_page_on_health_lists_every_finding() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating" / "health.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (?:error|warning|notice|as )", page, re.MULTILINE)
    assert listed == [*CODES, *REFUSED_CODES]
