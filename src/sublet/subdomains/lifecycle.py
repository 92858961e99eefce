"""The life of a name: its states, and what may be done in each. One table; states are derived from facts, not stored.

Derived in this order, the first that holds (docs/spec-choices.md, "Subdomain states"): trashed, suspended, expired, inactive, failed,
provisioning, active. `expired` follows from the date; trashed, purged and released are facts on the row.
"""

from datetime import datetime, timedelta

from sublet.subdomains.model import Subdomain

STATUS_LABELS: dict[str, str] = {
    "inactive": "Inactive",
    "provisioning": "Provisioning",
    "active": "Active",
    "failed": "Failed",
    "expired": "Expired",
    "suspended": "Suspended",
    "trashed": "In trash",
}

_CHANGES = frozenset({"update_nameservers", "retry", "renew", "delete"})
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
(`renewal_available`), a retry needs a failure (`provisioning_failed`), a restore its time (`is_restorable`)."""


def derive_status(subdomain: Subdomain, now: datetime) -> str:
    """Return the status of a name at an instant."""
    if subdomain.trashed_at is not None:
        return "trashed"
    if subdomain.suspended_at is not None:
        return "suspended"
    if subdomain.expires_at <= now:
        return "expired"
    if not subdomain.delegation.nameservers:
        return "inactive"
    if provisioning_failed(subdomain):
        return "failed"
    if subdomain.generation != subdomain.published_generation:
        return "provisioning"
    return "active"


def provisioning_status(subdomain: Subdomain) -> str:
    """Return how far publishing is: failed, pending, none (nothing to publish) or published."""
    if provisioning_failed(subdomain):
        return "failed"
    if subdomain.generation != subdomain.published_generation:
        return "pending"
    return "published" if is_delegated(subdomain) else "none"


def provisioning_failed(subdomain: Subdomain) -> bool:
    """Tell whether the last attempt to publish the current generation failed."""
    return subdomain.provision_error is not None and subdomain.generation != subdomain.published_generation


def is_delegated(subdomain: Subdomain) -> bool:
    """Tell whether the name is to stand in the parent zone: it has nameservers, is not in the trash and not suspended.

    An expired name is served as before until it goes to the trash.
    """
    return (
        bool(subdomain.delegation.nameservers)
        and subdomain.trashed_at is None
        and subdomain.suspended_at is None
        and subdomain.purged_at is None
    )


def renewal_opens_at(subdomain: Subdomain) -> datetime:
    """Return when renewal opens: the window before the expiry, at most one term of it.

    A window longer than the term would leave it open right after a renewal, and a repeated request would be charged again.
    """
    days = min(subdomain.renewal_window_days, subdomain.period_days)
    return subdomain.expires_at - timedelta(days=days)


def renewal_available(subdomain: Subdomain, now: datetime, *, user_suspended: bool = False) -> bool:
    """Tell whether POST renew works now (a quote counts: it can be confirmed)."""
    return (
        not user_suspended
        and "renew" in ALLOWED[derive_status(subdomain, now)]
        and renewal_opens_at(subdomain) <= now
    )


def restorable_until(subdomain: Subdomain) -> datetime | None:
    """Return until when a name in the trash may be restored, or None when it is not in the trash."""
    if subdomain.trashed_at is None or subdomain.purged_at is not None:
        return None
    return subdomain.trashed_at + timedelta(days=subdomain.trash_days)


def is_restorable(subdomain: Subdomain, now: datetime) -> bool:
    """Tell whether a name is in the trash and its time there is not over."""
    until = restorable_until(subdomain)
    return until is not None and now < until


def next_term_start(subdomain: Subdomain, now: datetime, period_days: int) -> datetime:
    """Return where a renewal's term starts: at the old expiry, so that nobody loses days by renewing early or in grace.

    A name that lapsed so long ago that the term would be over already starts anew now: nobody pays for a past term.
    """
    return subdomain.expires_at if term_end(subdomain.expires_at, period_days) > now else now


def term_end(start: datetime, period_days: int) -> datetime:
    """Return the end of a term: whole days of 24 hours from its start, so that no leap day or zone can move it."""
    return start + timedelta(days=period_days)
