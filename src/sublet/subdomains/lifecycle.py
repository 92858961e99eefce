"""The life cycle of a name: its states, the verbs that each state allows, its dates and milestones, such as
reminders (rules).

States are derived from the row and the clock, not stored. Dates are computed from the row and the days of its
platform domain. `sweep/store.py` stores each milestone that was reached, once for each expiry or time in the
trash.

A name has the first of these states that applies: trashed, suspended, expired, failed, provisioning,
inactive, active (docs/spec-choices.md, "Subdomain states"). Purged and released names have no state.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.dns.records import delegation_records, records_of_sets
from sublet.dns.types import Record
from sublet.platform_domains.model import ADMIN
from sublet.subdomains.model import DnsContent, DnsState, NameForZoneCheck, ShownSubdomain, Subdomain

STATUS_LABELS: dict[str, str] = {
    "inactive": "Inactive",
    "provisioning": "Provisioning",
    "active": "Active",
    "failed": "Failed",
    "expired": "Expired",
    "suspended": "Suspended",
    "trashed": "In trash",
}

RENEWAL_REST = timedelta(days=1)
"""The minimum time between two renewals, so that a request that is repeated after a lost answer isn't charged
twice.
"""

AUTO_RENEW_REST = timedelta(days=1)
"""The pause between two attempts of automatic renewal. In the pause the user may buy credits."""

FARTHEST = timedelta(days=36_500)
"""How far ahead the operator may move the dates of names. Python has no date after the year 9999, and other
dates of a name follow, such as that of its purge.
"""

ACTIONS = ("update_nameservers", "retry", "renew", "set_auto_renew", "delete", "restore")
"""The registrant's verbs on a name, in the order of the contract."""
_ALL_BUT_RESTORE = frozenset(ACTIONS) - {"restore"}
ALLOWED: dict[str, frozenset[str]] = {
    "inactive": _ALL_BUT_RESTORE,
    "provisioning": _ALL_BUT_RESTORE,
    "active": _ALL_BUT_RESTORE,
    "failed": _ALL_BUT_RESTORE,
    "expired": _ALL_BUT_RESTORE,
    "suspended": frozenset(),
    "trashed": frozenset({"restore"}),
}
"""The registrant's verbs by state. `allowed_actions` checks further conditions."""


def derive_status(subdomain: ShownSubdomain, now: datetime) -> str:
    """Return the status of a name at `now`."""
    if subdomain.trashed_at is not None:
        return "trashed"
    if subdomain.suspended_at is not None:
        return "suspended"
    if subdomain.expires_at <= now:
        return "expired"
    if provisioning_failed(subdomain):
        return "failed"
    if not is_published(subdomain):
        return "provisioning"
    return "active" if has_nameserver(subdomain) or has_records(subdomain) else "inactive"


def is_allowed(subdomain: ShownSubdomain, action: str, now: datetime) -> bool:
    """True if the name's state allows a verb. A suspended name allows no verbs, live or in the trash."""
    return subdomain.suspended_at is None and action in ALLOWED[derive_status(subdomain, now)]


def allowed_actions(
    subdomain: ShownSubdomain, now: datetime, *, user_suspended: bool, quota_left: bool
) -> tuple[str, ...]:
    """Return the `ACTIONS` that would not be refused now. A quote is no refusal.

    Not checked: the balance, the token's scopes, and the request's body.
    """
    if user_suspended or is_gone(subdomain, now):
        return ()
    other_conditions = {
        "retry": has_nameserver(subdomain) and provisioning_failed(subdomain),
        "renew": is_renewal_open(subdomain, now),
        "set_auto_renew": not is_renewed_by_operator(subdomain),
        "restore": closing_allows_restore(subdomain, now)
        and quota_allows(subdomain.registration_type, quota_left=quota_left)
        and not (is_renewed_by_operator(subdomain) and subdomain.expires_at <= now),
    }
    return tuple(
        action
        for action in ACTIONS
        if is_allowed(subdomain, action, now) and other_conditions.get(action, True)
    )


def has_nameserver(subdomain: DnsState) -> bool:
    """True if a name has nameservers."""
    return bool(subdomain.delegation.nameservers)


def has_records(subdomain: DnsState) -> bool:
    """True if a name has records, and so no nameservers."""
    return subdomain.record_count > 0


