"""Suspend a user (the operator's `sublet user suspend`)."""

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_reason
from sublet.accounts.find import find_user, lock_user, member_of
from sublet.accounts.model import Member
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed


def suspend_user(tx: Tx, actor: Actor, identifier: str, reason: str | None = None) -> Member:
    """Stop a user: it may read and open tickets, nothing else. Its names stay in the DNS (suspend those one by one).

    Raises, in this order:
        NotFound: no such user.
        ValidationFailed: the reason is too long or doesn't print.
        Conflict: suspended already.
    """
    user = lock_user(tx, identifier)
    reason, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    if user.suspended_at is not None:
        raise Conflict(
            f"{user.email} is suspended already, since {user.suspended_at:%Y-%m-%d %H:%M} UTC. No action needed."
        )
    store.update_user(tx, user.id, suspended_at=tx.now, suspended_reason=reason)
    audit.record(
        tx,
        actor,
        "user.suspend",
        "user",
        user.id,
        after={"suspended_at": tx.now.isoformat(), "suspended_reason": reason},
    )
    return member_of(tx, find_user(tx, str(user.id)))
