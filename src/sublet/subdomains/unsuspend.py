"""Lift the suspension of a subdomain (the operator's `sublet subdomain unsuspend`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains import store
from sublet.subdomains.find import lock_for_operator, refuse_gone, reread
from sublet.subdomains.model import Subdomain


def unsuspend(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Let a held name go: it comes back into the zone as it is stored. Its term ran on meanwhile.

    Its grace, or its time in the trash, counts from now where it would be over sooner: its user could do nothing till now.

    Raises, in this order:
        NotFound: no such name.
        Conflict: its time in the trash is over; it is not suspended. No action needed.
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_gone(subdomain)
    if subdomain.suspended_at is None:
        raise Conflict(f"{subdomain.fqdn} is not suspended. No action needed.")
    followed = store.followed_by_dns(subdomain, tx.now)
    store.update_subdomain(
        tx,
        subdomain.id,
        suspended_at=None,
        suspended_reason=None,
        held_with_user=False,
        unsuspended_at=tx.now,
        **followed,
    )
    audit.record(
        tx,
        actor,
        "subdomain.unsuspend",
        "subdomain",
        subdomain.id,
        before={
            "fqdn": subdomain.fqdn,
            "suspended_at": subdomain.suspended_at.isoformat(),
            "suspended_reason": subdomain.suspended_reason,
        },
    )
    return reread(tx, subdomain)