def quota_allows(mode: str, *, quota_left: bool) -> bool:
    """True if the free quota allows one more name in this mode.

    The quota limits only names in the mode `free`.
    """
    return quota_left or mode != "free"


def provisioning_status(subdomain: ShownSubdomain) -> str:
    """Return the state of publication: failed, pending, published, or none if there is nothing to publish."""
    if provisioning_failed(subdomain):
        return "failed"
    if not is_published(subdomain):
        return "pending"
    return "published" if is_in_dns(subdomain) else "none"


def is_published(subdomain: ShownSubdomain | NameForZoneCheck) -> bool:
    """True if the last change of a name is published.

    Also true for a name that never had nameservers or records.
    """
    return subdomain.generation == subdomain.published_generation


def provisioning_failed(subdomain: ShownSubdomain) -> bool:
    """True if the last attempt to publish the current generation failed."""
    return subdomain.provision_error is not None and not is_published(subdomain)


def is_delegated(subdomain: DnsState) -> bool:
    """True if the parent zone should delegate the name: it has nameservers, and `is_in_dns`."""
    return has_nameserver(subdomain) and is_in_dns(subdomain)


def is_in_dns(subdomain: DnsState) -> bool:
    """True if the zone should have records of a name: it has nameservers or records, and is neither in the
    trash nor suspended.

    An expired name stays in the DNS until it moves to the trash.
    """
    return (
        (has_nameserver(subdomain) or has_records(subdomain))
        and subdomain.trashed_at is None
        and subdomain.suspended_at is None
        and subdomain.purged_at is None
    )


def desired_records(subdomain: DnsContent, ttl_seconds: int) -> tuple[Record, ...]:
    """Return the records that the zone should have for a name: none unless `is_in_dns`.

    `ttl_seconds` is the TTL of delegations.
    """
    return stored_records(subdomain, ttl_seconds) if is_in_dns(subdomain) else ()


def stored_records(subdomain: DnsContent, ttl_seconds: int) -> tuple[Record, ...]:
    """Return the records of a name's stored delegation, or its stored records, whether or not they should be
    in the DNS.
    """
    if has_nameserver(subdomain):
        return delegation_records(subdomain.fqdn, subdomain.delegation, ttl_seconds)
    return records_of_sets(subdomain.fqdn, subdomain.records)


def is_renewed_by_operator(subdomain: ShownSubdomain) -> bool:
    """True if only the operator can renew the name, and restore it after its expiry."""
    return subdomain.registration_type == ADMIN


def renewal_opens_at(subdomain: ShownSubdomain) -> datetime | None:
    """Return when renewal opens: `renewal_window_days` (at most a term) before the expiry, but at least a day
    after the last renewal.

    Without these limits, a request that a client repeats could be charged twice. None if only the operator
    renews the name.
    """
    if is_renewed_by_operator(subdomain):
        return None
    days = min(subdomain.renewal_window_days, subdomain.period_days)
    opens_at = subdomain.expires_at - timedelta(days=days)
    if subdomain.last_renewed_at is None:
        return opens_at
    return max(opens_at, subdomain.last_renewed_at + RENEWAL_REST)


def renewal_available(subdomain: ShownSubdomain, now: datetime, *, user_suspended: bool = False) -> bool:
    """True if POST renew would now renew the name or return a quote."""
    return not user_suspended and is_renewal_open(subdomain, now) and is_allowed(subdomain, "renew", now)


def is_renewal_open(subdomain: ShownSubdomain, now: datetime) -> bool:
    """True if the renewal window is open, and the platform domain doesn't close.

    Not checked: the name's state.
    """
    opens_at = renewal_opens_at(subdomain)
    return subdomain.names_until is None and opens_at is not None and opens_at <= now


def auto_renew_at(subdomain: Subdomain) -> datetime | None:
    """Return the time of the next automatic renewal: when renewal opens, or a day after the last attempt
    since then.

    The last attempt is at the end of the grace period, before the name moves to the trash. None if automatic
    renewal is off, the name is in the trash or suspended, or the platform domain closes. A time in the past
    means now.
    """
    if subdomain.auto_renew_max_credits is None or subdomain.names_until is not None:
        return None
    ends_at, opens_at = grace_ends_at(subdomain), renewal_opens_at(subdomain)
    if ends_at is None or opens_at is None:
        return None
    tried_at = subdomain.auto_renew_tried_at
    if tried_at is None or tried_at < opens_at:
        return opens_at
    again_at = tried_at + AUTO_RENEW_REST
    return ends_at if tried_at < ends_at < again_at else again_at


