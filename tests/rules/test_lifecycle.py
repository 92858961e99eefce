from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sublet.dns.types import Delegation
from sublet.subdomains.lifecycle import (
    ALLOWED,
    STATUS_LABELS,
    auto_renew_at,
    closing_allows_restore,
    derive_status,
    grace_ends_at,
    is_delegated,
    is_restorable,
    lost_at,
    next_term_start,
    planned_milestones,
    provisioning_status,
    renewal_available,
    renewal_opens_at,
    restorable_until,
    term_end,
)
from sublet.subdomains.model import STATUSES, Subdomain
from support.sample_subdomain import DAY, NAME, NOW, SERVED

TICK = timedelta(microseconds=1)
UNPUBLISHED = replace(NAME, published_generation=2)
FAILED = replace(UNPUBLISHED, provision_error="refused")
INACTIVE = replace(NAME, delegation=Delegation(), generation=0, published_generation=0)
TRASHED = replace(NAME, trashed_at=NOW)

names = st.builds(
    lambda **facts: replace(NAME, **facts),
    delegation=st.sampled_from([SERVED, Delegation()]),
    generation=st.integers(1, 3),
    published_generation=st.integers(0, 1),
    provision_error=st.sampled_from([None, "refused"]),
    expires_at=st.sampled_from([NOW - DAY, NOW - TICK, NOW, NOW + TICK, NOW + 59 * DAY, NOW + 61 * DAY]),
    suspended_at=st.sampled_from([None, NOW]),
    trashed_at=st.sampled_from([None, NOW, NOW - 30 * DAY, NOW - 30 * DAY + TICK]),
    period_days=st.sampled_from([1, 30, 365]),
)


@pytest.mark.parametrize(
    ("subdomain", "status", "provisioning"),
    [
        (NAME, "active", "published"),
        (UNPUBLISHED, "provisioning", "pending"),
        (FAILED, "failed", "failed"),
        (INACTIVE, "inactive", "none"),
        # Its nameservers were removed, but the zone still has the old delegation.
        (replace(UNPUBLISHED, delegation=Delegation()), "provisioning", "pending"),
        (replace(FAILED, delegation=Delegation()), "failed", "failed"),
        (replace(NAME, delegation=Delegation()), "inactive", "none"),
        # The error belongs to a generation that has been published since.
        (replace(NAME, provision_error="refused"), "active", "published"),
        (replace(NAME, expires_at=NOW), "expired", "published"),
        (replace(NAME, suspended_at=NOW), "suspended", "none"),
        (replace(UNPUBLISHED, suspended_at=NOW), "suspended", "pending"),
        (TRASHED, "trashed", "none"),
    ],
)
def test_the_state_is_derived_from_facts(subdomain: Subdomain, status: str, provisioning: str) -> None:
    assert (derive_status(subdomain, NOW), provisioning_status(subdomain)) == (status, provisioning)


@given(names)
def test_the_shown_fields_are_consistent(subdomain: Subdomain) -> None:
    status, provisioning = derive_status(subdomain, NOW), provisioning_status(subdomain)
    if status == "active":
        assert is_delegated(subdomain)
        assert provisioning == "published"
    if status in ("trashed", "suspended", "inactive"):
        assert not is_delegated(subdomain)
    assert (provisioning == "published") <= is_delegated(subdomain)
    if renewal_available(subdomain, NOW):
        assert "renew" in ALLOWED[status]


@pytest.mark.parametrize(
    ("before", "status"), [(TICK, "active"), (timedelta(), "expired"), (-TICK, "expired")]
)
def test_a_name_expires_at_its_instant(before: timedelta, status: str) -> None:
    assert derive_status(NAME, NAME.expires_at - before) == status


def test_the_table_of_states_is_complete() -> None:
    changes = {"update_nameservers", "retry", "renew", "set_auto_renew", "delete"}
    assert tuple(STATUS_LABELS) == tuple(ALLOWED) == STATUSES
    for status in STATUSES:
        wanted = {"suspended": set(), "trashed": {"restore"}}.get(status, changes)
        assert ALLOWED[status] == wanted, status


# Renewal


@pytest.mark.parametrize(
    ("window_days", "period_days", "opens_days_before"),
    [(60, 365, 60), (1, 365, 1), (60, 60, 60), (60, 30, 30), (3650, 365, 365), (2, 1, 1)],
)
def test_the_window_is_at_most_one_term(window_days: int, period_days: int, opens_days_before: int) -> None:
    name = replace(NAME, renewal_window_days=window_days, period_days=period_days)
    opens_at = name.expires_at - opens_days_before * DAY
    assert renewal_opens_at(name) == opens_at
    assert not renewal_available(name, opens_at - TICK)
    assert renewal_available(name, opens_at)
    assert renewal_available(name, name.expires_at + 29 * DAY)
    assert not renewal_available(name, name.expires_at, user_suspended=True)
    for facts in ({"trashed_at": NOW}, {"suspended_at": NOW}):
        assert not renewal_available(replace(name, **facts), name.expires_at)


@given(st.integers(1, 3650), st.integers(1, 3650))
def test_renewal_is_not_open_right_after_a_renewal(window_days: int, period_days: int) -> None:
    name = replace(NAME, renewal_window_days=window_days, period_days=period_days, expires_at=NOW + TICK)
    assert renewal_available(name, NOW)
    renewed = replace(name, expires_at=term_end(name.expires_at, period_days))
    assert not renewal_available(renewed, NOW)


