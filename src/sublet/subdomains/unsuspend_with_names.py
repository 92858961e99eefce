"""Lift the suspension of a user, and of the names that were suspended with it (the operator's `sublet user unsuspend`)."""

from sublet import audit
from sublet.accounts.find import lock_user
from sublet.accounts.unsuspend_user import unsuspend_user
from sublet.audit import Actor
from sublet.db import Tx
from sublet.subdomains import suspension_store
from sublet.subdomains.suspend_with_names import SuspendedTogether


def unsuspend_with_names(
    tx: Tx, actor: Actor, identifier: str, *, keep_names: bool = False
) -> SuspendedTogether:
    """Let a suspended user act again; the names that were suspended with it come back into the zone as they are stored.

    Names that were suspended on their own stay so. With `keep_names` all do, each on its own from then on: they can be let go one by
    one. Grace and time in the trash count anew, as in `unsuspend`.

    Raises, in this order:
        NotFound: no such user.
        Conflict: it is not suspended.
    """
    user = lock_user(tx, identifier)
    member = unsuspend_user(tx, actor, str(user.id))
    if keep_names:
        suspension_store.keep_suspended(tx, user.id)
        return SuspendedTogether(member, ())
    held = list(suspension_store.list_held_with(tx, user.id))
    suspension_store.unsuspend_all(tx, user.id)
    said = {
        each.id: {
            "fqdn": each.fqdn,
            "suspended_at": each.suspended_at.isoformat() if each.suspended_at is not None else None,
            "suspended_reason": each.suspended_reason,
        }
        for each in held
    }
    audit.record_many(
        tx,
        actor,
        "subdomain.unsuspend",
        "subdomain",
        {each.id: {"with_user": True} for each in held},
        before=said,
    )
    return SuspendedTogether(member, tuple(each.fqdn for each in held))
