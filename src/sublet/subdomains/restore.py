"""Restore a subdomain from the trash (an extension; docs/spec-choices.md, "Subdomain states")."""

from sublet import audit
from sublet.accounts.model import User
from sublet.accounts.suspension import lock_acting_user
from sublet.audit import Actor
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.errors import Conflict, FreeQuotaExceeded
from sublet.subdomains import store
from sublet.subdomains.find import find_in_account_or_trash, refuse_suspended
from sublet.subdomains.model import Subdomain
from sublet.subdomains.renew import extend


def restore(tx: Tx, actor: Actor, identifier: str, payable: Payable, *, free_quota: int) -> Outcome:
    """Bring a name back as it was. Within its paid time that is free; after it, it is renewed with it, by quote.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, or its time in the trash is over.
        SubdomainSuspended: the operator holds it.
        Conflict: it is not in the trash.
        FreeQuotaExceeded: it is a free name, and the quota is used up.
        ValidationFailed, PaymentConfirmationRequired, InsufficientScope, PriceChanged, InsufficientCredits: as renew,
            where its paid time is over.
    """
    user = lock_acting_user(tx, actor)
    subdomain = find_in_account_or_trash(tx, user.id, identifier)
    refuse_suspended(subdomain)
    if subdomain.trashed_at is None:
        raise Conflict("This subdomain is not in the trash, so there is nothing to restore.")
    _refuse_beyond_quota(tx, user, subdomain, free_quota)
    outcome = Outcome(subdomain.id)
    if subdomain.expires_at <= tx.now:
        outcome = extend(tx, actor, user, subdomain, payable, action="restore")
    bring_back(tx, actor, subdomain)
    return outcome


def bring_back(tx: Tx, actor: Actor, subdomain: Subdomain) -> None:
    """Take a name out of the trash; nothing is checked here."""
    followed = store.next_generation(subdomain) if subdomain.generation > 0 else {}
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
    limit = free_quota if user.free_quota is None else user.free_quota
    used = store.count_free(tx, user.id)
    if subdomain.registration_type == "free" and used >= limit:
        raise FreeQuotaExceeded(
            f"All {limit} free names of your quota are in use; delete one before you restore this one.",
            details={"limit": limit, "used": used},
        )
