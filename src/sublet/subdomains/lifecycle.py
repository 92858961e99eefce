"""The life of a name: its states, and what may be done in each. One table; states are derived from facts, not stored.

Derived in this order, the first that holds (docs/spec-choices.md, "Subdomain states"): trashed, suspended, expired, failed,
provisioning, inactive, active. `expired` follows from the date; trashed, purged and released are facts on the row.
"""

from datetime import datetime, timedelta

from sublet.subdomains.model import Placed, ShownSubdomain, Subdomain

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
"""How long after a renewal no other is possible: a client that repeats a request after a lost answer must not pay twice."""

AUTO_RENEW_REST = timedelta(days=1)
"""How long after a failed automatic renewal the next attempt is made: the user may have bought credits by then."""

ACTIONS = ("update_nameservers", "retry", "renew", "set_auto_renew", "delete", "restore")
"""The registrant's verbs on a name, in the order of the contract."""
_CHANGES = frozenset(ACTIONS) - {"restore"}
ALLOWED: dict[str, frozenset[str]] = {
    "inactive": _CHANGES,
    "provisioning": _CHANGES,
    "active": _CHANGES,
    "failed": _CHANGES,
    "expired": _CHANGES,
    "suspended": frozenset(),
    "trashed": frozenset({"restore"}),
}
"""Which verbs of the registrant a state lets through. Further conditions stand beside it: renewal has its window
(`renewal_available`), a retry needs a nameserver and a failure (`provisioning_failed`), a restore its time
(`is_restorable`) and room in the quota (`fits_quota`). `allowed_actions` has them all."""


def derive_status(subdomain: ShownSubdomain, now: datetime) -> str:
    """Return the status of a name at an instant."""
    if subdomain.trashed_at is not None:
        return "trashed"
    if subdomain.suspended_at is not None:
        return "suspended"
    if subdomain.expires_at <= now:
        return "expired"
    if provisioning_failed(subdomain):
        return "failed"
    if subdomain.generation != subdomain.published_generation:
        return "provisioning"
    return "active" if has_nameserver(subdomain) else "inactive"


def is_let_through(subdomain: ShownSubdomain, action: str, now: datetime) -> bool:
    """Tell whether the name's state lets a verb through; what is suspended takes none, in the trash neither."""
    return subdomain.suspended_at is None and action in ALLOWED[derive_status(subdomain, now)]


def allowed_actions(
    subdomain: ShownSubdomain, now: datetime, *, user_suspended: bool, quota_left: bool
) -> tuple[str, ...]:
    """Return which of `ACTIONS` would not be refused for the state of things now.

    A quote counts: it can be confirmed. Not asked here: the balance, the token's scopes, what a request's body says.
    """
    if user_suspended or is_gone(subdomain, now):
        return ()
    further = {
        "retry": has_nameserver(subdomain) and provisioning_failed(subdomain),
        "renew": is_renewal_open(subdomain, now),
        "restore": fits_quota(subdomain, quota_left=quota_left),
    }
    return tuple(
        action for action in ACTIONS if is_let_through(subdomain, action, now) and further.get(action, True)
    )


def has_nameserver(subdomain: Placed) -> bool:
    """True if nameserver 1 is set. A retry needs it: the publisher retries the removal of an old delegation without being asked."""
    return bool(subdomain.delegation.nameservers)


def fits_quota(subdomain: ShownSubdomain, *, quota_left: bool) -> bool:
    """Tell whether a name may come back from the trash beside those that its user holds: of free ones so many are held."""
    return quota_left or subdomain.registration_type != "free"


def provisioning_status(subdomain: ShownSubdomain) -> str:
    """Return how far publishing is: failed, pending, none (nothing to publish) or published."""
    if provisioning_failed(subdomain):
        return "failed"
    if subdomain.generation != subdomain.published_generation:
        return "pending"
    return "published" if is_delegated(subdomain) else "none"


def provisioning_failed(subdomain: ShownSubdomain) -> bool:
    """Tell whether the last attempt to publish the current generation failed."""
    return subdomain.provision_error is not None and subdomain.generation != subdomain.published_generation


def is_delegated(subdomain: Placed) -> bool:
    """Tell whether the name is to stand in the parent zone: it has nameservers, is not in the trash and not suspended.

    An expired name is served as before until it goes to the trash.
    """
    return (
        has_nameserver(subdomain)
        and subdomain.trashed_at is None
        and subdomain.suspended_at is None
        and subdomain.purged_at is None
    )


