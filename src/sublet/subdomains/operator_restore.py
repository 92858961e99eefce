"""Restore a subdomain for its user (the operator's `sublet subdomain restore`)."""

from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains.find import lock_for_operator, refuse_gone, reread
from sublet.subdomains.lifecycle import is_grace_over
from sublet.subdomains.model import Subdomain
from sublet.subdomains.restore import bring_back


def operator_restore(tx: Tx, actor: Actor, identifier: str) -> Subdomain:
    """Restore a name from the trash as it was, without a renewal, a charge or a check of the quota.

    Raises, in this order:
        NotFound: no such name.
        Conflict: it was purged; it is not in the trash; its grace is over (its user can restore it, which renews it).
    """
    subdomain = lock_for_operator(tx, identifier)
    refuse_gone(subdomain)
    if subdomain.trashed_at is None:
        raise Conflict(f"{subdomain.fqdn} is not in the trash. No action needed.")
    if is_grace_over(subdomain, tx.now):
        raise Conflict(
            f"{subdomain.fqdn} expired on {subdomain.expires_at:%Y-%m-%d} and its grace is over; "
            "its user can restore it, which renews it. Ask the user to do that."
        )
    bring_back(tx, actor, subdomain)
    return reread(tx, subdomain)
