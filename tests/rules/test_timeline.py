"""The timeline: the past and future events of a name, from its facts alone."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.audit import Change
from sublet.structs import replace
from sublet.subdomains.dates.timeline import PAST_EVENTS_MAX, last_attempt, timeline
from sublet.subdomains.lifecycle import lost_at
from sublet.subdomains.model import AutoRenewAttempt, Subdomain, Term, TimelineEvent
from sublet.subdomains.sweep.store import PastMilestone
from support import sample_subdomain
from support.sample_subdomain import DAY, NOW

NAME = replace(sample_subdomain.NAME, registration_type="plus", trash_days=20)
TERM = Term("register", NAME.expires_at, 10, NOW)
REGISTERED = Change(NOW, "subdomain.register", "user")


def ahead(name: Subdomain, now: datetime) -> list[tuple[str, int]]:
    """Return the future events, each with its day after `NOW`."""
    events = timeline(name, now, terms=[], milestones=[], changes=[])
    return [(each.event, (each.at - NOW).days) for each in events if not each.past]


def behind(events: list[TimelineEvent]) -> list[tuple[str, int]]:
    """Return the past events, each with its day after `NOW`."""
    return [(each.event, (each.at - NOW).days) for each in events if each.past]


def milestone(kind: str, about: datetime, at: datetime, mail_id: int | None = None) -> PastMilestone:
    return PastMilestone(kind, about, "The balance is short." if "fail" in kind else None, mail_id, at)


TRASHED = replace(NAME, trashed_at=NOW + 100 * DAY)


@pytest.mark.parametrize(
    ("name", "days", "expected"),
    [
        (
            NAME,
            0,
            [("renewal_opens", 305), ("expires", 365), ("trashed", 395), ("purged", 415), ("released", 422)],
        ),
        (NAME, 305, [("expires", 365), ("trashed", 395), ("purged", 415), ("released", 422)]),
        (NAME, 365, [("trashed", 395), ("purged", 415), ("released", 422)]),
        # The sweep has not run yet.
        (NAME, 400, [("trashed", 400), ("purged", 420), ("released", 427)]),
        (TRASHED, 100, [("purged", 120), ("released", 127)]),
        (
            replace(TRASHED, expires_at=NOW + 110 * DAY),
            100,
            [("expires", 110), ("purged", 120), ("released", 127)],
        ),
        # Suspended: no dates of loss or renewal.
        (replace(NAME, suspended_at=NOW), 0, [("expires", 365)]),
        (replace(NAME, suspended_at=NOW), 400, []),
        # Grace and trash restart at the end of a suspension.
        (
            replace(NAME, unsuspended_at=NOW + 400 * DAY),
            401,
            [("trashed", 430), ("purged", 450), ("released", 457)],
        ),
        # Automatic renewal: when the window opens; a day after an attempt; at once if overdue.
        (
            replace(NAME, auto_renew_max_credits=5),
            0,
            [
                ("renewal_opens", 305),
                ("auto_renew", 305),
                ("expires", 365),
                ("trashed", 395),
                ("purged", 415),
                ("released", 422),
            ],
        ),
        (
            replace(NAME, auto_renew_max_credits=0, auto_renew_tried_at=NOW + 370 * DAY),
            370,
            [("auto_renew", 371), ("trashed", 395), ("purged", 415), ("released", 422)],
        ),
        (replace(TRASHED, auto_renew_max_credits=5), 100, [("purged", 120), ("released", 127)]),
        (replace(NAME, suspended_at=NOW, auto_renew_max_credits=5), 0, [("expires", 365)]),
    ],
)
def test_future_events_are_those_that_happen_without_an_action(
    name: Subdomain, days: int, expected: list[tuple[str, int]]
) -> None:
    assert sorted(ahead(name, NOW + days * DAY)) == sorted(expected)
    assert [day for _, day in ahead(name, NOW + days * DAY)] == sorted(day for _, day in expected)


def test_past_events_are_changes_and_dates_that_passed() -> None:
    renewed_at, expired_at = NOW + 380 * DAY, NAME.expires_at
    name = replace(NAME, expires_at=NOW + 730 * DAY, last_renewed_at=renewed_at)
    opened_at = expired_at - 60 * DAY
    events = timeline(
        name,
        NOW + 700 * DAY,
        terms=[TERM, Term("renew", name.expires_at, 12, renewed_at)],
        milestones=[
            milestone("renewal_opens", expired_at, opened_at + timedelta(minutes=1)),
            milestone("expires_in_30_days", expired_at, expired_at - 30 * DAY, mail_id=1),
            milestone("auto_renew_failed", opened_at + DAY, opened_at + DAY),
            milestone("expires_in_7_days", expired_at, expired_at - 7 * DAY, mail_id=2),
            milestone("expires_in_1_day", expired_at, expired_at - DAY),
            milestone("expired", expired_at, expired_at + timedelta(minutes=1)),
            milestone("renewal_opens", name.expires_at, NOW + 671 * DAY),
        ],
        changes=[
            REGISTERED,
            Change(renewed_at, "subdomain.renew", "system"),
            Change(NOW + 400 * DAY, "subdomain.update_nameservers", "user"),
        ],
    )
    assert behind(events) == [
        ("registered", 0),
        ("renewal_opens", 305),
        ("auto_renew_failed", 306),
        ("reminded", 335),
        ("reminded", 358),
        ("expires", 365),
        ("renewed", 380),
        ("nameservers_updated", 400),
        # The event has the exact date, even if the sweep recorded it a day later, and is shown once, even if
        # recorded twice.
        ("renewal_opens", 670),
    ]
    told = {each.event: each for each in events if each.past}
    assert (told["registered"].expires_at, told["registered"].charged_credits) == (NOW + 365 * DAY, 10)
    assert (told["renewed"].expires_at, told["renewed"].charged_credits) == (name.expires_at, 12)
    assert (told["registered"].by, told["renewed"].by, told["expires"].by) == ("user", "system", None)
    assert told["auto_renew_failed"].detail == "The balance is short."
    assert told["reminded"].detail == "Mail sent: the name expires within 7 days."


def test_a_restore_that_renews_is_one_event_and_a_plain_one_has_no_term() -> None:
    at = NOW + 10 * DAY
    twice = [Change(at, "subdomain.restore", "user"), Change(at, "subdomain.restore", "user")]
    trash = [REGISTERED, Change(NOW + DAY, "subdomain.delete", "user")]
    paid = timeline(
        NAME,
        at,
        terms=[TERM, Term("restore", NOW + 400 * DAY, 3, at)],
        milestones=[],
        changes=[*trash, *twice],
    )
    assert behind(paid) == [("registered", 0), ("deleted", 1), ("restored", 10)]
    assert (paid[2].expires_at, paid[2].charged_credits) == (NOW + 400 * DAY, 3)
    plain = timeline(NAME, at, terms=[TERM], milestones=[], changes=[*trash, twice[0]])
    assert (plain[2].event, plain[2].expires_at, plain[2].charged_credits) == ("restored", None, None)


def test_a_current_suspension_says_that_dates_do_not_advance() -> None:
    first, second = NOW + DAY, NOW + 3 * DAY
    changes = [
        Change(first, "subdomain.suspend", "operator", {"suspended_reason": "Phishing, see T-000002"}),
        Change(NOW + 2 * DAY, "subdomain.unsuspend", "operator"),
        Change(second, "subdomain.suspend", "operator", {"suspended_reason": None}),
    ]
    held = replace(NAME, suspended_at=second)
    events = timeline(held, NOW + 4 * DAY, terms=[], milestones=[], changes=changes)
    assert behind(events) == [("suspended", 1), ("unsuspended", 2), ("suspended", 3)]
    still = "A suspended name can't be renewed, and isn't deleted. Open a ticket to ask for a review."
    before = "Reason: Phishing, see T-000002."
    assert [each.detail for each in events if each.past] == [before, None, still]


def test_the_newest_past_events_are_shown() -> None:
    changes = [
        Change(NOW + number * timedelta(minutes=1), "subdomain.update_nameservers", "user")
        for number in range(PAST_EVENTS_MAX)
    ]
    events = timeline(NAME, NOW + DAY, terms=[], milestones=[], changes=[REGISTERED, *changes])
    assert len(behind(events)) == PAST_EVENTS_MAX
    assert events[0].event == "nameservers_updated"
    assert [each.event for each in events[-3:]] == ["trashed", "purged", "released"]


@given(
    st.builds(
        lambda days, trashed, held, freed, tried, ceiling: replace(
            NAME,
            expires_at=NOW + days * DAY,
            trashed_at=None if trashed is None else NOW - trashed * DAY,
            suspended_at=NOW if held else None,
            unsuspended_at=None if freed is None else NOW - freed * DAY,
            auto_renew_max_credits=ceiling,
            auto_renew_tried_at=None if tried is None else NOW - tried * DAY,
        ),
        st.integers(-100, 400),
        st.none() | st.integers(0, 19),
        st.booleans(),
        st.none() | st.integers(0, 50),
        st.none() | st.integers(0, 3),
        st.sampled_from([None, 0, 20]),
    )
)
def test_past_events_are_before_now_and_future_events_after(name: Subdomain) -> None:
    events = timeline(name, NOW, terms=[], milestones=[], changes=[])
    assert all((each.at <= NOW) if each.past else (each.at >= NOW) for each in events)
    assert [each.past for each in events] == sorted((each.past for each in events), reverse=True)
    assert [each.at for each in events] == sorted(each.at for each in events)
    lost = [each.at for each in events if each.event in ("trashed", "purged") and not each.past]
    loss_at = lost_at(name)
    assert lost[:1] == ([] if loss_at is None else [max(loss_at, NOW)])


def test_the_last_attempt_is_the_newest_milestone() -> None:
    failed = milestone("auto_renew_failed", NOW, NOW)
    renewed = milestone("auto_renewed", NOW + DAY, NOW + DAY)
    term = Term("renew", NOW + 730 * DAY, 12, NOW + DAY)
    other = milestone("expired", NOW, NOW + 2 * DAY)
    assert last_attempt([TERM], [other]) is None
    assert last_attempt([TERM], [failed, other]) == AutoRenewAttempt(
        NOW, "failed", "The balance is short.", None
    )
    assert last_attempt([TERM, term], [failed, renewed, other]) == AutoRenewAttempt(
        NOW + DAY, "renewed", None, 12
    )


def test_the_sweep_s_trash_and_the_user_s_are_different_events() -> None:
    at = NOW + 396 * DAY
    name = replace(NAME, trashed_at=at)
    events = timeline(
        name, at, terms=[TERM], milestones=[milestone("trashed", at, at, mail_id=3)], changes=[]
    )
    assert behind(events) == [("renewal_opens", 305), ("expires", 365), ("trashed", 396), ("reminded", 396)]
    deleted = timeline(TRASHED, TRASHED.trashed_at or NOW, terms=[TERM], milestones=[], changes=[REGISTERED])
    assert behind(deleted) == [("registered", 0)], "it went to the trash before its window opened"
