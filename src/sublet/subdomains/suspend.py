"""Suspend a subdomain (the operator's `sublet subdomain suspend`)."""

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed
from sublet.subdomains import store
from sublet.subdomains.evidence import evidence_of
from sublet.subdomains.find import lock_for_operator, refuse_gone, reread
from sublet.subdomains.model import Subdomain


def suspend(tx: Tx, actor: Actor, identifier: str, reason: str | None = None) -> Subdomain:
    """Hold a name: it leaves the zone, and its user can only read it. One in the trash can't be restored while held.

    The audit keeps what was published then.

    Raises, in this order:
        NotFound: no such name.
        ValidationFailed: the reason is too long or doesn't print.
        Conflict: its time in the trash is over; it is suspended already. No action needed.
    """
    subdomain = lock_for_operator(tx, identifier)
    reason, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    refuse_gone(subdomain)
    if subdomain.suspended_at is not None:
        raise Conflict(f"{subdomain.fqdn} is suspended already. No action needed.")
    followed = store.followed_by_dns(subdomain, tx.now)
    store.update_subdomain(tx, subdomain.id, suspended_at=tx.now, suspended_reason=reason, **followed)
    audit.record(
        tx,
        actor,
        "subdomain.suspend",
        "subdomain",
        subdomain.id,
        before=evidence_of(subdomain, tx.now),
        after={"suspended_at": tx.now.isoformat(), "suspended_reason": reason},
    )
    return reread(tx, subdomain)
