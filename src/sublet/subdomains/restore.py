"""Restore a subdomain from the trash, for its user or the operator (docs/spec-choices.md, "Subdomain
states").
"""

from sublet import audit
from sublet.accounts.find import find_member, lock_holder, refuse_deleted
from sublet.audit import Actor
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains import store
from sublet.subdomains.find import (
    find_in_account_or_trash,
    lock_for_operator,
    refuse_purged,
    refuse_unless_allowed,
    reread,
)
from sublet.subdomains.lifecycle import closing_allows_restore, is_grace_over
from sublet.subdomains.model import Subdomain
from sublet.subdomains.quota import refuse_over_quota
from sublet.subdomains.renew import extend, refuse_closing
from sublet.subdomains.sweep.plausible_clock import refuse_implausible_clock


def restore(tx: Tx, actor: Actor, identifier: str, payable: Payable, *, free_quota: int) -> Outcome:
    """Restore a name from the trash with its delegation.

    If the name has expired, the restore includes a renewal for its price.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ClockImplausible: the clock could be wrong about the expiry, or the end of the time in the trash.
        SubdomainNotFound: the user has no such name, the token is not for the name, or its time in the trash
            is over.
        SubdomainSuspended: the operator suspended the name.
        Conflict: the name is not in the trash.
        RegistrationClosed: the platform domain has closed; or it will close, and the name has expired.
        FreeQuotaExceeded: the name is free, and the quota is used up.
        RenewalNotAvailable, ValidationFailed, PaymentConfirmationRequired, InsufficientScope, PriceChanged,
            InsufficientCredits, TokenRestricted: see `extend`, if the name has expired.
    """
    user = lock_holder(tx, actor)
    refuse_implausible_clock(tx)
    subdomain = find_in_account_or_trash(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "restore", tx.now)
    if not closing_allows_restore(subdomain, tx.now):
        refuse_closing(subdomain, tx.now)
    refuse_over_quota(tx, user, subdomain.registration_type, free_quota)
    outcome = Outcome(subdomain.id)
    if subdomain.expires_at <= tx.now:
        outcome = extend(tx, actor, user, subdomain, payable, action="restore")
    move_out_of_trash(tx, actor, subdomain)
    return outcome


def move_out_of_trash(tx: Tx, actor: Actor, subdomain: Subdomain) -> None:
    """Move a name out of the trash, without checks."""
    next_generation = store.next_generation_if_in_dns(subdomain)
    store.update_subdomain(tx, subdomain.id, trashed_at=None, **next_generation)
    audit.record(
        tx,
        actor,
        "subdomain.restore",
        subdomain.id,
        before={"trashed_at": subdomain.trashed_at.isoformat() if subdomain.trashed_at else None},
    )


def operator_restore(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Restore a name from the trash for its user, without a new term, a charge or a check of the quota
    (`sublet subdomain restore`).

    Raises, in this order:
        NotFound: there is no such name, or its user is deleted.
        Conflict: the name was purged; the name is not in the trash.
        RegistrationClosed: the platform domain has closed.
        Conflict: the grace period is over, so the name needs a renewal first.
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_deleted(find_member(tx, subdomain.user_id).user)
    refuse_purged(subdomain)
    if subdomain.trashed_at is None:
        raise Conflict(f"{subdomain.fqdn} is not in the trash. No action needed.")
    if subdomain.names_until is not None and subdomain.names_until <= tx.now:
        refuse_closing(subdomain, tx.now)
    if is_grace_over(subdomain, tx.now):
        raise Conflict(
            f"{subdomain.fqdn} expired on {subdomain.expires_at:%Y-%m-%d} and its grace period is over. "
            "Renew it first with `sublet subdomain renew`, or ask its user to restore and renew it."
        )
    move_out_of_trash(tx, actor, subdomain)
    return reread(tx, subdomain)
