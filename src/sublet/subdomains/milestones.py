"""The milestones of a name, such as reminders, and the dates at which the sweep processes the name (rules).

All dates are computed from the row and the days of its platform domain. `sweep/store.py` stores each
milestone that was reached, once for each expiry or time in the trash.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.subdomains.lifecycle import (
    auto_renew_at,
    cooling_off_ends_at,
    effective_start,
    lost_at,
    renewal_opens_at,
    restorable_until,
)
from sublet.subdomains.model import Subdomain

REMINDER_DAYS = {"expires_in_30_days": 30, "expires_in_7_days": 7, "expires_in_1_day": 1}
"""The number of days before the expiry at which each reminder is sent."""
TRASH_REMINDER = timedelta(days=7)
"""The time between the reminder in the trash and the purge, unless half of the time in
the trash is shorter.
"""
SHORT_TRASH = timedelta(days=2)
"""The minimum time in the trash for a reminder. With less time, the mail about the move to the trash is
recent enough.
"""


class Milestone(Struct, frozen=True):
    """A milestone that is reached `at` an instant.

    `about` is the date that the milestone is for: the expiry, or the move to the trash.

    `is_mailed` is True if the user gets a mail about the milestone.
    """

    kind: str
    at: datetime
    about: datetime
    is_mailed: bool


def planned_milestones(subdomain: Subdomain) -> tuple[Milestone, ...]:
    """Return the milestones of a name's current state, oldest first.

    Suspended names and names under a closing platform domain have none.

    Reminders with a date before the start of the term are left out.
    """
    if subdomain.purged_at is not None or subdomain.suspended_at is not None:
        return ()
    if subdomain.names_until is not None:  # the name can be neither renewed nor restored after a reminder
        return ()
    if subdomain.trashed_at is not None:
        return _in_trash(subdomain, subdomain.trashed_at)
    expires_at, opens_at = subdomain.expires_at, renewal_opens_at(subdomain)
    began_at = subdomain.last_renewed_at or subdomain.registered_at
    reminders = ((kind, expires_at - timedelta(days=days)) for kind, days in REMINDER_DAYS.items())
    found = [
        *([] if opens_at is None else [Milestone("renewal_opens", opens_at, expires_at, is_mailed=False)]),
        *(Milestone(kind, at, expires_at, is_mailed=True) for kind, at in reminders if at > began_at),
        Milestone("expired", expires_at, effective_start(subdomain, expires_at), is_mailed=True),
    ]
    return tuple(sorted(found, key=lambda each: each.at))


def trash_reminder_at(subdomain: Subdomain) -> datetime | None:
    """Return when the user is reminded of the purge.

    None if the name isn't in the trash, or if its time there is less than `SHORT_TRASH`.
    """
    if subdomain.trashed_at is None:
        return None
    until, since = restorable_until(subdomain), effective_start(subdomain, subdomain.trashed_at)
    if until is None or until - since < SHORT_TRASH:
        return None
    return until - min(TRASH_REMINDER, (until - since) / 2)


def _in_trash(subdomain: Subdomain, trashed_at: datetime) -> tuple[Milestone, ...]:
    at = trash_reminder_at(subdomain)
    return (
        ()
        if at is None
        else (Milestone("trash_ends", at, effective_start(subdomain, trashed_at), is_mailed=True),)
    )


def reached(
    subdomain: Subdomain, done: Collection[tuple[str, datetime]], now: datetime
) -> tuple[Milestone, ...]:
    """Return the milestones that are reached and not `done` (pairs of kind and about), oldest first.

    If several milestones are reached at once, for example after an outage, only the last is mailed. If the
    user loses the name now, none is mailed, because the mail about the loss follows.
    """
    found = [
        each
        for each in planned_milestones(subdomain)
        if each.at <= now and (each.kind, each.about) not in done
    ]
    over_at = lost_at(subdomain)
    last_mailed = next((each for each in reversed(found) if each.is_mailed), None)
    if over_at is not None and over_at <= now:
        last_mailed = None
    return tuple(Milestone(each.kind, each.at, each.about, is_mailed=each is last_mailed) for each in found)


def next_milestone_at(subdomain: Subdomain, now: datetime) -> datetime | None:
    """Return when the next milestone of the current state is reached, or None."""
    return min((each.at for each in planned_milestones(subdomain) if each.at > now), default=None)


class SweepDates(Struct, frozen=True):
    """The two stored dates of a name: when the sweep next processes it, and when its user loses it."""

    due_at: datetime | None
    loss_at: datetime | None


def dates_of(subdomain: Subdomain, now: datetime) -> SweepDates:
    """Return the dates to store after a change of a name's row or of its platform domain's days.

    The name is due now if it has reached a milestone, because the milestone may not be stored yet. It is also
    due now if it is in the trash, because other names may have nameservers below it.
    """
    in_trash = subdomain.trashed_at is not None and subdomain.released_at is None
    if in_trash or reached(subdomain, (), now):
        return SweepDates(now, lost_at(subdomain))
    return dates_after(subdomain, now, auto_renew_at(subdomain), cooling_off_ends_at(subdomain))


def dates_after(subdomain: Subdomain, now: datetime, *others: datetime | None) -> SweepDates:
    """Return the dates to store after the sweep has processed a name: due at its next milestone, or the first
    of `others` if earlier.
    """
    due = (next_milestone_at(subdomain, now), *others)
    return SweepDates(min((each for each in due if each is not None), default=None), lost_at(subdomain))