def renewal_opens_at(subdomain: ShownSubdomain) -> datetime:
    """Return when renewal opens: the window, or one term if that is shorter, before the expiry, and `RENEWAL_REST` after the last one.

    Otherwise it could be open right after a renewal, and a repeated request would be charged again.
    """
    days = min(subdomain.renewal_window_days, subdomain.period_days)
    opens_at = subdomain.expires_at - timedelta(days=days)
    if subdomain.last_renewed_at is None:
        return opens_at
    return max(opens_at, subdomain.last_renewed_at + RENEWAL_REST)


def renewal_available(subdomain: ShownSubdomain, now: datetime, *, user_suspended: bool = False) -> bool:
    """True if POST renew works now. A quote counts: it can be confirmed."""
    return not user_suspended and is_let_through(subdomain, "renew", now) and is_renewal_open(subdomain, now)


def is_renewal_open(subdomain: ShownSubdomain, now: datetime) -> bool:
    """True if the renewal window is open. Doesn't check whether the name's state allows a renewal."""
    return renewal_opens_at(subdomain) <= now


def auto_renew_at(subdomain: Subdomain) -> datetime | None:
    """Return when the next automatic renewal is due: when renewal opens, or `AUTO_RENEW_REST` after the last attempt since then.

    The last attempt is at the end of grace, before the name goes to the trash. None if automatic renewal is off, and for a name in
    the trash or suspended. An instant in the past means now.
    """
    if subdomain.auto_renew_max_credits is None:
        return None
    ends_at = grace_ends_at(subdomain)
    if ends_at is None:
        return None
    opens_at = renewal_opens_at(subdomain)
    tried_at = subdomain.auto_renew_tried_at
    if tried_at is None or tried_at < opens_at:
        return opens_at
    again_at = tried_at + AUTO_RENEW_REST
    return ends_at if tried_at < ends_at < again_at else again_at


def is_restorable(subdomain: ShownSubdomain, now: datetime) -> bool:
    """True if a name is in the trash and can still be restored. The time of a suspended name stands still."""
    if subdomain.trashed_at is None or subdomain.purged_at is not None:
        return False
    until = restorable_until(subdomain)
    return until is None or now < until


def is_gone(subdomain: ShownSubdomain, now: datetime) -> bool:
    """True if the user has lost a name: it was purged, or its time in the trash is over."""
    return subdomain.trashed_at is not None and not is_restorable(subdomain, now)


def restorable_until(subdomain: ShownSubdomain) -> datetime | None:
    """Return until when a name in the trash can be restored: then it is purged. None if it isn't in the trash, or is suspended."""
    if subdomain.trashed_at is None or subdomain.purged_at is not None or subdomain.suspended_at is not None:
        return None
    return free_since(subdomain, subdomain.trashed_at) + timedelta(days=subdomain.trash_days)


def grace_ends_at(subdomain: Subdomain) -> datetime | None:
    """Return when a name goes to the trash unless it is renewed. None if it is in the trash or suspended."""
    if subdomain.trashed_at is not None or subdomain.suspended_at is not None:
        return None
    return _end_of_grace(subdomain)


def is_grace_over(subdomain: Subdomain, now: datetime) -> bool:
    """True if a live name would go to the trash now. A restore then includes a renewal."""
    return subdomain.suspended_at is None and _end_of_grace(subdomain) <= now


def _end_of_grace(subdomain: Subdomain) -> datetime:
    return free_since(subdomain, subdomain.expires_at) + timedelta(days=subdomain.grace_days)


def cooling_off_ends_at(subdomain: Subdomain) -> datetime | None:
    """Return when a purged name is released. None if it wasn't purged, or is released already."""
    if subdomain.purged_at is None or subdomain.released_at is not None:
        return None
    return subdomain.purged_at + timedelta(days=subdomain.cooling_off_days)


def lost_at(subdomain: Subdomain) -> datetime | None:
    """Return when the user loses a name: at the end of grace, or in the trash at its purge."""
    return grace_ends_at(subdomain) or restorable_until(subdomain)


def free_since(subdomain: ShownSubdomain, start: datetime) -> datetime:
    """Return where grace or trash begins: at `start`, or at the end of a later suspension, since its user could do nothing meanwhile."""
    return start if subdomain.unsuspended_at is None else max(start, subdomain.unsuspended_at)


def next_term_start(subdomain: ShownSubdomain, now: datetime, period_days: int) -> datetime:
    """Return where a renewal's term starts: at the old expiry, so that users lose no days by renewing early or in grace.

    If the term would end in the past, it starts now.
    """
    return subdomain.expires_at if term_end(subdomain.expires_at, period_days) > now else now


def term_end(start: datetime, period_days: int) -> datetime:
    """Return the end of a term, in days of 24 hours: independent of leap days and time zones."""
    return start + timedelta(days=period_days)
