"""The answers of servers for a delegation, compared with the stored one: the exact difference, its reason,
and the advice.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from sublet.dns.difference import describe_difference, served_delegation
from sublet.dns.parent_servers import ParentServer, ServerAnswer
from sublet.dns.records import delegation_records
from sublet.dns.types import Delegation, DsRecord, GlueEntry, Record
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
DIFFERS = f"answers for {NAME} with records that differ from the stored delegation."
DIFFER = DIFFERS.replace("answers", "answer")
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
    text = describe_difference(NAME, (), many)
    assert text is not None
    assert text.endswith("nameserver ns07.example and 4 more.")


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
    return structs.replace(A_SUBDOMAIN, fqdn=NAME, **facts)


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
    ("changes", "summary"),
    [
        ({"trashed_at": NOW}, f"{NAME} is in the trash, so all 2 name servers have no delegation of it. Restore it to publish it again."),  # noqa: E501
        ({"suspended_at": NOW}, f"{NAME} is suspended, so all 2 name servers have no delegation of it. Open a ticket to ask for a review."),  # noqa: E501
        ({"delegation": Delegation()}, f"{NAME} has no nameservers, so all 2 name servers have no delegation of it. Set nameservers or records."),  # noqa: E501
    ],
)  # fmt: skip
def test_servers_without_a_delegation_agree_with_an_undelegated_name(
    changes: dict[str, Any], summary: str
) -> None:
    found = report(primary(records=()), secondary(records=()), desired=(), **changes)
    assert (found.in_agreement, found.summary) == (True, summary)


def test_a_secondary_behind_its_primary_is_not_reported_as_wrong() -> None:
    behind = report(primary(), secondary(41, without("DS")))
    assert behind.servers[1].difference == (
        f"Missing: DS 2371 13 2 {DIGEST}. The server's zone has the serial 41, but the last change has 42, "
        "so the change has not reached the server yet."
    )
    assert not behind.in_agreement
    assert behind.summary == (
        f"ns1.example.test answers with the stored delegation of {NAME}. ns2.example.test does not have "
        f"the last change of {NAME} yet. "
        "Ask again in a minute. If the problem persists, open a ticket."
    )
    wrong = report(primary(), secondary(42, without("DS")))
    assert wrong.servers[1].difference == f"Missing: DS 2371 13 2 {DIGEST}."
    assert f"ns2.example.test {DIFFERS}" in wrong.summary


def test_a_secondary_can_be_behind_a_later_change_of_the_primary() -> None:
    """The name was published at serial 42, changed by hand at 43, and repaired at 44."""
    found = report(primary(44), secondary(43, ()))
    assert found.servers[1].difference == (
        f"There is no delegation of {NAME}. The server's zone has the serial 43, but ns1.example.test has "
        "44, so a later change may not have reached the server yet."
    )


def test_a_lag_of_other_names_does_not_explain_a_difference() -> None:
    """The secondaries of a busy zone are always slightly behind.

    That explains no difference that the primary has too.
    """
    both = report(primary(44, without("A")), secondary(43, without("A")))
    assert [each.cause for each in both.servers] == ["unknown", "unknown"]
    pending = report(primary(44, without("A")), secondary(43, without("A")), published_generation=2)
    assert [each.cause for each in pending.servers] == ["pending", "pending"]
    applied = report(primary(44), secondary(43, without("A")), published_generation=2)
    assert [each.cause for each in applied.servers] == [None, "behind"]


def test_a_hand_edit_on_the_primary() -> None:
    found = report(primary(43, without("A")), secondary(43, without("A")))
    assert [each.difference for each in found.servers] == [f"Missing: glue {HOST} 8.8.4.4."] * 2
    assert found.summary.startswith(
        f"ns1.example.test, ns2.example.test {DIFFER} Another program changed the zone."
    )


def test_an_old_copy_of_the_zone_that_was_restored() -> None:
    found = report(primary(7, ()))
    assert found.servers[0].difference == (
        f"There is no delegation of {NAME}. The server's zone has the serial 7, but the last change has 42, "
        "so an old copy of the zone may have been restored."
    )
    assert found.summary == (
        f"ns1.example.test {DIFFERS} An old copy of the zone may have been restored. If the problem "
        "persists, open a ticket."
    )


def test_an_unpublished_change_explains_a_difference() -> None:
    found = report(primary(42, without("DS")), secondary(42, without("DS")), published_generation=2)
    assert {each.difference for each in found.servers} == {
        (
            f"Missing: DS 2371 13 2 {DIGEST}. The last change of the name is not published yet. This may "
            "explain the difference."
        )
    }
    assert found.summary == (
        f"ns1.example.test, ns2.example.test {DIFFER} The last change of the name is not published yet. "
        "Ask again in a few seconds."
    )
    failed = report(primary(42, ()), published_generation=2, provision_error="The zone is away.")
    assert "The last change of the name could not be published yet. This may explain the difference." in str(
        failed.servers[0].difference
    )
    assert failed.summary == (
        f"ns1.example.test {DIFFERS} The last change is not published. The zone is away."
    )
    raced = report(primary(42, ()), changed_meanwhile=True)
    assert "The name was changed during the queries. This may explain the difference." in str(
        raced.servers[0].difference
    )


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


def test_without_an_answer_of_the_primary_a_secondary_is_behind_the_publication() -> None:
    found = report(ServerAnswer(PRIMARY, failure="no_answer"), secondary(41, ()))
    assert found.servers[1].cause == "behind"


def test_a_zone_without_name_servers() -> None:
    assert report().in_agreement is False
    assert "operator" in report().summary


AWAY = {"published_generation": 2, "provision_error": "The zone is away."}
PENDING = {"published_generation": 2}
REMOVED = {"delegation": Delegation()}


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


def test_an_unconfirmed_removal_agrees_with_any_answer() -> None:
    """The old delegation is served: the summary doesn't say that the name has none."""
    served = report(primary(), desired=(), **REMOVED, **AWAY)
    assert served.summary == (
        f"ns1.example.test has records of {NAME}, which should not be in the DNS. The last change is not "
        "published. The zone is away."
    )
    half = report(primary(records=()), secondary(41), desired=(), **REMOVED)
    assert half.summary.startswith(
        f"ns1.example.test has no delegation of {NAME}, as intended. ns2.example.test does not have the "
        f"last change of {NAME} yet."
    )
    gone = report(primary(records=()), desired=(), **REMOVED, **PENDING)
    assert gone.summary == (
        f"{NAME} has no nameservers, so the name server has no delegation of it. "
        "The last change of the name is not published yet. Ask again in a few seconds."
    )
