"""The answers of servers for a delegation, compared with the stored one: the exact difference, its reason,
and the advice.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from sublet.dns.difference import describe_difference, served_delegation
from sublet.dns.parent_servers import ParentServer, ServerAnswer
from sublet.dns.records import delegation_records
from sublet.dns.types import Delegation, DsRecord, GlueEntry, Record
from sublet.structs import replace
from sublet.subdomains.delegation.served import ServedReport, report_served
from sublet.subdomains.model import Subdomain
from support.sample_subdomain import NAME as A_SUBDOMAIN

NAME = "blog.example.test"
HOST = f"ns1.{NAME}"
DIGEST = "ab" * 32
DELEGATION = Delegation(
    (HOST, "ns1.provider.example"),
    (GlueEntry(HOST, "8.8.4.4", "2a00:1::1"),),
    (DsRecord(2371, 13, 2, DIGEST),),
)
DESIRED = delegation_records(NAME, DELEGATION, 3600)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
PRIMARY = ParentServer("ns1.example.test", "primary", ("192.0.2.1", 53))
SECONDARY = ParentServer("ns2.example.test", "secondary", ("192.0.2.2", 53))


def without(*types: str) -> tuple[Record, ...]:
    return tuple(each for each in DESIRED if each.type not in types)


@pytest.mark.parametrize(
    ("served", "difference"),
    [
        (DESIRED, None),
        ((*DESIRED[::-1], DESIRED[0]), None),
        ((), f"There is no delegation of {NAME}."),
        (without("DS"), f"Missing: DS 2371 13 2 {DIGEST}."),
        (without("A"), f"Missing: glue {HOST} 8.8.4.4."),
        (without("A", "AAAA"), f"Missing: glue {HOST} 8.8.4.4 and glue {HOST} 2a00:1::1."),
        (
            (*DESIRED, Record(NAME, "NS", 3600, "ns9.other.example.")),
            "Not in the stored delegation: nameserver ns9.other.example.",
        ),
        (
            (*without("AAAA"), Record(HOST, "AAAA", 3600, "2a00:1::2")),
            f"Missing: glue {HOST} 2a00:1::1. Not in the stored delegation: glue {HOST} 2a00:1::2.",
        ),
        ((*without("AAAA"), Record(HOST, "AAAA", 3600, "2A00:0001::0001")), None),
        (
            tuple(replace(each, ttl_seconds=60) if each.type in ("NS", "A") else each for each in DESIRED),
            "The TTL of NS is 60 seconds instead of 3600. The TTL of glue is 60 seconds instead of 3600.",
        ),
    ],
)
def test_a_difference_names_missing_extra_and_changed_records(
    served: Sequence[Record], difference: str | None
) -> None:
    assert describe_difference(NAME, DESIRED, served) == difference


def test_a_delegation_that_should_not_exist() -> None:
    assert describe_difference(NAME, (), ()) is None
    left = Record(HOST, "A", 3600, "8.8.4.4")
    assert (
        describe_difference(NAME, (), [left])
        == f"{NAME} should not be in the DNS, but has glue {HOST} 8.8.4.4."
    )
    assert (
        describe_difference(NAME, (), [left], is_delegation=False)
        == f"{NAME} should not be in the DNS, but has {HOST} A 8.8.4.4."
    )
    many = [Record(NAME, "NS", 60, f"ns{number:02}.example.") for number in range(12)]
    assert str(describe_difference(NAME, (), many)).endswith("nameserver ns07.example and 4 more.")


def test_served_records_come_in_the_form_of_a_delegation() -> None:
    assert served_delegation(NAME, DESIRED) == Delegation(
        ("ns1.blog.example.test", "ns1.provider.example"), DELEGATION.glue, DELEGATION.ds_records
    )
    more = (*DESIRED, Record(HOST, "A", 3600, "9.9.9.9"))
    assert served_delegation(NAME, more).glue == (
        GlueEntry(HOST, "8.8.4.4", "2a00:1::1"),
        GlueEntry(HOST, "9.9.9.9", None),
    )


def name(**changes: Any) -> Subdomain:
    facts: dict[str, Any] = {
        "delegation": DELEGATION,
        "generation": 3,
        "published_generation": 3,
        "published_serial": 42,
        "published_at": NOW,
        **changes,
    }
    return replace(A_SUBDOMAIN, fqdn=NAME, **facts)


def primary(serial: int = 42, records: Sequence[Record] = DESIRED) -> ServerAnswer:
    return ServerAnswer(PRIMARY, serial, tuple(records))


def secondary(serial: int = 42, records: Sequence[Record] = DESIRED) -> ServerAnswer:
    return ServerAnswer(SECONDARY, serial, tuple(records))


def report(*answers: ServerAnswer, desired: Sequence[Record] = DESIRED, **changes: Any) -> ServedReport:
    meanwhile = changes.pop("changed_meanwhile", False)
    return report_served(name(**changes), desired, answers, changed_meanwhile=meanwhile)


def test_all_servers_agree() -> None:
    found = report(primary(), secondary())
    assert found.in_agreement
    assert [(each.matches, each.difference, each.error) for each in found.servers] == [(True, None, None)] * 2
    assert (
        found.summary
        == f"All 2 name servers answer with the stored delegation of {NAME}. No action is needed."
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"trashed_at": NOW}, "is in the trash"),
        ({"suspended_at": NOW}, "is suspended"),
        ({"delegation": Delegation()}, "has no nameservers"),
    ],
)
def test_servers_without_a_delegation_agree_with_an_undelegated_name(
    changes: dict[str, Any], says: str
) -> None:
    found = report(primary(records=()), secondary(records=()), desired=(), **changes)
    assert found.in_agreement
    assert says in found.summary
    served = report(primary(), desired=(), published_generation=2, **changes)
    assert not served.in_agreement
    assert says not in served.summary, "the old delegation is served"
    assert report().in_agreement is False


@pytest.mark.parametrize(
    ("answers", "changes", "causes"),
    [
        ((primary(), secondary(41, without("DS"))), {}, [None, "behind"]),
        ((primary(), secondary(42, without("DS"))), {}, [None, "unknown"]),
        ((primary(44), secondary(43, ())), {}, [None, "behind"]),
        ((primary(43, without("A")), secondary(43, without("A"))), {}, ["unknown", "unknown"]),
        ((primary(7, ()),), {}, ["old_zone"]),
        ((primary(44, without("A")), secondary(43, without("A"))), {}, ["unknown", "unknown"]),
        ((primary(44), secondary(43, without("A"))), {"published_generation": 2}, [None, "behind"]),
        ((ServerAnswer(PRIMARY, failure="no_answer"), secondary(41, ())), {}, [None, "behind"]),
        ((primary(records=without("DS")),), {"published_generation": 2}, ["pending"]),
        ((primary(records=()),), {"published_generation": 2, "provision_error": "It is away."}, ["pending"]),
        ((primary(records=()),), {"changed_meanwhile": True}, ["pending"]),
    ],
)
def test_a_difference_has_a_cause(
    answers: tuple[ServerAnswer, ...], changes: dict[str, Any], causes: list[str | None]
) -> None:
    found = report(*answers, **changes)
    assert [each.cause for each in found.servers] == causes
    assert not found.in_agreement


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ("not_set_up", "The operator has not configured an address for {}."),
        ("unreachable", "{} can't be reached."),
        ("no_answer", "{} did not answer in time."),
        ("bad_response", "{} gave no usable answer for this zone."),
    ],
)
def test_a_missing_answer_has_a_sentence_and_no_verdict(failure: str, sentence: str) -> None:
    found = report(ServerAnswer(PRIMARY, failure=failure), secondary())
    assert (found.servers[0].matches, found.servers[0].difference) == (None, None)
    assert str(found.servers[0].error).endswith(".")
    assert found.servers[1].matches is True
    assert not found.in_agreement
    assert found.summary == (
        f"{sentence.format(PRIMARY.server)} ns2.example.test answers with the stored delegation of {NAME}. "
        "Ask again in a while. If the problem persists, open a ticket."
    )
    away = report(primary(), ServerAnswer(SECONDARY, failure=failure))
    assert sentence.format(SECONDARY.server) in away.summary


AWAY = {"published_generation": 2, "provision_error": "The zone is away."}
PENDING = {"published_generation": 2}


@pytest.mark.parametrize("state", [{}, PENDING, AWAY, {"changed_meanwhile": True}])
@pytest.mark.parametrize(
    "first", [primary(), primary(records=()), ServerAnswer(PRIMARY, failure="unreachable")]
)
@pytest.mark.parametrize(
    "second", [secondary(), secondary(41, ()), ServerAnswer(SECONDARY, failure="no_answer")]
)
def test_the_summary_has_the_answer_of_each_server(
    state: dict[str, Any], first: ServerAnswer, second: ServerAnswer
) -> None:
    """In every state of the publication, the summary agrees with each entry of `servers`."""
    found = report(first, second, **state)
    if found.in_agreement:
        assert found.summary.startswith("All 2 name servers answer with the stored delegation")
        assert ("No action is needed" in found.summary) == (state == {})
        return
    answers = found.summary.split(". ")
    for each in found.servers:
        (part,) = [part for part in answers if each.answer.server.server in part]
        assert ("did not answer" in part or "can't be reached" in part) == (each.error is not None)
        assert (" with the stored delegation" in part) == (each.matches is True)
        assert ("differ from" in part or "last change" in part) == (each.matches is False)
    assert ("The last change is not published. The zone is away." in found.summary) == (state == AWAY)
