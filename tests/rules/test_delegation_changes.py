"""Where DS records come from, by audit events; the stages of notices about nameservers below a name in the
trash.
"""

from datetime import timedelta

import pytest
from msgspec.structs import asdict

from sublet.audit import AuditEvent
from sublet.child_zones.follow_ds import lines_of_change, mail_about
from sublet.dns.types import DsRecord
from sublet.structs import replace
from sublet.subdomains.delegation_changes import (
    ENDING,
    FOLLOWED,
    IN_TRASH,
    ds_sources,
    last_change_by_hand,
    warning_stage,
)
from sublet.subdomains.model import Subdomain
from support.sample_subdomain import DAY, NAME, NOW

ONE, TWO = DsRecord(1, 13, 2, "ab" * 32), DsRecord(2, 13, 2, "cd" * 32)


def event(number: int, kind: str, action: str, *records: DsRecord) -> AuditEvent:
    """Return the audit event of a change to these DS records."""
    after = {"ds_records": [asdict(each) for each in records]}
    at = NOW + timedelta(hours=number)
    return AuditEvent(
        number, at, kind, None, None, None, None, None, action, "subdomain", 1, None, after, None, None
    )


def test_each_ds_record_has_its_latest_source() -> None:
    events = [
        event(1, "operator", "subdomain.register", ONE),
        event(2, "user", "subdomain.update_nameservers", ONE, TWO),
        event(3, "system", FOLLOWED, TWO),
        event(4, "system", "subdomain.remove_nameservers", TWO),
        event(5, "system", FOLLOWED, ONE, TWO),
    ]
    sources = ds_sources([ONE, TWO], events[:2])
    assert [(each.source, each.since) for each in sources] == [
        ("operator", events[0].at),
        ("registrant", events[1].at),
    ]
    sources = ds_sources([ONE, TWO], events)
    assert [(each.source, each.since) for each in sources] == [
        ("cds", events[4].at),
        ("registrant", events[1].at),
    ]
    assert [(each.source, each.since) for each in ds_sources([ONE], [])] == [(None, None)]


def test_only_a_user_or_the_operator_changes_ds_records_by_hand() -> None:
    events = [
        event(1, "user", "subdomain.register", ONE),
        event(2, "user", "subdomain.update_nameservers", ONE, TWO),
        event(3, "user", "subdomain.update_nameservers", TWO, ONE),  # other nameservers
        event(4, "system", FOLLOWED, TWO),
        event(5, "operator", "subdomain.update_nameservers", ONE),
    ]
    expected = [None, None, events[1].at, events[1].at, events[1].at, events[4].at]
    assert [last_change_by_hand(events[:count]) for count in range(6)] == expected


def test_the_mail_has_added_and_removed_ds_records() -> None:
    assert [mail_about(*each) for each in (((), (ONE,)), ((ONE,), (TWO,)), ((ONE,), ()))] == [
        "ds_first",
        "ds_changed",
        "ds_removed",
    ]
    assert lines_of_change(["1", "2"], ["2", "3"]) == ["+ 3", "- 1"]


LABEL = replace(NAME, fqdn="gone.example.test", trashed_at=NOW)


@pytest.mark.parametrize(
    ("label", "after", "stage"),
    [
        (NAME, timedelta(), None),
        (LABEL, timedelta(), (IN_TRASH, NOW)),
        (LABEL, 23 * DAY - timedelta(microseconds=1), (IN_TRASH, NOW)),
        (LABEL, 23 * DAY, (ENDING, NOW)),
        (LABEL, 31 * DAY, (ENDING, NOW)),
        (replace(LABEL, trash_days=1), timedelta(hours=23), (IN_TRASH, NOW)),
        (replace(LABEL, suspended_at=NOW), 23 * DAY, None),
        (replace(LABEL, unsuspended_at=NOW + 9 * DAY), 23 * DAY, (IN_TRASH, NOW + 9 * DAY)),
        (replace(LABEL, purged_at=NOW + 30 * DAY), 30 * DAY, None),
    ],
)
def test_stage_of(label: Subdomain, after: timedelta, stage: object) -> None:
    assert warning_stage(label, NOW + after) == stage
