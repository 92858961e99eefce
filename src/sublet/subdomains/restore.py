"""Restore a subdomain from the trash (an extension; docs/spec-choices.md, "Subdomain states")."""

from sublet import audit
from sublet.accounts.model import User
from sublet.accounts.suspension import lock_acting_user
from sublet.audit import Actor
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.subdomains import store
from sublet.subdomains.find import find_in_account_or_trash, refuse_unless_allowed
from sublet.subdomains.lifecycle import fits_quota
from sublet.subdomains.model import Subdomain
from sublet.subdomains.quota import Quota, quota_limit
from sublet.subdomains.renew import extend
from sublet.subdomains.sweep.plausible_clock import refuse_implausible_clock


def restore(tx: Tx, actor: Actor, identifier: str, payable: Payable, *, free_quota: int) -> Outcome:
    """Bring a name back as it was. Within its paid time that is free; after it, it is renewed with it, by quote.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ClockImplausible: by a wrong clock a name would be lost, or renewed or not renewed, that isn't.
        SubdomainNotFound: the user has no such name, or its time in the trash is over.
        SubdomainSuspended: the operator holds it.
        Conflict: it is not in the trash.
        FreeQuotaExceeded: it is a free name, and the quota is used up.
        ValidationFailed, PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits: as renew,
            where its paid time is over.
    """
    user = lock_acting_user(tx, actor)
    refuse_implausible_clock(tx)
    subdomain = find_in_account_or_trash(tx, user.id, identifier)
    refuse_unless_allowed(subdomain, "restore", tx.now)
    _refuse_beyond_quota(tx, user, subdomain, free_quota)
    outcome = Outcome(subdomain.id)
    if subdomain.expires_at <= tx.now:
        outcome = extend(tx, actor, user, subdomain, payable, action="restore")
    bring_back(tx, actor, subdomain)
    return outcome


def bring_back(tx: Tx, actor: Actor, subdomain: Subdomain) -> None:
    """Take a name out of the trash; nothing is checked here."""
    followed = store.followed_by_dns(subdomain, tx.now)
    store.update_subdomain(tx, subdomain.id, trashed_at=None, **followed)
    audit.record(
        tx,
        actor,
        "subdomain.restore",
        "subdomain",
        subdomain.id,
        before={"trashed_at": subdomain.trashed_at.isoformat() if subdomain.trashed_at else None},
    )


def _refuse_beyond_quota(tx: Tx, user: User, subdomain: Subdomain, free_quota: int) -> None:
    quota = Quota(store.count_free(tx, user.id), quota_limit(user.free_quota, free_quota))
    if not fits_quota(subdomain, quota_left=quota.left):
        raise quota.refusal()