# Suspension


def test_the_dates_of_a_suspended_name_restart_after_the_suspension() -> None:
    expired = replace(NAME, expires_at=NOW)
    assert lost_at(expired) == NOW + 30 * DAY
    assert lost_at(replace(expired, suspended_at=NOW)) is None
    assert lost_at(replace(expired, unsuspended_at=NOW + 100 * DAY)) == NOW + 130 * DAY
    assert lost_at(replace(expired, unsuspended_at=NOW - DAY)) == NOW + 30 * DAY
    held = replace(TRASHED, suspended_at=NOW)
    assert restorable_until(held) is None
    assert is_restorable(held, NOW + 1000 * DAY)
    assert lost_at(replace(TRASHED, unsuspended_at=NOW + 100 * DAY)) == NOW + 130 * DAY


# Automatic renewal

OPENS_AT = NAME.expires_at - 60 * DAY
STANDING = replace(NAME, auto_renew_max_credits=0)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        (NAME, None),
        (replace(NAME, auto_renew_tried_at=OPENS_AT), None),
        (STANDING, OPENS_AT),
        (replace(STANDING, auto_renew_max_credits=10), OPENS_AT),
        (replace(STANDING, expires_at=NOW - DAY), NOW - 61 * DAY),
        (replace(STANDING, suspended_at=NOW), None),
        (replace(STANDING, trashed_at=NOW), None),
        # The attempts of earlier terms don't count.
        (replace(STANDING, auto_renew_tried_at=OPENS_AT - TICK), OPENS_AT),
        (replace(STANDING, auto_renew_tried_at=OPENS_AT), OPENS_AT + DAY),
        (replace(STANDING, auto_renew_tried_at=OPENS_AT + 7 * DAY), OPENS_AT + 8 * DAY),
        # A window that opens late, after the pause that follows a renewal.
        (replace(STANDING, last_renewed_at=OPENS_AT + DAY), OPENS_AT + 2 * DAY),
    ],
)
def test_automatic_renewal_starts_when_renewal_opens_and_is_retried_daily(
    name: Subdomain, at: datetime | None
) -> None:
    assert auto_renew_at(name) == at


@given(st.integers(1, 3650), st.integers(1, 3650), st.integers(0, 400))
def test_no_attempt_is_due_right_after_an_attempt(window_days: int, period_days: int, late_days: int) -> None:
    name = replace(STANDING, renewal_window_days=window_days, period_days=period_days)
    due_at = auto_renew_at(name)
    assert due_at is not None
    now = due_at + late_days * DAY
    assert renewal_available(name, now)
    failed = replace(name, auto_renew_tried_at=now)
    assert auto_renew_at(failed) == now + DAY
    ends_at = term_end(next_term_start(name, now, period_days), period_days)
    renewed = replace(failed, expires_at=ends_at, last_renewed_at=now)
    again_at = auto_renew_at(renewed)
    assert again_at is not None
    assert again_at >= now + DAY


# The trash


def test_a_name_is_restorable_for_its_days_in_the_trash() -> None:
    until = NOW + 30 * DAY
    assert restorable_until(TRASHED) == until
    assert is_restorable(TRASHED, until - TICK)
    assert not is_restorable(TRASHED, until)
    assert not is_restorable(replace(TRASHED, trash_days=0), NOW)


def test_live_and_purged_names_are_not_restorable() -> None:
    for name in (NAME, replace(TRASHED, purged_at=NOW)):
        assert restorable_until(name) is None
        assert not is_restorable(name, NOW)


# Terms


@pytest.mark.parametrize(
    ("start", "days", "end"),
    [
        ("2026-11-21T09:30:00Z", 365, "2027-11-21T09:30:00Z"),
        ("2027-11-21T09:30:00Z", 365, "2028-11-20T09:30:00Z"),  # with a leap day in between
        ("2028-02-29T23:59:59.999999Z", 365, "2029-02-28T23:59:59.999999Z"),
        ("2037-12-31T00:00:00Z", 365, "2038-12-31T00:00:00Z"),  # past the end of 32 bits
        ("2100-02-28T00:00:00Z", 1, "2100-03-01T00:00:00Z"),  # no leap year
        (
            "2026-03-28T12:00:00Z",
            1,
            "2026-03-29T12:00:00Z",
        ),  # the night in which much of Europe loses an hour
    ],
)
def test_a_term_is_whole_days_of_24_hours(start: str, days: int, end: str) -> None:
    assert term_end(datetime.fromisoformat(start), days) == datetime.fromisoformat(end)


def test_names_of_a_closing_platform_domain_stay_until_its_date_without_renewal() -> None:
    for until in (NAME.expires_at - 30 * DAY, NAME.expires_at + 90 * DAY):
        closing = replace(NAME, names_until=until, auto_renew_max_credits=5)
        assert grace_ends_at(closing) == until
        assert auto_renew_at(closing) is None
        assert not renewal_available(closing, NAME.expires_at)
        assert planned_milestones(closing) == ()
        trashed = replace(closing, trashed_at=NOW)
        over_at = min(until, NAME.expires_at)
        assert closing_allows_restore(trashed, over_at - timedelta(microseconds=1))
        assert not closing_allows_restore(trashed, over_at)
    assert grace_ends_at(replace(closing, suspended_at=NOW)) is None
    assert closing_allows_restore(replace(NAME, trashed_at=NOW), NAME.expires_at + DAY)
