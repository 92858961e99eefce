"""Lift the suspension of a user (the operator's `sublet user unsuspend`)."""

from sublet import audit
from sublet.accounts import store
from sublet.accounts.find import find_user, lock_user, member_of
from sublet.accounts.model import Member
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict


def unsuspend_user(tx: Tx, actor: Actor, identifier: str) -> Member:
    """Let a suspended user act again.

    Raises, in this order:
        NotFound: no such user.
        Conflict: not suspended.
    """
    user = lock_user(tx, identifier)
    if user.suspended_at is None:
        raise Conflict(f"{user.email} is not suspended. No action needed.")
    store.update_user(tx, user.id, suspended_at=None, suspended_reason=None)
    audit.record(
        tx,
        actor,
        "user.unsuspend",
        "user",
        user.id,
        before={"suspended_at": user.suspended_at.isoformat(), "suspended_reason": user.suspended_reason},
    )
    return member_of(tx, find_user(tx, str(user.id)))