def is_restorable(subdomain: ShownSubdomain, now: datetime) -> bool:
    """True if a name is in the trash, and suspended or before the end of its time there.

    Not checked: the other conditions of `restore`.
    """
    if subdomain.trashed_at is None or subdomain.purged_at is not None:
        return False
    until = restorable_until(subdomain)
    return until is None or now < until


def closing_allows_restore(subdomain: ShownSubdomain, now: datetime) -> bool:
    """True unless the platform domain has closed, or will close and the name has expired."""
    until = subdomain.names_until
    return until is None or now < min(until, subdomain.expires_at)


def is_gone(subdomain: ShownSubdomain, now: datetime) -> bool:
    """True if a name was purged, or its time in the trash is over.

    Such a name isn't shown to its user any more.
    """
    return subdomain.trashed_at is not None and not is_restorable(subdomain, now)


def restorable_until(subdomain: ShownSubdomain) -> datetime | None:
    """Return when a name in the trash will be purged. None if the name is suspended or not in the trash."""
    if subdomain.trashed_at is None or subdomain.purged_at is not None or subdomain.suspended_at is not None:
        return None
    return effective_start(subdomain, subdomain.trashed_at) + timedelta(days=subdomain.trash_days)


def grace_ends_at(subdomain: Subdomain) -> datetime | None:
    """Return when a name will move to the trash. None if the name is suspended or in the trash already."""
    if subdomain.trashed_at is not None or subdomain.suspended_at is not None:
        return None
    return _end_of_grace(subdomain)


def is_grace_over(subdomain: Subdomain, now: datetime) -> bool:
    """True if the grace period of a name is over. The sweep then moves a live name to the trash."""
    return subdomain.suspended_at is None and _end_of_grace(subdomain) <= now


def _end_of_grace(subdomain: Subdomain) -> datetime:
    """Return the end of the grace period, or the closing date of a platform domain that closes, because its
    names can't be renewed.
    """
    if subdomain.names_until is not None:
        return subdomain.names_until
    return effective_start(subdomain, subdomain.expires_at) + timedelta(days=subdomain.grace_days)


def cooling_off_ends_at(subdomain: Subdomain) -> datetime | None:
    """Return when a purged name can be registered again.

    None if the name was not purged, or is released already.
    """
    if subdomain.purged_at is None or subdomain.released_at is not None:
        return None
    return subdomain.purged_at + timedelta(days=subdomain.cooling_off_days)


def lost_at(subdomain: Subdomain) -> datetime | None:
    """Return when a live name moves to the trash, or when a name in the trash is purged.

    None if neither is planned.
    """
    return grace_ends_at(subdomain) or restorable_until(subdomain)


def effective_start(subdomain: ShownSubdomain, start: datetime) -> datetime:
    """Return the start of a grace period or time in the trash: `start`, or the end of a later suspension, in
    which the user couldn't act.
    """
    return start if subdomain.unsuspended_at is None else max(start, subdomain.unsuspended_at)


def next_term_start(subdomain: ShownSubdomain, now: datetime, period_days: int) -> datetime:
    """Return the start of a renewal's term: the old expiry, so that early renewals and renewals in the grace
    period lose no days.

    If such a term would be over already, the term starts now, so that the user doesn't pay for the past.
    """
    return subdomain.expires_at if term_end(subdomain.expires_at, period_days) > now else now


def term_end(start: datetime, period_days: int) -> datetime:
    """Return the end of a term: whole days of 24 hours from its start, independent of leap days and time
    zones.
    """
    return start + timedelta(days=period_days)


# Milestones, and the dates at which the sweep processes a name

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

    Reminders with a date before the start of the term are left out, and so are those before renewal opens,
    because the user could not renew the name yet.
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
        *(
            Milestone(kind, at, expires_at, is_mailed=True)
            for kind, at in reminders
            if at > began_at and (opens_at is None or at >= opens_at)
        ),
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
